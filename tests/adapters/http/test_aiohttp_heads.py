"""A head that is read by a pattern says what h11 reads in it."""

from __future__ import annotations

from typing import Any

import h11
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rungwise.adapters.http.aiohttp_heads import HeadReader, NoHead
from rungwise.adapters.http.connection import asked_by, reader_for
from support.sampling import examples

KEPT = asked_by("POST", {"connection": "keep-alive"})
CLOSED = asked_by("POST", {"connection": "close"})

NAMES = ("content-length", "Content-Length", "transfer-encoding", "connection", "Connection", "x-id", "x y", "", "é")
VALUES = ("5", "05", "5, 5", "+5", "chunked", "Chunked", "gzip", "close", "keep-alive", "Keep-Alive", "upgrade")
ODDITIES = ("", " a", "a ", "a\tb", "a  b", "é", "\x00", "\x7f", "a: b", "a\rb", "a\nb")
GAPS = (": ", ":", ":  ", " : ", ":\t")
FIELDS = st.tuples(st.sampled_from(NAMES), st.sampled_from(GAPS), st.sampled_from(VALUES + ODDITIES))
LINES = ("HTTP/1.1 200 OK", "HTTP/1.1 200 ", "HTTP/1.1 200", "HTTP/1.0 200 OK", "HTTP/1.1 204 No", "HTTP/1.1 404 \tA")


def written(line: str, fields: list[tuple[str, str, str]]) -> bytes:
    return "\r\n".join([line, *map("".join, fields), "", "the body"]).encode("latin-1")


def read(answer: Any) -> Any:
    try:
        return answer()
    except NoHead as error:
        return str(error)


@settings(max_examples=examples(300))
@given(st.sampled_from(LINES), st.lists(FIELDS, max_size=4), st.sampled_from([KEPT, CLOSED]))
@example("HTTP/1.1 200 OK", [("x-id", ": ", "5"), ("content-length", ": ", "5")], KEPT)
@example("HTTP/1.1 200 OK", [("content-length", ": ", "5"), ("content-length", ": ", "5")], KEPT)
@example("HTTP/1.1 200 OK", [("transfer-encoding", ": ", "Chunked"), ("Connection", ": ", "close")], KEPT)
@example("HTTP/1.1 200 OK", [("transfer-encoding", ": ", "Chunked")], KEPT)
@example("HTTP/1.1 200 OK", [("content-length", ": ", "5"), ("Connection", ": ", "Keep-Alive")], KEPT)
def test_a_head_is_read_as_by_h11(line: str, fields: list[tuple[str, str, str]], asked: h11.Request) -> None:
    data = written(line, fields)
    by_h11 = read(lambda: HeadReader._read_any(reader_for(asked), data))
    assert read(lambda: HeadReader(asked).read(data)) == by_h11
    if isinstance(by_h11, tuple):
        pieces = HeadReader(asked)
        assert [each for at in range(len(data) - 8) if (each := pieces.read(data[at : at + 1]))] == [(by_h11[0], b"")]


def test_a_usual_head_is_not_shown_to_h11() -> None:
    for framing in ("content-length: 5", "Transfer-Encoding: chunked", "connection: keep-alive\r\ncontent-length: 5"):
        reader = HeadReader(KEPT)
        read = reader.read(f"HTTP/1.1 200 OK\r\n{framing}\r\nx-id: 7\r\n\r\nthe body".encode())
        assert read is not None
        assert (read[0].status, read[1], reader._reader) == (200, b"the body", None)
