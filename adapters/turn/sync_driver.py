"""The synchronous driver of turns: makes calls, runs tools, shortens conversations. The turn makes every decision."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

from attrs import frozen

from rungwise.adapters.http.deadline import Deadline
from rungwise.adapters.http.driver import LATE as LATE_BY
from rungwise.adapters.http.sync_driver import SyncDriver
from rungwise.adapters.http.waiting import CallEnded
from rungwise.adapters.tools.bounded import LATE, outcome_of
from rungwise.adapters.tools.scheduling import ToolsEnded
from rungwise.adapters.tools.threads import LoopThread, run_tools
from rungwise.fsm.turn.actions import Action, Compact, MakeCall, RunTools, TurnEvent
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.turn import Turn

COMPACTOR: Final = "the compactor"


@frozen
class SyncTurnDriver:
    """Run turns in the thread of their caller."""

    calls: SyncDriver
    compactor: Callable[[Any, int], Any] | None  # shortens conversations, or None

    def run(self, turn: Turn) -> TurnResult:
        """Run a turn to its end."""
        events = self.stream(turn)
        try:
            for _ in events:
                pass
        except BaseException as error:  # Ctrl-C may come between two events
            events.close()
            error.result = turn.cancel(self.calls.clock())  # type: ignore[attr-defined]
            raise
        return turn.result

    def stream(self, turn: Turn) -> Generator[TurnEvent]:
        """Run a turn to its end and yield the events of its calls and tools."""
        clock, loop = self.calls.clock, LoopThread()
        try:
            action = turn.begin(clock())
            while action is not None:
                yield from turn.drain()
                action = yield from self._do(action, turn, loop)
        except BaseException as error:
            leave(turn, error, clock())
        finally:
            loop.close()
        yield from turn.drain()

    def _do(self, action: Action, turn: Turn, loop: LoopThread) -> Generator[TurnEvent, None, Action | None]:
        """Perform an action and return the next one."""
        clock, cancellation = self.calls.clock, self.calls.cancellation
        match action:
            case MakeCall(call):
                yield from self.calls.stream(call)
                return turn.called(call.result, clock())
            case RunTools():
                deadline = Deadline(clock, turn.deadline)
                outcomes = yield from run_tools(action, turn.tools.executor, cancellation, loop, deadline)
                return turn.tools_ran(outcomes, clock())
            case Compact():
                assert self.compactor is not None  # else the turn does not ask for it
                deadline = Deadline(clock, turn.deadline)
                compact = partial(self.compactor, action.messages, action.room)
                shorter = outcome_of(COMPACTOR, compact, deadline.seconds_left, cancellation, deadline)
                return turn.compacted(shorter, when_compacted(turn, shorter, clock()))


def when_compacted(turn: Turn, shorter: object, now: float) -> float:
    """Return the time; after a late compactor, past the deadline even if the clock does not show it yet."""
    deadline = turn.deadline
    return max(now, deadline + LATE_BY) if shorter is LATE and deadline is not None else now


def leave(turn: Turn, error: BaseException, now: float) -> None:
    """End a turn after an exception. Raise that with the result of the turn, unless the turn was cancelled."""
    outcomes, reason = (error.outcomes, error.reason) if isinstance(error, ToolsEnded) else ((), error)
    result = turn.cancel(now, outcomes)
    if not isinstance(reason, CallEnded):
        reason.result = result  # type: ignore[attr-defined]
        try:
            raise reason from None
        finally:
            del error, reason  # the exception holds this frame: avoid a cycle
