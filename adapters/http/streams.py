"""What the streaming methods of `rungwise.Client` return: the events of a call, its value as it
grows, and its result.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar
from weakref import WeakSet

from attrs import define, field

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.closing import AsyncClosing, Closing
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.result import Result, V
from rungwise.fsm.errors import IllegalEvent
from rungwise.fsm.replies.reply import Discard, PartialValue, Text
from rungwise.fsm.replies.schemas.returns import Returns
from rungwise.fsm.values.checks import Called, by_name

if TYPE_CHECKING:
    from rungwise.fsm.turn.result import TurnResult

Event = TypeVar("Event")
Events = TypeVar("Events")
End = TypeVar("End", bound="Result[Any] | TurnResult[Any]")
Streams = TypeVar("Streams", bound="SyncStream[Any, Any] | LoopStream[Any, Any]")
Http = TypeVar("Http")

LEAST_SECONDS: Final = 0.05
"""The least seconds between two values: a screen shows no more."""

LEAST_GROWTH: Final = 1 / 8
"""The share by which the text must have grown before it is read again. It is constant, so all
reading is linear in the length of the text.
"""


@define(eq=False, repr=False)
class RunStream(Called, Generic[Events, End]):
    """Hold a call or a turn, its events, and its cancellation."""

    _INSTEAD = by_name(
        {"iterate over the stream: the last event is the result": "text content choices value"}
    )

    _run: Any  # the call, or the turn
    _events: Events
    cancellation: Cancellation
    _ended: bool = field(default=False, init=False)

    def __del__(self) -> None:
        if not self._run.is_over and not self._run.journal.steps:
            kind = type(self).__name__
            warnings.warn(
                f"the {kind} was never read, so nothing was sent: iterate over it",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )

    @property
    def result(self) -> End:
        """Return the result.

        Raises:
            IllegalEvent: it has not ended.
        """
        if not self._run.is_over:
            raise IllegalEvent("the stream has not ended: iterate over it to its end, or close it")
        end: End = self._run.result
        return end

    def _last(self) -> End:
        """Return the result as the last event, or raise its error."""
        self._ended = True
        end: End = self._run.result.raise_for_outcome()
        return end


@define(eq=False, repr=False)
class SyncStream(RunStream[Generator[Event], End], Iterator[Event | End], Closing):
    """Iterate over the events; close it, or leave its `with` block, to end early."""

    _is_read: Lock = field(factory=Lock, init=False)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event | End:
        if self._ended:
            raise StopIteration
        with self._is_read:
            for event in self._events:
                return event
        return self._last()

    def close(self) -> None:
        """End the call or turn, and wake whoever waits for an event.

        The result keeps what was delivered.
        """
        if self.end():
            self._ended = True

    def end(self) -> bool:
        """End the call or turn; tell whether it has ended.

        It has not if a thread waits for an event. Then that thread ends it.
        """
        if not self.cancellation.is_cancelled:  # a second time would be urgent
            self.cancellation.cancel()  # the reader sees this
        if not self._is_read.acquire(blocking=False):
            return False
        try:
            if not self._run.is_over:
                self._events.close()
                self._run.cancel()
        finally:
            self._is_read.release()
        return True


class LoopStream(RunStream[AsyncGenerator[Event], End], AsyncIterator[Event | End], AsyncClosing):
    """Iterate asynchronously over the events; use it in an `async with` block to end early."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event | End:
        if self._ended:
            raise StopAsyncIteration
        async for event in self._events:
            return event
        return self._last()

    async def aclose(self) -> None:
        """End the call or turn, and wake whoever waits for an event.

        The result keeps what was delivered.
        """
        if await self.end():
            self._ended = True
            await self._events.aclose()  # it may hold events that nobody took

    async def end(self) -> bool:
        """End the call or turn; tell whether it has ended.

        It has not if a task waits for an event. Then that task ends it.
        """
        if self._events.ag_running:  # type: ignore[attr-defined] # it is a generator
            if not self.cancellation.is_cancelled:
                self.cancellation.cancel()
            return False
        if not self._run.is_over:
            await self._events.aclose()
            self._run.cancel()
        return True


class Stream(SyncStream[StreamEvent, Result[V]]):
    """Iterate over the events of a call.

    Close it, or leave its `with` block, to end the call early.
    """


class AsyncStream(LoopStream[StreamEvent, Result[V]]):
    """Iterate asynchronously over the events of a call.

    Use it in an `async with` block to end the call early.
    """


@define(eq=False)
class Growing:
    """Follow the text of a stream, and read its value as it grows."""

    returns: Returns  # what the answer must be
    clock: Callable[[], float]  # returns seconds on a monotonic clock
    _pieces: list[str] = field(factory=list, init=False)
    _size: int = field(default=0, init=False)  # characters so far
    _read: int = field(default=0, init=False)  # characters when it was last read
    _at: float | None = field(default=None, init=False)  # when that was
    _last: object = field(default=None, init=False)  # the value that was shown last

    def after(self, event: StreamEvent) -> PartialValue | None:
        """Return the value after an event, if there is more of it to show."""
        if isinstance(event, Discard):
            text = "".join(self._pieces).removesuffix(event.text)
            self._pieces = [text]
            self._size = len(text)
            self._read = 0
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
        self._pieces = ["".join(self._pieces)]
        self._read = self._size
        self._at = now
        value = self.returns.so_far(self._pieces[0])
        if value is None or value == self._last:
            return None
        self._last = value
        return PartialValue(value)


def growing(
    events: Generator[StreamEvent], returns: Returns | None, clock: Callable[[], float]
) -> Generator[StreamEvent]:
    """Yield the events of a stream, and its value as it grows."""
    if returns is None:
        yield from events
        return
    follower = Growing(returns, clock)
    with closing(events):
        for event in events:
            yield event
            value = follower.after(event)
            if value is not None:
                yield value


async def agrowing(
    events: AsyncGenerator[StreamEvent, None], returns: Returns | None, clock: Callable[[], float]
) -> AsyncGenerator[StreamEvent, None]:
    """Do what `growing` does for an asynchronous stream."""
    follower = None if returns is None else Growing(returns, clock)
    async with aclosing(events):
        async for event in events:
            yield event
            value = None if follower is None else follower.after(event)
            if value is not None:
                yield value


@define(eq=False)
class RunningCalls(Generic[Streams, Http]):
    """Hold the running calls of threads or of one event loop, with their connections."""

    # ends the calls that wait for something
    cancellation: Cancellation = field(factory=Cancellation, init=False)
    # The open streams. They are ended one by one, because nobody may be reading them.
    streams: WeakSet[Streams] = field(factory=WeakSet, init=False)
    # Our own client; None before the first call, and where the caller passed one in.
    http: Http | None = field(default=None, init=False)

    def cancel(self) -> None:
        """End the calls that wait for something, and the streams that are being read."""
        self.cancellation.cancel()
        for stream in list(self.streams):
            stream.cancellation.cancel()
