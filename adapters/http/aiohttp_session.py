"""One connection of aiohttp's: a session of its own, which the pool gives out as it does a connection of ours.

A session of aiohttp's keeps a pool that nobody can ask which connection served before, or for one that did not, and in
which idle ones count for nothing. A session that has one connection at most leaves all of that to the pool that threads
have too, and costs a hundredth of the connection that it is made for.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

import aiohttp
import h11
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult
from attrs import define, field
from yarl import URL

from rungwise.adapters.http.aiohttp_errors import as_ours
from rungwise.adapters.http.aiohttp_heads import Head
from rungwise.adapters.http.aiohttp_protocol import Heard
from rungwise.adapters.http.connection import KEEP, LARGEST_HEAD, Origin, StaleConnection, asked_by
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.names import addresses_of
from rungwise.adapters.http.sockets import PIECE, is_quiet
from rungwise.adapters.http.waiting import arun, within

WHOLE: Final = 2**20
"""Bytes of a request up to which it is handed over in one piece: aiohttp warns of larger ones."""


class _Connector(aiohttp.TCPConnector):
    """Make the one connection of a session, within the limits of the attempt that it is made for."""

    def __init__(self, context: Any) -> None:
        self.is_asked = self.is_connecting = self.has_connected = False
        self.limits = AttemptLimits()
        self.asked: h11.Request | None = None
        self.protocol: Heard | None = None
        self.transport: asyncio.Transport | None = None
        kept: dict[str, Any] = {"limit": 0, "keepalive_timeout": KEEP, "use_dns_cache": False}
        self._names = _Names()
        super().__init__(resolver=self._names, ssl=context or True, **kept)
        self._factory: Any = partial(Heard, loop=asyncio.get_running_loop())

    @property
    def closed(self) -> bool:
        """Tell that it is closed while nothing is asked of it: aiohttp complains of what a program leaves open."""
        return super().closed or not self.is_asked

    def __del__(self, *_: object) -> None:
        """Say nothing, and touch no event loop: it may have ended, or be that of a forked child's parent."""

    async def _create_connection(self, *args: Any) -> Heard:
        """Connect, as a connector may do in its own way."""
        limits = self._names.limits = self.limits
        self.is_connecting = self.has_connected = True
        seconds = limits.moment(limits.connect) - time.monotonic()
        connect = super()._create_connection
        protocol = await within(seconds, connect, *args, cancellation=limits.cancellation)
        assert isinstance(protocol, Heard)
        assert self.asked is not None
        protocol.begin(self.asked)
        self.protocol = protocol
        self.transport = protocol.transport  # which the protocol forgets when it is closed, with bytes still unsent
        self.is_connecting = False
        return protocol


class _Request(aiohttp.ClientRequest):
    """Send a body at once, as our own connections do."""

    def update_expect_continue(self, expect: bool = False) -> None:
        """Wait for nobody's leave, whatever the headers say: a server that does not know of it gives none."""


class _Names(AbstractResolver):
    """Look names up as for our own connections: asyncio's threads would keep a program from ending."""

    def __init__(self) -> None:
        self.limits = AttemptLimits()

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        """Return the addresses of a host."""
        limits = self.limits
        found = await arun(addresses_of(host, port, limits.moment(limits.connect)), limits.cancellation)
        return [
            ResolveResult(
                hostname=host,
                host=f"{address[0]}%{address[3]}" if address[3:] and address[3] else address[0],
                port=address[1],
                family=kind,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for kind, address in found
        ]

    async def close(self) -> None:
        """Do nothing: nothing is kept."""


@define(eq=False)
class SessionConnection:
    """Send one request after another on a connection of aiohttp's.

    Arguments:
        origin: where it leads.
        context: how to encrypt; None for plain HTTP.
    """

    origin: Origin
    context: Any = field(repr=False)
    idle_since: float = field(default=0.0, init=False)
    _connector: _Connector = field(init=False)
    _session: aiohttp.ClientSession = field(init=False)
    _loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop, init=False)
    _process: int = field(factory=os.getpid, init=False)

    def __attrs_post_init__(self) -> None:
        self._connector = _Connector(self.context)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            request_class=_Request,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("accept", "accept-encoding", "content-type", "user-agent"),
            auto_decompress=False,
            read_bufsize=PIECE,
            max_line_size=LARGEST_HEAD,
            max_field_size=LARGEST_HEAD,
        )

    @property
    def is_old(self) -> bool:
        """Tell whether an idle connection has been kept for long enough."""
        return self.idle_seconds >= KEEP

    @property
    def idle_seconds(self) -> float:
        """Return for how long it has been idle, in seconds."""
        return time.monotonic() - self.idle_since

    @property
    def is_usable(self) -> bool:
        """Tell whether an idle connection can take a request: it is young, open, and nothing has arrived on it."""
        transport = self._connector.transport
        if transport is None or self.is_old or not self._is_clean:
            return False
        return is_quiet(transport.get_extra_info("socket"))

    @property
    def _is_clean(self) -> bool:
        protocol = self._connector.protocol
        return protocol is not None and protocol.is_connected() and not (protocol.should_close or protocol.has_heard)

    async def ask(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes, limits: AttemptLimits
    ) -> tuple[Head, aiohttp.ClientResponse]:
        """Send a request and read the head of the answer; aiohttp's own knows next to nothing of it.

        Raises:
            StaleConnection: it had served another request, and broke before a byte of an answer came.
            httpx.TransportError: the request could not be sent, or no answer came.
        """
        connector = self._connector
        connector.asked = asked = asked_by(method, headers)
        if connector.protocol is not None:
            connector.protocol.begin(asked)
        connector.limits, connector.is_asked = limits, True
        connector.is_connecting = connector.has_connected = False
        data = body if len(body) <= WHOLE else _pieces(body)

        async def send() -> aiohttp.ClientResponse:
            return await self._session.request(method, url, data=data, headers=headers, allow_redirects=False)

        try:
            response = await within(limits.left, send, cancellation=limits.cancellation)
            assert connector.protocol is not None
            assert connector.protocol.head is not None
            return connector.protocol.head, response
        except TimeoutError:
            told = _late(is_connecting=connector.is_connecting)
        except Exception as error:
            told = as_ours(error)
            if self._has_gone_stale and isinstance(told, httpx.NetworkError | httpx.RemoteProtocolError):
                told = StaleConnection(str(told))
        raise told  # here, where aiohttp's own error does not come with it: that holds the whole request

    @property
    def _has_gone_stale(self) -> bool:
        """Tell whether the request went out on a connection that had served before, and on which nothing came back."""
        connector = self._connector
        return connector.protocol is not None and not (connector.has_connected or connector.protocol.has_heard)

    def finish(self, response: aiohttp.ClientResponse) -> bool:
        """Make ready for the next request behind a response; tell whether that can be."""
        connector, protocol = self._connector, self._connector.protocol
        connector.is_asked, self.idle_since = False, time.monotonic()
        # aiohttp lets go of the connection by itself, once the answer is whole and the request was sent.
        is_done = response.content.at_eof() and response.connection is None
        if protocol is None or not is_done or not protocol.has_heard_exactly(response):
            response.close()
            return False
        protocol.has_heard = False
        return self._is_clean

    def close(self) -> None:
        """Close it, whatever it is doing."""
        self._session.detach()
        connector = self._connector
        protocol, connector.protocol = connector.protocol, None
        transport, connector.transport = connector.transport, None
        if transport is None or self._process != os.getpid():
            return  # a forked child shares what its parent's event loop waits on, and would take it off there
        if not self._loop.is_closed():
            transport.abort()  # which waits for nobody to take what is unsent, nor to end TLS
        elif protocol is not None:
            protocol.transport = None  # nothing else holds it, so its socket is closed now


def _late(*, is_connecting: bool) -> Exception:
    if is_connecting:
        return httpx.ConnectTimeout("no connection in time")
    return httpx.ReadTimeout("no answer in time")


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PIECE):
        yield body[start : start + PIECE]
