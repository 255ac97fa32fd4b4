"""The drivers of durable calls and turns: each attempt, and each tool, is recorded before it begins."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from attrs import define, field, frozen

from rungwise.adapters.durable.saving import Saver
from rungwise.adapters.durable.turn_tape import RecordedTurn
from rungwise.adapters.http.async_driver import AsyncDriver
from rungwise.adapters.http.deadline import Deadline
from rungwise.adapters.http.exchange import Exchange
from rungwise.adapters.tools.running import ToolTasks
from rungwise.adapters.turn.drivers import AsyncTurnDriver
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.turn.actions import Action, MakeCall, RunTools
from rungwise.fsm.turn.turn import Turn


@frozen
class DurableDriver(AsyncDriver):
    """Run a call over HTTP, and save its tape where a crash would lose something."""

    saver: Saver

    async def _make_ready(self, call: Call, send: Send) -> bool:
        if call.last is not None:  # or nothing has come yet that could be lost in a wait
            await self.saver.save()
        return await super()._make_ready(call, send)

    async def _exchange(self, exchange: Exchange, send: Send, call: Call) -> AsyncGenerator[StreamEvent, None]:
        await self.saver.save()
        async with aclosing(super()._exchange(exchange, send, call)) as events:
            async for event in events:
                yield event


@frozen
class DurableTurnDriver(AsyncTurnDriver):
    """Run a turn, and save its tape likewise."""

    calls: DurableDriver

    async def _prepare(self, action: Action) -> None:
        if not isinstance(action, MakeCall):  # a call saves before it sends
            await self.calls.saver.save()

    def _tasks(self, action: RunTools, turn: Turn) -> ToolTasks:
        assert isinstance(turn, RecordedTurn)
        deadline = Deadline(self.calls.clock, turn.deadline)
        executor, ending = turn.tools.executor, self.calls.cancellation
        return RecordedToolTasks(action, executor, ending, deadline, turn=turn, saver=self.calls.saver)


@define(eq=False)
class RecordedToolTasks(ToolTasks):
    """Run tools, and save which of them may begin before they do."""

    turn: RecordedTurn = field(kw_only=True)
    saver: Saver = field(kw_only=True)

    async def _go_on(self) -> None:
        outcomes = [job.outcome for job in self.schedule.jobs]
        self.turn.note_tools(self.schedule.may_have_begun, outcomes)
        await self.saver.save()
        await super()._go_on()
