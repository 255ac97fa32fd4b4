"""The asynchronous driver of turns: the same page as the synchronous one, on any event loop that anyio knows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

from attrs import frozen

from rungwise.adapters.http.async_driver import AsyncDriver
from rungwise.adapters.http.waiting import within
from rungwise.adapters.tools.tasks import ToolTasks
from rungwise.adapters.turn.sync_driver import TurnCompactor, leave
from rungwise.fsm.call.parts import Message
from rungwise.fsm.call.request import PlainMessage
from rungwise.fsm.turn.actions import Compact, MakeCall, RunTools
from rungwise.fsm.turn.events import TurnEvent
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.turn import Turn
from rungwise.fsm.values.frozen_map import thawed

AsyncTurnCompactor = Callable[[Sequence[PlainMessage | Message], int], Awaitable[Sequence[PlainMessage | Message]]]


@frozen
class AsyncTurnDriver:
    """Run turns in an event loop; the arguments are those of `SyncTurnDriver`.

    A cancelled task ends its turn, and the exception goes on with the result in its `result` attribute.
    """

    calls: AsyncDriver
    compactor: TurnCompactor | AsyncTurnCompactor | None

    async def run(self, turn: Turn) -> TurnResult:
        """Run a turn to its end."""
        async for _ in self.stream(turn):
            pass
        return turn.result

    async def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """Run a turn to its end and hand out what its calls say, and what its tools do, meanwhile."""
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
                        running = ToolTasks.of(action, turn.tools.executor, self.calls.cancellation)
                        async with aclosing(running.run()) as news:
                            async for told in news:
                                yield told
                        action = turn.tools_ran(running.outcomes, clock())
                    case Compact():
                        action = turn.compacted(await self._shorten(action, turn), clock())
        except BaseException as error:
            leave(turn, error, clock())
        for step in turn.drain():
            yield step

    async def _shorten(self, action: Compact, turn: Turn) -> Any:
        """Have the conversation shortened; a coroutine is ended when the time of the turn is up."""
        compactor, deadline = self.compactor, turn.budget.deadline
        assert compactor is not None

        async def shorten() -> Any:
            try:
                shorter = compactor(thawed(action.messages), action.room)  # its own copy, to change as it likes
                return await shorter if isinstance(shorter, Awaitable) else shorter
            except Exception as error:
                return error

        left = None if deadline is None else max(0.0, deadline - self.calls.clock())
        try:
            return await within(left, shorten, cancellation=self.calls.cancellation)
        except TimeoutError as error:
            return error
