"""The heads of answers on connections of aiohttp's: what they say, and what aiohttp is told of them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import h11

from rungwise.adapters.http.connection import CHANGED, reader_for

_FIELD: Final = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]++: [!-~]++(?:[ \t]++[!-~]++)*+\r\n"
_USUAL: Final = re.compile(rb"HTTP/1\.1 ([2-5][0-9][0-9]) [ -~]*+\r\n((?:" + _FIELD + rb")++)\r\n")
"""A head as nearly all are. h11 reads it to the same, in more time than all else that is done here for an answer."""

_PAIR: Final = re.compile(rb"([^:]++): ([^\r]++)\r\n")
_DECIDING: Final = (b"content-length", b"transfer-encoding", b"connection")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")


class NoHead(Exception):
    """Say why what came is no head of an answer."""


class Head(NamedTuple):
    """Hold what a head says, and how it is told to aiohttp: how to read the body, and whether to close behind it."""

    status: int
    fields: list[tuple[bytes, bytes]]
    retold: bytes


class HeadReader:
    """Read the head of one answer, as our own connections do.

    Arguments:
        asked: the request that it answers.
    """

    def __init__(self, asked: h11.Request) -> None:
        self._asked = asked
        self._reader: h11.Connection | None = None

    def read(self, data: bytes) -> tuple[Head, bytes] | None:
        """Take what has come, and return the head with what stands behind it; None before its end.

        Raises:
            NoHead: it is none.
        """
        if self._reader is None:
            found = _USUAL.match(data)
            head = None if found is None else _usual_head(int(found[1]), _PAIR.findall(found[2]), self._asked)
            if found is not None and head is not None:
                return head, data[found.end() :]
            self._reader = reader_for(self._asked)
        return self._read_any(self._reader, data)

    @staticmethod
    def _read_any(reader: h11.Connection, data: bytes) -> tuple[Head, bytes] | None:
        reader.receive_data(data)
        try:
            event = reader.next_event()
            while isinstance(event, h11.InformationalResponse) and event.status_code != 101:
                event = reader.next_event()
        except h11.RemoteProtocolError as error:
            raise NoHead(str(error)) from None
        if event is h11.NEED_DATA:
            return None
        if not isinstance(event, h11.Response):
            raise NoHead(CHANGED)
        closes = reader.our_state is h11.MUST_CLOSE
        retold = _retold(event.status_code, dict(event.headers), closes=closes)
        return Head(event.status_code, event.headers.raw_items(), retold), reader.trailing_data[0]


def _usual_head(status: int, fields: list[tuple[bytes, bytes]], asked: h11.Request) -> Head | None:
    """Return a head, if it says in the usual way where its body ends, and the connection is kept behind it."""
    deciding = [(name.lower(), value) for name, value in fields if name.lower() in _DECIDING]
    said = dict(deciding)
    if len(said) < len(deciding):
        return None
    kept = said.pop(b"connection", b"keep-alive").lower() == b"keep-alive"
    if len(said) != 1 or not kept or (b"connection", b"keep-alive") not in asked.headers:
        return None
    coding, length = said.get(b"transfer-encoding"), said.get(b"content-length")
    # One in capitals is left to h11, which tells it in small letters.
    is_clear = coding == b"chunked" if length is None else _LENGTH.fullmatch(length) is not None
    return Head(status, fields, _retold(status, said, closes=False)) if is_clear else None


def _retold(status: int, said: dict[bytes, bytes], *, closes: bool) -> bytes:
    lines = [b"HTTP/1.1 %d " % status]
    if b"transfer-encoding" in said:  # which h11 takes where it says chunked, and nothing else
        lines.append(b"transfer-encoding: chunked")
    elif b"content-length" in said:
        lines.append(b"content-length: " + said[b"content-length"])
    if closes:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"
