"""Connections to Redis that are bounded in time and size, whatever the server sends.

redis-py has a timeout for each read. So a server that sends a byte now and then is waited for as
long as it likes, and one that announces a large value is read to its end. Here each command has a
moment at which it ends and a number of bytes that it may read, over all reads, retries of addresses
and the lookup of the name. They belong to the thread that runs the command, for redis-py gives them
no way through its own calls.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from typing import Any, Final
from urllib.parse import urlsplit

import redis.connection
from redis import ConnectionError as RedisConnectionError
from redis import TimeoutError as RedisTimeoutError

from rungwise.adapters.lookups import lookup_of

LARGEST_ANSWER: Final = 2**24
"""The most bytes that are read of the answer to a command."""


class _Bounds(threading.local):
    """Hold what the command of this thread may take."""

    until: float = math.inf  # a moment on `time.monotonic`
    bytes_left: int = LARGEST_ANSWER

    def begin(self, seconds: float) -> None:
        """Begin a command."""
        self.until = time.monotonic() + seconds
        self.bytes_left = LARGEST_ANSWER

    def seconds_left(self) -> float:
        """Return the time that is left, or raise a redis.TimeoutError."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise RedisTimeoutError("the answer did not come in time")
        return left

    def read(self, count: int) -> None:
        """Count what was read, or raise a redis.ConnectionError if it is too much."""
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise RedisConnectionError("the answer is too large")


BOUNDS: Final = _Bounds()


class BoundedSocket:
    """Read and write a socket within the bounds of the command of this thread."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._timeout = math.inf  # of each read, where redis-py wants one; 0 does not wait

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def settimeout(self, seconds: float | None) -> None:
        """Take the timeout of each read."""
        self._timeout = math.inf if seconds is None else seconds

    def sendall(self, data: Any) -> None:
        """Write all."""
        self._begin()
        self._sock.sendall(data)

    def recv(self, size: int) -> bytes:
        """Read some bytes."""
        self._begin()
        data: bytes = self._sock.recv(size)
        BOUNDS.read(len(data))
        return data

    def recv_into(self, buffer: Any) -> int:
        """Read some bytes into a buffer, as the parser in C does."""
        self._begin()
        count: int = self._sock.recv_into(buffer)
        BOUNDS.read(count)
        return count

    def _begin(self) -> None:
        seconds = min(self._timeout, BOUNDS.seconds_left())
        self._sock.settimeout(None if seconds == math.inf else seconds)


class _Bounded:
    def _connect(self) -> Any:
        return BoundedSocket(super()._connect())  # type: ignore[misc]


class _OverTcp(redis.connection.Connection):
    def _connect(self) -> Any:
        """Connect to the first address that answers."""
        lookup = lookup_of(self.host, self.port)
        lookup.is_done.wait(BOUNDS.seconds_left())
        fault = lookup.error
        for family, address in lookup.at(self.port):
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                sock.settimeout(BOUNDS.seconds_left())
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.connect(address)
                return sock
            except OSError as error:
                sock.close()
                fault = error
        raise RedisConnectionError("no address of the server answers") from fault


class TcpConnection(_Bounded, _OverTcp):
    """A connection over TCP."""


class TlsConnection(_Bounded, redis.connection.SSLConnection, _OverTcp):
    """A connection over TLS."""


class UnixConnection(_Bounded, redis.connection.UnixDomainSocketConnection):
    """A connection to a socket of this machine."""


_KINDS: Final = {"rediss": TlsConnection, "unix": UnixConnection}


def connection_for(url: str) -> type[redis.connection.AbstractConnection]:
    """Return the kind of connection that a URL asks for."""
    return _KINDS.get(urlsplit(url).scheme, TcpConnection)
