"""Hostile contents: bodies whose bytes are no text, whose JSON is no data, and whose numbers are no counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.fsm.testing.hostile.raw import RawResponse, RawStep
from rungwise.fsm.testing.hostile.valid import Hostility, ValidReply, pick

CHARSETS: Final = ("utf-16", "utf-16-be", "utf-32", "utf-7")
BOM: Final = b"\xef\xbb\xbf"
NUMBERS: Final = (b"9" * 5_000, b"1e999", b"-1e999", b"-1", b"1.5", b"9" * 19, b"NaN", b"Infinity", b"1" + b"0" * 30)
SURROGATES: Final = (b"\\ud83e", b"\\udd9c", b"\\udd9c\\ud83e", b"\\ud83e\\ud83e\\udd9c", b"\\uD800\\u0000", b"\\u")
BROKEN_UTF8: Final = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xf0\x9f\xaa")
DEPTHS: Final = (100, 500, 1_020, 5_000, 100_000)
DUPLICATES: Final = (
    (b'"choices":[', b'"choices":[],"choices":['),
    (b'"content":', b'"content":"Something else.","content":'),
    (b'"finish_reason":"stop"', b'"finish_reason":"length","finish_reason":"stop"'),
    (b'"finish_reason":"stop"', b'"finish_reason":"stop","finish_reason":null'),
)
ODD_MEMBERS: Final = (
    *(b'"error":' + value for value in (b"1", b'"x"', b"[]", b"[1]", b'{"message":null}', b'{"code":[]}', b"{}")),
    *(b'"x_groq":' + value for value in (b"1", b'{"usage":1}', b'{"error":"x"}')),
    *(b'"base_resp":' + value for value in (b"1", b'{"status_code":"x"}', b'{"status_code":1000}')),
    *(b'"object":"error"', b'"type":"error"', b'"detail":"x"', b'"message":7', b'"tool_calls":7'),
)
"""Members that a reader of some other server looks for."""
EVENT_LINES: Final = (
    *((b"data: ", b"data:"), (b"data: ", b"event: message\ndata: "), (b"data: ", b"id: 1\ndata: ")),
    *((b'data: {"id"', b'data: {\ndata: "id"'), (b"data: ", b": a comment\ndata: "), (b"\n\n", b"\n\n\n\n")),
    *((b"data: [DONE]\n\n", b"data: [DONE]"), (b"data: [DONE]\n\n", b"data: [DONE] \n\n")),
)
"""The other ways in which the format of event streams allows to write their events."""


def _response(reply: ValidReply, body: bytes, says: str | None = None) -> RawResponse:
    return RawResponse([RawStep(reply.written(body))], "keep", says=says)


def _inside(reply: ValidReply, piece: bytes) -> RawResponse:
    """Put something into the text."""
    place = reply.text[:3].encode()
    return _response(reply, reply.body.replace(place, place + piece, 1))


def _bom(draw: DrawFn, reply: ValidReply) -> RawResponse:
    times, before = pick(draw, 1, 2), pick(draw, b"", b"\n", b" ")
    return _response(reply, before + BOM * times + reply.body, reply.text)


def _nul(draw: DrawFn, reply: ValidReply) -> RawResponse:
    if draw(st.booleans()):
        return _inside(reply, b"\0")
    at = draw(st.integers(0, len(reply.body)))
    return _response(reply, reply.body[:at] + b"\0" * pick(draw, 1, 3, 4_096) + reply.body[at:])


def _numbers(draw: DrawFn, reply: ValidReply) -> RawResponse:
    number = pick(draw, *NUMBERS)
    place = pick(draw, b'"index":0', b'"prompt_tokens":9', b'"completion_tokens":')
    name, _, digits = place.partition(b":")
    return _response(reply, reply.body.replace(place, name + b":" + number + (b"" if digits else b',"a":')))


def _nesting(draw: DrawFn, reply: ValidReply) -> RawResponse:
    depth = pick(draw, *DEPTHS)
    opening, closing = pick(draw, (b"[", b"]"), (b'{"text":', b"}"), (b'{"content":', b"}"))
    value = opening * depth + b"1" + (closing * depth if draw(st.booleans()) else b"")
    place = pick(draw, b'"model":"m"', b'"content":"', b'"usage":{', b'"finish_reason":"stop"')
    name, _, rest = place.partition(b":")
    return _response(reply, reply.body.replace(place, name + b":" + value + b',"a":' + rest, 1))


def _types(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Put a value of another type where a reader expects one of its own."""
    value = pick(draw, b"null", b"true", b"0", b"1.5", b'""', b'"x"', b"[]", b"{}", b"[null]", b"[[]]")
    names = (b"choices", b"message", b"delta", b"content", b"finish_reason", b"usage", b"model", b"index", b"role")
    name = b'"' + pick(draw, *names) + b'":'
    return _response(reply, reply.body.replace(name, name + value + b',"a":'))


CONTENTS: Final[Mapping[str, Hostility]] = {
    "byte order mark": _bom,
    "another charset": lambda draw, reply: _response(reply, reply.body.decode().encode(pick(draw, *CHARSETS))),
    "NUL": _nul,
    "invalid UTF-8": lambda draw, reply: _inside(reply, pick(draw, *BROKEN_UTF8)),
    "lone surrogates": lambda draw, reply: _inside(reply, pick(draw, *SURROGATES)),
    "duplicate keys": lambda draw, reply: _response(reply, reply.body.replace(*pick(draw, *DUPLICATES))),
    "odd numbers": _numbers,
    "deep nesting": _nesting,
    "odd types": _types,
    "odd members": lambda draw, reply: _response(
        reply, reply.body.replace(b'"model":"m"', pick(draw, *ODD_MEMBERS) + b',"model":"m"')
    ),
    "odd event lines": lambda draw, reply: _response(reply, reply.body.replace(*pick(draw, *EVENT_LINES)), reply.text),
}
