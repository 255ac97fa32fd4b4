"""One HTTP/1.1 connection: h11 knows the protocol, `sockets` the limits, and this what a request on it amounts to."""

from __future__ import annotations

import re
import socket
import time
import weakref
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Final

import h11
import httpx
from attrs import define, field

from rungwise.adapters.http.heads import write_head
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.sockets import is_quiet, read, what_came, write
from rungwise.adapters.http.waiting import Operation

Origin = tuple[str, str, int]
"""The scheme, host and port that a connection leads to."""

KEEP = 5.0
"""Seconds for which an idle connection is kept, as httpx keeps it."""

LARGEST_HEAD = 100 * 1024
"""Bytes of a head, or of one line between chunks, after which a response is broken."""


_MOST_FRAMING: Final = 16
"""Bytes around a chunk that came by itself; more than that may be much, and is not copied to be looked at."""
_CHUNK_END: Final = (b"\r\n", False)
"""What h11 keeps, behind a whole chunk, until there is more."""
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
"""What nearly every chunk begins with; h11 knows of the others, and says which are broken."""

CHANGED: Final = "the server changed the protocol without being asked"

_END: Final = h11.EndOfMessage()


def asked_by(method: str, headers: Mapping[str, str]) -> h11.Request:
    """Return what h11 is told of a request that is written here.

    Raises:
        httpx.LocalProtocolError: it has no place in a request.
    """
    try:
        return _told(method, headers.get("connection", ""), headers.get("upgrade", ""))
    except h11.LocalProtocolError as error:
        raise httpx.LocalProtocolError(str(error)) from error


def reader_for(asked: h11.Request) -> h11.Connection:
    """Return what reads the answer to a request."""
    reader = h11.Connection(h11.CLIENT, LARGEST_HEAD)
    reader.send(asked)
    reader.send(_END)
    return reader


@lru_cache(maxsize=16)
def _told(method: str, connection: str, upgrade: str) -> h11.Request:
    """Return what h11 is told of a request that is written here: all that the reading of its answer depends on."""
    asked = [("host", "-"), ("connection", connection), *([("upgrade", upgrade)] if upgrade else [])]
    return h11.Request(method=method, target="/", headers=asked)


class StaleConnection(httpx.ReadError):
    """Say that a connection which had served another request broke before a byte of an answer came."""


@define(eq=False)
class Connection:
    """Send one request after another and read the answers.

    Arguments:
        origin: where it leads.
        sock: the socket, which does not block.
    """

    origin: Origin
    sock: socket.socket
    _has_served: bool = field(default=False, init=False)
    idle_since: float = field(default=0.0, init=False)
    _protocol: h11.Connection = field(factory=partial(h11.Connection, h11.CLIENT, LARGEST_HEAD), init=False)
    _has_read: bool = field(default=False, init=False)
    _early: h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED] | None = field(default=None, init=False)
    _is_cut_short: bool = field(default=False, init=False)
    _needs_data: bool = field(default=False, init=False)  # there is nothing more in what was read of the body
    _last_read: int = field(default=0, init=False)  # bytes
    _is_between: bool = field(default=False, init=False)  # all that h11 was given ends behind a chunk
    _ahead: bytes = field(default=b"", init=False, repr=False)  # of the body, before what h11 was given last
    _broken: str | None = field(default=None, init=False)  # an error would hold this connection, by its traceback
    _closing: weakref.finalize[[], Connection] = field(init=False)

    def __attrs_post_init__(self) -> None:
        # A client that nobody closes is let go of quietly. It is the first that the collector does, while the socket
        # is whole: a finalizer of its own would find that closed already, with a warning.
        self._closing = weakref.finalize(self, self.sock.close)
        self._closing.atexit = False

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
        return not self.is_old and is_quiet(self.sock)

    def close(self) -> None:
        """Close it, whatever it is doing."""
        self._closing()

    def ask(
        self, method: str, target: bytes, headers: Mapping[str, str], body: bytes, limits: AttemptLimits
    ) -> Operation[h11.Response]:
        """Send a request and read the head of the answer.

        Raises:
            StaleConnection: it had served another request, and broke before a byte of an answer came.
            httpx.TransportError: the request could not be sent, or no answer came.
        """
        is_reused, self._has_served, self._has_read = self._has_served, True, False
        try:
            unsent = yield from self._send(method, target, headers, body, limits)
            return (yield from self._read_head(unsent, limits))
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            if is_reused and not self._has_read:
                raise StaleConnection(str(error)) from error
            raise

    def _send(
        self, method: str, target: bytes, headers: Mapping[str, str], body: bytes, limits: AttemptLimits
    ) -> Operation[httpx.WriteError | None]:
        """Send a request; return what broke that, because the server may have said why before it closed."""
        data = write_head(method, target, headers) + body
        # What h11 would write for it, after a closer look at every header, is of no use.
        self._protocol.send(asked_by(method, headers))
        self._protocol.send(_END)
        try:
            yield from write(self.sock, data, limits, self._hear)
        except httpx.WriteError as error:
            return error
        return None

    def _hear(self, sock: socket.socket) -> bool:
        """Take what comes while the request is still being sent, and tell whether the rest of it is of no use.

        A server that refuses a request for its size may read no more of it. One that begins to answer well reads on.
        """
        data = b"" if self._early is not None else what_came(sock)  # what follows is read behind the request
        if not data:
            return False
        self._has_read = True
        self._protocol.receive_data(data)
        event = self._next_event()
        while isinstance(event, h11.InformationalResponse) and event.status_code != 101:
            event = self._next_event()
        if event is h11.NEED_DATA:
            return False
        self._early = event
        self._is_cut_short = not isinstance(event, h11.Response) or event.status_code >= 300
        return self._is_cut_short

    def _read_head(self, unsent: httpx.WriteError | None, limits: AttemptLimits) -> Operation[h11.Response]:
        while True:
            early, self._early = self._early, None
            event = early or (self._next_event() if self._has_read else h11.NEED_DATA)
            if isinstance(event, h11.Response):
                return event
            if event is h11.NEED_DATA:
                try:
                    yield from self.fill(limits)
                except httpx.NetworkError as error:
                    if unsent is None:
                        raise
                    raise unsent from error
            elif not isinstance(event, h11.InformationalResponse) or event.status_code == 101:
                raise httpx.RemoteProtocolError(CHANGED)

    def buffered(self) -> bytes | None:
        """Return what has been read of the body and not been handed out: nothing if more must be read, None at its end.

        The chunks that came in one reading are one piece: what each of them costs on its way is more than it says.

        Raises:
            httpx.RemoteProtocolError: the body is broken.
        """
        if self._needs_data:
            return b""
        if self._broken is not None:
            raise httpx.RemoteProtocolError(self._broken)
        protocol = self._protocol
        if protocol.their_state is not h11.SEND_BODY:
            return None
        pieces, self._ahead = [self._ahead] if self._ahead else [], b""
        try:
            # h11's kinds are abstract classes, which take long to tell what is none of them.
            while type(event := protocol.next_event()) is h11.Data:
                pieces.append(event.data)
                framing = self._last_read - len(event.data)
                if event.chunk_end and framing <= _MOST_FRAMING and protocol.trailing_data == _CHUNK_END:
                    # One reading brought just this chunk, as is usual where each event is sent by itself. That more
                    # data are needed is clear, and h11 would take as long to say so as it took for the chunk.
                    self._needs_data = self._is_between = True
                    return b"".join(pieces)
            # What follows the end is none of the body's; h11 takes it for an error where the server is to close.
            self._needs_data = event is h11.NEED_DATA
        except h11.RemoteProtocolError as error:
            self._broken = str(error)  # h11 says so only once
            if not pieces:
                raise httpx.RemoteProtocolError(self._broken) from error
        if pieces:
            return b"".join(pieces)
        return b"" if self._needs_data else None

    def fill(self, limits: AttemptLimits, *, waits_first: bool = False) -> Operation[bytes]:
        """Read on in the answer, and return what stands in the chunks that came, if they are whole and nothing else is.

        The rest is h11's, which takes some 15 µs for a chunk. It is not told of whole ones between two others: it is
        behind a chunk then, as it was before. Whole ones before something else are handed out with that: it may be the
        end, which must have been seen before the connection can serve again.

        Arguments:
            waits_first: as in `read`.

        Raises:
            httpx.TransportError: the connection is broken, or its time is up.
        """
        data = yield from read(self.sock, limits, waits_first=waits_first)
        if data:
            self._has_read = True
        elif self._protocol.their_state is h11.SEND_RESPONSE:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        if self._is_between:
            body, end = _whole_chunks(data)
            if body and end == len(data):
                return body
            self._ahead, data, self._is_between = body, data[end:], False
        self._needs_data, self._last_read = False, len(data)
        self._protocol.receive_data(data)
        return b""

    def finish(self) -> bool:
        """Make ready for the next request behind a response; tell whether that can be.

        It cannot where bytes have come that were not asked for: they would answer the next request. Nor can it where
        the request was not sent whole.
        """
        protocol = self._protocol
        is_done = protocol.our_state is h11.DONE and protocol.their_state is h11.DONE
        if not is_done or self._is_cut_short or protocol.trailing_data != (b"", False):
            return False
        protocol.start_next_cycle()
        self.idle_since = time.monotonic()
        return True

    def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._protocol.next_event()
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error


def _whole_chunks(data: bytes) -> tuple[bytes, int]:
    """Return what stands in the whole chunks that data begin with, and where these end."""
    pieces, end = list[bytes](), 0
    while (size := _SIZE.match(data, end)) is not None:
        start = size.end()
        behind = start + int(size[1], 16)
        if behind == start or data[behind : behind + 2] != b"\r\n":  # the last one, a part of one, or a broken one
            break
        pieces.append(data[start:behind])
        end = behind + 2
    return b"".join(pieces), end
