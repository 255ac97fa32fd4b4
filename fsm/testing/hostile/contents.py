"""Hostile contents: bodies whose bytes are no text, whose JSON is no data, and whose numbers are no counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.fsm.testing.hostile.raw import RawResponse, RawStep
from rungwise.fsm.testing.hostile.valid import Hostility, ValidReply

BOM: Final = b"\xef\xbb\xbf"
NUMBERS: Final = (b"9" * 5_000, b"1e999", b"-1e999", b"-1", b"1.5", b"9" * 19, b"NaN", b"Infinity", b"1" + b"0" * 30)
SURROGATES: Final = (b"\\ud83e", b"\\udd9c", b"\\udd9c\\ud83e", b"\\ud83e\\ud83e\\udd9c", b"\\uD800\\u0000", b"\\u")
BROKEN_UTF8: Final = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xf0\x9f\xaa")
DEPTHS: Final = (100, 500, 1_020, 5_000, 100_000)


def _inside(draw: DrawFn, reply: ValidReply, piece: bytes) -> bytes:
    """Return the body with something put into its text."""
    place = reply.text[:3].encode()
    return reply.body.replace(place, place + piece, 1)


def _response(reply: ValidReply, body: bytes, says: str | None = None) -> RawResponse:
    return RawResponse([RawStep(reply.written(body))], "keep", says=says)


def _bom(draw: DrawFn, reply: ValidReply) -> RawResponse:
    times, before = draw(st.sampled_from((1, 2))), draw(st.sampled_from((b"", b"\n", b" ")))
    return _response(reply, before + BOM * times + reply.body, reply.text)


def _utf16(draw: DrawFn, reply: ValidReply) -> RawResponse:
    body = reply.body.decode().encode(draw(st.sampled_from(("utf-16", "utf-16-be", "utf-32", "utf-7"))))
    return _response(reply, body)


def _nul(draw: DrawFn, reply: ValidReply) -> RawResponse:
    if draw(st.booleans()):
        return _response(reply, _inside(draw, reply, b"\0"))
    at = draw(st.integers(0, len(reply.body)))
    return _response(reply, reply.body[:at] + b"\0" * draw(st.sampled_from((1, 3, 4_096))) + reply.body[at:])


def _utf8(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _response(reply, _inside(draw, reply, draw(st.sampled_from(BROKEN_UTF8))))


def _surrogates(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _response(reply, _inside(draw, reply, draw(st.sampled_from(SURROGATES))))


def _duplicates(draw: DrawFn, reply: ValidReply) -> RawResponse:
    twice = (
        (b'"choices":[', b'"choices":[],"choices":['),
        (b'"content":', b'"content":"Something else.","content":'),
        (b'"finish_reason":"stop"', b'"finish_reason":"length","finish_reason":"stop"'),
        (b'"finish_reason":"stop"', b'"finish_reason":"stop","finish_reason":null'),
    )
    return _response(reply, reply.body.replace(*draw(st.sampled_from(twice))))


def _numbers(draw: DrawFn, reply: ValidReply) -> RawResponse:
    number, places = draw(st.sampled_from(NUMBERS)), (b'"index":0', b'"prompt_tokens":9', b'"completion_tokens":')
    place = draw(st.sampled_from(places))
    name, _, digits = place.partition(b":")
    return _response(reply, reply.body.replace(place, name + b":" + number + (b"" if digits else b',"a":')))


def _nesting(draw: DrawFn, reply: ValidReply) -> RawResponse:
    depth = draw(st.sampled_from(DEPTHS))
    opening, closing = draw(st.sampled_from(((b"[", b"]"), (b'{"text":', b"}"), (b'{"content":', b"}"))))
    value = opening * depth + b"1" + (closing * depth if draw(st.booleans()) else b"")
    places = (b'"model":"m"', b'"content":"', b'"usage":{', b'"finish_reason":"stop"')
    place = draw(st.sampled_from(places))
    name = place.partition(b":")[0]
    return _response(reply, reply.body.replace(place, name + b":" + value + b',"a":' + place.partition(b":")[2], 1))


def _types(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Put a value of another type where a reader expects one of its own."""
    value = draw(st.sampled_from((b"null", b"true", b"0", b"1.5", b'""', b'"x"', b"[]", b"{}", b"[null]", b"[[]]")))
    names = (b"choices", b"message", b"delta", b"content", b"finish_reason", b"usage", b"model", b"index", b"role")
    name = b'"' + draw(st.sampled_from(names)) + b'":'
    return _response(reply, reply.body.replace(name, name + value + b',"a":'))


def _odd_members(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Add members that a reader of some other server looks for."""
    member = draw(st.sampled_from(ODD_MEMBERS))
    return _response(reply, reply.body.replace(b'"model":"m"', member + b',"model":"m"'))


ODD_MEMBERS: Final = (
    *(b'"error":' + value for value in (b"1", b'"x"', b"[]", b"[1]", b'{"message":null}', b'{"code":[]}', b"{}")),
    *(b'"x_groq":' + value for value in (b"1", b'{"usage":1}', b'{"error":"x"}')),
    *(b'"base_resp":' + value for value in (b"1", b'{"status_code":"x"}', b'{"status_code":1000}')),
    *(b'"object":"error"', b'"type":"error"', b'"detail":"x"', b'"message":7', b'"tool_calls":7'),
)


def _event_lines(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Write the events of a stream in the other ways that their format allows."""
    ways = (
        (b"data: ", b"data:"),
        (b"data: ", b"event: message\ndata: "),
        (b"data: ", b"id: 1\ndata: "),
        (b'data: {"id"', b'data: {\ndata: "id"'),
        (b"data: ", b": a comment\ndata: "),
        (b"\n\n", b"\n\n\n\n"),
        (b"data: [DONE]\n\n", b"data: [DONE]"),
        (b"data: [DONE]\n\n", b"data: [DONE] \n\n"),
    )
    return _response(reply, reply.body.replace(*draw(st.sampled_from(ways))), reply.text)


CONTENTS: Final[Mapping[str, Hostility]] = {
    "byte order mark": _bom,
    "another charset": _utf16,
    "NUL": _nul,
    "invalid UTF-8": _utf8,
    "lone surrogates": _surrogates,
    "duplicate keys": _duplicates,
    "odd numbers": _numbers,
    "deep nesting": _nesting,
    "odd types": _types,
    "odd members": _odd_members,
    "odd event lines": _event_lines,
}
