"""Decide which tool runs when, for how long, and with what outcome.

Nothing here waits or runs anything: `running` asks what may begin, reports what came back, and
returns when the next time limit is up.
"""

from __future__ import annotations

import math
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from attrs import define, field

from rungwise.adapters.tools.calling import ToolReturn
from rungwise.fsm.call.budget.estimate import BYTES_A_TOKEN
from rungwise.fsm.call.run.recording import Follower
from rungwise.fsm.errors import ToolError
from rungwise.fsm.replies.text.contents import without_halves
from rungwise.fsm.turn.actions import RunTools, ToolEnded, ToolOutcome, ToolStarted
from rungwise.fsm.turn.tool_round import shortened
from rungwise.fsm.turn.tools import ToolRun
from rungwise.fsm.values.label import label

LONGEST_FAULT: Final = 2_000
"""The most bytes of an exception's text that a model gets."""

_MOST_NAMED: Final = 5  # exceptions of a group that are named

NOT_BEGUN: Final = "cancelled before it began"
TOO_LATE: Final = "not run: the time of the turn was up"
CANCELLED: Final = "cancelled while it ran"
LEFT: Final = "it cannot be stopped and may still be running"
NO_THREAD: Final = "not run: no thread could be started for it"


class ToolsEnded(BaseException):
    """Raised when tools were ended before all had run.

    Like `CallEnded`, it is not an error to handle: whoever catches it takes the outcomes and raises
    the reason. That is `CallEnded`, the cancellation of the task, a KeyboardInterrupt, or what a
    tool raised that is no failure of the tool. A tool that was ended has a fault.
    """

    def __init__(self, outcomes: tuple[ToolOutcome, ...], reason: BaseException) -> None:
        super().__init__(outcomes, reason)
        self.outcomes = outcomes
        self.reason = reason


def fault_of(error: BaseException) -> str:
    """Describe an exception for the model; no log and no error shows this text."""
    text = ""
    if isinstance(error, ToolError):  # it is written for the model
        text = _words_of(error)
    if not text:
        text = f"failed: {_named(error)}"
    [text] = shortened([without_halves(text)], LONGEST_FAULT // BYTES_A_TOKEN)
    return text


def _named(error: BaseException) -> str:
    """Return the type and text of an exception, or of those within a group."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_named(each) for each in islice(_leaves(error), _MOST_NAMED))
    name = label(type(error).__name__)
    words = _words_of(error)
    return f"{name}: {words}" if words else name


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Yield the exceptions of a group and of the groups within it, in order."""
    ahead: list[BaseException] = [group]
    while ahead:
        error = ahead.pop()
        if isinstance(error, BaseExceptionGroup):
            ahead += reversed(error.exceptions)
        else:
            yield error


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a `__str__` may do anything
        return ""


def late(seconds: float) -> str:
    """Return the fault of a tool that took longer than its limit."""
    return f"timed out after {seconds:g} s"


WAIT: Final = 0.5
"""Seconds that a tool which cannot be cancelled has to return once the round was ended."""

GRACE: Final = 2.0
"""Seconds for a cancelled async tool to end."""


@define(eq=False)
class Job:
    """Hold one tool to run."""

    run: ToolRun  # the tool and its arguments
    is_begun: bool = False
    until: float = math.inf  # when its time is up, or when to give up on it after it was cancelled
    cancel: Callable[[], object] | None = None  # cancels it; None if it cannot be cancelled
    leave: Callable[[], object] = lambda: None  # leaves it behind
    fault: str | None = None  # why it was cancelled
    outcome: ToolOutcome | None = None

    @property
    def is_running(self) -> bool:
        """Tell whether it has begun and has no outcome yet."""
        return self.is_begun and self.outcome is None


@define(eq=False)
class Schedule:
    """Schedule the tools of one reply: some side by side, those marked `alone` one at a time.

    They begin in order. A tool that runs alone waits for those before it, and those after it wait
    for it.
    """

    jobs: tuple[Job, ...]  # the tools
    at_once: int  # how many may run side by side
    until: float = math.inf  # when the time of all is up
    clock: Callable[[], float] = time.monotonic  # returns seconds on a monotonic clock
    observer: Follower | None = None  # is called with each tool that begins and ends
    # why the round was ended early, if it was
    reason: BaseException | None = field(default=None, init=False)
    # whether a tool that would not end was left behind
    has_left: bool = field(default=False, init=False)
    _news: list[ToolStarted | ToolEnded] = field(factory=list, init=False)
    _is_given_up: bool = field(default=False, init=False)
    _begun: int = field(default=0, init=False)
    _running: list[Job] = field(factory=list, init=False)

    @property
    def has_news(self) -> bool:
        """Tell whether `drain` has something to return."""
        return bool(self._news)

    def drain(self) -> list[ToolStarted | ToolEnded]:
        """Return the events since the last `drain`."""
        news = self._news
        self._news = []
        return news

    @property
    def is_over(self) -> bool:
        """Tell whether there is nothing left to wait for."""
        if self._is_given_up:
            return True
        if self._running:
            return False
        return self.reason is not None or self._begun == len(self.jobs) or self._is_late

    @property
    def _is_late(self) -> bool:
        return self.clock() >= self.until

    @property
    def may_have_begun(self) -> int:
        """Return how many tools, in order, have begun or may begin now."""
        return min(len(self.jobs), self._begun + self.at_once - len(self._running))

    def begin(self) -> Job | None:
        """Return the tool that begins now; None if none may."""
        is_full = self._begun == len(self.jobs) or len(self._running) >= self.at_once
        if self.reason is not None or is_full or self._is_late:
            return None
        job = self.jobs[self._begun]
        if self._running and (job.run.tool.alone or self._running[0].run.tool.alone):
            return None
        self._news.append(ToolStarted(job.run.call))
        self._begun += 1
        self._running.append(job)
        job.is_begun = True
        job.until = min(self.clock() + job.run.seconds, self.until)
        return job

    def seconds_left(self) -> float:
        """Return the seconds until the next time limit."""
        next_limit = min((job.until for job in self._running), default=math.inf)
        return max(0.0, next_limit - self.clock())

    def take(self, job: Job, returned: ToolReturn) -> None:
        """Take the result of a tool."""
        if not job.is_running:
            return
        error = returned.error
        fault = job.fault  # stands, whatever the tool returned after it was cancelled
        is_for_caller = not isinstance(
            error, Exception | CancelledError | GeneratorExit | SystemExit | None
        )
        if error is not None and (is_for_caller or fault is None):
            fault = fault_of(error)
        outcome = ToolOutcome(returned.value) if fault is None else ToolOutcome(fault=fault)
        self._settle(job, outcome)
        if error is not None and is_for_caller and self.reason is None:
            self.end(error)

    def may_go_on(self, job: Job) -> bool:
        """Tell whether to await what a tool has returned."""
        if job.is_running and self.reason is not None:
            self._settle(job, ToolOutcome(fault=CANCELLED))
        return job.is_running

    def expire(self) -> None:
        """Cancel the tools whose time is up, and leave behind those that cannot be cancelled."""
        expired = [job for job in self._running if job.until <= self.clock()]
        for job in expired:
            fault = late(job.run.seconds)
            if job.cancel is not None and job.fault is None:
                self._cancel(job, fault)
                continue
            if self.reason is not None:
                fault = CANCELLED
            self._leave(job, job.fault or fault)

    def end(self, reason: BaseException) -> None:
        """Begin no more tools, and cancel those that run.

        Those that cannot be cancelled are left behind after `WAIT`. The second time, all of them
        are left behind at once.

        Arguments:
            reason: what the caller gets.
        """
        if self.reason is not None:
            self.give_up()
            return
        self.reason = reason
        for job in list(self._running):
            if job.cancel is None:
                job.until = min(job.until, self.clock() + WAIT)
            elif job.fault is None:
                self._cancel(job, CANCELLED)

    def give_up(self) -> None:
        """Leave all tools behind that are still running."""
        self._is_given_up = True
        for job in list(self._running):
            if job.cancel is not None and job.fault is None:
                job.cancel()
            self._leave(job, job.fault or CANCELLED)

    def finish(self) -> tuple[ToolOutcome, ...]:
        """Return the outcomes, or raise ToolsEnded if the round was ended early."""
        otherwise = ToolOutcome(fault=TOO_LATE if self.reason is None else NOT_BEGUN)
        outcomes = tuple([job.outcome or otherwise for job in self.jobs])
        if self.reason is not None:
            raise ToolsEnded(outcomes, self.reason) from None
        return outcomes

    def _cancel(self, job: Job, fault: str) -> None:
        job.fault = fault
        job.until = self.clock() + GRACE
        if job.cancel is not None:
            job.cancel()

    def _leave(self, job: Job, fault: str) -> None:
        self.has_left = True
        job.leave()
        self._settle(job, ToolOutcome(fault=f"{fault}; {LEFT}"))

    def _settle(self, job: Job, outcome: ToolOutcome) -> None:
        job.outcome = outcome
        if self.observer is not None:
            self.observer.tool_ended(job.run, outcome)
        if job in self._running:
            self._running.remove(job)
        self._news.append(ToolEnded(job.run.call, outcome))


def schedule_of(action: RunTools) -> Schedule:
    """Return the schedule of an action."""
    schedule = Schedule(tuple(map(Job, action.runs)), max(1, action.at_once))
    if action.seconds is not None:
        schedule.until = time.monotonic() + action.seconds
    if isinstance(action.observer, Follower):
        schedule.observer = action.observer
    return schedule
