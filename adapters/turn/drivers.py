"""The drivers of turns make calls, run tools and shorten conversations. The turn makes every
decision.

The asynchronous one does what the synchronous one does, on asyncio and trio.
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
                outcomes = yield from ToolThreads(
                    action, turn.tools.executor, cancellation, deadline, loop=loop
                ).run()
                return turn.tools_ran(outcomes, clock())
            case Compact():
                assert self.compactor is not None  # else the turn does not ask for it
                deadline = Deadline(clock, turn.deadline)
                compact = partial(self.compactor, action.messages, action.room)
                shorter = outcome_of(
                    COMPACTOR, compact, deadline.seconds_left, cancellation, deadline
                )
                return turn.compacted(shorter, when_compacted(turn, shorter, clock()))


def when_compacted(turn: Turn, shorter: object, now: float) -> float:
    """Return the time; after a late compactor, past the deadline even if the clock does not show it
    yet.
    """
    deadline = turn.deadline
    return max(now, deadline + LATE_BY) if shorter is LATE and deadline is not None else now


def leave(turn: Turn, error: BaseException, now: float) -> None:
    """End a turn after an exception. Raise that with the result of the turn, unless the turn was
    cancelled.
    """
    outcomes, reason = (
        (error.outcomes, error.reason) if isinstance(error, ToolsEnded) else ((), error)
    )
    result = turn.cancel(now, outcomes)
    if not isinstance(reason, CallEnded):
        reason.result = result  # type: ignore[attr-defined]
        try:
            raise reason from None
        finally:
            del error, reason  # the exception holds this frame: avoid a cycle


@frozen
class AsyncTurnDriver:
    """Run turns in an event loop; the arguments are those of `SyncTurnDriver`.

    If its task is cancelled, the turn ends, and the exception carries the result in its `result`
    attribute.
    """

    calls: AsyncDriver
    compactor: TurnCompactor | AsyncTurnCompactor | None

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
                        ending = self.calls.cancellation
                        compact = partial(self.compactor, action.messages, action.room)
                        shorter = await aoutcome_of(
                            COMPACTOR, compact, deadline.seconds_left, ending, deadline
                        )
                        action = turn.compacted(shorter, when_compacted(turn, shorter, clock()))
        except BaseException as error:
            leave(turn, error, clock())
        for step in turn.drain():
            yield step

    async def _prepare(self, action: Action) -> None:
        """Do what must be done before an action."""

    def _tasks(self, action: RunTools, turn: Turn) -> ToolTasks:
        """Return what runs the tools of an action."""
        deadline = Deadline(self.calls.clock, turn.deadline)
        return ToolTasks(action, turn.tools.executor, self.calls.cancellation, deadline)
