"""The synchronous driver of turns: it makes calls, runs tools and shortens conversations, and decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from attrs import frozen

from rungwise.adapters.http.deadline import Deadline
from rungwise.adapters.http.driver import LATE as LATE_BY
from rungwise.adapters.http.sync_driver import SyncDriver
from rungwise.adapters.http.waiting import CallEnded
from rungwise.adapters.tools.scheduling import ToolsEnded
from rungwise.adapters.tools.threads import run_tools
from rungwise.adapters.turn.compacting import LATE, shorten
from rungwise.fsm.turn.actions import Action, Compact, MakeCall, RunTools, TurnEvent
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.turn import Turn


@frozen
class SyncTurnDriver:
    """Run turns in the thread of their caller.

    Arguments:
        calls: makes the calls.
        compactor: makes conversations shorter, or None.
    """

    calls: SyncDriver
    compactor: Callable[[Any, int], Any] | None

    def run(self, turn: Turn) -> TurnResult:
        """Run a turn to its end."""
        events = self.stream(turn)
        try:
            for _ in events:
                pass
        except BaseException as error:  # a Ctrl-C may come between two events as well
            events.close()
            error.result = turn.cancel(self.calls.clock())  # type: ignore[attr-defined]
            raise
        return turn.result

    def stream(self, turn: Turn) -> Generator[TurnEvent]:
        """Run a turn to its end and hand out what its calls say, and what its tools do, meanwhile."""
        clock = self.calls.clock
        try:
            action = turn.begin(clock())
            while action is not None:
                yield from turn.drain()
                action = yield from self._do(action, turn)
        except BaseException as error:
            leave(turn, error, clock())
        yield from turn.drain()

    def _do(self, action: Action, turn: Turn) -> Generator[TurnEvent, None, Action | None]:
        """Do what the turn asks for, and return what it asks for next."""
        clock, cancellation = self.calls.clock, self.calls.cancellation
        match action:
            case MakeCall(call):
                yield from self.calls.stream(call)
                return turn.called(call.result, clock())
            case RunTools():
                deadline = Deadline(clock, turn.deadline)
                outcomes = yield from run_tools(action, turn.tools.executor, cancellation, deadline)
                return turn.tools_ran(outcomes, clock())
            case Compact():
                assert self.compactor is not None  # or the turn would not have asked for it
                remaining, deadline = seconds_left(turn, clock()), Deadline(clock, turn.deadline)
                shorter = shorten(self.compactor, action, remaining, cancellation, deadline)
                return turn.compacted(shorter, when_compacted(turn, shorter, clock()))


def seconds_left(turn: Turn, now: float) -> float | None:
    """Return the seconds that a turn has left; None where its time has no limit."""
    deadline = turn.deadline
    return None if deadline is None else max(0.0, deadline - now)


def when_compacted(turn: Turn, shorter: object, now: float) -> float:
    """Return the time; where that was up, the clock may not show it yet."""
    deadline = turn.deadline
    return max(now, deadline + LATE_BY) if shorter is LATE and deadline is not None else now


def leave(turn: Turn, error: BaseException, now: float) -> None:
    """End a turn for what was raised, and raise that with the result of the turn, unless the turn was only cancelled.

    Arguments:
        turn: what was run.
        error: what was raised; what tools have brought until then stands in it.
        now: the time.
    """
    outcomes, reason = (error.outcomes, error.reason) if isinstance(error, ToolsEnded) else ((), error)
    result = turn.cancel(now, outcomes)
    if not isinstance(reason, CallEnded):
        reason.result = result  # type: ignore[attr-defined]
        try:
            raise reason from None
        finally:
            del error, reason  # what is raised holds this frame, which must not hold it
