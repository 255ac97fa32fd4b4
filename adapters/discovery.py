"""Ask local servers what they are, in threads and in tasks. A server that fails to answer stays
unknown.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any

from attrs import evolve

from rungwise.adapters.http.borrowed import BorrowedAsyncHttp, BorrowedHttp
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.own import OwnAsyncHttp, OwnHttp
from rungwise.adapters.http.waiting import CallEnded
from rungwise.adapters.stores.store import adriven, driven
from rungwise.adapters.wires.backend import HttpRequest
from rungwise.adapters.wires.chat.discovery import (
    LARGEST_PAGE,
    SECONDS,
    Answer,
    DiscoverableBackend,
    Server,
    inquiry,
)
from rungwise.adapters.wires.learned import LEARNED

if TYPE_CHECKING:
    from rungwise.adapters.wires.backend import Backend


def discovered(
    chain: Sequence[Backend], http: OwnHttp | BorrowedHttp, cancellation: Cancellation
) -> tuple[Backend, ...]:
    """Ask the servers of a chain, and return the chain with what they are; see `ask`."""
    backends = []
    for backend in chain:
        asked = to_ask(backend)
        server = None if asked is None else ask(asked, http, cancellation)
        backends.append(_with_server(backend, server))
    return tuple(backends)


async def adiscovered(
    chain: Sequence[Backend], http: OwnAsyncHttp | BorrowedAsyncHttp, cancellation: Cancellation
) -> tuple[Backend, ...]:
    """Ask the servers of a chain from a task; see `discovered`."""
    backends = []
    for backend in chain:
        asked = to_ask(backend)
        server = None if asked is None else await aask(asked, http, cancellation)
        backends.append(_with_server(backend, server))
    return tuple(backends)


def _with_server(backend: Any, server: Server | None) -> Any:
    """Return the backend with its server, or as it was if nobody knows the kind of the server."""
    if server is None or not server.name:
        return backend
    return evolve(backend, server=server)


def to_ask(backend: Backend) -> DiscoverableBackend | None:
    """Return the backend if its server can be asked: a local one that speaks chat completions or
    Responses.
    """
    if not isinstance(backend, DiscoverableBackend) or backend.server is not None:
        return None
    return backend if backend.is_local and backend.problem is None else None


def _limits(cancellation: Cancellation) -> AttemptLimits:
    return AttemptLimits(
        ends_at=time.monotonic() + SECONDS, connect=SECONDS / 2, cancellation=cancellation
    )


def _taken(status: int, body: bytearray) -> Answer:
    return bytes(body) if status == 200 and len(body) <= LARGEST_PAGE else b""


def ask(
    backend: DiscoverableBackend, http: OwnHttp | BorrowedHttp, cancellation: Cancellation
) -> Server | None:
    """Ask a server what it is, once in the life of the process; None if it does not answer. May
    raise CallEnded.
    """
    return driven(_questions(backend), lambda request: _page(request, http, cancellation))


def _questions(backend: DiscoverableBackend) -> Generator[HttpRequest, Answer, Server | None]:
    """Ask for pages, unless the process has asked this server before; return what it is, and
    remember it.
    """
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
            response = http.send(request, limits)
            body = bytearray()
            with closing(response):
                for piece in response.pieces():
                    body += piece
                    if len(body) > LARGEST_PAGE or limits.is_over:
                        break
                return _taken(response.status_code, body)
    except CallEnded:
        raise
    except Exception:  # the server may do anything; it stays unknown
        return None


async def aask(
    backend: DiscoverableBackend, http: OwnAsyncHttp | BorrowedAsyncHttp, cancellation: Cancellation
) -> Server | None:
    """Ask a server what it is, from a task; see `ask`."""
    return await adriven(_questions(backend), lambda request: _apage(request, http, cancellation))


async def _apage(
    request: HttpRequest, http: OwnAsyncHttp | BorrowedAsyncHttp, cancellation: Cancellation
) -> Answer:
    limits = _limits(cancellation)
    try:
        async with http.place(SECONDS, cancellation) as has_place:
            if not has_place:
                return None
            response = await http.send(request, limits)
            body = bytearray()
            try:
                async with aclosing(response.apieces()) as pieces:
                    async for piece in pieces:
                        body += piece
                        if len(body) > LARGEST_PAGE or limits.is_over:
                            break
                return _taken(response.status_code, body)
            finally:
                await response.aclose()
    except CallEnded:
        raise
    except Exception:  # as above
        return None
