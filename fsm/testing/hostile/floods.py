"""Hostile amounts: floods that no reader should keep, and drips that never end.

Theory. A limit must stand on everything that a server may repeat: bytes, lines, headers, chunks,
events, members, pauses. A reader that bounds all but one is unbounded. So there is a flood and a
drip for each. A flood exhausts memory; a drip exhausts time, since each drop resets a timeout
between two reads (the "slow read" and "slowloris" attacks, seen from the other side), and only a
deadline for the whole reply ends it.
"""

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
    json_bytes,
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
FUNCTIONS: Final[tuple[dict[str, str], ...]] = (
    {"name": "a"},
    {"name": "a", "arguments": "{}"},
    {"arguments": "{"},
    {},
)
"""Tool calls of a flood: without arguments, whole, cut, and empty."""


def _flood(
    before: bytes,
    unit: bytes,
    after: bytes = b"",
    *,
    says: str | None = None,
    size: int = FLOOD,
) -> RawResponse:
    """Return a flood: a unit over and over.

    The reply is whole if something follows the flood, or if its text came before it.

    Arguments:
        before: bytes that come first.
        unit: bytes that are repeated.
        after: bytes that come last; none if the flood is the end.
        says: the text that a reader may make of the reply; None for anybody's guess.
        size: bytes of all units.
    """
    times = max(1, size // len(unit))
    steps = [RawStep(before), RawStep(unit, times=times), RawStep(after)]
    is_whole = bool(after) or says is not None
    return RawResponse([step for step in steps if step.data], says=says, is_whole=is_whole)


def _until_closed(reply: ValidReply) -> bytes:
    """Write the head of a body that ends with its connection."""
    return reply.head(b"connection: close")


def _interim(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _flood(b"", pick(draw, *INTERIM), reply.written(), says=reply.text)


def _headers(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _flood(reply.head()[:-2], pick(draw, *HEADERS))


def _endless_head(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _flood(pick(draw, *HEADS), b"0")


def _comments(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Write lines before the reply that hold no data; only comments leave its text certain."""
    comment = pick(
        draw, b": keep-alive\n\n", b":\n", b"retry: 1\n", b"id: 1\n\n", b"nothing known\n"
    )
    says = reply.text if comment.startswith(b":") else None
    return _flood(_until_closed(reply), comment, reply.body, says=says)


def _blanks(draw: DrawFn, reply: ValidReply) -> RawResponse:
    blank = pick(draw, b"\n", b"\r\n", b"\r", b" ")
    says: str | None = reply.text
    if reply.streams and blank == b" ":  # they become part of the first line's name
        says = None
    return _flood(_until_closed(reply), blank, reply.body, says=says)


def _endless_line(draw: DrawFn, reply: ValidReply) -> RawResponse:
    start = pick(draw, *LINES) if reply.streams else b'{"a":"'
    return _flood(_until_closed(reply) + start, b"a")


def _data_lines(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Write one event in a million lines, as the format of event streams allows."""
    return _flood(_until_closed(reply), pick(draw, *DATA_LINES), b"\n" + reply.body)


def _empty_objects(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Fill memory: three bytes on the wire take some seventy when parsed."""
    before = b'{"choices":['
    after = b"{}]}"
    if draw(st.booleans()):
        before += b'{"message":{"content":['
        after = b"{}]}}]}"
    unit = pick(draw, b"{},", b"[],", b'"",')
    if reply.streams:
        before = b"data: " + before.replace(b"message", b"delta")
        after += b"\n\n" + DONE
    return _flood(_until_closed(reply) + before, unit, after, size=OBJECTS)


def _tool_calls(draw: DrawFn, reply: ValidReply) -> RawResponse:
    function = pick(draw, *FUNCTIONS)
    call = {"function": function, **pick(draw, {}, {"id": "a"}, {"id": ""})}
    if reply.streams:
        return _flood(_until_closed(reply), delta_event({"tool_calls": [call]}), DONE)
    before = b'{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"tool_calls":['
    one = json_bytes(call)
    return _flood(_until_closed(reply) + before, one + b",", one + b"]}}]}")


def _choices(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Write many choices: one in each event, or all in one."""
    index = pick(draw, 0, 1, 10**6)
    choice = {
        "index": index,
        "delta": {"content": "a"},
        "message": {"content": "a"},
    }
    if reply.streams and draw(st.booleans()):
        return _flood(_until_closed(reply), event({"choices": [choice]}), DONE)
    one = json_bytes(choice)
    before = b'{"choices":['
    after = one + b"]}"
    if reply.streams:
        before = b"data: " + before
        after += b"\n\n" + DONE
    return _flood(_until_closed(reply) + before, one + b",", after)


def _deltas(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _flood(_until_closed(reply), delta_event(pick(draw, *DELTAS)))


def _long_delta(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Send all of it at once, far beyond any cap."""
    before, after = reply.body.split(reply.text[:4].encode(), 1)
    unit = pick(draw, b"a", b"<", b"a b ", b"\\n")
    return _flood(_until_closed(reply) + before, unit, after)


def _chunks(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _flood(reply.chunked_head(), pick(draw, *CHUNKS))


def _chunk_extension(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _flood(reply.chunked_head() + b"1;", b"a")


def _trailers(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _flood(_before_trailers(reply), b"x-a: b\r\n", says=reply.text)


def _before_trailers(reply: ValidReply) -> bytes:
    return reply.chunked_head() + chunk(reply.body) + b"0\r\n"


def _empty_blocks(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _flood(empty_gzip(reply), chunk(EMPTY_BLOCK))


def _after_the_end(draw: DrawFn, reply: ValidReply) -> RawResponse:
    unit = pick(draw, b"\n", b"data: {}\n\n", b"\0")
    if not draw(st.booleans()):
        whole = reply.chunked_head() + chunk(reply.body) + LAST_CHUNK
        return _flood(whole, unit, says=reply.text)
    is_whole = reply.streams or unit == b"\n"  # line ends behind JSON belong to it
    says = reply.text if is_whole else None
    return _flood(_until_closed(reply) + reply.body, unit, says=says)


FLOODS: Final[Mapping[str, Hostility]] = {
    "flood of 1xx": _interim,
    "flood of headers": _headers,
    "endless head": _endless_head,
    "flood of comments": _comments,
    "flood of blanks": _blanks,
    "endless line": _endless_line,
    "flood of data lines": _data_lines,
    "flood of empty objects": _empty_objects,
    "flood of tool calls": _tool_calls,
    "flood of choices": _choices,
    "flood of deltas": _deltas,
    "endless delta": _long_delta,
    "flood of chunks": _chunks,
    "endless chunk extension": _chunk_extension,
    "flood of trailers": _trailers,
    "flood of empty blocks": _empty_blocks,
    "flood after the end": _after_the_end,
}
"""The floods, by name."""

FOR_EVER: Final = 100_000  # drops: minutes, of which a server plays no more than it should
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
    """Draw a drip: a drop over and over, with a pause before each."""
    drops = RawStep(drop, pick(draw, *DELAYS), FOR_EVER)
    return RawResponse([RawStep(before), drops], is_whole=False)


def _bytes(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Write a valid reply byte by byte."""
    delay = pick(draw, *DELAYS)
    written = reply.written()
    steps = [RawStep(written[at : at + 1], delay) for at in range(len(written))]
    return RawResponse(steps, says=reply.text)


def _events(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Write a valid reply event by event."""
    delay = pick(draw, *DELAYS)
    events = [RawStep(chunk(each), delay) for each in reply.events]
    steps = [RawStep(reply.chunked_head()), *events, RawStep(LAST_CHUNK)]
    return RawResponse(steps, "keep", says=reply.text)


def _dripping_status(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _drip(draw, b"HTTP/1.1 200 ", b"O")


def _dripping_interim(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _drip(draw, b"", pick(draw, *DRIPPING_INTERIM))


def _dripping_headers(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _drip(draw, reply.head()[:-2], pick(draw, b"x-still: here\r\n", b"x"))


def _dripping_extension(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _drip(draw, reply.chunked_head() + b"1;", b"a")


def _dripping_blocks(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _drip(draw, empty_gzip(reply), chunk(EMPTY_BLOCK))


def _dripping_blanks(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _drip(draw, reply.chunked_head(), chunk(pick(draw, *BLANKS)))


def _dripping_comments(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Keep a connection alive as some routers do, for a model that never answers."""
    before = reply.chunked_head()
    if reply.streams:
        before += chunk(reply.events[0])
    return _drip(draw, before, chunk(pick(draw, *KEEP_ALIVES)))


def _dripping_deltas(draw: DrawFn, reply: ValidReply) -> RawResponse:
    delta = pick(draw, *EMPTY_DELTAS)
    return _drip(draw, reply.chunked_head(), chunk(delta_event(delta)))


def _dripping_words(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Keep talking, whatever the cap."""
    delta = pick(draw, *TALK)
    return _drip(draw, reply.chunked_head(), chunk(delta_event(delta)))


def _dripping_trailers(draw: DrawFn, reply: ValidReply) -> RawResponse:
    drip = _drip(draw, _before_trailers(reply), b"x-more: y\r\n")
    return attrs.evolve(drip, says=reply.text, is_whole=True)


def _silence(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Fall silent: before the head, in it, behind it, or in the middle of the body."""
    written = reply.written()
    in_head = len(reply.head()) // 2
    behind_head = len(written) - len(reply.body)
    end = pick(draw, 0, in_head, behind_head, len(written) - 60)
    arrived = written[:end]
    return reply.response(arrived, "hold", is_whole=reply.is_whole_in(arrived))


DRIPS: Final[Mapping[str, Hostility]] = {
    "dripping bytes": _bytes,
    "dripping events": _events,
    "dripping status line": _dripping_status,
    "dripping 1xx": _dripping_interim,
    "dripping headers": _dripping_headers,
    "dripping chunk extension": _dripping_extension,
    "dripping empty blocks": _dripping_blocks,
    "dripping blanks": _dripping_blanks,
    "dripping comments": _dripping_comments,
    "dripping empty deltas": _dripping_deltas,
    "dripping words": _dripping_words,
    "dripping trailers": _dripping_trailers,
    "silence": _silence,
}
"""The drips, by name."""
