"""Run the tools of one reply from an event loop: async ones as tasks of it, sync ones in threads of their own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from attrs import define, field

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.tools.calling import Report, awaited
from rungwise.adapters.tools.running import Runner
from rungwise.adapters.tools.scheduling import Round, Tell
from rungwise.adapters.tools.spawning import EventLoop
from rungwise.fsm.turn.actions import RunTools, ToolOutcome
from rungwise.fsm.turn.tools import Executor


async def arun_tools(
    action: RunTools, executor: Executor | None, cancellation: Cancellation, tell: Tell
) -> tuple[ToolOutcome, ...]:
    """Run tools and return what came of each, in the order of the calls.

    When this task is cancelled, async tools are cancelled, sync ones waited for until their own seconds are up, and
    nothing more begins. The second time nothing is waited for either.

    Arguments:
        action: the tools.
        executor: what runs those without a function; it is given the name and the arguments.
        cancellation: ends them as well.
        tell: is given `ToolStarted` and `ToolEnded` as they come, in this task.

    Raises:
        ToolsEnded: they were ended; it holds the outcomes, and the reason, which must go on.
    """
    return await _Tasks(Round.of(action, tell), executor, cancellation).run()


@define(eq=False)
class _Tasks(Runner):
    """Run the tools of a round from this task."""

    _woken: anyio.Event = field(factory=anyio.Event, init=False)
    _loop: EventLoop = field(factory=EventLoop.running, init=False)

    async def run(self) -> tuple[ToolOutcome, ...]:
        """Run them, and wait."""
        forget = self.cancellation.on_cancel(self.wake)
        try:
            while not self.round.is_over:
                try:
                    with anyio.CancelScope(shield=self.round.reason is not None):
                        await self._go_on()
                except GeneratorExit:  # nothing can be awaited any more
                    self.round.give_up()
                    raise
                except BaseException as error:  # the task was cancelled, most likely; a second time leaves everything
                    self.end(error)
        finally:
            forget()
        return self.round.finish()

    async def _go_on(self) -> None:
        await checkpoint()  # a task that was cancelled already begins nothing
        while self.begin():
            if not self._reports:
                with anyio.move_on_after(self.round.seconds_left()):
                    await self._woken.wait()
            self._woken = anyio.Event()
            self.take()
            self.round.expire()

    def wake(self) -> None:
        """Have this task look around."""
        with suppress(RuntimeError):  # the event loop has ended before the tool
            self._loop.soon(lambda: self._woken.set())

    def spawn(self, call: Callable[[], Any], context: Context, report: Report) -> Callable[[], object]:
        """Await what a function returns in this event loop."""
        return self._loop.spawn(partial(awaited, call), context, report)
