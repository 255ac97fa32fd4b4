"""Hostile framing: false lengths, odd line ends and false ends of replies, also on reused
connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.fsm.testing.hostile.raw import (
    DONE,
    LAST_CHUNK,
    Ending,
    Hostility,
    RawResponse,
    RawStep,
    ValidReply,
    chunk,
    pick,
    valid_reply,
)

OTHER_TEXT: Final = "This is the answer to a question that somebody else has asked."
ARABIC_FIVE: Final = "\u0665".encode()
CHUNK_SIZES: Final = (
    b"zz",
    b"-1",
    b"0x10",
    b"f" * 17,
    b"f" * 300,
    b"",
    b"+5",
    b"1_0",
    b" 5",
    b"5 ",
    ARABIC_FIVE,
)
LENGTHS: Final = (
    b"-1",
    b"1e3",
    b"0x10",
    b"9" * 30,
    b"",
    b"+5",
    b"1_0",
    b"nan",
    b"5, 5",
    b"5, 6",
    ARABIC_FIVE,
)
CODINGS: Final = (
    b"chunked",
    b"identity",
    b"gzip, chunked",
    b"chunked, chunked",
    b"xchunked",
    b"Chunked ",
    b"\x0bchunked",
)
ENDINGS: Final[tuple[Ending, ...]] = ("close", "keep", "hold")
STATUS_LINES: Final = (
    b"HTTP/1.1 abc",
    b"HTTP/9.9 200 OK",
    b"ICY 200 OK",
    b"",
    b"\x16\x03\x01\x02\x00\x01",
    b"HTTP/1.1 20 OK",
    b"HTTP/1.1  200 OK",
    b"HTTP/1.1 200",
    b"HTTP/1.0 200 OK",
    b"HTTP/2 200 OK",
    b"PRI * HTTP/2.0",
    b"HTTP/1.1 1000",
    b"HTTP/1.1 200 \xff\xfe",
    b"HTTP/1.1 200 a\0b",
    b"GET / HTTP/1.1",
    b"HTTP/1.1 099 Low",
    b" HTTP/1.1 200 OK",
)
HEAD_ENDS: Final = (b"\n", b"\r", b"\r\r\n", b"\n\r")
WAIT_STATUSES: Final = (b"429 Too Many Requests", b"503 Service Unavailable", b"200 OK")
STATUSES: Final = (
    b"101 Switching Protocols",
    b"204 No Content",
    b"205 Reset Content",
    b"304 Not Modified",
    b"302 Found",
    b"206 Partial Content",
    b"226 IM Used",
    b"600 Six",
    b"999 Nine",
    b"407 Proxy Authentication Required",
)
WAITS: Final = (
    *(
        b"retry-after: " + wait
        for wait in (b"9" * 400, b"-1", b"1e400", b"nan", b"inf", b"Wed, 99 Foo 2025", b"\xff")
    ),
    b"x-ratelimit-reset-tokens: " + b"1h" * 5_000,
)


def _bad_size(draw: DrawFn, reply: ValidReply) -> RawResponse:
    last = pick(draw, *CHUNK_SIZES) + b"\r\n" + reply.events[-1] + b"\r\n"
    return reply.response(
        reply.chunked_head() + b"".join(map(chunk, reply.events[:-1])) + last + LAST_CHUNK
    )


def _wrong_length(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Announce fewer bytes than follow, or more."""
    off = draw(st.integers(1, len(reply.body))) * pick(draw, -1, 1)
    head = reply.head(b"content-length: %d" % (len(reply.body) + off))
    arrived = reply.body[:off] if off < 0 else reply.body
    ending = pick(draw, *ENDINGS)
    return reply.response(head + reply.body, ending, is_whole=reply.is_whole_in(arrived))


def _two_lengths(draw: DrawFn, reply: ValidReply) -> RawResponse:
    size = len(reply.body)
    other = b"content-length: %d" % pick(draw, size, 0, size - 1, size + 1, 5)
    headers = (reply.length, other) if draw(st.booleans()) else (other, reply.length)
    return reply.response(reply.head(*headers) + reply.body)


def _length_and_chunks(draw: DrawFn, reply: ValidReply) -> RawResponse:
    headers = [b"transfer-encoding: " + pick(draw, *CODINGS), reply.length]
    body = chunk(reply.body) + LAST_CHUNK if draw(st.booleans()) else reply.body
    return reply.response(reply.head(*draw(st.permutations(headers))) + body)


def _body_line_ends(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """End lines as the format of event streams allows: by CR alone, by CR LF, by turns."""
    lines = reply.body.split(b"\n")
    ends = draw(st.lists(st.sampled_from((b"\r", b"\r\n", b"\n")), min_size=1, max_size=4))
    body = b"".join(line + ends[at % len(ends)] for at, line in enumerate(lines[:-1])) + lines[-1]
    return reply.response(reply.written(body), "keep")


def _two_replies(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Answer one request twice: the second answer must never be taken for that of the next request.

    Both come in one piece: what is sent while the next request is on its way cannot be told from
    its answer.
    """
    more = pick(draw, 1, 2)
    other = valid_reply(streams=draw(st.booleans()), text=OTHER_TEXT).written() * more
    first = (
        reply.written()
        if draw(st.booleans())
        else reply.chunked_head() + chunk(reply.body) + LAST_CHUNK
    )
    return reply.response(first + other, "keep")


def _bytes_after(draw: DrawFn, reply: ValidReply) -> RawResponse:
    more = pick(
        draw, b"\r\n", b"junk", b"\0", b"HTTP/1.1 ", b"HTTP/1.1 408 Request Timeout\r\n\r\n", DONE
    )
    gap = pick(draw, 0.0, 0.002)
    return RawResponse([RawStep(reply.written()), RawStep(more, gap)], "keep", says=reply.text)


def _no_end(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Leave the terminal event out, and close the body as if all were well."""
    body = b"".join(reply.events[:-3]) if reply.streams else reply.body[: -draw(st.integers(1, 60))]
    return reply.response(reply.written(body), "keep", is_whole=False)


def _cut(draw: DrawFn, reply: ValidReply) -> RawResponse:
    head = pick(draw, b"transfer-encoding: chunked", b"connection: close", b"content-length: 9000")
    framed = b"".join(map(chunk, reply.events)) + LAST_CHUNK if b"chunked" in head else reply.body
    cut = draw(st.integers(0, len(framed) - 1))
    written = reply.head(head) + framed[:cut]
    if draw(st.integers(0, 9)) == 9:
        written = written[: draw(st.integers(0, len(reply.head(head))))]
    return reply.response(
        written, pick(draw, "close", "reset"), is_whole=reply.is_whole_in(framed[:cut])
    )


def _pieces(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Cut a valid reply anywhere, between two writes and between two chunks."""
    size = draw(st.integers(1, 40))
    parts = [reply.body[start : start + size] for start in range(0, len(reply.body), size)]
    if draw(st.booleans()):
        steps = [RawStep(reply.written()[: -len(reply.body)]), *map(RawStep, parts)]
    else:
        steps = [
            RawStep(reply.chunked_head()),
            *(RawStep(chunk(part)) for part in parts),
            RawStep(LAST_CHUNK),
        ]
    return RawResponse(steps, "keep", says=reply.text)


def _status(draw: DrawFn, reply: ValidReply) -> RawResponse:
    status = pick(draw, *STATUSES)
    head = reply.head(
        reply.length, b"location: /v1/chat/completions", b"upgrade: websocket", status=status
    )
    return reply.response(head + reply.body, pick(draw, *ENDINGS))


def _wrong_kind(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Send a stream that was not asked for, or a whole reply instead of a stream, under either
    type.
    """
    other = valid_reply(streams=not reply.streams)
    typed = pick(draw, reply, other)
    before = pick(
        draw, b"", b": processing\n\n", b"\n", b"event: message\n", b"id: 1\n", b"retry: 1\n"
    )
    return reply.response(typed.written(before + other.body))


FRAMINGS: Final[Mapping[str, Hostility]] = {
    "bad chunk size": _bad_size,
    "wrong length": _wrong_length,
    "odd length": lambda draw, reply: reply.response(
        reply.head(b"content-length: " + pick(draw, *LENGTHS)) + reply.body
    ),
    "two lengths": _two_lengths,
    "length and chunks": _length_and_chunks,
    "line ends of the head": lambda draw, reply: reply.response(
        reply.head(reply.length).replace(b"\r\n", pick(draw, *HEAD_ENDS)) + reply.body
    ),
    "line ends of the body": _body_line_ends,
    "two replies": _two_replies,
    "bytes after the reply": _bytes_after,
    "no terminal event": _no_end,
    "cut anywhere": _cut,
    "pieces": _pieces,
    "odd status line": lambda draw, reply: reply.response(
        reply.written().replace(b"HTTP/1.1 200 OK", pick(draw, *STATUS_LINES), 1)
    ),
    "odd status": _status,
    "odd waits": lambda draw, reply: reply.response(
        reply.head(reply.length, pick(draw, *WAITS), status=pick(draw, *WAIT_STATUSES))
        + reply.body,
        "keep",
    ),
    "wrong kind of body": _wrong_kind,
}
