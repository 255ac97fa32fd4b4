"""What `Client.stream` and `Client.astream` return: the events of a call, one after another, and its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakSet

from attrs import define, field

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.delivery import StreamEvent
from rungwise.fsm.call.result import Result
from rungwise.fsm.tracebacks import without_locals

Events = TypeVar("Events")
Streams = TypeVar("Streams", bound="Stream | AsyncStream")
Http = TypeVar("Http")


@define(eq=False, repr=False)
class _CallStream(Generic[Events]):
    """Hold a call, its events, and what ends it."""

    _call: Call
    _events: Events
    cancellation: Cancellation
    _ended: bool = field(default=False, init=False)

    @property
    def result(self) -> Result:
        """Return the end of the call.

        Raises:
            IllegalEvent: the call has not ended.
        """
        return self._call.result


@define(eq=False, repr=False)
class Stream(_CallStream[Generator[StreamEvent]], Iterator[StreamEvent | Result]):
    """Iterate over the events of a call; close it, or leave its `with` block, to end the call early."""

    _is_read: Lock = field(factory=Lock, init=False)

    def __iter__(self) -> Stream:
        return self

    @without_locals
    def __next__(self) -> StreamEvent | Result:
        if self._ended:
            raise StopIteration
        with self._is_read:
            for event in self._events:
                return event
        self._ended = True
        return self._call.result.raise_for_outcome()

    @without_locals
    def close(self) -> None:
        """End the call; what was delivered stays in the result. Who waits for an event meanwhile gets `Cancelled`."""
        if self.end():
            self._ended = True

    def end(self) -> bool:
        """End the call, or have it ended by the thread that is waiting for an event; tell whether it has ended.

        Whoever reads the stream is told.
        """
        if not self.cancellation.is_cancelled:  # a second time would mean more
            self.cancellation.cancel()  # which whoever is reading sees
        if not self._is_read.acquire(blocking=False):
            return False
        try:
            if not self._call.is_over:
                self._events.close()
                self._call.cancel()
        finally:
            self._is_read.release()
        return True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncStream(_CallStream[AsyncGenerator[StreamEvent]], AsyncIterator[StreamEvent | Result]):
    """Iterate asynchronously over the events of a call; use it in an `async with` block to end the call early."""

    def __aiter__(self) -> AsyncStream:
        return self

    @without_locals
    async def __anext__(self) -> StreamEvent | Result:
        if self._ended:
            raise StopAsyncIteration
        async for event in self._events:
            return event
        self._ended = True
        return self._call.result.raise_for_outcome()

    @without_locals
    async def aclose(self) -> None:
        """End the call; what was delivered stays in the result. Who waits for an event meanwhile gets `Cancelled`."""
        if await self.end():
            self._ended = True

    async def end(self) -> bool:
        """End the call, or have it ended by the task that is waiting for an event; tell whether it has ended.

        Whoever reads the stream is told.
        """
        if self._events.ag_running:  # type: ignore[attr-defined] # it is a generator
            if not self.cancellation.is_cancelled:
                self.cancellation.cancel()
            return False
        if not self._call.is_over:
            await self._events.aclose()
            self._call.cancel()
        return True

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@define(eq=False)
class RunningCalls(Generic[Streams, Http]):
    """Hold what ends the calls that are running, those of threads or those of one event loop, and their connections.

    Arguments:
        cancellation: ends what waits for something.
        streams: are ended one by one, for nobody may be reading them.
        http: holds the connections; None before the first call, and where a client was passed in.
    """

    cancellation: Cancellation = field(factory=Cancellation, init=False)
    streams: WeakSet[Streams] = field(factory=WeakSet, init=False)
    http: Http | None = field(default=None, init=False)

    def cancel(self) -> None:
        """End what waits for something, the streams that are being read among it."""
        self.cancellation.cancel()
        for stream in list(self.streams):
            stream.cancellation.cancel()
