"""The transport on aiohttp: asynchronous calls on its connections, with everything that holds on our own."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import lru_cache

import aiohttp
import httpx
from yarl import URL

from rungwise.adapters.http.aiohttp_errors import as_ours
from rungwise.adapters.http.aiohttp_heads import Head
from rungwise.adapters.http.aiohttp_session import SessionConnection
from rungwise.adapters.http.connection import Origin, StaleConnection
from rungwise.adapters.http.heads import read_headers, write_head
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.loops import is_asyncio
from rungwise.adapters.http.own import HEADERS, OwnAsyncHttp, target_of
from rungwise.adapters.http.pool import Pool
from rungwise.adapters.http.response import AsyncResponse
from rungwise.adapters.http.waiting import within
from rungwise.adapters.wires.backend import HttpRequest
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.tracebacks import forget_locals


@lru_cache(maxsize=64)
def _url_of(origin: Origin, host: str, path: bytes) -> URL:
    """Return a URL that is encoded as it is: what a backend has signed must go out letter by letter."""
    return URL(f"{origin[0]}://{host}{path.decode('ascii')}", encoded=True)


class AiohttpHttp(OwnAsyncHttp):
    """Send requests from the tasks of one event loop of asyncio, on connections of aiohttp's; see `OwnAsyncHttp`.

    Raises:
        ConfigurationError: the event loop is trio's.
    """

    pool: Pool[SessionConnection]  # type: ignore[assignment] # it works as for our own connections

    def __init__(self, max_connections: int) -> None:
        if not is_asyncio():
            raise ConfigurationError("transport='aiohttp' is for asyncio; on trio leave it out")
        super().__init__(max_connections)
        leave = weakref.finalize(self, _leave, self.pool, asyncio.get_running_loop(), os.getpid())
        leave.atexit = False

    async def send(self, request: HttpRequest, limits: AttemptLimits) -> AsyncResponse:
        """Send a request and return the response, its body unread."""
        if self._is_proxied(request):
            return await self._proxied.send(request, limits)
        origin, _, host, path = target_of(request.url)
        connection = self.pool.take(origin, is_fresh=limits.is_fresh)
        if connection is None:
            connection = SessionConnection(origin, self._context if origin[0] == "https" else None)
            self.pool.add(connection)
        given = {name.lower(): value for name, value in request.headers.items()}
        headers = {"host": host, **HEADERS, **given, "content-length": str(len(request.body))}
        idle_seconds = connection.idle_seconds
        try:
            write_head(request.method, path, headers)  # refuses what has no place in a head, as aiohttp does in part
            url = _url_of(origin, host, path)
            head, response = await connection.ask(request.method, url, headers, request.body, limits)
        except BaseException as error:
            if isinstance(error, StaleConnection):
                self.pool.lost(origin, idle_seconds)
            self.pool.give_back(connection, is_usable=False)
            raise
        return AiohttpResponse(self.pool, connection, head, response, limits)


def _leave(pool: Pool[SessionConnection], loop: asyncio.AbstractEventLoop, process: int) -> None:
    """Close what nobody can reach any more, in the event loop that it belongs to; a forked child has none of it."""
    if os.getpid() == process:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(pool.close)


class AiohttpResponse:
    """Read the response on a connection of aiohttp's."""

    is_decoded = False

    def __init__(
        self,
        pool: Pool[SessionConnection],
        connection: SessionConnection,
        head: Head,
        response: aiohttp.ClientResponse,
        limits: AttemptLimits,
    ) -> None:
        self.status_code, self.headers = head.status, read_headers(head.fields)
        self._pool, self._response, self._limits = pool, response, limits
        self._connection: SessionConnection | None = connection
        self._error: BaseException | None = None

    async def apieces(self) -> AsyncGenerator[bytes]:
        """Read the body as it comes, encoded as it is."""
        content = self._response.content
        while self._connection is not None:
            if data := self._taken():
                yield data
            elif isinstance(self._error, Exception):
                raise as_ours(self._error)
            elif content.at_eof():
                return
            else:
                yield await self._following()

    def _taken(self) -> bytes:
        """Return what has come by now; aiohttp would raise what broke the body ahead of what came before that."""
        content = self._response.content
        if (error := content.exception()) is not None:
            self._error = error
            content.set_exception(None)  # type: ignore[arg-type] # it is told of behind the last bytes
        return content.read_nowait()

    async def _following(self) -> bytes:
        limits = self._limits
        try:
            return await within(limits.left, self._response.content.readany, cancellation=limits.cancellation)
        except TimeoutError:
            if data := self._taken():  # it came while a busy machine let us wait for too long
                return data
            late: Exception = httpx.ReadTimeout("nothing more came in time")
        except Exception as error:
            forget_locals(error)  # the body keeps it, and its traceback would hold this
            late = as_ours(error)
        raise late  # here, where no error of aiohttp's comes with it

    async def aclose(self) -> None:
        """Let the connection serve the next request if it can."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection, is_usable=connection.finish(self._response))
