"""How far a client of the caller's has come with an attempt, by the events of httpcore.

httpcore reports each of its steps through the documented `trace` extension of a request. From these
events an attempt knows which socket to shut down, until when to wait for a connection, and whether
a broken connection had served before.
"""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx

from rungwise.adapters.http.connection import StaleConnection
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.sockets import addresses_of
from rungwise.adapters.http.waiting import arun

_UNANSWERED = "Server disconnected without sending a response."
"""How httpcore reports a connection that ended before the whole head of a response. Any other text
is about a response that is broken.
"""


class Abandoned(Exception):
    """Raised to stop a client before it sends a request that nobody waits for."""


class Progress:
    """Follow an attempt through the events of httpcore.

    `connects_by` is the moment by which names, addresses and TLS must have led to a connection. It
    is infinity while the client does not connect. The client's own timeout would not do: it counts
    each of the three alone, and ends no lookup.

    Arguments:
        limits: those of the attempt.
        has_changed: called when `connects_by` changes.
    """

    def __init__(
        self, limits: AttemptLimits, has_changed: Callable[[], object] = lambda: None
    ) -> None:
        self.is_abandoned = False
        self.connects_by = math.inf
        self._has_changed = has_changed
        self._has_connected = False
        self._has_sent = False
        self._limits = limits
        self._socket: Any = None
        # one thread may shut the socket down while another lets it go
        self._lets_go = threading.Lock()
        self._is_shared = False  # whether other requests are on the connection

    def note(self, name: str, info: Mapping[str, Any]) -> None:
        """Handle an event of httpcore."""
        if name.startswith("http2.") and not self._is_shared:
            self._is_shared = True
            self._let_go()
        if name.endswith("connect_tcp.started"):
            self._has_connected = True
            if self.connects_by == math.inf:  # else it tries again, within the same time
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
            self._socket = None
            if hasattr(stream, "get_extra_info"):
                self._socket = stream.get_extra_info("socket")
        if self.is_abandoned:
            self.shut()

    def shut(self) -> None:
        """Shut the socket down, unless another request may be on it.

        Whoever waits for the socket gets an error.
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
        """Return a `StaleConnection` if the client reused a connection that the server had closed.

        Any other error is returned as it is. A client cannot be told to avoid such connections. So
        only the first of several in a row counts as stale; the others wait as usual.
        """
        kind = type(error).__name__
        is_unanswered = kind == "RemoteProtocolError" and str(error) == _UNANSWERED
        broke = is_unanswered or kind in ("ReadError", "WriteError")
        was_idle = self._has_sent and not self._has_connected
        if not broke or not was_idle or self.is_abandoned or self._limits.is_fresh:
            return error
        return StaleConnection(str(error))

    def timeout(self) -> httpx.TimeoutException:
        """Return the error of an attempt whose time is up.

        Its type tells whether the request may have been sent.
        """
        if self.connects_by < math.inf:
            return httpx.ConnectTimeout("no connection in time")
        return httpx.ReadTimeout("time is up")
