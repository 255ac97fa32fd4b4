"""Which tool runs when, how long it may, and what became of it; nothing here waits or runs anything."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from attrs import define, field

from rungwise.adapters.tools import faults
from rungwise.adapters.tools.calling import Brought
from rungwise.adapters.tools.faults import ToolsEnded, fault_of, is_failure
from rungwise.fsm.turn.actions import RunTools, ToolEnded, ToolOutcome, ToolStarted
from rungwise.fsm.turn.tools import ToolRun

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

    def take(self, job: Job, brought: Brought) -> None:
        """Take what a tool has brought."""
        if not job.is_running:
            return
        error = brought.error
        if error is not None and not is_failure(error):
            self._settle(job, ToolOutcome(fault=fault_of(error)))
            if self.reason is None:
                self.end(error)
        elif job.fault is not None:  # whatever it made of being cancelled
            self._settle(job, ToolOutcome(fault=job.fault))
        elif error is not None:
            self._settle(job, ToolOutcome(fault=fault_of(error)))
        else:
            self._settle(job, ToolOutcome(brought.value))

    def may_go_on(self, job: Job) -> bool:
        """Tell whether a tool that has returned what is to be awaited may still have that done."""
        if job.is_running and self.reason is not None:
            self._settle(job, ToolOutcome(fault=faults.CANCELLED))
        return job.is_running

    def expire(self) -> None:
        """Cancel the tools whose time is up, and leave those that cannot be cancelled."""
        for job in [job for job in self._running if job.until <= self.clock()]:
            if job.cancel is not None and job.fault is None:
                self._cancel(job, faults.late(job.run.seconds))
            else:
                self._leave(job, job.fault or faults.late(job.run.seconds))

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
                self._cancel(job, faults.CANCELLED)

    def give_up(self) -> None:
        """Leave all that is still running."""
        self._is_given_up = True
        for job in list(self._running):
            if job.cancel is not None and job.fault is None:
                job.cancel()
            self._leave(job, job.fault or faults.CANCELLED)

    def finish(self) -> tuple[ToolOutcome, ...]:
        """Return what came of the tools.

        Raises:
            ToolsEnded: they were ended before.
        """
        otherwise = ToolOutcome(fault=faults.TOO_LATE if self.reason is None else faults.NOT_BEGUN)
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
        self._settle(job, ToolOutcome(fault=f"{fault}; {faults.LEFT}"))

    def _settle(self, job: Job, outcome: ToolOutcome) -> None:
        job.outcome = outcome
        if job in self._running:
            self._running.remove(job)
        self._news.append(ToolEnded(job.run.call, outcome))
