"""Hostile drips: something always comes, soon enough for every timeout between two bytes, and the reply never does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
from hypothesis.strategies import DrawFn

from rungwise.fsm.testing.hostile.encodings import EMPTY_BLOCK, empty_gzip
from rungwise.fsm.testing.hostile.raw import RawResponse, RawStep
from rungwise.fsm.testing.hostile.valid import LAST_CHUNK, Hostility, ValidReply, chunk, delta_event, pick

FOR_EVER: Final = 100_000
"""Drops of a drip: minutes, of which a server plays as much as it is told to."""
DELAYS: Final = (0.002, 0.0005, 0.01)
"""Seconds between two drops."""


INTERIM: Final = (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Wait\r\n\r\n")
BLANKS: Final = (b"\n", b" ", b"\r\n", b"\t")


def _drip(draw: DrawFn, before: bytes, drop: bytes) -> RawResponse:
    return RawResponse([RawStep(before), RawStep(drop, pick(draw, *DELAYS), FOR_EVER)], is_whole=False)


def _bytes(draw: DrawFn, reply: ValidReply) -> RawResponse:
    delay, written = pick(draw, *DELAYS), reply.written()
    return RawResponse([RawStep(written[at : at + 1], delay) for at in range(len(written))], says=reply.text)


def _events(draw: DrawFn, reply: ValidReply) -> RawResponse:
    delay = pick(draw, *DELAYS)
    steps = [RawStep(chunk(each), delay) for each in reply.events]
    return RawResponse([RawStep(reply.chunked_head()), *steps, RawStep(LAST_CHUNK)], "keep", says=reply.text)


def _comments(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Keep the connection alive, as some routers do while they wait for a model that never answers."""
    comment = pick(draw, b": keep-alive\n\n", b":\n", b"event: ping\ndata: {}\n\n", b"retry: 1\n\n")
    return _drip(draw, reply.chunked_head() + (chunk(reply.events[0]) if reply.streams else b""), chunk(comment))


def _empty_deltas(draw: DrawFn, reply: ValidReply) -> RawResponse:
    delta = pick(draw, {}, {"content": ""}, {"role": "assistant"}, {"reasoning": ""})
    return _drip(draw, reply.chunked_head(), chunk(delta_event(delta)))


def _words(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Go on talking, whatever the cap says."""
    name = pick(draw, "content", "reasoning_content")
    return _drip(draw, reply.chunked_head(), chunk(delta_event({name: "and on "})))


def _trailers(draw: DrawFn, reply: ValidReply) -> RawResponse:
    drip = _drip(draw, reply.chunked_head() + chunk(reply.body) + b"0\r\n", b"x-more: y\r\n")
    return attrs.evolve(drip, says=reply.text, is_whole=True)


def _silence(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Say nothing at all: before the head, behind it, or in the middle of the body."""
    written = reply.written()
    end = pick(draw, 0, len(reply.head()) // 2, len(written) - len(reply.body), len(written) - 60)
    return reply.response(written[:end], "hold", is_whole=reply.is_whole_in(written[:end]))


DRIPS: Final[Mapping[str, Hostility]] = {
    "dripping bytes": _bytes,
    "dripping events": _events,
    "dripping status line": lambda draw, reply: _drip(draw, b"HTTP/1.1 200 ", b"O"),
    "dripping 1xx": lambda draw, reply: _drip(draw, b"", pick(draw, *INTERIM)),
    "dripping headers": lambda draw, reply: _drip(draw, reply.head()[:-2], pick(draw, b"x-still: here\r\n", b"x")),
    "dripping chunk extension": lambda draw, reply: _drip(draw, reply.chunked_head() + b"1;", b"a"),
    "dripping empty blocks": lambda draw, reply: _drip(draw, empty_gzip(reply), chunk(EMPTY_BLOCK)),
    "dripping blanks": lambda draw, reply: _drip(draw, reply.chunked_head(), chunk(pick(draw, *BLANKS))),
    "dripping comments": _comments,
    "dripping empty deltas": _empty_deltas,
    "dripping words": _words,
    "dripping trailers": _trailers,
    "silence": _silence,
}
