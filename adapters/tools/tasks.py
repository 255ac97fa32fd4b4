"""Run the tools of one reply from an event loop: async ones as tasks of it, sync ones in threads of their own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from attrs import define, field

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.deadline import NO_DEADLINE, Deadline
from rungwise.adapters.tools.calling import EventLoop, Report, awaited
from rungwise.adapters.tools.running import Runner
from rungwise.adapters.tools.scheduling import Schedule
from rungwise.fsm.turn.actions import RunTools, ToolEnded, ToolOutcome, ToolStarted
from rungwise.fsm.turn.tools import Executor


@define(eq=False)
class ToolTasks(Runner):
    """Run the tools of a round from this task.

    When this task is cancelled, async tools are cancelled, sync ones waited for until their own seconds are up, and
    nothing more begins. The second time nothing is waited for either.
    """

    outcomes: tuple[ToolOutcome, ...] = field(default=(), init=False)
    _woken: anyio.Event = field(factory=anyio.Event, init=False)
    _loop: EventLoop = field(factory=EventLoop.running, init=False)

    @classmethod
    def of(
        cls,
        action: RunTools,
        executor: Executor | None,
        cancellation: Cancellation,
        deadline: Deadline = NO_DEADLINE,
    ) -> ToolTasks:
        """Return what runs the tools of an action.

        Arguments:
            action: the tools.
            executor: what runs those without a function; it is given the name and the arguments.
            cancellation: ends them as well.
            deadline: when the calls and turns that they make must have ended.
        """
        return cls(Schedule.of(action), executor, cancellation, deadline)

    async def run(self) -> AsyncGenerator[ToolStarted | ToolEnded, None]:
        """Run them and hand out what happens; `outcomes` then says what came of each, in the order of the calls.

        Raises:
            ToolsEnded: they were ended; it holds the outcomes, and the reason, which must go on.
        """
        forget, is_abandoned = self.cancellation.on_cancel(self.wake), False
        try:
            while not self.schedule.is_over or self.schedule.has_news:
                try:
                    with anyio.CancelScope(shield=self.schedule.reason is not None):
                        await self._go_on()
                except GeneratorExit:  # nothing can be awaited any more
                    self.schedule.give_up()
                    raise
                except BaseException as error:  # the task was cancelled, most likely; a second time leaves everything
                    self.end(error)
                for event in self.schedule.drain():
                    if is_abandoned:  # and there is nobody to be told
                        break
                    try:
                        yield event
                    except BaseException as error:
                        is_abandoned = is_abandoned or isinstance(error, GeneratorExit)
                        self.end(error)
        finally:
            forget()
        self.outcomes = self.schedule.finish()

    async def _go_on(self) -> None:
        await checkpoint()  # a task that was cancelled already begins nothing
        if self.begin() and not self.schedule.has_news and not self._reports:
            with anyio.move_on_after(self.schedule.seconds_left()):
                await self._woken.wait()
        self._woken = anyio.Event()
        self.take()
        self.schedule.expire()

    def wake(self) -> None:
        """Have this task look around."""
        with suppress(RuntimeError):  # the event loop has ended before the tool
            self._loop.soon(lambda: self._woken.set())

    def spawn(self, call: Callable[[], Any], context: Context, report: Report) -> Callable[[], object]:
        """Await what a function returns in this event loop."""
        return self._loop.spawn(partial(awaited, call), context, report)
