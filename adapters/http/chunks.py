"""Read the body of a response: h11 does, except for whole chunks that follow the head or a chunk.

h11 takes about 10 µs to parse a chunk. For that alone, a stream that comes chunk by chunk would
cost 1.2 to 1.4 times its raw bytes. So if h11 stands before a chunk and whole chunks come, they
pass it by: it stands before a chunk afterwards, too. Everything else goes to h11, including the end
of the body and whatever is broken.
"""

from __future__ import annotations

import re
from typing import Final

import h11
import httpx

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
"""The usual first line of a chunk. h11 reads unusual and broken ones."""

_CHUNK_END: Final = (b"\r\n", False)
"""What h11 still holds behind a whole chunk."""

_MOST_FRAMING: Final = 16
"""The most bytes around a chunk that came alone. If there are more, h11 may hold much, and looking
at that copies all of it.
"""


class BodyReader:
    """Read the body of one response.

    Arguments:
        protocol: has read the head of the response.
        response: that head, if h11 holds nothing behind it; else None.
        ahead: what came behind the head and was not given to h11.
    """

    def __init__(
        self,
        protocol: h11.Connection,
        response: h11.Response | None = None,
        ahead: bytes = b"",
    ) -> None:
        self._protocol = protocol
        self._passed = b""  # whole chunks, ahead of what h11 was given last
        self._fault: str | None = None  # h11 reports it only once
        self._fed = 0  # bytes that h11 was given last
        # whether h11 stands between two chunks, so that whole chunks may pass it by
        self._is_between = response is not None and _is_chunked(response)
        self._needs_data = self._is_between
        if ahead:
            self._passed = self.feed(ahead) or self._passed

    def feed(self, data: bytes) -> bytes:
        """Take what was read from the connection.

        Returns:
            The body, if all of it is whole chunks; else b"", and `take` has it.
        """
        if self._is_between:
            body, end = _whole_chunks(data)
            if body and end == len(data):
                return body
            self._passed = body
            data = data[end:]
        self._needs_data = False
        self._is_between = False
        self._fed = len(data)
        self._protocol.receive_data(data)
        return b""

    def take(self) -> bytes | None:
        """Return the body so far; b"" if more must be read, None at its end.

        Raises:
            httpx.RemoteProtocolError: the body is broken.
        """
        if self._needs_data:
            passed = self._passed
            self._passed = b""
            return passed
        if self._fault is not None:
            raise httpx.RemoteProtocolError(self._fault)
        if self._protocol.their_state is not h11.SEND_BODY:
            return None
        pieces = [self._passed] if self._passed else []
        self._passed = b""
        try:
            while isinstance(event := self._protocol.next_event(), h11.Data):
                pieces.append(event.data)
                framing = self._fed - len(event.data)
                came_alone = event.chunk_end and framing <= _MOST_FRAMING
                if came_alone and self._protocol.trailing_data == _CHUNK_END:
                    # h11 stands behind a whole chunk, and holds nothing but the end of its line.
                    # Only now does it show that: if asked again, it would drop this end.
                    self._needs_data = True
                    self._is_between = True
                    return b"".join(pieces)
            # Bytes behind the end do not matter. If the server is to close the connection, h11
            # takes them for an error.
            self._needs_data = event is h11.NEED_DATA
        except h11.RemoteProtocolError as error:
            self._fault = str(error)
            if not pieces:
                raise httpx.RemoteProtocolError(self._fault) from error
        if pieces:
            return b"".join(pieces)
        return b"" if self._needs_data else None


def _is_chunked(response: h11.Response) -> bool:
    """Tell whether h11 reads the body in chunks.

    A transfer-encoding means just that: h11 refuses every other one (RFC 9112, section 6.3).
    """
    if response.status_code in {204, 304}:
        return False
    return any(name == b"transfer-encoding" for name, _ in response.headers)


def _whole_chunks(data: bytes) -> tuple[bytes, int]:
    """Return the contents of the whole chunks at the start of some data, and where they end."""
    pieces = list[bytes]()
    end = 0
    while (size := _SIZE.match(data, end)) is not None:
        start = size.end()
        stop = start + int(size[1], 16)
        # the last chunk, a part of one, or a broken one
        if stop == start or data[stop : stop + 2] != b"\r\n":
            break
        pieces.append(data[start:stop])
        end = stop + 2
    return b"".join(pieces), end
