"""Ask local servers what they are, in threads and in tasks. A server that fails to answer stays
unknown.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import aclosing, closing
from typing import TypeGuard

from attrs import evolve

from rungwise.adapters.http.borrowed import BorrowedAsyncHttp, BorrowedHttp
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.own import OwnAsyncHttp, OwnHttp
from rungwise.adapters.http.waiting import CallEnded
from rungwise.adapters.stores.store import adriven, driven
from rungwise.adapters.wires.backend import Backend, HttpRequest
from rungwise.adapters.wires.chat.discovery import (
    LARGEST_PAGE,
    SECONDS,
    Answer,
    DiscoverableBackend,
    inquiry,
)
from rungwise.adapters.wires.learned import LEARNED


def discovered(
    chain: Sequence[Backend], http: OwnHttp | BorrowedHttp, cancellation: Cancellation
) -> tuple[Backend, ...]:
    """Ask the local servers of a chain what they are, each once in the life of the process, and
    return the chain with what they say. May raise CallEnded.
    """
    return driven(_questions(chain), lambda request: _page(request, http, cancellation))


async def adiscovered(
    chain: Sequence[Backend], http: OwnAsyncHttp | BorrowedAsyncHttp, cancellation: Cancellation
) -> tuple[Backend, ...]:
    """Ask the servers of a chain from a task; see `discovered`."""
    return await adriven(_questions(chain), lambda request: _apage(request, http, cancellation))


def _questions(chain: Sequence[Backend]) -> Generator[HttpRequest, Answer, tuple[Backend, ...]]:
    """Ask for the pages of the servers that can be asked; return the chain with what is known of
    them.
    """
    backends: list[Backend] = []
    for backend in chain:
        if _can_be_asked(backend):
            server = LEARNED.server_of(backend.places)
            if server is None:
                server = yield from inquiry(backend)
                if server is not None:
                    LEARNED.keep_server(backend.places, server)
            if server is not None and server.name:  # or nobody knows its kind
                backend = evolve(backend, server=server)
        backends.append(backend)
    return tuple(backends)


def _can_be_asked(backend: Backend) -> TypeGuard[DiscoverableBackend]:
    """Tell whether its server can be asked: a local one that speaks chat completions or Responses,
    and is not known yet.
    """
    if not isinstance(backend, DiscoverableBackend) or backend.server is not None:
        return False
    return backend.is_local and backend.problem is None


def _limits(cancellation: Cancellation) -> AttemptLimits:
    return AttemptLimits(
        ends_at=time.monotonic() + SECONDS, connect=SECONDS / 2, cancellation=cancellation
    )


def _taken(status: int, body: bytearray) -> Answer:
    return bytes(body) if status == 200 and len(body) <= LARGEST_PAGE else b""


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
