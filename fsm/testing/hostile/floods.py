"""Hostile amounts: floods that no reader should keep, and drips that never end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.fsm.testing.hostile.contents import EMPTY_BLOCK, empty_gzip
from rungwise.fsm.testing.hostile.raw import (
    DONE,
    LAST_CHUNK,
    Hostility,
    RawResponse,
    RawStep,
    ValidReply,
    chunk,
    delta_event,
    event,
    pick,
)

FLOOD: Final = 8 * 2**20  # bytes of a flood
OBJECTS: Final = 24 * 2**20  # bytes of one that is to fill memory when it is read

INTERIM: Final = (
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\n\r\n",
)
HEADERS: Final = (b"x-a: b\r\n", b"set-cookie: a=b\r\n", b" folded\r\n")
HEADS: Final = (b"HTTP/1.1 200 O", b"HTTP/1.1 200 OK\r\nx-a: ", b"HTTP/1.1 2")
CHUNKS: Final = (b"1\r\n\n\r\n", b"1;a=b\r\n\n\r\n")
LINES: Final = (b"data: ", b'data: {"a":"', b": ", b"event: ", b"")
DATA_LINES: Final = (b"data: {\n", b"data:\n", b'data: "a",\n')
DELTAS: Final[tuple[dict[str, str], ...]] = (
    {"content": "a"},
    {"content": "<"},
    {"content": "<think>"},
    {"reasoning": "a"},
    {"refusal": "a"},
    {},
)


def _flood(
    before: bytes, unit: bytes, after: bytes = b"", *, says: str | None = None, size: int = FLOOD
) -> RawResponse:
    """Return a flood; the reply is whole if it ends, `after` the flood or with a text before it."""
    steps = [RawStep(before), RawStep(unit, times=max(1, size // len(unit))), RawStep(after)]
    return RawResponse(
        [step for step in steps if step.data], says=says, is_whole=bool(after) or says is not None
    )


def _until_closed(reply: ValidReply) -> bytes:
    """Write the head of a body that ends with its connection."""
    return reply.head(b"connection: close")


def _comments(draw: DrawFn, reply: ValidReply) -> RawResponse:
    comment = pick(
        draw, b": keep-alive\n\n", b":\n", b"retry: 1\n", b"id: 1\n\n", b"nothing known\n"
    )
    return _flood(
        _until_closed(reply), comment, reply.body, says=reply.text if comment[:1] == b":" else None
    )


def _blanks(draw: DrawFn, reply: ValidReply) -> RawResponse:
    blank = pick(draw, b"\n", b"\r\n", b"\r", b" ")
    return _flood(
        _until_closed(reply),
        blank,
        reply.body,
        says=None if blank == b" " and reply.streams else reply.text,
    )


def _empty_objects(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Fill memory: three bytes on the wire take some seventy when parsed."""
    before = b'{"choices":['
    after = b"{}]}"
    if draw(st.booleans()):
        before = before + b'{"message":{"content":['
        after = b"{}]}}]}"
    unit = pick(draw, b"{},", b"[],", b'"",')
    if reply.streams:
        before = b"data: " + before.replace(b"message", b"delta")
        after = after + b"\n\n" + DONE
    return _flood(_until_closed(reply) + before, unit, after, size=OBJECTS)


def _tool_calls(draw: DrawFn, reply: ValidReply) -> RawResponse:
    functions: tuple[dict[str, str], ...] = (
        {"name": "a"},
        {"name": "a", "arguments": "{}"},
        {"arguments": "{"},
        {},
    )
    call = {"function": pick(draw, *functions), **pick(draw, {}, {"id": "a"}, {"id": ""})}
    if reply.streams:
        return _flood(_until_closed(reply), delta_event({"tool_calls": [call]}), DONE)
    before = b'{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"tool_calls":['
    unit = event(call)[6:-2] + b","
    return _flood(_until_closed(reply) + before, unit, unit[:-1] + b"]}}]}")


def _choices(draw: DrawFn, reply: ValidReply) -> RawResponse:
    index = pick(draw, 0, 1, 10**6)
    choice = {"index": index, "delta": {"content": "a"}, "message": {"content": "a"}}
    one = event(choice)[6:-2]
    if reply.streams and draw(st.booleans()):
        return _flood(_until_closed(reply), event({"choices": [choice]}), DONE)
    before, after = (b"data: ", b"\n\n" + DONE) if reply.streams else (b"", b"")
    return _flood(_until_closed(reply) + before + b'{"choices":[', one + b",", one + b"]}" + after)


def _long_delta(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Send all of it at once, far beyond any cap."""
    before, after = reply.body.split(reply.text[:4].encode(), 1)
    return _flood(_until_closed(reply) + before, pick(draw, b"a", b"<", b"a b ", b"\\n"), after)


def _after_the_end(draw: DrawFn, reply: ValidReply) -> RawResponse:
    unit = pick(draw, b"\n", b"data: {}\n\n", b"\0")
    if draw(st.booleans()):
        is_whole = reply.streams or unit == b"\n"  # line ends behind JSON belong to it
        return _flood(
            _until_closed(reply) + reply.body, unit, says=reply.text if is_whole else None
        )
    return _flood(reply.chunked_head() + chunk(reply.body) + LAST_CHUNK, unit, says=reply.text)


FLOODS: Final[Mapping[str, Hostility]] = {
    "flood of 1xx": lambda draw, reply: _flood(
        b"", pick(draw, *INTERIM), reply.written(), says=reply.text
    ),
    "flood of headers": lambda draw, reply: _flood(reply.head()[:-2], pick(draw, *HEADERS)),
    "endless head": lambda draw, reply: _flood(pick(draw, *HEADS), b"0"),
    "flood of comments": _comments,
    "flood of blanks": _blanks,
    "endless line": lambda draw, reply: _flood(
        _until_closed(reply) + (pick(draw, *LINES) if reply.streams else b'{"a":"'), b"a"
    ),
    # One event in a million lines, as the format of event streams allows.
    "flood of data lines": lambda draw, reply: _flood(
        _until_closed(reply), pick(draw, *DATA_LINES), b"\n" + reply.body
    ),
    "flood of empty objects": _empty_objects,
    "flood of tool calls": _tool_calls,
    "flood of choices": _choices,
    "flood of deltas": lambda draw, reply: _flood(
        _until_closed(reply), delta_event(pick(draw, *DELTAS))
    ),
    "endless delta": _long_delta,
    "flood of chunks": lambda draw, reply: _flood(reply.chunked_head(), pick(draw, *CHUNKS)),
    "endless chunk extension": lambda draw, reply: _flood(reply.chunked_head() + b"1;", b"a"),
    "flood of trailers": lambda draw, reply: _flood(
        reply.chunked_head() + chunk(reply.body) + b"0\r\n", b"x-a: b\r\n", says=reply.text
    ),
    "flood of empty blocks": lambda draw, reply: _flood(empty_gzip(reply), chunk(EMPTY_BLOCK)),
    "flood after the end": _after_the_end,
}

# drops of a drip: minutes, of which a server plays as much as it is told to
FOR_EVER: Final = 100_000
DELAYS: Final = (0.002, 0.0005, 0.01)
"""Seconds between two drops."""

DRIPPING_INTERIM: Final = (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Wait\r\n\r\n")
BLANKS: Final = (b"\n", b" ", b"\r\n", b"\t")
KEEP_ALIVES: Final = (b": keep-alive\n\n", b":\n", b"event: ping\ndata: {}\n\n", b"retry: 1\n\n")
EMPTY_DELTAS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"content": ""},
    {"role": "assistant"},
    {"reasoning": ""},
)
TALK: Final = ({"content": "and on "}, {"reasoning_content": "and on "})


def _drip(draw: DrawFn, before: bytes, drop: bytes) -> RawResponse:
    return RawResponse(
        [RawStep(before), RawStep(drop, pick(draw, *DELAYS), FOR_EVER)], is_whole=False
    )


def _bytes(draw: DrawFn, reply: ValidReply) -> RawResponse:
    delay = pick(draw, *DELAYS)
    written = reply.written()
    return RawResponse(
        [RawStep(written[at : at + 1], delay) for at in range(len(written))], says=reply.text
    )


def _events(draw: DrawFn, reply: ValidReply) -> RawResponse:
    delay = pick(draw, *DELAYS)
    steps = [RawStep(chunk(each), delay) for each in reply.events]
    return RawResponse(
        [RawStep(reply.chunked_head()), *steps, RawStep(LAST_CHUNK)], "keep", says=reply.text
    )


def _silence(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Fall silent: before the head, after it, or in the middle of the body."""
    written = reply.written()
    end = pick(draw, 0, len(reply.head()) // 2, len(written) - len(reply.body), len(written) - 60)
    return reply.response(written[:end], "hold", is_whole=reply.is_whole_in(written[:end]))


DRIPS: Final[Mapping[str, Hostility]] = {
    "dripping bytes": _bytes,
    "dripping events": _events,
    "dripping status line": lambda draw, reply: _drip(draw, b"HTTP/1.1 200 ", b"O"),
    "dripping 1xx": lambda draw, reply: _drip(draw, b"", pick(draw, *DRIPPING_INTERIM)),
    "dripping headers": lambda draw, reply: _drip(
        draw, reply.head()[:-2], pick(draw, b"x-still: here\r\n", b"x")
    ),
    "dripping chunk extension": lambda draw, reply: _drip(draw, reply.chunked_head() + b"1;", b"a"),
    "dripping empty blocks": lambda draw, reply: _drip(draw, empty_gzip(reply), chunk(EMPTY_BLOCK)),
    "dripping blanks": lambda draw, reply: _drip(
        draw, reply.chunked_head(), chunk(pick(draw, *BLANKS))
    ),
    # As some routers keep a connection alive while they wait for a model that never answers.
    "dripping comments": lambda draw, reply: _drip(
        draw,
        reply.chunked_head() + (chunk(reply.events[0]) if reply.streams else b""),
        chunk(pick(draw, *KEEP_ALIVES)),
    ),
    "dripping empty deltas": lambda draw, reply: _drip(
        draw, reply.chunked_head(), chunk(delta_event(pick(draw, *EMPTY_DELTAS)))
    ),
    # The model keeps talking, whatever the cap.
    "dripping words": lambda draw, reply: _drip(
        draw, reply.chunked_head(), chunk(delta_event(pick(draw, *TALK)))
    ),
    "dripping trailers": lambda draw, reply: attrs.evolve(
        _drip(draw, reply.chunked_head() + chunk(reply.body) + b"0\r\n", b"x-more: y\r\n"),
        says=reply.text,
        is_whole=True,
    ),
    "silence": _silence,
}
