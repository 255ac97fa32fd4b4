"""What threads and event loops share when they run tools: how a tool begins, and how its result is taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any

from attrs import define, field

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.deadline import NO_DEADLINE, Deadline
from rungwise.adapters.http.waiting import CallEnded
from rungwise.adapters.tools.calling import Report, ToolReturn, Worker, callable_of, discard, is_async, is_awaited
from rungwise.adapters.tools.scheduling import NO_THREAD, Job, Schedule
from rungwise.fsm.errors import ToolError
from rungwise.fsm.turn.tools import Executor


@define(eq=False)
class Runner(ABC):
    """Run the tools of a round."""

    schedule: Schedule  # decides which tools run, and when
    executor: Executor | None  # runs the tools that have no function
    cancellation: Cancellation  # ends the round
    deadline: Deadline = NO_DEADLINE  # the deadline for calls and turns that tools make
    _reports: deque[tuple[Job, ToolReturn]] = field(factory=deque, init=False)

    @abstractmethod
    def wake(self) -> None:
        """Wake this thread or task, from any thread."""

    @abstractmethod
    def spawn(self, call: Callable[[], Any], context: Context, report: Report) -> Callable[[], object]:
        """Await in an event loop what a function returns; return a function that cancels it.

        Raises:
            RuntimeError: there can be no event loop.
        """

    def begin(self) -> bool:
        """Start the tools that may start; return whether there is anything to wait for."""
        if self.cancellation.is_cancelled and self.schedule.reason is None:
            self.end(CallEnded())
        if self.cancellation.is_urgent:
            self.schedule.give_up()
        while (job := self.schedule.begin()) is not None:
            call, context = callable_of(job.run, self.executor), self.deadline.context()
            if call is None:
                self.schedule.take(job, ToolReturn())
            elif is_async(call):
                self._await(job, call, context, partial(self.report, job))
            else:
                self._work(job, call, context)
        return not self.schedule.is_over

    def end(self, reason: BaseException) -> None:
        """End the round for a reason that is raised later; take the results that have come by now."""
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
        value = returned.value
        if not is_awaited(value):
            self.schedule.take(job, returned)
        elif self.schedule.may_go_on(job):

            def report(returned: ToolReturn) -> None:
                discard(value)  # it never began if it was cancelled at once
                self.report(job, returned)

            self._await(job, lambda: value, self.deadline.context(), report)
        else:
            discard(value)

    def _work(self, job: Job, call: Callable[[], Any], context: Context) -> None:
        worker = Worker(job.run.call.name, call, context, partial(self.report, job))
        job.leave = worker.leave
        try:
            worker.start()
        except RuntimeError:
            self.schedule.take(job, ToolReturn(error=ToolError(NO_THREAD)))

    def _await(self, job: Job, call: Callable[[], Any], context: Context, report: Report) -> None:
        try:
            job.cancel = self.spawn(call, context, report)
        except RuntimeError:
            self.schedule.take(job, ToolReturn(error=ToolError(NO_THREAD)))
