"""An HTTP client that the caller passed in. Nothing can stop it from outside, so an attempt that
ends leaves it alone.

In a thread, an attempt runs in a worker of its own. When its time is up or the call is cancelled,
the caller goes on at once; the worker's socket is shut down where it can be reached and no other
request is on it, and the worker closes what it still gets. httpcore tells of sockets, and of the
moment before a request goes out, through its documented `trace` extension.
"""

from __future__ import annotations

import contextvars
import inspect
import math
import queue
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import Any, Protocol

import anyio
import httpx

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.connection import StaleConnection
from rungwise.adapters.http.encodings import comes_decoded
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.sockets import addresses_of
from rungwise.adapters.http.waiting import CallEnded, Mailbox, Nothing, arun, within
from rungwise.adapters.wires.backend import HttpRequest
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.values.secret import drop_frames

_UNANSWERED = "Server disconnected without sending a response."
"""What httpcore says of a connection that ended before a whole head of a response; it says all else
of a broken one.
"""


class Abandoned(Exception):
    """Stops a client before it sends a request that nobody waits for."""


class Progress:
    """Follow an attempt through the events of httpcore: which socket it uses, and whether it has
    begun to send.

    `connects_by` is when names, addresses and TLS must have led to a connection, infinity while the
    client does not connect: its own timeout counts each alone, and ends no lookup. `has_changed` is
    called when it changes.
    """

    def __init__(
        self, limits: AttemptLimits, has_changed: Callable[[], object] = lambda: None
    ) -> None:
        self.is_abandoned = False
        self.connects_by = math.inf
        self._has_changed = has_changed
        self._has_connected = self._has_sent = False
        self._limits = limits
        self._socket: Any = None
        # who shuts a socket down is not the thread that hands it back
        self._lets_go = threading.Lock()
        self._is_shared = False

    def note(self, name: str, info: Mapping[str, Any]) -> None:
        """Handle an event of httpcore."""
        # other requests are under way on that connection
        if name.startswith("http2.") and not self._is_shared:
            self._is_shared = True
            self._let_go()
        if name.endswith("connect_tcp.started"):
            self._has_connected = True
            if self.connects_by == math.inf:  # or it tries again
                self.connects_by = self._limits.moment(self._limits.connect)
                self._has_changed()
        elif name.endswith("send_request_headers.started"):
            self._has_sent = True
            if self.connects_by < math.inf:
                self.connects_by = math.inf
                self._has_changed()
            if self.is_abandoned:
                raise Abandoned
        elif name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self.use_stream(info.get("return_value"))
        elif name.endswith("response_closed.started"):
            self._let_go()

    async def anote(self, name: str, info: Mapping[str, Any]) -> None:
        """Handle an event of httpcore, and look the host up before it does.

        asyncio looks names up in threads, and `asyncio.run` waits for these at its end, however
        long they take.
        """
        self.note(name, info)
        if name.endswith("connect_tcp.started"):
            lookup = addresses_of(info["host"], info["port"], self.connects_by)
            # the client may know better, and reports what is wrong
            with suppress(httpx.ConnectError):
                await arun(lookup, self._limits.cancellation)

    def use_stream(self, stream: Any) -> None:
        """Use this network stream, unless other requests are on it."""
        if not self._is_shared:
            self._socket = (
                stream.get_extra_info("socket") if hasattr(stream, "get_extra_info") else None
            )
        if self.is_abandoned:
            self.shut()

    def shut(self) -> None:
        """Shut the socket down, unless another request may be on it; whoever waits for it gets an
        error.
        """
        with self._lets_go:
            if isinstance(self._socket, socket.socket):
                with suppress(OSError):
                    # not TLS's own, which asks the server first
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _let_go(self) -> None:
        with self._lets_go:
            self._socket = None

    def as_stale(self, error: BaseException) -> BaseException:
        """Return a `StaleConnection` if the server had closed a connection that the client reused,
        else the error.

        A client cannot be told to avoid these. So only the first of several in a row is stale;
        others wait as usual.
        """
        kind = type(error).__name__
        broke = kind in ("ReadError", "WriteError") or (
            kind == "RemoteProtocolError" and str(error) == _UNANSWERED
        )
        was_idle = self._has_sent and not self._has_connected
        if not broke or not was_idle or self.is_abandoned or self._limits.is_fresh:
            return error
        return StaleConnection(str(error))

    def timeout(self) -> httpx.TimeoutException:
        """Return the error of an attempt whose time is up: its type tells whether the request may
        have been sent.
        """
        is_connecting = self.connects_by < math.inf
        return (
            httpx.ConnectTimeout("no connection in time")
            if is_connecting
            else httpx.ReadTimeout("time is up")
        )


AHEAD = 8192
"""Bytes that a worker reads without being asked for more: handing over costs more than reading."""


class _BuildsRequests(Protocol):
    def build_request(
        self,
        method: str,
        url: Any,
        *,
        content: Any = None,
        headers: Any = None,
        extensions: Any = None,
    ) -> Any:
        """Build a request."""


class HttpClient(_BuildsRequests, Protocol):
    """The part of `httpx.Client` that Rungwise uses."""

    def send(self, request: Any, *, stream: bool = False, follow_redirects: Any = False) -> Any:
        """Send it."""


class AsyncHttpClient(_BuildsRequests, Protocol):
    """The part of `httpx.AsyncClient` that Rungwise uses."""

    async def send(
        self, request: Any, *, stream: bool = False, follow_redirects: Any = False
    ) -> Any:
        """Send it."""


def _no_redirects(http: Any) -> dict[str, bool]:
    """Return the option that forbids redirects, if `send` takes it: to another host, httpx drops no
    key but a bearer's.

    Whatever the client's default is: one that wraps another does not show it.
    """
    try:
        taken = inspect.signature(http.send).parameters.values()
    except (TypeError, ValueError):  # such as a function in C
        return {"follow_redirects": False}
    named = any(each.name == "follow_redirects" or each.kind is each.VAR_KEYWORD for each in taken)
    return {"follow_redirects": False} if named else {}


def _request(http: Any, request: HttpRequest, limits: AttemptLimits, trace: Any) -> Any:
    extensions = {"timeout": limits.timeout_extension(), "trace": trace}
    headers = dict(request.headers)
    try:
        return http.build_request(
            request.method,
            request.url,
            content=request.body,
            headers=headers,
            extensions=extensions,
        )
    except ValueError as error:  # such as a cookie that no header can hold
        # The error itself holds the value.
        raise httpx.LocalProtocolError(
            f"the client cannot build the request ({type(error).__name__})"
        ) from None


class _Worker:
    """Run tasks one after another in a daemon thread. The last answer of a task is what it
    returns.
    """

    def __init__(self, limits: AttemptLimits) -> None:
        self.progress = Progress(limits, lambda: self._answers.put((None, None, False)))
        self.response: Any = None
        self.is_busy = False  # whether a task has not given its last answer
        self._limits = limits
        self._tasks: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._answers: Mailbox[tuple[Any, BaseException | None, bool]] = Mailbox()
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._work,), name="rungwise attempt", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:
            raise httpx.ConnectError("no thread could be started for the request") from error

    def begin(self, task: Callable[[], Any]) -> None:
        if self.progress.is_abandoned:
            raise self.progress.timeout()
        self.is_busy = True
        self._tasks.put(task)

    def answer(self) -> Any:
        """Wait for an answer, or raise CallEnded if the call was cancelled, httpx.TimeoutException
        if time is up.
        """
        if self.progress.is_abandoned:
            raise self.progress.timeout()
        forget = self._limits.cancellation.on_cancel(
            lambda: self._answers.put((None, CallEnded(), False))
        )
        try:
            value = None
            error = None
            is_last = False
            # it was woken for a change of `connects_by`
            while not (is_last or value is not None or error is not None):
                until = min(self._limits.until, self.progress.connects_by)
                value, error, is_last = self._answers.get(
                    None if until == math.inf else until - time.monotonic()
                )
            if isinstance(error, CallEnded):
                raise error
        except Nothing:
            self.abandon()
            raise self.progress.timeout() from None
        except BaseException:
            self.abandon()
            raise
        finally:
            forget()
        self.is_busy = not is_last
        if error is not None:
            drop_frames(error, None)
            raise error
        return value

    def tell(self, value: Any) -> None:
        """Give an answer in the middle of a task."""
        self._answers.put((value, None, False))

    def abandon(self) -> None:
        """Leave the worker alone: nobody waits for it any more."""
        self.progress.is_abandoned = True
        self.progress.shut()
        self._tasks.put(None)

    def close(self) -> None:
        if self.progress.is_abandoned:
            return
        if self.is_busy:
            self.abandon()
        else:
            self._tasks.put(None)
            self._thread.join(CLOSING)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                self._answers.put((task(), None, True))
            except BaseException as error:
                self._answers.put((None, error, True))
        self._answers = Mailbox()  # an error that nobody took would hold this frame
        if self.response is not None:
            with suppress(Exception):
                self.response.close()


class _Borrowed:
    def __init__(self, http: HttpClient | AsyncHttpClient) -> None:
        self.http: Any = http
        self._options = _no_redirects(http)

    def place(self, seconds: float | None, cancellation: Cancellation) -> nullcontext[bool]:
        """Return a place without waiting: the client has its own limits."""
        return nullcontext(True)


class BorrowedHttp(_Borrowed):
    """Send requests from threads over the caller's client, which is neither closed nor changed."""

    def send(self, request: HttpRequest, limits: AttemptLimits) -> BorrowedResponse:
        """Send a request and return the response, its body unread."""
        worker = _Worker(limits)
        progress = worker.progress
        try:
            built = _request(self.http, request, limits, progress.note)

            def send() -> Any:
                worker.response = self.http.send(built, stream=True, **self._options)
                progress.use_stream(worker.response.extensions.get("network_stream"))
                return worker.response

            worker.begin(send)
            response = worker.answer()
        except BaseException as error:
            worker.close()
            failure = progress.as_stale(error)
            if failure is error:
                raise
            raise failure from None
        return BorrowedResponse(worker, response)


class BorrowedResponse:
    """A response of the caller's client."""

    def __init__(self, worker: _Worker, response: Any) -> None:
        self.status_code = response.status_code
        self.headers = response.headers
        self.is_decoded = comes_decoded(response)
        self._worker = worker
        self._response = response

    def pieces(self) -> Iterator[bytes]:
        """Read the body as it comes."""
        worker = self._worker
        response = self._response
        chunks = response.iter_bytes() if self.is_decoded else response.iter_raw()

        def read() -> bool:
            """Answer with some chunks as they come, and at the end with whether there are more."""
            size = 0
            while size < AHEAD and (data := next(chunks, None)) is not None:
                worker.tell(data)
                size += len(data)
            return size >= AHEAD

        goes_on = True
        while goes_on:
            worker.begin(read)
            while isinstance(answer := worker.answer(), bytes):
                yield answer
            goes_on = answer

    def close(self) -> None:
        """Release the connection."""
        self._worker.close()


class BorrowedAsyncHttp(_Borrowed):
    """Send requests from tasks over the caller's client, which is neither closed nor changed."""

    async def send(self, request: HttpRequest, limits: AttemptLimits) -> BorrowedAsyncResponse:
        """Send a request and return the response, its body unread."""
        outer = sys.exception()
        connecting = anyio.CancelScope()

        def restart() -> None:
            connecting.deadline = anyio.current_time() + (progress.connects_by - time.monotonic())

        progress = Progress(limits, restart)
        built = _request(self.http, request, limits, progress.anote)

        async def send() -> Any:
            with connecting:
                return await self.http.send(built, stream=True, **self._options)
            raise TimeoutError

        try:
            response = await within(limits.remaining, send, cancellation=limits.cancellation)
        except TimeoutError:
            raise progress.timeout() from None
        except BaseException as error:
            drop_frames(error, outer)
            if isinstance(error, Exception):
                raise progress.as_stale(error) from None
            raise
        return BorrowedAsyncResponse(response, limits)


class BorrowedAsyncResponse:
    """A response of the caller's asynchronous client."""

    def __init__(self, response: Any, limits: AttemptLimits) -> None:
        self.status_code = response.status_code
        self.headers = response.headers
        self.is_decoded = comes_decoded(response)
        self._response = response
        self._limits = limits

    async def apieces(self) -> AsyncGenerator[bytes]:
        """Read the body as it comes."""
        chunks = self._response.aiter_bytes() if self.is_decoded else self._response.aiter_raw()

        async def following() -> bytes | None:
            return await anext(chunks, None)

        outer = sys.exception()
        limits = self._limits
        while True:
            try:
                data = await within(limits.remaining, following, cancellation=limits.cancellation)
            except BaseException as error:
                drop_frames(error, outer)
                raise
            if data is None:
                return
            yield data

    async def aclose(self) -> None:
        """Release the connection."""
        with anyio.move_on_after(CLOSING, shield=True):
            await self._response.aclose()
