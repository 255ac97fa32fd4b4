"""Write what is new of a call or a turn: before each attempt, and of a stream what readers may see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from attrs import define, field

from rungwise.adapters.durable.forms import Plain, plain_event
from rungwise.adapters.durable.tape import RecordedCall
from rungwise.adapters.durable.turn_tape import RecordedTurn
from rungwise.fsm.call.conversation.reply import Text
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.journal.record import json_of

EVERY: Final = 1.0
"""Seconds after which the text of a stream is written as its next piece comes."""

LARGEST: Final = 2_000
"""Characters of text after which it is written at once."""


def joined(pieces: Iterable[Plain], name: str) -> list[Plain]:
    """Join texts that follow one another and differ in nothing else.

    Arguments:
        name: the member that holds the text.
    """
    all: list[Plain] = []
    for piece in pieces:
        if name in piece and all and {**all[-1], name: ""} == {**piece, name: ""}:
            all[-1] = {**piece, name: all[-1][name] + piece[name]}
        else:
            all.append(piece)
    return all


@define(eq=False)
class Saver:
    """Save what is new on a tape. What a stream has shown is saved with what it follows from, or not at all.

    Arguments:
        write: saves a record.
        wall: returns the seconds since 1970.
        saved: how many entries are saved.
    """

    recorded: RecordedCall | RecordedTurn
    write: Callable[[str], Awaitable[None]]
    wall: Callable[[], float]
    saved: int
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
        new, self.saved = recorded.tape[self.saved :], len(recorded.tape)
        events, self._events, self._size, self._last = self._events, [], 0, self.wall()
        record = {"at": self._last, "spent": recorded.spent, "tape": joined(new, "text")}
        await self.write(json_of({**record, "events": joined(events, "Text")} if events else record))

    async def hand_on(self, event: StreamEvent) -> None:
        """Keep an event for those who read the stream."""
        self._events.append(plain_event(event))
        self._size += len(event.text) if isinstance(event, Text) else 0
        if self._size >= LARGEST or self.wall() - self._last >= EVERY:
            await self.save()
