"""What a connection hands out of a body: the same bytes and the same end, wherever the response is
cut on its way.
"""

import math
import socket
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import TypeVar

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rungwise.adapters.http.connection import Connection
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.waiting import Operation, run
from support.growth import calls_made

T = TypeVar("T")

BODY = b"Herons nest in the reeds of the northern lake."
CLOSES = b"connection: close\r\n"
FRAMINGS = {
    "a length": b"content-length: %d\r\n\r\n%b" % (len(BODY), BODY),
    "bare chunks": b"transfer-encoding: chunked\r\n\r\n"
    + b"".join(b"1\r\n%c\r\n" % byte for byte in BODY)
    + b"0\r\n\r\n",
    "chunks": b"transfer-encoding: chunked\r\n\r\n"
    + b"".join(b"1;x=y\r\n%c\r\n" % byte for byte in BODY)
    + b"0\r\n\r\n",
    "trailers": b"transfer-encoding: chunked\r\n\r\n2E\r\n%b\r\n0\r\nx-sum: 1\r\n\r\n" % BODY,
}
HEADS = {
    "1.1": (b"HTTP/1.1 200 OK\r\n", True),
    "1.1 that closes": (b"HTTP/1.1 200 OK\r\n" + CLOSES, False),
    "1.0": (b"HTTP/1.0 200 OK\r\n", False),
    "information": (b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\nHTTP/1.1 200 OK\r\n", True),
}


def played(pieces: list[bytes]) -> tuple[bytes, bool]:
    """Answer a request in pieces, each when the client waits; return the body, and whether the
    connection is kept.
    """
    mine, peer = socket.socketpair()
    with mine, peer:
        mine.setblocking(False)
        connection = Connection(("http", "x", 80), mine)
        limits = AttemptLimits(ends_at=time.monotonic() + 10)
        coming = iter(pieces)
        _drive(
            connection.ask("POST", b"/", {"host": "x", "content-length": "0"}, b"", limits),
            peer,
            coming,
        )
        body = b""
        while (data := connection.buffered()) is not None:
            body += data
            if not data:
                body += _drive(connection.fill(limits), peer, coming)
        return body, connection.finish()


def _drive(operation: Operation[T], peer: socket.socket, coming: Iterator[bytes]) -> T:
    try:
        while True:
            if next(operation) is not None:
                peer.sendall(next(coming))
    except StopIteration as end:
        result: T = end.value
        return result


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    "behind", [b"", b"\r\n", b"HTTP/1.1 500 Oops\r\n\r\n"], ids=["nothing", "a line", "a reply"]
)
@example(places=list(range(1, 900)))  # byte by byte
@given(places=st.lists(st.integers(1, 400), max_size=5))
def test_a_body_is_the_same_wherever_it_is_cut(
    framing: str,
    head: str,
    behind: bytes,
    places: list[int],
) -> None:
    begin, is_kept = HEADS[head]
    whole = begin + FRAMINGS[framing]
    cuts = sorted({0, *(place for place in places if place < len(whole)), len(whole)})
    pieces = [whole[start:end] for start, end in pairwise(cuts)]
    pieces[-1] += behind
    assert played(pieces) == (BODY, is_kept and not behind)


def asked() -> tuple[Connection, AttemptLimits, socket.socket]:
    """Return a connection that has read the head of a response in chunks, its limits, and the
    server's end.
    """
    mine, peer = socket.socketpair()
    mine.setblocking(False)
    connection = Connection(("http", "x", 80), mine)
    limits = AttemptLimits()
    operation = connection.ask("GET", b"/", {"host": "x"}, b"", limits)
    peer.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    run(operation, limits.cancellation)
    return connection, limits, peer


@pytest.mark.parametrize("waits_first", [False, True])
def test_a_thread_that_waits_first_keeps_the_same_limits(waits_first: bool) -> None:
    connection, limits, peer = asked()
    with connection.sock, peer:
        peer.sendall(b"4\r\nlate\r\n")
        limits.ends_at = time.monotonic() - 1
        with pytest.raises(httpx.ReadTimeout):
            run(connection.fill(limits, waits_first=waits_first), limits.cancellation)
        limits.ends_at = math.inf
        found = run(connection.fill(limits, waits_first=waits_first), limits.cancellation)
        assert (found or connection.buffered()) == b"late"


def test_a_chunk_that_comes_by_itself_asks_little_of_each_layer() -> None:
    connection, limits, peer = asked()

    def read() -> bytes | None:
        peer.sendall(sent)
        return (
            run(connection.fill(limits, waits_first=True), limits.cancellation)
            or connection.buffered()
        )

    with connection.sock, peer:
        sent = b"12c\r\n%b\r\n" % (b"x" * 300)
        assert read() == b"x" * 300
        assert calls_made(read) < 50
