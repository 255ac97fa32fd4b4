"""Streams that go on when their readers leave, and are kept in memory for those who come back.

Theory. A task reads each stream to its end, whoever listens, and keeps the newest chunks, numbered
from 0, in a deque of bounded size. A reader is only a place in that sequence. It takes what follows
its place, and waits for news when there is nothing; if what follows its place has been dropped, it
breaks off rather than skip a part. So slow readers cost nothing, and none slows the stream down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from secrets import token_urlsafe
from time import monotonic
from typing import Any, Final, Self

import anyio
from anyio.abc import TaskGroup
from attrs import define, evolve, field

from rungwise.adapters.ui.frames import Frames
from rungwise.fsm.errors import ConfigurationError, RungwiseError

LARGEST: Final = 256_000  # bytes that are kept of a stream
MOST: Final = 1_000  # streams
SECONDS: Final = 300.0  # for which a stream is kept after its end
LONGEST_ID: Final = 15  # digits of a `Last-Event-ID`


class ReaderLeft(RungwiseError):
    """A reader lags behind what is kept."""


class StreamCancelled(RungwiseError):
    """A stream was cancelled by its id."""

    outcome = "cancelled"


@define(eq=False)
class KeptStream:
    """What is kept of one stream; its chunks are numbered from 0."""

    frames: Frames  # without pings, which have no number
    ping: float | None = None  # for its readers
    ended: float | None = None  # seconds on the clock; None while it goes on
    task: anyio.CancelScope = field(factory=anyio.CancelScope)
    _chunks: deque[bytes] = field(factory=deque)
    _size: int = 0
    _last: int = -1
    _news: anyio.Event = field(factory=anyio.Event)

    async def run(self, clock: Callable[[], float]) -> None:
        """Read the stream to its end, whoever listens."""
        try:
            with self.task, suppress(Exception):  # of one stream, which ends; the others go on
                async for chunk in self.frames:
                    self._add(chunk)
            if self.task.cancelled_caught:
                self._add(self.frames.encode(StreamCancelled("the reader cancelled it")))
        finally:
            self.ended = clock()
            self._news.set()

    def _add(self, chunk: bytes) -> None:
        """Keep a chunk, drop the oldest ones beyond the size, and wake up the readers."""
        self._chunks.append(chunk)
        self._last += 1
        self._size += len(chunk)
        while self._size > LARGEST and len(self._chunks) > 1:
            self._size -= len(self._chunks.popleft())
        self._news.set()
        self._news = anyio.Event()

    def has(self, after: int) -> bool:
        """Tell whether anything follows a chunk, and all that does is here or still to come."""
        oldest = self._last - len(self._chunks)  # the number before that of the oldest chunk
        newest = self._last if self.ended is None else self._last - 1
        return oldest <= after <= newest

    async def read(self, after: int) -> AsyncIterator[bytes]:
        """Yield what follows a chunk.

        Raises:
            ReaderLeft: the reader is so slow that what follows is no longer kept.
        """
        while self.has(after):
            new = self._last - after  # how many chunks follow
            if new:
                after = self._last
                yield b"".join(self._chunks[place] for place in range(-new, 0))
            else:
                await self._news.wait()
        if after < self._last:
            raise ReaderLeft("this reader was too slow: what follows is no longer kept")


@define(eq=False)
class ResumableStreams:
    """Keep streams in memory for readers who lose their connection.

    Use it in an `async with` block. A stream continues without readers, until it ends or is
    cancelled. Of each, the newest 256 kB are kept until 5 minutes after its end; of more than 1 000
    streams, the oldest that has ended is dropped, and none is started while all of them run. Ids
    are random, but whoever has one may read: the application checks that a stream belongs to the
    user who asks.

        async with rungwise.ui.ResumableStreams() as streams:
            id = streams.start(rungwise.ui.sse(client.astream(question)))
            frames = streams.read(id)

    Arguments:
        clock: returns seconds.
    """

    clock: Callable[[], float] = monotonic
    _kept: dict[str, KeptStream] = field(factory=dict, init=False)
    _group: TaskGroup | None = field(default=None, init=False)

    async def __aenter__(self) -> Self:
        self._group = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        assert self._group is not None
        group = self._group
        self._group = None
        group.cancel_scope.cancel()
        await group.__aexit__(None, None, None)

    def start(self, frames: Frames) -> str:
        """Begin to read a stream, and return the id under which it is kept.

        Raises:
            ConfigurationError: outside of the `async with` block, or these are no frames.
            RungwiseError: as many streams as are kept have not ended yet.
        """
        if not isinstance(frames, Frames):
            raise ConfigurationError(
                f"frames must be those of rungwise.ui.sse(...), not {type(frames).__name__}"
            )
        if self._group is None:
            raise ConfigurationError(
                "ResumableStreams must be entered: async with ResumableStreams() as streams"
            )
        self._forget()
        if len(self._kept) >= MOST:
            ended = (each for each, kept in self._kept.items() if kept.ended is not None)
            oldest = next(ended, None)
            if oldest is None:  # one that runs must stay: it can be read and cancelled
                raise RungwiseError(f"{MOST} streams run already: wait until one has ended")
            del self._kept[oldest]
        id = token_urlsafe()
        self._kept[id] = KeptStream(evolve(frames, ping=None), frames.ping)
        self._group.start_soon(self._kept[id].run, self.clock)
        return id

    def read(self, id: str, after: int | str = -1) -> Frames | None:
        """Return what was written of a stream, and then what follows.

        None if it is gone, or nothing follows.

        Arguments:
            id: what `start` returned.
            after: the `Last-Event-ID`, as it came; the whole stream if it is no number, as Vercel's
                protocol wants it.
        """
        self._forget()
        if isinstance(after, str):
            is_number = after.isdecimal() and len(after) <= LONGEST_ID
            after = int(after) if is_number else -1
        kept = self._kept.get(id)
        if kept is None or not kept.has(after):
            return None
        return Frames(kept.frames.headers, _unchanged, kept.read(after), kept.ping)

    def cancel(self, id: str) -> None:
        """End the call or turn of a stream; its readers get the error."""
        if id in self._kept:
            self._kept[id].task.cancel()

    def _forget(self) -> None:
        now = self.clock()
        for id, kept in list(self._kept.items()):
            if kept.ended is not None and now - kept.ended > SECONDS:
                del self._kept[id]


def _unchanged(chunk: object) -> bytes:
    """Return a chunk that is encoded already; raise the error of a reader that lags behind."""
    if isinstance(chunk, ReaderLeft):
        raise chunk
    return chunk if isinstance(chunk, bytes) else b""
