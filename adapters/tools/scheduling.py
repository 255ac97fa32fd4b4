"""Which tool runs when, how long it may, and what became of it; nothing here waits or runs anything."""

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
from rungwise.fsm.errors import ToolError
from rungwise.fsm.text.contents import without_halves
from rungwise.fsm.turn.actions import RunTools, ToolEnded, ToolOutcome, ToolStarted
from rungwise.fsm.turn.tool_round import shortened
from rungwise.fsm.turn.tools import ToolRun
from rungwise.fsm.values.label import label

LONGEST_FAULT: Final = 2_000
"""Bytes of what an exception says that a model is told."""

_MOST_TOLD: Final = 5

NOT_BEGUN: Final = "cancelled before it began"
TOO_LATE: Final = "not run: the time of the turn was up"
CANCELLED: Final = "cancelled while it ran"
LEFT: Final = "it cannot be stopped and may still be running"
NO_THREAD: Final = "not run: no thread could be started for it"


class ToolsEnded(BaseException):
    """Say that tools were ended before all had run; whoever catches it takes the outcomes and raises the reason.

    Like `CallEnded` it is not a failure that anything else should handle.

    Arguments:
        outcomes: what came of each tool, in the order of the calls; what was ended has a fault.
        reason: what goes on from here: `CallEnded`, the cancellation of the task, a KeyboardInterrupt, or what a tool
            has raised that is no failure of the tool.
    """

    def __init__(self, outcomes: tuple[ToolOutcome, ...], reason: BaseException) -> None:
        super().__init__(outcomes, reason)
        self.outcomes, self.reason = outcomes, reason


def is_failure(error: BaseException) -> bool:
    """Tell whether an exception is a tool's own failure, and not one that must go on to the caller."""
    return isinstance(error, Exception | CancelledError | GeneratorExit | SystemExit)


def fault_of(error: BaseException) -> str:
    """Return what a model is told of an exception; no log and no error is given it."""
    text = (_words_of(error) if isinstance(error, ToolError) else "") or f"failed: {_named(error)}"
    [text] = shortened([without_halves(text)], LONGEST_FAULT // BYTES_A_TOKEN)
    return text


def _named(error: BaseException) -> str:
    """Return the type and the words of an exception, or of those that a group holds, whose own words say nothing."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_named(each) for each in islice(_leaves(error), _MOST_TOLD))
    words = _words_of(error)
    return f"{label(type(error).__name__)}{': ' if words else ''}{words}"


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
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
    except Exception:  # whatever a stranger's `__str__` does
        return ""


def late(seconds: float) -> str:
    """Say that a tool took too long.

    Arguments:
        seconds: how long it might have taken.
    """
    return f"timed out after {seconds:g} s"


GRACE: Final = 2.0
"""Seconds that an async tool which was cancelled is given to end."""


def _nothing() -> None:
    pass


@define(eq=False)
class Job:
    """Hold one tool that is to be run.

    Arguments:
        run: the tool and its arguments.
        until: the moment at which it is too late, or at which a cancelled one is given up.
        cancel: cancels it; None where that cannot be done.
        leave: lets go of it.
        fault: why it was cancelled.
        outcome: what came of it.
    """

    run: ToolRun
    is_begun: bool = False
    until: float = math.inf
    cancel: Callable[[], object] | None = None
    leave: Callable[[], object] = _nothing
    fault: str | None = None
    outcome: ToolOutcome | None = None

    @property
    def is_running(self) -> bool:
        """Tell whether it was begun and is still waited for."""
        return self.is_begun and self.outcome is None


@define(eq=False)
class Schedule:
    """Run the tools of one reply: a number of them side by side, and those that must be alone by themselves.

    They begin in their order, so one that must be alone waits for those before it, and those after it wait for it.

    Arguments:
        jobs: the tools.
        at_once: how many may run side by side.
        until: the moment from which on none begins, and at which those that run are too late.
        clock: returns seconds on a clock that only goes forward.
    """

    jobs: tuple[Job, ...]
    at_once: int
    until: float = math.inf
    clock: Callable[[], float] = time.monotonic
    reason: BaseException | None = field(default=None, init=False)
    _news: list[ToolStarted | ToolEnded] = field(factory=list, init=False)
    _is_given_up: bool = field(default=False, init=False)
    _begun: int = field(default=0, init=False)
    _running: list[Job] = field(factory=list, init=False)

    @classmethod
    def of(cls, action: RunTools) -> Schedule:
        """Return the round of an action."""
        until = math.inf if action.seconds is None else time.monotonic() + action.seconds
        return cls(tuple(map(Job, action.runs)), max(1, action.at_once), until)

    @property
    def has_news(self) -> bool:
        """Tell whether a tool has begun or ended that `drain` has not returned."""
        return bool(self._news)

    def drain(self) -> list[ToolStarted | ToolEnded]:
        """Return which tools have begun and ended, and forget it."""
        news, self._news = self._news, []
        return news

    @property
    def is_over(self) -> bool:
        """Tell whether nothing is waited for any more."""
        if self._is_given_up:
            return True
        return not self._running and (self.reason is not None or self._begun == len(self.jobs) or self._is_late)

    @property
    def _is_late(self) -> bool:
        return self.clock() >= self.until

    def begin(self) -> Job | None:
        """Return the tool that begins now; None where none may."""
        is_full = self._begun == len(self.jobs) or len(self._running) >= self.at_once
        if self.reason is not None or is_full or self._is_late:
            return None
        job = self.jobs[self._begun]
        if self._running and (job.run.tool.alone or self._running[0].run.tool.alone):
            return None
        self._news.append(ToolStarted(job.run.call))
        self._begun += 1
        self._running.append(job)
        job.is_begun, job.until = True, min(self.clock() + job.run.seconds, self.until)
        return job

    def seconds_left(self) -> float:
        """Return how long nothing is to be done, unless a tool brings something."""
        return max(0.0, min((job.until for job in self._running), default=math.inf) - self.clock())

    def take(self, job: Job, returned: ToolReturn) -> None:
        """Take what a tool has brought."""
        if not job.is_running:
            return
        error = returned.error
        if error is not None and not is_failure(error):
            self._settle(job, ToolOutcome(fault=fault_of(error)))
            if self.reason is None:
                self.end(error)
        elif job.fault is not None:  # whatever it made of being cancelled
            self._settle(job, ToolOutcome(fault=job.fault))
        elif error is not None:
            self._settle(job, ToolOutcome(fault=fault_of(error)))
        else:
            self._settle(job, ToolOutcome(returned.value))

    def may_go_on(self, job: Job) -> bool:
        """Tell whether a tool that has returned what is to be awaited may still have that done."""
        if job.is_running and self.reason is not None:
            self._settle(job, ToolOutcome(fault=CANCELLED))
        return job.is_running

    def expire(self) -> None:
        """Cancel the tools whose time is up, and leave those that cannot be cancelled."""
        for job in [job for job in self._running if job.until <= self.clock()]:
            if job.cancel is not None and job.fault is None:
                self._cancel(job, late(job.run.seconds))
            else:
                self._leave(job, job.fault or late(job.run.seconds))

    def end(self, reason: BaseException) -> None:
        """Begin nothing more, and cancel what can be cancelled; a second time, wait for nothing either.

        Arguments:
            reason: what is to go on to the caller.
        """
        if self.reason is not None:
            self.give_up()
            return
        self.reason = reason
        for job in list(self._running):
            if job.cancel is not None and job.fault is None:
                self._cancel(job, CANCELLED)

    def give_up(self) -> None:
        """Leave all that is still running."""
        self._is_given_up = True
        for job in list(self._running):
            if job.cancel is not None and job.fault is None:
                job.cancel()
            self._leave(job, job.fault or CANCELLED)

    def finish(self) -> tuple[ToolOutcome, ...]:
        """Return what came of the tools.

        Raises:
            ToolsEnded: they were ended before.
        """
        otherwise = ToolOutcome(fault=TOO_LATE if self.reason is None else NOT_BEGUN)
        outcomes = tuple([job.outcome or otherwise for job in self.jobs])
        if self.reason is not None:
            raise ToolsEnded(outcomes, self.reason) from None
        return outcomes

    def _cancel(self, job: Job, fault: str) -> None:
        job.fault, job.until = fault, self.clock() + GRACE
        if job.cancel is not None:
            job.cancel()

    def _leave(self, job: Job, fault: str) -> None:
        job.leave()
        self._settle(job, ToolOutcome(fault=f"{fault}; {LEFT}"))

    def _settle(self, job: Job, outcome: ToolOutcome) -> None:
        job.outcome = outcome
        if job in self._running:
            self._running.remove(job)
        self._news.append(ToolEnded(job.run.call, outcome))
