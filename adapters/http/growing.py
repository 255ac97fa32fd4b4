"""Show a value as it grows: what of it is whole in the text that a stream has handed out so far."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from typing import Final

from attrs import define, field

from rungwise.fsm.call.conversation.reply import Discard, PartialValue, Text
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.schemas.returns import Returns

LEAST_SECONDS: Final = 0.05
"""Seconds between two values, at least: a screen shows no more."""

LEAST_GROWTH: Final = 1 / 8
"""By how much of itself the text must have grown: so the work of reading it again stays linear in its length."""


@define(eq=False)
class Growing:
    """Follow the text of a stream as its consumer does."""

    returns: Returns  # what the answer must be
    clock: Callable[[], float]  # returns seconds on a monotonic clock
    _pieces: list[str] = field(factory=list, init=False)
    _size: int = field(default=0, init=False)
    _read: int = field(default=0, init=False)
    _at: float | None = field(default=None, init=False)
    _last: object = field(default=None, init=False)

    def after(self, event: StreamEvent) -> PartialValue | None:
        """Return what the value is after an event, if there is more of it to show."""
        if isinstance(event, Discard):
            text = "".join(self._pieces).removesuffix(event.text)
            self._pieces, self._size, self._read = [text], len(text), 0
        elif isinstance(event, Text):
            self._pieces.append(event.text)
            self._size += len(event.text)
            return self._grown()
        return None

    def _grown(self) -> PartialValue | None:
        now = self.clock()
        is_early = self._at is not None and now - self._at < LEAST_SECONDS
        if is_early or self._size - self._read < self._read * LEAST_GROWTH:
            return None
        self._pieces, self._read, self._at = ["".join(self._pieces)], self._size, now
        value = self.returns.so_far(self._pieces[0])
        if value is None or value == self._last:
            return None
        self._last = value
        return PartialValue(value)


def growing(
    events: Generator[StreamEvent], returns: Returns | None, clock: Callable[[], float]
) -> Generator[StreamEvent]:
    """Yield the events of a stream, and what its value is so far."""
    if returns is None:
        yield from events
        return
    follower = Growing(returns, clock)
    with closing(events):
        for event in events:
            yield event
            if (value := follower.after(event)) is not None:
                yield value


async def agrowing(
    events: AsyncGenerator[StreamEvent, None], returns: Returns | None, clock: Callable[[], float]
) -> AsyncGenerator[StreamEvent, None]:
    """Do what `growing` does for an asynchronous stream."""
    follower = None if returns is None else Growing(returns, clock)
    async with aclosing(events):
        async for event in events:
            yield event
            if follower is not None and (value := follower.after(event)) is not None:
                yield value
