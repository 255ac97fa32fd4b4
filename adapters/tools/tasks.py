"""Run the tools of one reply from an event loop: async ones as its tasks, sync ones in threads."""

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
from rungwise.adapters.http.waiting import Soon, soon
from rungwise.adapters.tools.calling import Report, awaited, spawn
from rungwise.adapters.tools.running import Runner
from rungwise.adapters.tools.scheduling import Schedule
from rungwise.fsm.turn.actions import RunTools, ToolEnded, ToolOutcome, ToolStarted
from rungwise.fsm.turn.tools import Executor


@define(eq=False)
class ToolTasks(Runner):
    """Run the tools of a round from this task.

    If this task is cancelled, no more tools begin, async tools are cancelled, and sync ones have half a second to
    return. The second time they are abandoned.
    """

    outcomes: tuple[ToolOutcome, ...] = field(default=(), init=False)
    _woken: anyio.Event = field(factory=anyio.Event, init=False)
    _soon: Soon = field(factory=soon, init=False)

    @classmethod
    def of(
        cls, action: RunTools, executor: Executor | None, cancellation: Cancellation, deadline: Deadline = NO_DEADLINE
    ) -> ToolTasks:
        """Return what runs the tools of an action."""
        return cls(Schedule.of(action), executor, cancellation, deadline)

    async def run(self) -> AsyncGenerator[ToolStarted | ToolEnded, None]:
        """Run them and yield their events; `outcomes` then holds the outcome of each, in the order of the calls.

        Raises:
            ToolsEnded: the round was ended early.
        """
        forget, is_abandoned = self.cancellation.on_cancel(self.wake), False
        try:
            while not self.schedule.is_over or self.schedule.has_news:
                try:
                    with anyio.CancelScope(shield=self.schedule.reason is not None):
                        await self._go_on()
                except GeneratorExit:  # nothing can be awaited now
                    self.schedule.give_up()
                    raise
                except BaseException as error:
                    self.end(error)  # most likely the task was cancelled; the second time abandons everything
                for event in self.schedule.drain():
                    if is_abandoned:  # nobody is listening
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
        await checkpoint()  # a cancelled task begins nothing
        if self.begin() and not self.schedule.has_news and not self._reports:
            with anyio.move_on_after(self.schedule.seconds_left()):
                await self._woken.wait()
        self._woken = anyio.Event()
        self.take()
        self.schedule.expire()

    def wake(self) -> None:
        """Wake this task."""
        with suppress(RuntimeError):  # the event loop has ended before the tool
            self._soon(lambda: self._woken.set())

    def spawn(self, call: Callable[[], Any], context: Context, report: Report) -> Callable[[], object]:
        """Await what a function returns in this event loop."""
        return spawn(partial(awaited, call), context, report)
