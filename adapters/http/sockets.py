"""Sockets that never block: names, connecting, TLS, writing and reading, within the limits of an
attempt.

Every operation checks the time before it touches the socket. So a server that keeps sending cannot
keep the call.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import httpx

from rungwise.adapters.http.cancellation import SLICE
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.waiting import Operation, WaitFor, Want, check, is_ready

Address = tuple[int, tuple[Any, ...]]
"""The family of an address, and the address in the form that a socket of it takes."""


class _Lookup(threading.Thread):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(name=f"rungwise looks up {host}", daemon=True)
        self.host = host
        self.port = port
        self.is_done = threading.Event()
        self.addresses: list[Address] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            addresses = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            self.addresses = [(family, address) for family, _, _, _, address in addresses]
        except Exception as error:
            self.error = error
        with _lock:
            _lookups.pop(self.host, None)
        self.is_done.set()


_lock = threading.Lock()
_lookups: dict[str, _Lookup] = {}


def _forget() -> None:
    """Start anew in a forked child, where none of these threads runs."""
    global _lock
    _lock = threading.Lock()
    _lookups.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def addresses_of(host: str, port: int, until: float) -> Operation[list[Address]]:
    """Look up a host until a moment on `time.monotonic`. An address is returned as it is.

    Nothing can end a blocked `getaddrinfo`, so a daemon thread runs it, which may be left behind:
    one for each name.

    Raises:
        httpx.ConnectError: there is no such name, or no thread could be started.
        httpx.ConnectTimeout: no answer came in time.
    """
    try:
        ip_address(host)
    except ValueError:
        pass
    else:
        if ":" not in host:
            return [(socket.AF_INET, (host, port))]
        bare, _, scope = host.partition("%")
        return [(socket.AF_INET6, (bare, port, 0, socket.if_nametoindex(scope) if scope else 0))]
    with _lock:
        lookup = _lookups.get(host)
        if lookup is None:
            lookup = _Lookup(host, port)
            try:
                lookup.start()
            except RuntimeError as error:
                raise httpx.ConnectError(
                    "no thread could be started to look up the host"
                ) from error
            _lookups[host] = lookup
    yield WaitFor(lookup.is_done, "read", until)
    if not lookup.is_done.is_set():
        raise httpx.ConnectTimeout("the name of the host was not found in time")
    if lookup.error is not None or not lookup.addresses:
        raise httpx.ConnectError("the name of the host cannot be found") from lookup.error
    if port == lookup.port:
        return lookup.addresses
    return [(family, (address[0], port, *address[2:])) for family, address in lookup.addresses]


STAGGER = 0.25
"""Seconds after which to try the next address of a host while one does not answer (RFC 8305)."""

PIECE = 65_536
"""Bytes to read or write at once."""

_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY)


def connect(
    host: str, port: int, context: ssl.SSLContext | None, limits: AttemptLimits
) -> Operation[socket.socket]:
    """Connect to the first address of a host that answers, and agree on TLS if there is a context
    for it.

    Raises:
        httpx.ConnectError: no address takes connections, or TLS failed.
        httpx.ConnectTimeout: the time for connecting is up.
    """
    until = limits.moment(limits.connect)
    addresses = yield from addresses_of(host, port, until)
    sock = yield from _connect_to_any(addresses, until)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
            yield from _shake_hands(sock, until)
        return sock
    except OSError as error:
        sock.close()
        raise httpx.ConnectError(str(error)) from error
    except BaseException:
        sock.close()
        raise


def _connect_to_any(addresses: Sequence[Address], until: float) -> Operation[socket.socket]:
    """Try one address after another, without giving up on those that are still silent."""
    untried = list(addresses)
    trying = list[socket.socket]()
    error = OSError("no address")
    next_at = 0.0
    try:
        while untried or trying:
            if untried and (not trying or time.monotonic() >= next_at):
                next_at = time.monotonic() + STAGGER
                try:
                    trying.append(_begin(*untried.pop(0)))
                except OSError as failed:
                    error = failed
                    continue
            pause = (
                min(until, next_at)
                if untried
                else until
                if len(trying) == 1
                else time.monotonic() + SLICE
            )
            yield WaitFor(trying[-1], "write", min(pause, until))
            for sock in [sock for sock in trying if is_ready(sock, "write")]:
                trying.remove(sock)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code == 0:
                    return sock
                sock.close()
                error = OSError(code, os.strerror(code))
                next_at = 0.0
            if trying and time.monotonic() >= until:
                raise httpx.ConnectTimeout("no connection in time")
        raise httpx.ConnectError(str(error)) from error
    finally:
        for sock in trying:
            sock.close()


def _begin(family: int, address: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        code = sock.connect_ex(address)
        if code not in _UNDER_WAY:
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


def _shake_hands(sock: ssl.SSLSocket, until: float) -> Operation[None]:
    while True:
        try:
            return sock.do_handshake()
        except ssl.SSLWantReadError:
            want: Want = "read"
        except ssl.SSLWantWriteError:
            want = "write"
        if time.monotonic() >= until:
            raise httpx.ConnectTimeout("no TLS in time")
        yield WaitFor(sock, want, until)


def write(
    sock: socket.socket,
    data: bytes,
    limits: AttemptLimits,
    hear: Callable[[socket.socket], bool] = lambda sock: False,
) -> Operation[None]:
    """Write all of the data; `hear` reads what comes while the server takes no more, and tells
    whether to stop.

    Raises:
        httpx.WriteTimeout: the time of the attempt is up, or that for its first content.
        httpx.WriteError: the connection is broken.
    """
    rest = memoryview(data)
    while rest:
        check(limits.cancellation)
        try:
            rest = rest[sock.send(rest[:PIECE]) :]
            if rest and time.monotonic() >= limits.until:
                raise httpx.WriteTimeout("the request was not taken in time")
            continue
        except (BlockingIOError, ssl.SSLWantWriteError):
            want: Want = "write"
        except ssl.SSLWantReadError:
            want = "read"
        except OSError as error:
            raise httpx.WriteError(str(error)) from error
        now = time.monotonic()
        if now >= limits.until:
            raise httpx.WriteTimeout("the request was not taken in time")
        if hear(sock):
            return
        yield WaitFor(sock, want, min(limits.until, now + SLICE))


def what_came(sock: socket.socket) -> bytes:
    """Return what has come by now; b"" also if the other side has stopped sending, which may still
    read.
    """
    with suppress(OSError):  # the next write reports it
        return sock.recv(PIECE)
    return b""


def read(
    sock: socket.socket, limits: AttemptLimits, *, waits_first: bool = False
) -> Operation[bytes]:
    """Read as soon as anything has come; b"" at the end.

    With `waits_first` it waits before the first read, unless TLS holds data already: in a thread,
    waiting is six times cheaper than a read in vain, and most first reads of a stream are in vain.

    Raises:
        httpx.ReadTimeout: the time of the attempt is up, or that for content.
        httpx.ReadError: the connection is broken.
    """
    check(limits.cancellation)
    until = limits.until
    if time.monotonic() >= until:
        raise httpx.ReadTimeout("nothing more came in time")
    has_waited = waits_first and not (isinstance(sock, ssl.SSLSocket) and sock.pending())
    if has_waited:
        yield WaitFor(sock, "read", until)
        check(limits.cancellation)
    while True:
        want: Want = "read"
        try:
            # Read before checking the time: data may have come while a busy machine kept us waiting
            # for too long.
            data = sock.recv(PIECE)
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except ssl.SSLWantWriteError:
            want = "write"
        except OSError as error:
            raise httpx.ReadError(str(error)) from error
        else:
            if not has_waited:
                yield None  # a server that never makes us wait must not block the event loop
            return data
        until = limits.until
        if has_waited and time.monotonic() >= until:
            raise httpx.ReadTimeout("nothing more came in time")
        yield WaitFor(sock, want, until)
        check(limits.cancellation)
        has_waited = True


def is_quiet(sock: socket.socket) -> bool:
    """Tell whether nothing has come on an idle connection, its end included."""
    try:
        return not is_ready(sock, "read") and not (
            isinstance(sock, ssl.SSLSocket) and sock.pending()
        )
    except (OSError, ValueError):
        return False
