"""The connections and running calls of a client, for threads and for each event loop."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from rungwise.adapters.http.borrowed import (
    AsyncHttpClient,
    BorrowedAsyncHttp,
    BorrowedHttp,
    HttpClient,
)
from rungwise.adapters.http.own import OwnAsyncHttp, OwnHttp
from rungwise.adapters.http.streams import LoopStream, RunningCalls, SyncStream
from rungwise.adapters.http.waiting import event_loop
from rungwise.fsm.values.forks import renewed_in_children

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

ThreadCalls = RunningCalls[SyncStream[Any, Any], OwnHttp]
LoopCalls = RunningCalls[LoopStream[Any, Any], OwnAsyncHttp]


class Connections:
    """Hold the connections of one client, for any number of threads and event loops.

    Each event loop has its own pool, because tasks wait for a place within their loop.

    Arguments:
        http: the caller's client for threads; None for our own.
        async_http: the caller's client for event loops; None for our own.
        most: how many connections of our own may be open at once, for threads and for each loop.
    """

    def __init__(
        self,
        http: HttpClient | None,
        async_http: AsyncHttpClient | None,
        most: int,
    ) -> None:
        self._borrowed: BorrowedHttp | None = None
        if http is not None:
            self._borrowed = BorrowedHttp(http)
        self._borrowed_async: BorrowedAsyncHttp | None = None
        if async_http is not None:
            self._borrowed_async = BorrowedAsyncHttp(async_http)
        self._most = most
        self.in_threads = ThreadCalls()
        self._in_loops: dict[AbstractEventLoop | None, LoopCalls] = {}  # trio's one loop is None
        self._lock = threading.Lock()
        _all.add(self)

    @property
    def http(self) -> OwnHttp | BorrowedHttp:
        """Return the HTTP client of threads."""
        if self._borrowed is not None:
            return self._borrowed
        with self._lock:
            self.in_threads.http = self.in_threads.http or OwnHttp(self._most)
            return self.in_threads.http

    def http_of(self, running: LoopCalls) -> OwnAsyncHttp | BorrowedAsyncHttp:
        """Return the HTTP client of an event loop."""
        if self._borrowed_async is not None:
            return self._borrowed_async
        running.http = running.http or OwnAsyncHttp(self._most)
        return running.http

    def add(self, stream: SyncStream[Any, Any]) -> None:
        """Remember a stream that threads read, so that `close` can end it."""
        with self._lock:
            self.in_threads.streams.add(stream)

    def in_this_loop(self) -> LoopCalls:
        """Return the running calls of this event loop."""
        loop = event_loop()
        with self._lock:
            if loop not in self._in_loops:
                self._forget_closed_loops()
                self._in_loops[loop] = LoopCalls()
            return self._in_loops[loop]

    def _forget_closed_loops(self) -> None:
        """Forget event loops that are closed, and close their connections."""
        closed = [loop for loop in self._in_loops if loop is not None and loop.is_closed()]
        for loop in closed:
            http = self._in_loops.pop(loop).http
            if http is not None:
                http.pool.close()

    def close(self) -> None:
        """End the calls that run in threads, and close their connections."""
        with self._lock:
            self._forget_closed_loops()
            running = self.in_threads
            self.in_threads = ThreadCalls()
        running.cancel()
        for stream in list(running.streams):
            stream.end()
        if running.http is not None:
            running.http.close()

    async def aclose(self) -> None:
        """End the calls of this event loop, and close its connections."""
        loop = event_loop()
        with self._lock:
            running = self._in_loops.pop(loop, None)
        if running is None:
            return
        running.cancel()
        for stream in list(running.streams):
            await stream.end()
        if running.http is not None:
            await running.http.aclose()

    def begin_anew(self) -> None:
        """Forget the calls of the parent in a forked child."""
        self._lock = threading.Lock()
        self.in_threads = ThreadCalls()
        self._in_loops = {}


_all = renewed_in_children(Connections.begin_anew)
