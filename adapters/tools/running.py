"""Run the tools of one reply, from a thread or from an event loop.

Sync tools run in threads, async ones in a loop. `scheduling` decides what begins and when to give
up; this waits, starts and reports.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from contextvars import Context
from functools import partial

import anyio
from anyio.lowlevel import checkpoint
from attrs import define, field

from rungwise.adapters.http.cancellation import SLICE, Cancellation
from rungwise.adapters.http.deadline import NO_DEADLINE, Deadline
from rungwise.adapters.http.waiting import CallEnded, Mailbox, Nothing, Soon, soon
from rungwise.adapters.tools.calling import (
    Callee,
    Cancel,
    LoopThread,
    Report,
    ToolReturn,
    Worker,
    awaited,
    callable_of,
    discard,
    is_async,
    is_awaited,
    spawn,
)
from rungwise.adapters.tools.scheduling import NO_THREAD, Job, Schedule, schedule_of
from rungwise.fsm.errors import ToolError
from rungwise.fsm.turn.actions import ToolEnded, ToolOutcome, ToolStarted
from rungwise.fsm.turn.tools import Executor


@define(eq=False)
class Runner(ABC):
    """Run the tools of a round.

    If it is cancelled, no more tools begin, async tools are cancelled, and sync ones have half a
    second to return. If it is cancelled a second time, all of them are left behind.
    """

    schedule: Schedule = field(converter=schedule_of)  # of the action that names the tools
    executor: Executor | None  # runs the tools that have no function
    cancellation: Cancellation  # ends the round
    deadline: Deadline = NO_DEADLINE  # the deadline for calls and turns that tools make
    _reports: deque[tuple[Job, ToolReturn]] = field(factory=deque, init=False)

    @abstractmethod
    def wake(self) -> None:
        """Wake this thread or task, from any thread."""

    @abstractmethod
    def spawn(
        self,
        call: Callee,
        context: Context,
        report: Report,
    ) -> Cancel:
        """Await in a loop what a function returns.

        Arguments:
            call: the function.
            context: the context variables that it sees.
            report: called with what came of it.

        Returns:
            What cancels it.

        Raises:
            RuntimeError: there is no loop, or no thread for one.
        """

    def begin(self) -> bool:
        """Start the tools that may start; return whether there is anything to wait for."""
        if self.cancellation.is_cancelled and self.schedule.reason is None:
            self.end(CallEnded())
        if self.cancellation.is_urgent:
            self.schedule.give_up()
        while (job := self.schedule.begin()) is not None:
            call = callable_of(job.run, self.executor)
            if call is None:
                self.schedule.take(job, ToolReturn())
            else:
                self._start(job, call, partial(self.report, job), in_loop=is_async(call))
        return not self.schedule.is_over

    def end(self, reason: BaseException) -> None:
        """End the round for a reason, which is raised later.

        The results that have come by now count.
        """
        self.take()
        self.schedule.end(reason)

    def take(self) -> None:
        """Take the results that have come by now."""
        while self._reports:
            self._take(*self._reports.popleft())

    def report(self, job: Job, returned: ToolReturn) -> None:
        """Queue the result of a tool, from any thread."""
        self._reports.append((job, returned))
        self.wake()

    def _take(self, job: Job, returned: ToolReturn) -> None:
        """Take the result of a tool, or await it first."""
        value = returned.value
        if not is_awaited(value):
            self.schedule.take(job, returned)
        elif self.schedule.may_go_on(job):

            def report(returned: ToolReturn) -> None:
                discard(value)  # it never began if it was cancelled at once
                self.report(job, returned)

            self._start(job, lambda: value, report, in_loop=True)
        else:
            discard(value)

    def _start(
        self,
        job: Job,
        call: Callee,
        report: Report,
        *,
        in_loop: bool,
    ) -> None:
        """Start a tool, or the rest of one.

        Arguments:
            job: the tool.
            call: what to call.
            report: called with what came of it.
            in_loop: whether to call it in an event loop, not in a thread.
        """
        context = self.deadline.context()
        if self.schedule.observer is not None:
            context.run(self.schedule.observer.tool_began, job.run)
        try:
            if in_loop:
                job.cancel = self.spawn(call, context, report)
            else:
                worker = Worker(job.run.call.name, call, context, report)
                job.leave = worker.leave
                worker.start()
        except RuntimeError:
            self.schedule.take(job, ToolReturn(error=ToolError(NO_THREAD)))


@define(eq=False)
class ToolThreads(Runner):
    """Run the tools of a round from this thread, async ones in a loop that stays open.

    Ctrl-C, and closing the generator of `run`, cancel the round.
    """

    _loop: LoopThread = field(kw_only=True)
    _woken: Mailbox[None] = field(factory=Mailbox, init=False)

    def run(self) -> Generator[ToolStarted | ToolEnded, None, tuple[ToolOutcome, ...]]:
        """Run them and yield their events; return the outcomes in order."""
        raised: BaseException | None = None
        is_abandoned = False  # nobody is listening
        try:
            while raised is not None or not self.schedule.is_over:
                try:
                    if raised is not None:
                        reason = raised
                        raised = None
                        self.end(reason)
                    self._go_on()
                    if not is_abandoned:
                        yield from self.schedule.drain()
                except BaseException as error:
                    # most likely Ctrl-C; a second one abandons everything
                    raised = error
                    is_abandoned = is_abandoned or isinstance(error, GeneratorExit)
        finally:
            # a tool may block the loop for ever; the next round gets another
            if self.schedule.has_left:
                self._loop.close()
        return self.schedule.finish()

    def _go_on(self) -> None:
        if self.begin() and not self.schedule.has_news:
            with suppress(Nothing):
                # In slices, because a signal just before a thread falls asleep does not wake it.
                self._woken.get(min(SLICE, self.schedule.seconds_left()))
        self.take()
        self.schedule.expire()

    def wake(self) -> None:
        """Wake this thread."""
        self._woken.put(None)

    def spawn(
        self,
        call: Callee,
        context: Context,
        report: Report,
    ) -> Cancel:
        """Await what a function returns in the loop of another thread."""
        return self._loop.spawn(call, context, report)


@define(eq=False)
class ToolTasks(Runner):
    """Run the tools of a round from this task.

    If the task is cancelled, it cancels the round.
    """

    outcomes: tuple[ToolOutcome, ...] = field(default=(), init=False)
    _woken: anyio.Event = field(factory=anyio.Event, init=False)
    _soon: Soon = field(factory=soon, init=False)

    async def run(self) -> AsyncGenerator[ToolStarted | ToolEnded, None]:
        """Run them and yield their events; then `outcomes` holds what came of each.

        Raises:
            ToolsEnded: the round was ended early; it holds the outcomes.
        """
        forget = self.cancellation.on_cancel(self.wake)
        is_abandoned = False
        try:
            while not self.schedule.is_over or self.schedule.has_news:
                try:
                    with anyio.CancelScope(shield=self.schedule.reason is not None):
                        await self._go_on()
                except GeneratorExit:  # nothing can be awaited now
                    self.schedule.give_up()
                    raise
                except BaseException as error:
                    # most likely the task was cancelled; the second time abandons everything
                    self.end(error)
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

    def spawn(
        self,
        call: Callee,
        context: Context,
        report: Report,
    ) -> Cancel:
        """Await what a function returns in this event loop."""
        return spawn(partial(awaited, call), context, report)
