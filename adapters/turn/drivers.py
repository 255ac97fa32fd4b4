"""The drivers of turns: they make calls, run tools and shorten conversations.

The turn makes every decision. The asynchronous driver does what the synchronous one does, on
asyncio and trio.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from attrs import frozen

from rungwise.adapters.http.async_driver import AsyncDriver
from rungwise.adapters.http.deadline import Deadline
from rungwise.adapters.http.sync_driver import LATE as LATE_BY
from rungwise.adapters.http.sync_driver import SyncDriver
from rungwise.adapters.http.waiting import CallEnded
from rungwise.adapters.tools.calling import LATE, LoopThread, aoutcome_of, outcome_of
from rungwise.adapters.tools.running import ToolTasks, ToolThreads
from rungwise.adapters.tools.scheduling import ToolsEnded
from rungwise.adapters.turn.turn_options import AsyncTurnCompactor, TurnCompactor
from rungwise.fsm.turn.actions import Action, Compact, MakeCall, RunTools, ToolOutcome, TurnEvent
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.turn import Turn

COMPACTOR: Final = "the compactor"


@frozen
class SyncTurnDriver:
    """Run turns in the thread of their caller."""

    calls: SyncDriver  # runs the calls of turns
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
        clock = self.calls.clock
        loop = LoopThread()
        turn.journal.started = turn.journal.started or self.calls.deadlines.wall_clock()
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

    def _do(
        self, action: Action, turn: Turn, loop: LoopThread
    ) -> Generator[TurnEvent, None, Action | None]:
        """Perform an action and return the next one."""
        clock = self.calls.clock
        cancellation = self.calls.cancellation
        match action:
            case MakeCall(call):
                yield from self.calls.stream(call)
                return turn.called(call.result, clock())
            case RunTools():
                deadline = Deadline(clock, turn.deadline)
                running = ToolThreads(
                    action, turn.tools.executor, cancellation, deadline, loop=loop
                )
                outcomes = yield from running.run()
                return turn.tools_ran(outcomes, clock())
            case Compact():
                assert self.compactor is not None  # else the turn does not ask for it
                deadline = Deadline(clock, turn.deadline)
                compact = partial(self.compactor, action.messages, action.room)
                shorter = outcome_of(COMPACTOR, compact, cancellation, deadline)
                return turn.compacted(shorter, when_compacted(turn, shorter, clock()))


def when_compacted(turn: Turn, shorter: object, now: float) -> float:
    """Return the time after the compactor.

    After a late one, that is past the deadline even if the clock does not show it yet.
    """
    deadline = turn.deadline
    if shorter is LATE and deadline is not None:
        return max(now, deadline + LATE_BY)
    return now


def leave(turn: Turn, error: BaseException, now: float) -> None:
    """End a turn after an exception.

    The exception is raised again, with the result of the turn, unless the turn was cancelled.
    """
    outcomes: tuple[ToolOutcome, ...] = ()
    reason = error
    if isinstance(error, ToolsEnded):
        outcomes = error.outcomes
        reason = error.reason
    result = turn.cancel(now, outcomes)
    if not isinstance(reason, CallEnded):
        reason.result = result  # type: ignore[attr-defined]
        try:
            raise reason from None
        finally:
            del error, reason  # the exception holds this frame, so they would be a cycle


@frozen
class AsyncTurnDriver:
    """Run turns in an event loop.

    If its task is cancelled, the turn ends, and the exception carries its result in `error.result`.
    """

    calls: AsyncDriver  # runs the calls of turns
    compactor: TurnCompactor | AsyncTurnCompactor | None  # shortens conversations, or None

    async def run(self, turn: Turn) -> TurnResult:
        """Run a turn to its end."""
        async for _ in self.stream(turn):
            pass
        return turn.result

    async def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """Run a turn to its end and yield the events of its calls and tools."""
        clock = self.calls.clock
        turn.journal.started = turn.journal.started or self.calls.deadlines.wall_clock()
        try:
            action = turn.begin(clock())
            while action is not None:
                for step in turn.drain():
                    yield step
                await self._prepare(action)
                match action:
                    case MakeCall(call):
                        async with aclosing(self.calls.stream(call)) as events:
                            async for event in events:
                                yield event
                        action = turn.called(call.result, clock())
                    case RunTools():
                        running = self._tasks(action, turn)
                        async with aclosing(running.run()) as news:
                            async for tool_event in news:
                                yield tool_event
                        action = turn.tools_ran(running.outcomes, clock())
                    case Compact():
                        assert self.compactor is not None  # else the turn does not ask for it
                        deadline = Deadline(clock, turn.deadline)
                        compact = partial(self.compactor, action.messages, action.room)
                        cancellation = self.calls.cancellation
                        shorter = await aoutcome_of(COMPACTOR, compact, cancellation, deadline)
                        action = turn.compacted(shorter, when_compacted(turn, shorter, clock()))
        except BaseException as error:
            leave(turn, error, clock())
        for step in turn.drain():
            yield step

    async def _prepare(self, action: Action) -> None:
        """Do what a subclass must do before an action; here, nothing."""

    def _tasks(self, action: RunTools, turn: Turn) -> ToolTasks:
        """Return what runs the tools of an action."""
        deadline = Deadline(self.calls.clock, turn.deadline)
        return ToolTasks(action, turn.tools.executor, self.calls.cancellation, deadline)
