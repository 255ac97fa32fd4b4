"""What comes on a connection of aiohttp's: heads are read as on our own connections, and bodies by aiohttp."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any, Final

import aiohttp
import h11
from aiohttp.client_proto import ResponseHandler

from rungwise.adapters.http.aiohttp_heads import Head, HeadReader, NoHead
from rungwise.adapters.http.sockets import PIECE

_BLANK_LINE: Final = b"\r\n\r\n"
_TWO: Final = _BLANK_LINE + b"\r\n"


class NotHttp(aiohttp.ClientError):
    """Say why the head of an answer is none."""


class Heard(ResponseHandler):
    """Read the head of an answer as our own connections do, tell aiohttp what it must know of it, and note what comes.

    aiohttp refuses heads that h11 takes, takes others that h11 refuses, and keeps other connections: what a server
    sends would amount to something else. Nor does it say whether an answer had begun where a reset ends it, or what
    came behind an answer that was not asked for.
    """

    has_heard = False
    head: Head | None = None
    _reader: HeadReader
    _behind_head = 0
    _end = b""

    def begin(self, asked: h11.Request) -> None:
        """Wait for the answer to a request."""
        self._reader = HeadReader(asked)
        self.head, self.has_heard, self._behind_head, self._end = None, False, 0, b""

    def data_received(self, data: bytes) -> None:
        """Take what has come; where that is nothing, aiohttp goes on with what it could not take before."""
        self.has_heard = self.has_heard or bool(data)
        if self._parser is not None:  # or nothing was asked, and aiohttp keeps it for when something is
            rest = self._read_head(data) if self.head is None else data
            if rest is None:
                return
            self._behind_head += len(rest)
            self._end = (self._end + rest[-len(_TWO) :])[-len(_TWO) :]
            data = rest
        super().data_received(data)

    def _read_head(self, data: bytes) -> bytes | None:
        """Read the head on, and tell aiohttp of it; return what stands behind it, None before its end."""
        if self.exception() is not None:
            return None
        try:
            read = self._reader.read(bytes(data))
        except NoHead as error:
            self._refuse(str(error))
            return None
        if read is None:
            return None
        self.head, rest = read
        super().data_received(self.head.retold)
        return rest

    def _refuse(self, why: str) -> None:
        if self.transport is not None:
            self.transport.close()
        self.set_exception(NotHttp(why))

    def set_exception(self, exc: BaseException, *cause: Any) -> None:
        """Take what is wrong, and tell whoever reads a body of which aiohttp would not say that it is broken."""
        if isinstance(exc, OSError):
            self._take_last_words()
        super().set_exception(exc, *cause)
        self._break_body(exc)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Take the end; a reset is none of a body that ends with its connection, though aiohttp takes it for one."""
        if exc is not None:
            self._take_last_words()
            self._break_body(exc)
        super().connection_lost(exc)

    def _take_last_words(self) -> None:
        """Take what a server says to a request that it does not read: asyncio closes where that cannot be sent.

        Where it is encrypted, nobody can get at it.
        """
        transport = self.transport
        sock = None if transport is None else transport.get_extra_info("socket")
        if transport is None or sock is None or transport.get_extra_info("ssl_object") is not None:
            return
        with suppress(OSError), socket.fromfd(sock.fileno(), sock.family, sock.type) as same:
            same.setblocking(False)
            while data := same.recv(PIECE):
                self.data_received(data)

    def _break_body(self, exc: BaseException) -> None:
        body = self._payload
        if body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(exc)
            # The end of a chunk, in the same bytes, wakes who reads the body, and aiohttp has them wait on without
            # another look at what is wrong. They are told again when they wait.
            self._loop.call_soon(body.set_exception, exc)

    def has_heard_exactly(self, response: aiohttp.ClientResponse) -> bool:
        """Tell whether what has come is one answer and nothing else, as far as its last bytes or its length show."""
        if "transfer-encoding" in response.headers:
            return self._end.endswith(_BLANK_LINE) and self._end != _TWO
        return self._behind_head == response.content.total_bytes
