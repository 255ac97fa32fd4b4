"""An HTTP client that the caller passed in. Nothing can stop it from outside, so an attempt that
ends leaves it alone.

In a thread, each attempt runs in a worker of its own. When its time is up or the call is cancelled,
the caller goes on at once. The attempt shuts the worker's socket down if it can reach it and no
other request is on it (`progress.py`), and the worker closes whatever it still gets.
"""

from __future__ import annotations

import contextvars
import inspect
import math
import queue
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any, Protocol

import anyio
import httpx

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.encodings import comes_decoded
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.progress import Progress
from rungwise.adapters.http.waiting import CallEnded, Mailbox, Nothing, within
from rungwise.adapters.wires.backend import HttpRequest
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.values.secret import drop_frames

AHEAD = 8192
"""Bytes that a worker reads before it waits to be asked for more: handing over costs more than
reading.
"""


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
        """Build a request.

        Arguments: as `httpx.Client.build_request` takes them.
        """


class HttpClient(_BuildsRequests, Protocol):
    """The part of `httpx.Client` that Rungwise uses."""

    def send(self, request: Any, *, stream: bool = False, follow_redirects: Any = False) -> Any:
        """Send it."""


class AsyncHttpClient(_BuildsRequests, Protocol):
    """The part of `httpx.AsyncClient` that Rungwise uses."""

    async def send(
        self,
        request: Any,
        *,
        stream: bool = False,
        follow_redirects: Any = False,
    ) -> Any:
        """Send it."""


def _no_redirects(http: Any) -> dict[str, bool]:
    """Return the option that forbids redirects, if `send` takes it.

    httpx would send every key on to another host, but for that of `authorization`. The option goes
    out whatever the client's default is, which a client that wraps another does not show.
    """
    try:
        taken = inspect.signature(http.send).parameters.values()
    except (TypeError, ValueError):  # such as a function in C
        return {"follow_redirects": False}
    named = any(each.name == "follow_redirects" or each.kind is each.VAR_KEYWORD for each in taken)
    return {"follow_redirects": False} if named else {}


def _is_over_aiohttp(http: Any) -> bool:
    """Tell whether a client of httpx sends over aiohttp."""
    kind = type(getattr(http, "_transport", None))
    return kind.__module__.startswith("httpx_aiohttp")


def _request(http: Any, request: HttpRequest, limits: AttemptLimits, trace: Any) -> Any:
    """Build a request with a client.

    Arguments:
        http: the client.
        request: what to send.
        limits: those of the attempt.
        trace: takes the events of httpcore.
    """
    timeouts = limits.timeout_extension()
    if _is_over_aiohttp(http):
        # This transport sends no events, and its timeout of the pool is that of names, too.
        timeouts["pool"] = timeouts["connect"]
    extensions = {"timeout": timeouts, "trace": trace}
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
    """Run tasks one after another in a daemon thread.

    A task may give any number of answers with `tell`; the last one is what it returns.
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
        """Wait for an answer.

        Raises:
            CallEnded: the call was cancelled.
            httpx.TimeoutException: the time is up.
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
            # an answer that holds nothing says that `connects_by` has changed
            while not (is_last or value is not None or error is not None):
                until = min(self._limits.until, self.progress.connects_by)
                seconds = None if until == math.inf else until - time.monotonic()
                value, error, is_last = self._answers.get(seconds)
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
        """Leave the worker alone: nobody waits for it now."""
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
            failure = progress.as_stale(error)
            if failure is error:
                raise  # with its causes, which say what failed
            raise failure from None
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
