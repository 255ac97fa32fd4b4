"""Hostile drips: something always comes, soon enough for every timeout between two bytes, and the reply never does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.fsm.testing.hostile.encodings import EMPTY_BLOCK, GZIP_HEAD
from rungwise.fsm.testing.hostile.raw import RawResponse, RawStep
from rungwise.fsm.testing.hostile.valid import LAST_CHUNK, Hostility, ValidReply, chunk, delta_event

FOR_EVER: Final = 100_000
"""Drops of a drip: minutes, of which a server plays as much as it is told to."""


def delays() -> st.SearchStrategy[float]:
    """Generate the seconds between two drops."""
    return st.sampled_from((0.002, 0.0005, 0.01))


def _drip(draw: DrawFn, before: bytes, drop: bytes) -> RawResponse:
    return RawResponse([RawStep(before), RawStep(drop, draw(delays()), FOR_EVER)], is_whole=False)


def _bytes(draw: DrawFn, reply: ValidReply) -> RawResponse:
    delay = draw(delays())
    written = reply.written()
    return RawResponse([RawStep(written[at : at + 1], delay) for at in range(len(written))], says=reply.text)


def _events(draw: DrawFn, reply: ValidReply) -> RawResponse:
    delay = draw(delays())
    steps = [RawStep(chunk(each), delay) for each in reply.events]
    return RawResponse([RawStep(reply.chunked_head()), *steps, RawStep(LAST_CHUNK)], "keep", says=reply.text)


def _status_line(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _drip(draw, b"HTTP/1.1 200 ", b"O")


def _interim(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _drip(draw, b"", draw(st.sampled_from((b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Wait\r\n\r\n"))))


def _headers(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _drip(draw, reply.head()[:-2], draw(st.sampled_from((b"x-still: here\r\n", b"x"))))


def _chunk_extensions(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _drip(draw, reply.chunked_head() + b"1;", b"a")


def _empty_blocks(draw: DrawFn, reply: ValidReply) -> RawResponse:
    head = reply.chunked_head(b"content-encoding: gzip")
    return _drip(draw, head + chunk(GZIP_HEAD), chunk(EMPTY_BLOCK))


def _blanks(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _drip(draw, reply.chunked_head(), chunk(draw(st.sampled_from((b"\n", b" ", b"\r\n", b"\t")))))


def _comments(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Keep the connection alive, as some routers do while they wait for a model that never answers."""
    comment = draw(st.sampled_from((b": keep-alive\n\n", b":\n", b"event: ping\ndata: {}\n\n", b"retry: 1\n\n")))
    return _drip(draw, reply.chunked_head() + (chunk(reply.events[0]) if reply.streams else b""), chunk(comment))


def _empty_deltas(draw: DrawFn, reply: ValidReply) -> RawResponse:
    delta = draw(st.sampled_from(({}, {"content": ""}, {"role": "assistant"}, {"reasoning": ""})))
    return _drip(draw, reply.chunked_head(), chunk(delta_event(delta)))


def _words(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Go on talking, whatever the cap says."""
    name = draw(st.sampled_from(("content", "reasoning_content")))
    return _drip(draw, reply.chunked_head(), chunk(delta_event({name: "and on "})))


def _trailers(draw: DrawFn, reply: ValidReply) -> RawResponse:
    before = reply.chunked_head() + chunk(reply.body) + b"0\r\n"
    steps = [RawStep(before), RawStep(b"x-more: y\r\n", draw(delays()), FOR_EVER)]
    return RawResponse(steps, says=reply.text)


def _silence(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Say nothing at all: before the head, behind it, or in the middle of the body."""
    written = reply.written()
    end = draw(st.sampled_from((0, len(reply.head()) // 2, len(written) - len(reply.body), len(written) - 60)))
    is_whole = reply.is_whole_in(written[:end])
    return RawResponse([RawStep(written[:end])] if end else [], "hold", says=reply.text, is_whole=is_whole)


DRIPS: Final[Mapping[str, Hostility]] = {
    "dripping bytes": _bytes,
    "dripping events": _events,
    "dripping status line": _status_line,
    "dripping 1xx": _interim,
    "dripping headers": _headers,
    "dripping chunk extension": _chunk_extensions,
    "dripping empty blocks": _empty_blocks,
    "dripping blanks": _blanks,
    "dripping comments": _comments,
    "dripping empty deltas": _empty_deltas,
    "dripping words": _words,
    "dripping trailers": _trailers,
    "silence": _silence,
}
