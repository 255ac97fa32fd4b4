"""Ask local servers what they are, in threads and in tasks. A server that fails to answer stays unknown."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any

from rungwise.adapters.http.borrowed import BorrowedAsyncHttp, BorrowedHttp
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.own import OwnAsyncHttp, OwnHttp
from rungwise.adapters.http.waiting import CallEnded
from rungwise.adapters.wires.backend import HttpRequest
from rungwise.adapters.wires.chat.discovery import LARGEST_PAGE, SECONDS, Answer, DiscoverableBackend, Server, inquiry
from rungwise.adapters.wires.learned import LEARNED

if TYPE_CHECKING:
    from rungwise.adapters.wires.backend import Backend


def to_ask(backend: Backend) -> DiscoverableBackend | None:
    """Return the backend if its server can be asked: a local one that speaks chat completions or Responses."""
    if not isinstance(backend, DiscoverableBackend) or backend.server is not None:
        return None
    return backend if backend.is_local and backend.problem is None else None


def _limits(cancellation: Cancellation) -> AttemptLimits:
    return AttemptLimits(ends_at=time.monotonic() + SECONDS, connect=SECONDS / 2, cancellation=cancellation)


def _taken(status: int, body: bytes) -> Answer:
    return body if status == 200 and len(body) <= LARGEST_PAGE else b""


def ask(backend: DiscoverableBackend, http: OwnHttp | BorrowedHttp, cancellation: Cancellation) -> Server | None:
    """Ask a server what it is, once in the life of the process; None if it does not answer.

    Raises:
        CallEnded: it was cancelled.
    """
    questions = _questions(backend)
    try:
        request = next(questions)
        while True:
            request = questions.send(_page(request, http, cancellation))
    except StopIteration as end:
        server: Server | None = end.value
        return server


def _questions(backend: DiscoverableBackend) -> Generator[HttpRequest, Answer, Server | None]:
    """Ask for pages, unless the process has asked this server before; return what it is, and remember it."""
    server: Server | None = LEARNED.server_of(backend.places)
    if server is None:
        server = yield from inquiry(backend)
        if server is not None:
            LEARNED.keep_server(backend.places, server)
    return server


def _page(request: HttpRequest, http: OwnHttp | BorrowedHttp, cancellation: Cancellation) -> Answer:
    limits = _limits(cancellation)
    try:
        with http.place(SECONDS, cancellation) as has_place:
            if not has_place:
                return None
            response: Any = http.send(request, limits)
            with closing(response):
                return _taken(response.status_code, _read(response.pieces(), limits))
    except CallEnded:
        raise
    except Exception:  # the server may do anything; it stays unknown
        return None


def _read(pieces: Iterator[bytes], limits: AttemptLimits) -> bytes:
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > LARGEST_PAGE or limits.is_over:
            break
    return bytes(body)


async def aask(
    backend: DiscoverableBackend, http: OwnAsyncHttp | BorrowedAsyncHttp, cancellation: Cancellation
) -> Server | None:
    """Ask a server what it is, from a task; see `ask`."""
    questions = _questions(backend)
    try:
        request = next(questions)
        while True:
            request = questions.send(await _apage(request, http, cancellation))
    except StopIteration as end:
        server: Server | None = end.value
        return server


async def _apage(request: HttpRequest, http: OwnAsyncHttp | BorrowedAsyncHttp, cancellation: Cancellation) -> Answer:
    limits = _limits(cancellation)
    try:
        async with http.place(SECONDS, cancellation) as has_place:
            if not has_place:
                return None
            response: Any = await http.send(request, limits)
            try:
                return _taken(response.status_code, await _aread(response.apieces(), limits))
            finally:
                await response.aclose()
    except CallEnded:
        raise
    except Exception:  # as above
        return None


async def _aread(pieces: AsyncGenerator[bytes], limits: AttemptLimits) -> bytes:
    body = bytearray()
    async with aclosing(pieces):
        async for piece in pieces:
            body += piece
            if len(body) > LARGEST_PAGE or limits.is_over:
                break
    return bytes(body)
