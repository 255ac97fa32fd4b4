"""A body in chunks is read as it is, however its chunks come: many in one reading, or one in many."""

import math
import socket
import time
from collections.abc import Iterator, Sequence

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rungwise.adapters.http.connection import Connection
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.waiting import run
from support.growth import calls_made

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Reading:
    """Read an answer on one end of a pair of sockets, of which the other is written to step by step."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        self.connection, self.limits = Connection(("http", "host", 80), ours), AttemptLimits()
        asking = self.connection.ask("GET", b"/", {"host": "host"}, b"", self.limits)
        self.theirs.sendall(HEAD)
        run(asking, self.limits.cancellation)

    def read(self, sent: bytes) -> bytes | None:
        """Return what a driver gets to read once this was sent; None at the end of the body."""
        found = b""
        if sent:
            self.theirs.sendall(sent)
            found = run(self.connection.fill(self.limits, waits_first=True), self.limits.cancellation)
        while data := self.connection.buffered():
            found += data
        return found if data is not None or found else None

    def close(self) -> None:
        self.theirs.close()
        self.connection.close()


@pytest.fixture
def reading() -> Iterator[Reading]:
    made = Reading()
    yield made
    made.close()


PIECES = st.lists(st.binary(min_size=1, max_size=12) | st.sampled_from([b"\r\n", b"0\r\n\r\n"]), max_size=8)


@settings(max_examples=60)
@given(PIECES, st.lists(st.integers(1, 40), max_size=30))
@example([b"x", b"y" * 4], [14])  # both within one reading, which is no longer than one chunk's might be
@example([b"data"], [9, 4])
@example([b"data"], [7, 2])  # the end of a chunk by itself
@example([b"data"], [8, 1])
@example([b"one", b"two", b"\r\n", b"three"], [8, 16])  # chunks by themselves, also together, behind a first one
@example([b"one", b"two", b"three"], [8, 7])  # a chunk that lacks its end, behind a first one
def test_a_body_is_the_same_however_its_chunks_come(pieces: Sequence[bytes], sizes: Sequence[int]) -> None:
    reading = Reading()
    try:
        sent, body = b"".join(map(chunk, pieces)) + END, b""
        for size in (*sizes, len(sent)):
            body += reading.read(sent[:size]) or b""
            sent = sent[size:]
        assert body == b"".join(pieces)
        assert reading.read(b"") is None
        assert reading.connection.finish()
    finally:
        reading.close()


@pytest.mark.parametrize(("broken", "rest"), [(b"no size\r\n", b""), (b"4\r\ndata--", b"data")])
def test_what_came_before_a_broken_chunk_is_handed_out_first(reading: Reading, broken: bytes, rest: bytes) -> None:
    reading.theirs.sendall(chunk(b"first") + broken)
    run(reading.connection.fill(reading.limits), reading.limits.cancellation)
    assert reading.connection.buffered() == b"first" + rest
    for _ in range(2):
        with pytest.raises(httpx.RemoteProtocolError):
            reading.connection.buffered()


def test_a_chunk_that_ends_with_the_connection_breaks_the_body(reading: Reading) -> None:
    assert reading.read(chunk(b"data")) == b"data"
    reading.theirs.shutdown(socket.SHUT_WR)
    run(reading.connection.fill(reading.limits), reading.limits.cancellation)
    with pytest.raises(httpx.RemoteProtocolError):
        reading.connection.buffered()


@pytest.mark.parametrize("waits_first", [False, True])
def test_a_thread_that_waits_first_keeps_the_same_limits(reading: Reading, waits_first: bool) -> None:
    reading.limits.ends_at = time.monotonic() - 1
    reading.theirs.sendall(chunk(b"late"))
    with pytest.raises(httpx.ReadTimeout):
        run(reading.connection.fill(reading.limits, waits_first=waits_first), reading.limits.cancellation)
    reading.limits.ends_at = math.inf
    assert reading.read(END) == b"late"


@pytest.mark.parametrize("broken", [b"4\r\ndata--", b"-4\r\ndata\r\n", b"0x4\r\ndata\r\n", b" 4\r\ndata\r\n", b"\r\n"])
def test_a_broken_chunk_behind_chunks_that_came_by_themselves_breaks_the_body(reading: Reading, broken: bytes) -> None:
    for _ in range(3):
        assert reading.read(chunk(b"data")) == b"data"
    reading.theirs.sendall(chunk(b"last") + broken)
    run(reading.connection.fill(reading.limits), reading.limits.cancellation)
    assert (reading.connection.buffered() or b"").startswith(b"last")
    with pytest.raises(httpx.RemoteProtocolError):
        list(iter(reading.connection.buffered, None))
    assert not reading.connection.finish()


def test_the_end_of_a_body_is_seen_with_the_chunk_before_it(reading: Reading) -> None:
    assert reading.read(chunk(b"data: [DONE]")) == b"data: [DONE]"
    reading.theirs.sendall(chunk(b"\n\n") + END)
    # Behind a terminal event a driver takes one piece more, and then looks whether the connection can serve again.
    found = run(reading.connection.fill(reading.limits), reading.limits.cancellation)
    assert (found or reading.connection.buffered()) == b"\n\n"
    assert reading.connection.finish()


def test_a_chunk_that_comes_by_itself_asks_little_of_each_layer(reading: Reading) -> None:
    sent = chunk(b"x" * 300)
    reading.read(sent)
    assert calls_made(lambda: reading.read(sent)) < 50
