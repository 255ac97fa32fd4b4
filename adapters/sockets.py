"""Sockets whose reads end with the attempt: exact deadlines, and a cancellation that is noticed while blocked.

httpx takes its read timeout once for a whole body, and a blocked read cannot be ended from another thread. The network
backend is httpcore's documented place to change that; only putting it into a transport that httpx has built goes past
its public names, and where that fails a client works as it came.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from ssl import SSLContext
from typing import Any

import httpcore

from adapters.cancellation import Cancellation
from adapters.limits import AttemptLimits

SLICE = 0.05
"""Seconds between two looks at a cancellation while a read is blocked; half of what a caller is promised."""

_sending = threading.local()


class CallEnded(BaseException):
    """Say that the caller ended the call; like a KeyboardInterrupt, it is no failure that anything should handle."""


@contextmanager
def limited(limits: AttemptLimits) -> Iterator[None]:
    """Put the sockets that this thread writes to under the limits of an attempt, until they are written to again."""
    _sending.limits = limits
    try:
        yield
    finally:
        _sending.limits = None


class LimitedStream(httpcore.NetworkStream):
    """Be a network stream that keeps the limits of the attempt that has written to it."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner
        self._limits: AttemptLimits | None = None

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read, for as long as the attempt may go on."""
        limits = self._limits
        if limits is None:
            return self._inner.read(max_bytes, timeout)
        if limits.is_cancelled is None:
            return self._inner.read(max_bytes, limits.within(timeout) if timeout is not None else limits.left)
        return self._read_in_slices(max_bytes, timeout, limits)

    def _read_in_slices(self, max_bytes: int, timeout: float | None, limits: AttemptLimits) -> bytes:
        ends_at = None if timeout is None else time.monotonic() + timeout
        while True:
            if limits.is_cancelled is not None and limits.is_cancelled():
                raise CallEnded
            try:
                return self._inner.read(max_bytes, limits.within(SLICE))
            except httpcore.ReadTimeout:
                if limits.is_over or (ends_at is not None and time.monotonic() >= ends_at):
                    raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write, and take the limits of the attempt that is being sent."""
        self._limits = getattr(_sending, "limits", None)
        self._inner.write(buffer, timeout)

    def close(self) -> None:
        """Close the socket."""
        self._inner.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Go on encrypted, under the same limits."""
        return LimitedStream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """Return what httpcore asks of a stream."""
        return self._inner.get_extra_info(info)


class LimitedBackend(httpcore.NetworkBackend):
    """Be httpcore's network with `LimitedStream`s."""

    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore.NetworkStream:
        """Connect to a host."""
        return LimitedStream(self._inner.connect_tcp(*args, **kwargs))

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        """Connect to a socket file."""
        return LimitedStream(self._inner.connect_unix_socket(path, timeout, socket_options))

    def sleep(self, seconds: float) -> None:
        """Sleep, as httpcore asks for between two connection attempts."""
        self._inner.sleep(seconds)


def limit(*transports: object) -> None:
    """Put every connection of httpx transports under the limits of the attempt that uses it."""
    for transport in transports:
        pool: Any = getattr(transport, "_pool", None)
        inner = getattr(pool, "_network_backend", None)
        if inner is not None:
            pool._network_backend = LimitedBackend(inner)


class Breaker:
    """End a blocked read on a client of the caller's own, whose sockets know no limits, by shutting its socket down.

    Arguments:
        response: the response that is being read; its network stream is httpx's public way to the socket.
        limits: the limits of the attempt.
        cancellation: ends the call from outside, or None.
    """

    def __init__(self, response: Any, limits: AttemptLimits, cancellation: Cancellation | None) -> None:
        stream = response.extensions.get("network_stream")
        self._socket = None if stream is None else stream.get_extra_info("socket")
        self._limits = limits
        self._timer: threading.Timer | None = None
        self._forget = cancellation.on_cancel(self._shut) if cancellation is not None else None

    def tick(self) -> None:
        """Start a timer as soon as the attempt may end before httpx's own timeout for a read."""
        left = self._limits.left
        if self._timer is None and left is not None and left < self._limits.idle:
            self._timer = threading.Timer(left, self._shut)
            self._timer.daemon = True
            self._timer.start()

    def hurry(self) -> None:
        """Take the limits anew, because they have become shorter."""
        self._stop()
        self.tick()

    def close(self) -> None:
        """Let the socket alone from now on."""
        self._stop()
        if self._forget is not None:
            self._forget()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class NoBreaker:
    """Stand in for a `Breaker` where the sockets themselves know the limits."""

    def tick(self) -> None:
        """Do nothing."""

    hurry = close = tick


def breaker_of(response: Any, limits: AttemptLimits, cancellation: Cancellation | None) -> Breaker | NoBreaker:
    """Return what ends a blocked read of this response."""
    if isinstance(response.extensions.get("network_stream"), LimitedStream):
        return NoBreaker()
    return Breaker(response, limits, cancellation)
