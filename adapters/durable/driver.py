"""The drivers of durable calls and turns, and what they save: each attempt, and each tool, before
it begins.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, Final

from attrs import define, field, frozen

from rungwise.adapters.durable.forms import Plain, plain_event
from rungwise.adapters.durable.tape import RecordedCall
from rungwise.adapters.durable.turn_tape import RecordedTurn
from rungwise.adapters.http.async_driver import AsyncDriver
from rungwise.adapters.http.background import BackgroundExchange
from rungwise.adapters.http.deadline import Deadline
from rungwise.adapters.http.exchange import Exchange
from rungwise.adapters.tools.running import ToolTasks
from rungwise.adapters.turn.drivers import AsyncTurnDriver
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.engine.journal.record import json_of
from rungwise.fsm.replies.reply import Text
from rungwise.fsm.turn.actions import Action, MakeCall, RunTools
from rungwise.fsm.turn.turn import Turn

EVERY: Final = 1.0
"""Seconds after which the text of a stream is written as its next piece comes."""

LARGEST: Final = 2_000
"""Characters of text after which it is written at once."""


def joined(pieces: Iterable[Plain], name: str) -> list[Plain]:
    """Join neighbours that differ in nothing but a text.

    Arguments:
        pieces: entries of a tape, or events.
        name: the member that holds the text.
    """
    result: list[Plain] = []
    for piece in pieces:
        before = result[-1] if result else {}
        is_same = name in piece and {**before, name: ""} == {**piece, name: ""}
        if before and is_same:
            result[-1] = {**piece, name: before[name] + piece[name]}
        else:
            result.append(piece)
    return result


@define(eq=False)
class Saver:
    """Save what is new on a tape. What a stream has shown is saved with what it follows from, or
    not at all.
    """

    recorded: RecordedCall | RecordedTurn
    write: Callable[[str], Awaitable[None]]  # saves a record
    wall: Callable[[], float]  # returns the seconds since 1970
    saved: int  # how many entries are saved
    must_save: bool = field(default=False, init=False)  # whether what is new cannot wait
    _events: list[Plain] = field(factory=list, init=False)
    _size: int = field(default=0, init=False)  # characters of text that are not saved
    _last: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._last = self.wall()

    async def save(self) -> None:
        """Save what is new, if anything is."""
        recorded = self.recorded
        if isinstance(recorded, RecordedCall):
            self._events += map(plain_event, recorded.drain())
        if len(recorded.tape) == self.saved and not self._events:
            return
        new = recorded.tape[self.saved :]
        events = self._events
        self.saved = len(recorded.tape)
        self.must_save = False
        self._events = []
        self._size = 0
        self._last = self.wall()
        record = {
            "at": self._last,
            "spent": recorded.spent,
            "tape": joined(new, "text"),
        }
        if events:
            record["events"] = joined(events, "Text")
        await self.write(json_of(record))

    async def hand_on(self, event: StreamEvent) -> None:
        """Keep an event for those who read the stream."""
        self._events.append(plain_event(event))
        if isinstance(event, Text):
            self._size += len(event.text)
        if self._size >= LARGEST or self.wall() - self._last >= EVERY:
            await self.save()


@frozen
class DurableDriver(AsyncDriver):
    """Run a call over HTTP, and save its tape where a crash would lose something."""

    saver: Saver
    leaves: Callable[[], bool]  # tells whether the call is left to the next process

    async def _make_ready(self, call: Call, send: Send) -> bool:
        if call.last is not None:  # or nothing has come yet that could be lost in a wait
            await self.saver.save()
        return await super()._make_ready(call, send)

    async def _exchange(
        self,
        exchange: Exchange,
        send: Send,
        call: Call,
    ) -> AsyncGenerator[StreamEvent, None]:
        await self.saver.save()
        async with aclosing(super()._exchange(exchange, send, call)) as events:
            async for event in events:
                self._keep(exchange, call)  # so that whatever saves the event saves the id, too
                yield event

    def _left_by(self, call: Call) -> Exchange | None:
        assert isinstance(call, RecordedCall)
        sent = call.sent
        if call.generation is None or sent is None:
            return None
        return BackgroundExchange.left(self.chain[sent.backend], sent, call.generation)

    async def _pieces(
        self, response: Any, exchange: Exchange, call: Call
    ) -> AsyncGenerator[bytes, None]:
        async with aclosing(super()._pieces(response, exchange, call)) as pieces:
            async for piece in pieces:
                yield piece
                await self._note(exchange, call)

    async def _note(self, exchange: Exchange, call: Call) -> None:
        """Save under which id the provider goes on with a reply, as soon as it is known."""
        self._keep(exchange, call)
        if self.saver.must_save:
            await self.saver.save()

    def _keep(self, exchange: Exchange, call: Call) -> None:
        """Put that id on the tape."""
        if not isinstance(exchange, BackgroundExchange):
            return
        assert isinstance(call, RecordedCall)
        exchange.note_stream()
        if exchange.may_run and call.generation is None:
            call.keep(exchange.generation)
            self.saver.must_save = True

    async def _give_up(self, exchange: Exchange) -> None:
        if not self.leaves():
            await super()._give_up(exchange)


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
        executor = turn.tools.executor
        ending = self.calls.cancellation
        return RecordedToolTasks(
            action, executor, ending, deadline, turn=turn, saver=self.calls.saver
        )


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
