"""Hostile amounts: floods that no reader should keep, and drips that never end.

Theory. A limit must stand on everything that a server may repeat: bytes, lines, headers, chunks,
events, members, pauses. A reader that bounds all but one is unbounded. So there is a flood and a
drip for each. A flood exhausts memory; a drip exhausts time, since each drop resets a timeout
between two reads (the "slow read" and "slowloris" attacks, seen from the other side), and only a
deadline for the whole reply ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


Before = Callable[[ValidReply], bytes]
"""Writes what comes before a flood or a drip."""


def _until_closed(reply: ValidReply) -> bytes:
    """Write the head of a body that ends with its connection."""
    return reply.head(b"connection: close")


def _open_head(reply: ValidReply) -> bytes:
    """Write a head without its end, so that more headers may follow."""
    return reply.head()[:-2]


def _open_size(reply: ValidReply) -> bytes:
    """Write the size of a chunk without its end, so that an extension may follow."""
    return reply.chunked_head() + b"1;"


def _before_trailers(reply: ValidReply) -> bytes:
    """Write a body in chunks without its end, so that trailers may follow."""
    return reply.chunked_head() + chunk(reply.body) + b"0\r\n"


def _flooding(before: Before, *units: bytes) -> Hostility:
    """Return what draws a flood of one of these units, with nothing behind it."""

    def flood(draw: DrawFn, reply: ValidReply) -> RawResponse:
        return _flood(before(reply), pick(draw, *units))

    return flood


def _interim(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _flood(b"", pick(draw, *INTERIM), reply.written(), says=reply.text)


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


def _long_delta(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Send all of it at once, far beyond any cap."""
    before, after = reply.body.split(reply.text[:4].encode(), 1)
    unit = pick(draw, b"a", b"<", b"a b ", b"\\n")
    return _flood(_until_closed(reply) + before, unit, after)


def _trailers(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _flood(_before_trailers(reply), b"x-a: b\r\n", says=reply.text)


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
    "flood of headers": _flooding(_open_head, *HEADERS),
    "endless head": _endless_head,
    "flood of comments": _comments,
    "flood of blanks": _blanks,
    "endless line": _endless_line,
    "flood of data lines": _data_lines,
    "flood of empty objects": _empty_objects,
    "flood of tool calls": _tool_calls,
    "flood of choices": _choices,
    "flood of deltas": _flooding(_until_closed, *map(delta_event, DELTAS)),
    "endless delta": _long_delta,
    "flood of chunks": _flooding(ValidReply.chunked_head, *CHUNKS),
    "endless chunk extension": _flooding(_open_size, b"a"),
    "flood of trailers": _trailers,
    "flood of empty blocks": _flooding(empty_gzip, chunk(EMPTY_BLOCK)),
    "flood after the end": _after_the_end,
}
"""The floods, by name."""

FOR_EVER: Final = 100_000  # drops: minutes, of which a server plays no more than it should
DELAYS: Final = (0.002, 0.0005, 0.01)
"""Seconds between two drops."""

DRIPPING_INTERIM: Final = (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Wait\r\n\r\n")
BLANKS: Final = (b"\n", b" ", b"\r\n", b"\t")
KEEP_ALIVES: Final = (b": keep-alive\n\n", b":\n", b"event: ping\ndata: {}\n\n", b"retry: 1\n\n")


def _delta(**delta: str) -> bytes:
    return chunk(delta_event(delta))


EMPTY_DELTAS: Final = (
    _delta(),
    _delta(content=""),
    _delta(role="assistant"),
    _delta(reasoning=""),
)
TALK: Final = (_delta(content="and on "), _delta(reasoning_content="and on "))


def _dripping(before: Before, *drops: bytes) -> Hostility:
    """Return what draws a drip: one of these drops over and over, with a pause before each."""

    def drip(draw: DrawFn, reply: ValidReply) -> RawResponse:
        start = RawStep(before(reply))
        drop = RawStep(pick(draw, *drops), pick(draw, *DELAYS), FOR_EVER)
        return RawResponse([start, drop], is_whole=False)

    return drip


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


def _begun(reply: ValidReply) -> bytes:
    """Write a head, and the first event of a stream."""
    first = chunk(reply.events[0]) if reply.streams else b""
    return reply.chunked_head() + first


def _dripping_trailers(draw: DrawFn, reply: ValidReply) -> RawResponse:
    drip = _dripping(_before_trailers, b"x-more: y\r\n")(draw, reply)
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
    "dripping status line": _dripping(lambda _: b"HTTP/1.1 200 ", b"O"),
    "dripping 1xx": _dripping(lambda _: b"", *DRIPPING_INTERIM),
    "dripping headers": _dripping(_open_head, b"x-still: here\r\n", b"x"),
    "dripping chunk extension": _dripping(_open_size, b"a"),
    "dripping empty blocks": _dripping(empty_gzip, chunk(EMPTY_BLOCK)),
    "dripping blanks": _dripping(ValidReply.chunked_head, *map(chunk, BLANKS)),
    # as some routers keep a connection alive, for a model that never answers
    "dripping comments": _dripping(_begun, *map(chunk, KEEP_ALIVES)),
    "dripping empty deltas": _dripping(ValidReply.chunked_head, *EMPTY_DELTAS),
    # whatever the cap
    "dripping words": _dripping(ValidReply.chunked_head, *TALK),
    "dripping trailers": _dripping_trailers,
    "silence": _silence,
}
"""The drips, by name."""
