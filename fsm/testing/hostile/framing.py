"""Hostile framing: false lengths, odd line ends and false ends of replies.

Theory. Where two readers of a connection disagree about the end of a message, one takes the rest
for the next message: request smuggling, and its mirror image, response splitting. RFC 9112, 6.3,
says which header wins, and 11.2 warns of the rest. The samples here are forms that some parsers
accept and others do not (signs, blanks, underscores, Arabic digits, hexadecimal prefixes, lists of
lengths). A client may refuse each of them; it must not take bytes of one reply for another's, also
on a connection that it reuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
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
    b"retry-after: " + b"9" * 400,
    b"retry-after: -1",
    b"retry-after: 1e400",
    b"retry-after: nan",
    b"retry-after: inf",
    b"retry-after: Wed, 99 Foo 2025",
    b"retry-after: \xff",
    b"x-ratelimit-reset-tokens: " + b"1h" * 5_000,
)


def _bad_size(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Write the last chunk with a size that is no size, or another one."""
    last = pick(draw, *CHUNK_SIZES) + b"\r\n" + reply.events[-1] + b"\r\n"
    before = b"".join(map(chunk, reply.events[:-1]))
    return reply.response(reply.chunked_head() + before + last + LAST_CHUNK)


def _wrong_length(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Announce fewer bytes than follow, or more."""
    off = draw(st.integers(1, len(reply.body))) * pick(draw, -1, 1)
    head = reply.head(b"content-length: %d" % (len(reply.body) + off))
    arrived = reply.body[:off] if off < 0 else reply.body
    ending = pick(draw, *ENDINGS)
    return reply.response(head + reply.body, ending, is_whole=reply.is_whole_in(arrived))


def _odd_length(draw: DrawFn, reply: ValidReply) -> RawResponse:
    length = b"content-length: " + pick(draw, *LENGTHS)
    return reply.response(reply.head(length) + reply.body)


def _two_lengths(draw: DrawFn, reply: ValidReply) -> RawResponse:
    size = len(reply.body)
    other = b"content-length: %d" % pick(draw, size, 0, size - 1, size + 1, 5)
    headers = [other, reply.length]
    if draw(st.booleans()):
        headers.reverse()
    return reply.response(reply.head(*headers) + reply.body)


def _length_and_chunks(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Announce a length and a coding: of the body as it is, or of chunks."""
    headers = [b"transfer-encoding: " + pick(draw, *CODINGS), reply.length]
    body = reply.body
    if draw(st.booleans()):
        body = chunk(reply.body) + LAST_CHUNK
    return reply.response(reply.head(*draw(st.permutations(headers))) + body)


def _head_line_ends(draw: DrawFn, reply: ValidReply) -> RawResponse:
    head = reply.head(reply.length).replace(b"\r\n", pick(draw, *HEAD_ENDS))
    return reply.response(head + reply.body)


def _body_line_ends(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """End lines as the format of event streams allows: by CR alone, by CR LF, by turns."""
    lines = reply.body.split(b"\n")
    ends = draw(st.lists(st.sampled_from((b"\r", b"\r\n", b"\n")), min_size=1, max_size=4))
    ended = [line + end for line, end in zip(lines[:-1], cycle(ends), strict=False)]
    body = b"".join(ended) + lines[-1]
    return reply.response(reply.written(body), "keep")


def _two_replies(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Answer one request twice: a client must never take the second answer for its next reply.

    Both come in one piece, since nobody can tell what is sent while the next request is on its way
    from an answer to that request.
    """
    times = pick(draw, 1, 2)
    other = valid_reply(streams=draw(st.booleans()), text=OTHER_TEXT).written() * times
    if draw(st.booleans()):
        first = reply.written()
    else:
        first = reply.chunked_head() + chunk(reply.body) + LAST_CHUNK
    return reply.response(first + other, "keep")


def _bytes_after(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Write some bytes after the reply: at once, or when the client has read it."""
    more = pick(
        draw, b"\r\n", b"junk", b"\0", b"HTTP/1.1 ", b"HTTP/1.1 408 Request Timeout\r\n\r\n", DONE
    )
    gap = pick(draw, 0.0, 0.002)  # seconds
    return RawResponse([RawStep(reply.written()), RawStep(more, gap)], "keep", says=reply.text)


def _no_end(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Leave the terminal event out, and close the body as if all were well."""
    missing = sum(map(len, reply.events[-3:]))
    if not reply.streams:
        missing = draw(st.integers(1, 60))
    return reply.response(reply.written(reply.body[:-missing]), "keep", is_whole=False)


def _cut(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Cut a reply anywhere in its body, or seldom in its head, by an end or a reset."""
    header = pick(
        draw, b"transfer-encoding: chunked", b"connection: close", b"content-length: 9000"
    )
    framed = reply.body
    if b"chunked" in header:
        framed = b"".join(map(chunk, reply.events)) + LAST_CHUNK
    head = reply.head(header)
    arrived = framed[: draw(st.integers(0, len(framed) - 1))]
    written = head + arrived
    if draw(st.integers(0, 9)) == 9:
        written = written[: draw(st.integers(0, len(head)))]
    ending: Ending = pick(draw, "close", "reset")
    return reply.response(written, ending, is_whole=reply.is_whole_in(arrived))


def _pieces(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Cut a valid reply anywhere, between two writes and between two chunks."""
    size = draw(st.integers(1, 40))
    parts = [reply.body[start : start + size] for start in range(0, len(reply.body), size)]
    if draw(st.booleans()):
        writes = [reply.written()[: -len(reply.body)], *parts]
    else:
        writes = [reply.chunked_head(), *map(chunk, parts), LAST_CHUNK]
    return RawResponse(map(RawStep, writes), "keep", says=reply.text)


def _status_line(draw: DrawFn, reply: ValidReply) -> RawResponse:
    line = pick(draw, *STATUS_LINES)
    return reply.response(reply.written().replace(b"HTTP/1.1 200 OK", line, 1))


def _status(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Send a valid body under a status that forbids one, redirects, upgrades or is unknown."""
    status = pick(draw, *STATUSES)
    head = reply.head(
        reply.length, b"location: /v1/chat/completions", b"upgrade: websocket", status=status
    )
    return reply.response(head + reply.body, pick(draw, *ENDINGS))


def _waits(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Ask for a wait that is no duration, or an absurd one."""
    wait = pick(draw, *WAITS)
    head = reply.head(reply.length, wait, status=pick(draw, *WAIT_STATUSES))
    return reply.response(head + reply.body, "keep")


def _wrong_kind(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Send a whole reply instead of a stream, or the reverse, under either type."""
    other = valid_reply(streams=not reply.streams)
    typed = pick(draw, reply, other)
    before = pick(
        draw, b"", b": processing\n\n", b"\n", b"event: message\n", b"id: 1\n", b"retry: 1\n"
    )
    return reply.response(typed.written(before + other.body))


FRAMINGS: Final[Mapping[str, Hostility]] = {
    "bad chunk size": _bad_size,
    "wrong length": _wrong_length,
    "odd length": _odd_length,
    "two lengths": _two_lengths,
    "length and chunks": _length_and_chunks,
    "line ends of the head": _head_line_ends,
    "line ends of the body": _body_line_ends,
    "two replies": _two_replies,
    "bytes after the reply": _bytes_after,
    "no terminal event": _no_end,
    "cut anywhere": _cut,
    "pieces": _pieces,
    "odd status line": _status_line,
    "odd status": _status,
    "odd waits": _waits,
    "wrong kind of body": _wrong_kind,
}
"""The ways of framing a reply wrongly, by name."""
