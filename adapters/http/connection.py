"""One HTTP/1.1 connection: write requests, read responses.

h11 knows the protocol, and `sockets` keeps the limits of an attempt. We write heads ourselves, with
one regular expression that refuses what must not stand in one.
"""

from __future__ import annotations

import re
import socket
import time
import weakref
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Final, NoReturn

import h11
import httpx
from attrs import define, field

from rungwise.adapters.http.chunks import BodyReader
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.sockets import is_quiet, read, what_came, write
from rungwise.adapters.http.waiting import Operation

_TOKEN: Final = r"[-!#$%&'*+.^_`|~0-9A-Za-z]++"
_SEEN: Final = r"[^\x00\s\x80-\U0010ffff]++"
_VALUE: Final = rf"(?:{_SEEN}(?:[ \t]++{_SEEN})*+)?+"
_HEAD: Final = re.compile(rf"{_TOKEN} [!-~]++ HTTP/1\.1\r\n(?:{_TOKEN}: {_VALUE}\r\n)++")
_NAMES: Final = re.compile(_TOKEN)


class Headers(dict[str, str]):
    """The headers of a response; names match in any case."""

    def __missing__(self, name: str) -> str:
        value: str | None = dict.get(self, name.lower())
        if value is None:
            raise KeyError(name)
        return value

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """Return a header."""
        return dict.get(self, name.lower(), default)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and dict.__contains__(self, name.lower())


def read_headers(fields: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of a response; repeated ones are joined.

    They are read as UTF-8, or all as Latin-1 if any is not.
    """
    pairs = list(fields)
    try:
        texts = [(name.decode().lower(), value.decode()) for name, value in pairs]
    except UnicodeDecodeError:
        texts = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in pairs]
    headers = Headers(texts)
    if len(headers) < len(texts):
        joined: dict[str, list[str]] = {}
        for name, value in texts:
            joined.setdefault(name, []).append(value)
        headers = Headers({name: ", ".join(values) for name, values in joined.items()})
    return headers


def write_head(method: str, target: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the head of a request.

    Raises:
        httpx.LocalProtocolError: the method, the target or a header is malformed. It never shows
            a value, which may be a key.
    """
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    head = f"{method} {target.decode('latin-1')} HTTP/1.1\r\n{lines}"
    # A line injected into another one is well-formed by itself, so count the lines. A colon within
    # a name also looks well-formed, so check the names alone.
    is_whole = head.count("\n") == len(headers) + 1
    if not is_whole or not _HEAD.fullmatch(head) or not _NAMES.fullmatch("".join(headers)):
        _refuse(headers)
    if "transfer-encoding" in headers:
        raise httpx.LocalProtocolError(
            "The transfer-encoding of a request is the transport's to choose"
        )
    return f"{head}\r\n".encode("ascii")


def _refuse(headers: Mapping[str, str]) -> NoReturn:
    """Raise an error that names the malformed header."""
    for name, value in headers.items():
        if not re.fullmatch(_TOKEN, name):
            raise httpx.LocalProtocolError("Illegal header name")
        if not re.fullmatch(_VALUE, value):
            raise httpx.LocalProtocolError(f"Illegal header value of {name!r}")
    raise httpx.LocalProtocolError("Illegal method or target")


Origin = tuple[str, str, int]
"""The scheme, host and port of a connection."""

KEEP = 5.0
"""Seconds for which an idle connection stays open, as in httpx."""

LARGEST_HEAD = 100 * 1024
"""Bytes of a head, or of one line between chunks, after which a response is broken."""

CHANGED: Final = "the server changed the protocol without being asked"

_END: Final = h11.EndOfMessage()


@lru_cache(maxsize=16)
def _request(method: str, connection: str, upgrade: str) -> h11.Request:
    """Return a request for h11, which needs to know only what changes how the answer is read."""
    headers = [("host", "-"), ("connection", connection)]
    if upgrade:
        headers.append(("upgrade", upgrade))
    return h11.Request(method=method, target="/", headers=headers)


class StaleConnection(httpx.ReadError):
    """Raised when a connection that has served before breaks before any byte of an answer.

    The server closed it just as the request went out, so the request may go out again at once.
    """


ParserEvent = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]
"""What h11 has read: a part of a response, or that it needs more, or that it waits."""


@define(eq=False)
class Connection:
    """Send one request after another and read the answers."""

    origin: Origin
    sock: socket.socket  # a non-blocking socket
    _has_served: bool = field(default=False, init=False)
    idle_since: float = field(default=0.0, init=False)  # on `time.monotonic`
    _protocol: h11.Connection = field(
        factory=partial(h11.Connection, h11.CLIENT, LARGEST_HEAD), init=False
    )
    _has_read: bool = field(default=False, init=False)  # any byte of the answer
    # what came while the request was still being sent
    _early: ParserEvent | None = field(default=None, init=False)
    # whether the server answered so early that the rest of the request was not sent
    _is_cut_short: bool = field(default=False, init=False)
    _body: BodyReader = field(init=False)  # from the head of a response on
    _closing: weakref.finalize[[], Connection] = field(init=False)

    def __attrs_post_init__(self) -> None:
        # Close the socket quietly if nobody closes the client. A `__del__` of ours would run after
        # that of the socket, which warns of an unclosed one.
        self._closing = weakref.finalize(self, self.sock.close)
        self._closing.atexit = False

    @property
    def is_old(self) -> bool:
        """Tell whether it has been idle for too long to stay open."""
        return self.idle_seconds >= KEEP

    @property
    def idle_seconds(self) -> float:
        """Return for how long it has been idle, in seconds."""
        return time.monotonic() - self.idle_since

    @property
    def is_usable(self) -> bool:
        """Tell whether an idle connection can take a request.

        It can if it is young and open, and nothing has arrived on it.
        """
        return not self.is_old and is_quiet(self.sock)

    def close(self) -> None:
        """Close it, whatever it is doing."""
        self._closing()

    def ask(
        self,
        method: str,
        target: bytes,
        headers: Mapping[str, str],
        body: bytes,
        limits: AttemptLimits,
    ) -> Operation[h11.Response]:
        """Send a request and read the head of the answer.

        Arguments:
            method: the method.
            target: the path with its query.
            headers: all headers of the request.
            body: the whole body.
            limits: those of the attempt.

        Raises:
            StaleConnection: it had served another request, and broke before any byte of an answer.
            httpx.TransportError: the request could not be sent, or no answer came.
        """
        is_reused = self._has_served
        self._has_served = True
        self._has_read = False
        try:
            data = write_head(method, target, headers) + body
            # h11 only needs to know of the request; we have written it ourselves
            upgrade = headers.get("upgrade", "")
            self._protocol.send(_request(method, headers.get("connection", ""), upgrade))
            self._protocol.send(_END)
            unsent = yield from self._send(data, limits)
            return (yield from self._read_head(unsent, limits))
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from error
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            if is_reused and not self._has_read:
                raise StaleConnection(str(error)) from error
            raise

    def _send(self, data: bytes, limits: AttemptLimits) -> Operation[httpx.WriteError | None]:
        """Send a request.

        An error is returned, not raised: the server may have answered before it closed.
        """
        try:
            yield from write(self.sock, data, limits, self._hear)
        except httpx.WriteError as error:
            return error
        return None

    def _hear(self, sock: socket.socket) -> bool:
        """Read what comes while the request is still being sent, and tell whether to stop sending.

        A server that refuses a request for its size may not read the rest. A server that begins a
        good answer will.
        """
        if self._early is not None:  # the rest of the answer is read after the request is sent
            return False
        data = what_came(sock)
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

    def _read_head(
        self, unsent: httpx.WriteError | None, limits: AttemptLimits
    ) -> Operation[h11.Response]:
        """Read the head of the answer, past informational ones.

        Arguments:
            unsent: the error of writing the request, if there was one. It is raised if there is no
                answer.
            limits: those of the attempt.
        """
        ahead = b""  # what came behind the end of a head: whole chunks need not go through h11
        while True:
            event: ParserEvent = h11.NEED_DATA
            if self._early is not None:
                event = self._early
                self._early = None
            elif self._has_read:
                event = self._next_event()
            if isinstance(event, h11.Response):
                is_all = self._protocol.trailing_data == (b"", False)
                self._body = BodyReader(self._protocol, event if is_all else None, ahead)
                return event
            if event is h11.NEED_DATA:
                try:
                    data = ahead or (yield from read(self.sock, limits))
                except httpx.NetworkError as error:
                    if unsent is None:
                        raise
                    raise unsent from error
                if not data:
                    raise httpx.RemoteProtocolError(
                        "Server disconnected without sending a response."
                    )
                self._has_read = True
                head, end, ahead = data.partition(b"\r\n\r\n")
                self._protocol.receive_data(head + end)
            elif not isinstance(event, h11.InformationalResponse) or event.status_code == 101:
                raise httpx.RemoteProtocolError(CHANGED)

    def buffered(self) -> bytes | None:
        """Return the body that was read and not handed out yet, in one piece.

        It is b"" if more must be read, None at the end; see `BodyReader.take`.
        """
        return self._body.take()

    def fill(self, limits: AttemptLimits, *, waits_first: bool = False) -> Operation[bytes]:
        """Read more of the body.

        Arguments and errors are those of `sockets.read`.

        Returns:
            What came, if it is whole chunks; else b"", and `buffered` has it.
        """
        data = yield from read(self.sock, limits, waits_first=waits_first)
        return self._body.feed(data)

    def finish(self) -> bool:
        """Prepare for the next request, and tell whether that is possible.

        It is not if more bytes have come, which would answer the next request, or if this request
        was not sent whole.
        """
        protocol = self._protocol
        is_done = protocol.our_state is h11.DONE and protocol.their_state is h11.DONE
        if not is_done or self._is_cut_short or protocol.trailing_data != (b"", False):
            return False
        protocol.start_next_cycle()
        self.idle_since = time.monotonic()
        return True

    def _next_event(self) -> ParserEvent:
        try:
            return self._protocol.next_event()
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error
