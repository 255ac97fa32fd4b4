"""How far an attempt is on a client that was passed in, as far as httpcore tells through its `trace` extension."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import httpx

from rungwise.adapters.http.connection import StaleConnection
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.names import addresses_of
from rungwise.adapters.http.waiting import arun

_UNANSWERED = "Server disconnected without sending a response."
"""What httpcore says of a connection that ended before a whole head of a response; it says all else of a broken one."""


class Abandoned(Exception):
    """Stop a client before it sends what nothing waits for any more."""


class Progress:
    """Follow an attempt through the events of httpcore: which socket it uses, and whether it has begun to send."""

    def __init__(self, limits: AttemptLimits) -> None:
        self.is_connecting = False
        self.is_abandoned = False
        self._has_connected = self._has_sent = False
        self._limits = limits
        self._socket: Any = None
        self._lets_go = threading.Lock()  # who shuts a socket down is not the thread that hands it back
        self._is_shared = False

    def note(self, name: str, info: Mapping[str, Any]) -> None:
        """Take an event of httpcore."""
        if name.startswith("http2.") and not self._is_shared:  # other requests are under way on that connection
            self._is_shared = True
            self._let_go()
        if name.endswith("connect_tcp.started"):
            self.is_connecting = self._has_connected = True
        elif name.endswith("send_request_headers.started"):
            self.is_connecting, self._has_sent = False, True
            if self.is_abandoned:
                raise Abandoned
        elif name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self.found(info.get("return_value"))
        elif name.endswith("response_closed.started"):
            self._let_go()

    async def anote(self, name: str, info: Mapping[str, Any]) -> None:
        """Take an event of httpcore, and look the host up before it does.

        asyncio looks names up in threads that `asyncio.run` waits for at its end, however long they take.
        """
        self.note(name, info)
        if name.endswith("connect_tcp.started"):
            limits = self._limits
            lookup = addresses_of(info["host"], info["port"], limits.moment(limits.connect))
            with suppress(httpx.ConnectError):  # the client may know more than we do, and will say what is wrong
                await arun(lookup, limits.cancellation)

    def found(self, stream: Any) -> None:
        """Take the network stream that the attempt uses, if it is the only one on it."""
        if not self._is_shared:
            self._socket = stream.get_extra_info("socket") if hasattr(stream, "get_extra_info") else None
        if self.is_abandoned:
            self.shut()

    def shut(self) -> None:
        """Shut the socket down, which ends whatever waits for it; not once another request may be on it."""
        with self._lets_go:
            if isinstance(self._socket, socket.socket):
                with suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # not TLS's own, which asks the server first

    def _let_go(self) -> None:
        with self._lets_go:
            self._socket = None

    def as_stale(self, error: BaseException) -> BaseException:
        """Return the error as that of a stale connection, if the server had closed one that the client reused.

        Nobody can tell a client to use no such connection again, so of several in a row only the first counts as stale:
        the next attempts have their ordinary waits.
        """
        kind = type(error).__name__
        broke = kind in ("ReadError", "WriteError") or (kind == "RemoteProtocolError" and str(error) == _UNANSWERED)
        was_idle = self._has_sent and not self._has_connected
        if not broke or not was_idle or self.is_abandoned or self._limits.is_fresh:
            return error
        return StaleConnection(str(error))

    def timeout(self) -> httpx.TimeoutException:
        """Return what says that the time was up, and whether the request may have been sent by then."""
        return httpx.ConnectTimeout("no connection in time") if self.is_connecting else httpx.ReadTimeout("time is up")
