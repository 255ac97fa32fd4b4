"""Sockets that never block: names, connecting, TLS, writing and reading, within the limits of an
attempt.

Theory. Every operation is a generator on a non-blocking socket. It tries, and where the socket says
"not now" it yields a `WaitFor` and tries again; whoever runs it (`waiting.run`, `waiting.arun`)
waits in a thread or a task. Nothing here knows which, and nothing here can hang.

* **The clock comes first.** An operation checks the time whenever it has made progress, not only
  when it has to wait: a server that sends a byte now and then, or takes one, never makes it wait,
  and cannot keep the call. One exception: a read that has waited reads before it looks at the
  clock, because the data may have come in time while a busy machine kept this thread away.
* **Names** block: nothing can end `getaddrinfo`. A daemon thread runs it, one for each name
  however many calls wait for it, and a call whose time is up leaves it behind.
* **Connecting** is "happy eyeballs" (RFC 8305) in the order of the resolver: while an address is
  silent, the next one is tried every `STAGGER` seconds, and the first that answers wins. An address
  that refuses makes room for the next at once.
* **TLS** may have to write to read and to read to write, so each operation waits for what OpenSSL
  asks for. And it may hold decrypted data that no `poll` shows (`SSLSocket.pending`), so a read
  looks there before it waits.
* **Writing** is full duplex: while the server takes no more, `hear` reads what it sends. A server
  that refuses a request for its size answers, closes, and reads no further.

Cost: in a thread, a wait is one `poll`, six times cheaper than a read in vain. In a stream most
first reads would be in vain, hence `waits_first`. In a task a first read is tried, because there
the wait costs a turn of the event loop. Where an operation never had to wait, it yields None once,
so that a fast server does not block the other tasks.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address

import httpx

from rungwise.adapters.http.cancellation import SLICE
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.waiting import Operation, WaitFor, Want, check, is_ready
from rungwise.adapters.lookups import Address, lookup_of


def addresses_of(host: str, port: int, until: float) -> Operation[list[Address]]:
    """Look up a host.

    Arguments:
        host: its name, or an address, which is returned as it is.
        port: the port of the addresses.
        until: when to give up, a moment on `time.monotonic`.

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
        index = socket.if_nametoindex(scope) if scope else 0
        return [(socket.AF_INET6, (bare, port, 0, index))]
    try:
        lookup = lookup_of(host, port)
    except RuntimeError as error:
        raise httpx.ConnectError("no thread could be started to look up the host") from error
    yield WaitFor(lookup.is_done, "read", until)
    if not lookup.is_done.is_set():
        raise httpx.ConnectTimeout("the name of the host was not found in time")
    if lookup.error is not None or not lookup.addresses:
        raise httpx.ConnectError("the name of the host cannot be found") from lookup.error
    return lookup.at(port)


STAGGER = 0.25
"""Seconds after which to try the next address of a host while one does not answer (RFC 8305)."""

PIECE = 65_536
"""Bytes to read or write at once."""

_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY)


def connect(
    host: str,
    port: int,
    context: ssl.SSLContext | None,
    limits: AttemptLimits,
) -> Operation[socket.socket]:
    """Connect to the first address of a host that answers.

    Arguments:
        host: the name of the host, or its address.
        port: its port.
        context: for TLS; None for a plain connection.
        limits: those of the attempt. `connect` limits names, addresses and TLS together.

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
    trying = list[socket.socket]()  # the last one is watched, the others looked at
    error = OSError("no address")
    next_at = 0.0  # when to try the next address
    try:
        while untried or trying:
            if untried and (not trying or time.monotonic() >= next_at):
                next_at = time.monotonic() + STAGGER
                try:
                    trying.append(_begin(*untried.pop(0)))
                except OSError as failed:
                    error = failed
                    continue
            if untried:
                pause = next_at
            elif len(trying) == 1:
                pause = until
            else:
                pause = time.monotonic() + SLICE
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
    """Begin to connect; raise an OSError if that fails at once."""
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
    """Write all of the data.

    Arguments:
        sock: where to.
        data: what.
        limits: those of the attempt.
        hear: called while the server takes no more. It reads what comes meanwhile, and tells
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
    """Return what has come by now.

    It is empty also if the other side has stopped sending; it may still read.
    """
    with suppress(OSError):  # the next write reports it
        return sock.recv(PIECE)
    return b""


def read(
    sock: socket.socket,
    limits: AttemptLimits,
    *,
    waits_first: bool = False,
) -> Operation[bytes]:
    """Read as soon as anything has come; b"" at the end.

    Arguments:
        sock: where from.
        limits: those of the attempt.
        waits_first: whether to wait before the first read, unless TLS holds data already.

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
            # before the clock: data may have come in time, while a busy machine kept us waiting
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
        if is_ready(sock, "read"):
            return False
        return not (isinstance(sock, ssl.SSLSocket) and sock.pending())
    except (OSError, ValueError):
        return False
