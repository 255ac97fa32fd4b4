"""`BodyReader` reads what h11 reads, however a body is cut on its way, and holds no more of it than
a piece.
"""

import tracemalloc
from collections.abc import Iterable
from itertools import pairwise

import h11
import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rungwise.adapters.http.chunks import BodyReader
from rungwise.adapters.http.connection import LARGEST_HEAD

CHUNKED = b"transfer-encoding: chunked\r\n"
END = b"0\r\n\r\n"
EOF = b""
"""What a connection gives when the server has closed it."""


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def behind_head(
    fields: bytes = CHUNKED, data: bytes = b"", status: bytes = b"200 OK"
) -> tuple[h11.Connection, h11.Response]:
    """Return a connection that has read the head of a response, which `data` came with, and that
    head.
    """
    protocol = h11.Connection(h11.CLIENT, LARGEST_HEAD)
    protocol.send(h11.Request(method="GET", target="/", headers=[("host", "h")]))
    protocol.send(h11.EndOfMessage())
    protocol.receive_data(b"HTTP/1.1 " + status + b"\r\n" + fields + b"\r\n" + data)
    response = protocol.next_event()
    assert isinstance(response, h11.Response)
    return protocol, response


def read_by_h11(
    fields: bytes, pieces: Iterable[bytes], status: bytes = b"200 OK"
) -> tuple[bytes, str]:
    """Return a body as h11 alone reads it, and how it ends."""
    protocol, _ = behind_head(fields, status=status)
    body = b""
    for piece in pieces:
        protocol.receive_data(piece)
        try:
            while isinstance(event := protocol.next_event(), h11.Data):
                body += event.data
        except h11.RemoteProtocolError:
            return body, "broken"
        if event is not h11.NEED_DATA:
            return body, "ended"
    return body, "unfinished"


class Reading:
    """Read a body as the drivers do: what was read already, by h11 or not, then what is fed."""

    def __init__(
        self,
        fields: bytes = CHUNKED,
        data: bytes = b"",
        *,
        is_ahead: bool = False,
        status: bytes = b"200 OK",
    ) -> None:
        self.protocol, response = behind_head(fields, b"" if is_ahead else data, status)
        self.reader = (
            BodyReader(self.protocol, response, data) if is_ahead else BodyReader(self.protocol)
        )
        self.body = b""
        self.state = "unfinished"
        self._take()

    def feed(self, *pieces: bytes) -> tuple[bytes, str]:
        """Feed pieces until the body ends; return all of it so far, and its state."""
        for piece in pieces:
            if self.state == "unfinished":
                self.body += self.reader.feed(piece)
                self._take()
        return self.body, self.state

    def _take(self) -> None:
        try:
            while data := self.reader.take():
                self.body += data
        except httpx.RemoteProtocolError:
            self.state = "broken"
        else:
            self.state = "ended" if data is None else "unfinished"


def pieces_of(data: bytes, places: Iterable[int], is_closed: bool) -> list[bytes]:
    """Return the pieces of a body, and the end of the connection behind them if it is closed."""
    pieces = cut(data, places)
    if is_closed:
        pieces.append(EOF)
    return pieces


def with_first(first: bytes, pieces: list[bytes]) -> list[bytes]:
    """Return the pieces behind a first one, if there is one."""
    return [first, *pieces] if first else pieces


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """Cut data at these places."""
    ends = sorted({0, len(data), *(place for place in places if place < len(data))})
    return [data[start:end] for start, end in pairwise(ends)]


PLACES = st.lists(st.integers(1, 300), max_size=20)
BYTES = st.binary(min_size=1, max_size=20) | st.sampled_from([b"\r\n", END, b"5\r\nhello\r\n"])
SOUND = BYTES.map(chunk)
UNUSUAL = st.sampled_from(
    [
        b"4;name=value\r\ndata\r\n",
        b'4;name="quoted; \\" text"\r\ndata\r\n',
        b"4 \r\ndata\r\n",
        b"0004\r\ndata\r\n",
        b"%020x\r\ndata\r\n" % 4,
        b"A\r\nten bytes.\r\n",
        b"a\r\nten bytes.\r\n",
        END,
        b"000\r\n\r\n",
        b"0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n",
    ]
)
NO_CHUNKS = (
    b"no size\r\n",
    b"-4\r\ndata\r\n",
    b"0x4\r\ndata\r\n",
    b" 4\r\ndata\r\n",
    b"\r\n",
    b"4\r\ndata--",
)
BROKEN = st.sampled_from(
    [
        *NO_CHUNKS,
        b"+4\r\ndata\r\n",
        b"4\r\nda",
        b"4\ndata\n",
        b"4_0\r\ndata\r\n",
        b"4\r\ndata\r\r\n",
        b"\xc2\xb2\r\nno\r\n",
        b"%021x\r\ndata\r\n" % 4,
        b"f" * 20 + b"\r\ndata",
        b"0\r\nno field\r\n\r\n",
        b"ffffffff\r\ndata",
    ]
)
STREAM = st.lists(SOUND | SOUND | SOUND | UNUSUAL | BROKEN | st.binary(max_size=8), max_size=8).map(
    b"".join
)


@pytest.mark.parametrize("is_ahead", [True, False])
@given(STREAM, PLACES, st.booleans(), st.integers(0, 40))
# both in one reading, no longer than one chunk
@example(chunk(b"x") + chunk(b"yyyy") + END, [14], False, 0)
@example(chunk(b"data") + END, [7, 9], False, 0)  # the end of a chunk by itself
# chunks by themselves, then one that lacks its end
@example(chunk(b"data") * 4 + END, [9, 18, 25], True, 0)
@example(chunk(b"data") * 2 + b"4\r\ndata--", [9, 18], False, 9)
@example(chunk(b"data") + b"%021x\r\ndata\r\n" % 4 + END, [9], False, 0)
# what looks like a chunk, within one
@example(chunk(b"data") + chunk(b"--5\r\nhello\r\n") + END, [9, 14], False, 0)
@example(chunk(b"data") * 2, [9], True, 0)  # the connection ends between two chunks
@example(chunk(b"data") * 2 + END, [], False, 18)  # whole chunks with the head
@example(chunk(b"data") * 2 + END, [], False, 23)  # all of the body
def test_chunks_are_read_as_h11_reads_them(
    is_ahead: bool,
    data: bytes,
    places: list[int],
    is_closed: bool,
    with_head: int,
) -> None:
    first = data[:with_head]
    pieces = pieces_of(data[with_head:], places, is_closed)
    reading = Reading(data=first, is_ahead=is_ahead)
    assert reading.feed(*pieces) == read_by_h11(CHUNKED, with_first(first, pieces))


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        *(
            (each, b"200 OK")
            for each in (
                b"content-length: 20\r\n",
                b"",
                b"content-length: 0\r\n",
                b"connection: close\r\n",
            )
        ),
        *((CHUNKED, each) for each in (b"204 No Content", b"304 Not Modified")),
    ],
)
@pytest.mark.parametrize("is_ahead", [True, False])
@given(st.binary(max_size=40) | SOUND, PLACES, st.booleans(), st.booleans())
@example(b"x" * 20 + b"\r\n", [], False, False)
def test_other_framings_are_read_as_h11_reads_them(
    fields: bytes,
    status: bytes,
    is_ahead: bool,
    data: bytes,
    places: list[int],
    is_closed: bool,
    with_head: bool,
) -> None:
    pieces = pieces_of(data, places, is_closed)
    first = pieces.pop(0) if with_head and data else b""
    # A body of no bytes has ended before anything comes.
    is_empty = status != b"200 OK" or fields == b"content-length: 0\r\n"
    expected = (b"", "ended") if is_empty else read_by_h11(fields, with_first(first, pieces))
    assert Reading(fields, first, is_ahead=is_ahead, status=status).feed(*pieces) == expected


@pytest.mark.parametrize("broken", NO_CHUNKS)
@pytest.mark.parametrize("came_before", [0, 3])
def test_what_came_before_a_broken_chunk_is_handed_out_first_and_the_error_stays(
    broken: bytes, came_before: int
) -> None:
    reading = Reading()
    reading.feed(*[chunk(b"data")] * came_before)
    assert reading.reader.feed(chunk(b"last") + broken) == b""
    assert (reading.reader.take() or b"").startswith(b"last")
    for _ in range(2):
        with pytest.raises(httpx.RemoteProtocolError):
            reading.reader.take()
    assert reading.protocol.their_state is h11.ERROR  # so that the connection is not used again


def test_the_end_of_a_body_is_seen_with_the_chunk_before_it() -> None:
    reading = Reading()
    reading.feed(chunk(b"data: [DONE]"))
    # Behind a terminal event a driver takes one piece more, and then looks whether the connection
    # can serve again.
    assert reading.reader.feed(chunk(b"\n\n") + END) == b""
    assert reading.reader.take() == b"\n\n"
    assert reading.protocol.their_state is h11.DONE


@pytest.mark.parametrize(
    "endless",
    [b"4;name=", b"0\r\nname: ", b"0\r\n" + b"x: y\r\n" * 10],
    ids=["a size", "a trailer", "trailers"],
)
def test_a_line_without_an_end_is_broken_after_as_many_bytes_as_a_head_may_have(
    endless: bytes,
) -> None:
    reading = Reading()
    reading.feed(chunk(b"data"), endless)
    sent = 0
    while reading.state == "unfinished" and sent < 4 * LARGEST_HEAD:
        reading.feed(b"x" * 4096)
        sent += 4096
    assert reading.body == b"data"
    assert reading.state == "broken"
    assert sent <= LARGEST_HEAD + 4096


@pytest.mark.parametrize("is_one", [True, False])
def test_no_more_is_held_than_a_piece(is_one: bool) -> None:
    piece = b"x" * 2**16
    if is_one:
        pieces = [b"%x\r\n" % 2**31, *[piece] * 100]
    else:
        pieces = [chunk(piece)[:-1], b"\n", *[chunk(piece)] * 99]
    reader = BodyReader(behind_head()[0])
    count = 0
    tracemalloc.start()
    try:
        for each in pieces:
            count += len(reader.feed(each) or reader.take() or b"")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 100 * len(piece)
    assert most < 10 * len(piece)
