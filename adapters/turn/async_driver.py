"""The asynchronous driver of turns: does what the synchronous one does, on asyncio and trio."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from attrs import frozen

from rungwise.adapters.http.async_driver import AsyncDriver
from rungwise.adapters.http.deadline import Deadline
from rungwise.adapters.tools.bounded import aoutcome_of
from rungwise.adapters.tools.tasks import ToolTasks
from rungwise.adapters.turn.options import AsyncTurnCompactor, TurnCompactor
from rungwise.adapters.turn.sync_driver import COMPACTOR, leave, when_compacted
from rungwise.fsm.turn.actions import Compact, MakeCall, RunTools, TurnEvent
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.turn import Turn


@frozen
class AsyncTurnDriver:
    """Run turns in an event loop; the arguments are those of `SyncTurnDriver`.

    If its task is cancelled, the turn ends, and the exception carries the result in its `result` attribute.
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
        try:
            action = turn.begin(clock())
            while action is not None:
                for step in turn.drain():
                    yield step
                match action:
                    case MakeCall(call):
                        async with aclosing(self.calls.stream(call)) as events:
                            async for event in events:
                                yield event
                        action = turn.called(call.result, clock())
                    case RunTools():
                        deadline = Deadline(clock, turn.deadline)
                        running = ToolTasks.of(action, turn.tools.executor, self.calls.cancellation, deadline)
                        async with aclosing(running.run()) as news:
                            async for tool_event in news:
                                yield tool_event
                        action = turn.tools_ran(running.outcomes, clock())
                    case Compact():
                        assert self.compactor is not None  # else the turn does not ask for it
                        deadline, ending = Deadline(clock, turn.deadline), self.calls.cancellation
                        compact = partial(self.compactor, action.messages, action.room)
                        shorter = await aoutcome_of(COMPACTOR, compact, deadline.seconds_left, ending, deadline)
                        action = turn.compacted(shorter, when_compacted(turn, shorter, clock()))
        except BaseException as error:
            leave(turn, error, clock())
        for step in turn.drain():
            yield step
