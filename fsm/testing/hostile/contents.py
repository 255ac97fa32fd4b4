"""Hostile bodies: encodings that lie or explode, bytes that are no text, JSON that is no data.

Theory. A body passes four readers: of the encoding (RFC 9110, 8.4), of the characters, of JSON and
of the protocol. Each has its own classics. Compressed bytes may unpack to a thousandfold, layer by
layer; text may hold half a character, lone surrogates or NULs; JSON parsers differ on duplicate
keys, depth and large numbers (Seriot, "Parsing JSON is a Minefield", 2016); and any member of a
reply may have another type. A client may fail at all of these, with a documented error and in
little memory.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.fsm.testing.hostile.raw import (
    Hostility,
    RawResponse,
    RawStep,
    ValidReply,
    chunk,
    pick,
)

MEBIBYTE: Final = 2**20
BOMB: Final = 384 * MEBIBYTE
"""Bytes that a bomb unpacks to.

More than any reader needs, and few enough for a machine to survive.
"""

GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
EMPTY_BLOCK: Final = b"\x00\x00\x00\xff\xff"
"""A block of a deflate stream that brings nothing."""

PACKERS: Final[tuple[Callable[[bytes], bytes], ...]] = (bytes, gzip.compress, zlib.compress)
TRAILING: Final = (b"junk", b"\0" * 600, gzip.compress(b"data: {}\n\n", mtime=0))
LABELS: Final = (
    "gzip",
    "deflate",
    "br",
    "zstd",
    "compress",
    "x-gzip",
    "identity",
    "aes128gcm",
    "",
    "gzip;q=1",
    "\xff",
)


def _labelled(label: str) -> bytes:
    return b"content-encoding: " + label.encode("latin-1")


def empty_gzip(reply: ValidReply) -> bytes:
    """Write the beginning of a compressed body in chunks."""
    return reply.chunked_head(b"content-encoding: gzip") + chunk(GZIP_HEAD)


def _gzip(reply: ValidReply, level: int = 9) -> bytes:
    return gzip.compress(reply.body, level, mtime=0)


def _packed(reply: ValidReply, body: bytes, label: str) -> bytes:
    return reply.written(body, _labelled(label))


def _gzipped(draw: DrawFn, reply: ValidReply) -> RawResponse:
    level = pick(draw, 6, 0, 9)
    return reply.response(_packed(reply, _gzip(reply, level), "gzip"), "keep")


def _deflated(draw: DrawFn, reply: ValidReply) -> RawResponse:
    # with the header of zlib, as the standard says, and without, as some do
    bits = pick(draw, 15, -15)
    packer = zlib.compressobj(wbits=bits)
    body = packer.compress(reply.body) + packer.flush()
    return reply.response(_packed(reply, body, "deflate"))


def _mislabelled(draw: DrawFn, reply: ValidReply) -> RawResponse:
    pack = pick(draw, *PACKERS)
    label = pick(draw, *LABELS)
    return reply.response(_packed(reply, pack(reply.body), label))


def _unlabelled(_: DrawFn, reply: ValidReply) -> RawResponse:
    return reply.response(reply.written(_gzip(reply)))


def _bytes_after(draw: DrawFn, reply: ValidReply) -> RawResponse:
    body = _gzip(reply) + pick(draw, *TRAILING)
    return RawResponse([RawStep(_packed(reply, body, "gzip"))])


def _stacked(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Compress repeatedly.

    Each layer costs the reader as much as the first, and may grow a thousandfold.
    """
    layers = pick(draw, 2, 3, 10, 100)
    body = reply.body
    for _ in range(layers):
        body = gzip.compress(body, 1, mtime=0)
    return reply.response(_packed(reply, body, ", ".join(["gzip"] * layers)))


def _cut_inside(draw: DrawFn, reply: ValidReply) -> RawResponse:
    body = _gzip(reply)
    cut = draw(st.integers(1, len(body) // 2))
    return reply.response(_packed(reply, body[:cut], "gzip"), is_whole=False)


def _bomb(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Unpack to hundreds of megabytes of one JSON string, or of useless bytes."""
    layers = pick(draw, 1, 2, 3)
    filler = pick(draw, b"a", b" ", b"\n", b"\0", b": a\n\n")
    status = pick(draw, b"200 OK", b"429 Too Many Requests")
    label = _labelled(", ".join(["gzip"] * layers))
    head = RawStep(reply.head(b"transfer-encoding: chunked", label, status=status))
    opening = b""
    if filler == b"a":  # in the middle of the text, so that all of it is one string
        opening = reply.body.partition(reply.text[:4].encode())[0]
    start, block = _bomb_of(opening, filler)
    if layers == 1:
        steps = [RawStep(chunk(start)), RawStep(chunk(block), times=BOMB // MEBIBYTE)]
    else:
        steps = [RawStep(chunk(_packed_again(start, block, layers - 1)))]
    return RawResponse([head, *steps], is_whole=False)


@cache
def _bomb_of(opening: bytes, filler: bytes) -> tuple[bytes, bytes]:
    """Return the beginning of a gzip stream, and a block that may follow any number of times.

    Arguments:
        opening: what the stream unpacks to at first.
        filler: what the block unpacks to, over and over, up to a mebibyte.
    """
    # A full flush forgets what came before, so that the block means the same wherever it stands.
    packer = zlib.compressobj(9, wbits=31)
    start = packer.compress(opening) + packer.flush(zlib.Z_FULL_FLUSH)
    mebibyte = (filler * MEBIBYTE)[:MEBIBYTE]
    return start, packer.compress(mebibyte) + packer.flush(zlib.Z_FULL_FLUSH)


@cache
def _packed_again(start: bytes, block: bytes, times: int) -> bytes:
    body = start + block * (BOMB // MEBIBYTE)
    for _ in range(times):
        body = gzip.compress(body, mtime=0)
    return body


ENCODINGS: Final[Mapping[str, Hostility]] = {
    "gzip": _gzipped,
    "deflate": _deflated,
    "stacked encodings": _stacked,
    "mislabelled encoding": _mislabelled,
    "unlabelled encoding": _unlabelled,
    "cut encoding": _cut_inside,
    "bytes after the encoding": _bytes_after,
    "bomb": _bomb,
}
"""The ways of encoding a body wrongly, by name."""

CHARSETS: Final = ("utf-16", "utf-16-be", "utf-32", "utf-7")
BOM: Final = b"\xef\xbb\xbf"
NUMBERS: Final = (
    b"9" * 5_000,
    b"1e999",
    b"-1e999",
    b"-1",
    b"1.5",
    b"9" * 19,
    b"NaN",
    b"Infinity",
    b"1" + b"0" * 30,
)
SURROGATES: Final = (
    b"\\ud83e",
    b"\\udd9c",
    b"\\udd9c\\ud83e",
    b"\\ud83e\\ud83e\\udd9c",
    b"\\uD800\\u0000",
    b"\\u",
)
BROKEN_UTF8: Final = (
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\xaf",
    b"\xf0\x9f\xaa",
)
DEPTHS: Final = (100, 500, 1_020, 5_000, 100_000)
DUPLICATES: Final = (
    (b'"choices":[', b'"choices":[],"choices":['),
    (b'"content":', b'"content":"Something else.","content":'),
    (b'"finish_reason":"stop"', b'"finish_reason":"length","finish_reason":"stop"'),
    (b'"finish_reason":"stop"', b'"finish_reason":"stop","finish_reason":null'),
)
ODD_MEMBERS: Final = (
    b'"error":1',
    b'"error":"x"',
    b'"error":[]',
    b'"error":[1]',
    b'"error":{"message":null}',
    b'"error":{"code":[]}',
    b'"error":{}',
    b'"x_groq":1',
    b'"x_groq":{"usage":1}',
    b'"x_groq":{"error":"x"}',
    b'"base_resp":1',
    b'"base_resp":{"status_code":"x"}',
    b'"base_resp":{"status_code":1000}',
    b'"object":"error"',
    b'"type":"error"',
    b'"detail":"x"',
    b'"message":7',
    b'"tool_calls":7',
)
"""Members that a reader of some other server looks for."""
TYPED_MEMBERS: Final = (
    b"choices",
    b"message",
    b"delta",
    b"content",
    b"finish_reason",
    b"usage",
    b"model",
    b"index",
    b"role",
)
EVENT_LINES: Final = (
    (b"data: ", b"data:"),
    (b"data: ", b"event: message\ndata: "),
    (b"data: ", b"id: 1\ndata: "),
    (b'data: {"id"', b'data: {\ndata: "id"'),
    (b"data: ", b": a comment\ndata: "),
    (b"\n\n", b"\n\n\n\n"),
    (b"data: [DONE]\n\n", b"data: [DONE]"),
    (b"data: [DONE]\n\n", b"data: [DONE] \n\n"),
)
"""The other ways in which the format of event streams allows to write their events."""


def _response(reply: ValidReply, body: bytes, says: str | None = None) -> RawResponse:
    return RawResponse([RawStep(reply.written(body))], "keep", says=says)


def _inside(reply: ValidReply, piece: bytes) -> RawResponse:
    """Put something into the text."""
    place = reply.text[:3].encode()
    return _response(reply, reply.body.replace(place, place + piece, 1))


def _bom(draw: DrawFn, reply: ValidReply) -> RawResponse:
    times = pick(draw, 1, 2)
    before = pick(draw, b"", b"\n", b" ")
    return _response(reply, before + BOM * times + reply.body, reply.text)


def _charset(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _response(reply, reply.body.decode().encode(pick(draw, *CHARSETS)))


def _broken_utf8(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _inside(reply, pick(draw, *BROKEN_UTF8))


def _surrogates(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return _inside(reply, pick(draw, *SURROGATES))


def _duplicates(draw: DrawFn, reply: ValidReply) -> RawResponse:
    once, twice = pick(draw, *DUPLICATES)
    return _response(reply, reply.body.replace(once, twice))


def _nul(draw: DrawFn, reply: ValidReply) -> RawResponse:
    if draw(st.booleans()):
        return _inside(reply, b"\0")
    at = draw(st.integers(0, len(reply.body)))
    nuls = b"\0" * pick(draw, 1, 3, 4_096)
    return _response(reply, reply.body[:at] + nuls + reply.body[at:])


def _numbers(draw: DrawFn, reply: ValidReply) -> RawResponse:
    number = pick(draw, *NUMBERS)
    place = pick(draw, b'"index":0', b'"prompt_tokens":9', b'"completion_tokens":')
    name, _, digits = place.partition(b":")
    member = name + b":" + number
    if not digits:  # then those of the reply follow, which need a name of their own
        member += b',"a":'
    return _response(reply, reply.body.replace(place, member))


def _nesting(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Nest a value deeply, and close what was opened, or not."""
    depth = pick(draw, *DEPTHS)
    opening, closing = pick(draw, (b"[", b"]"), (b'{"text":', b"}"), (b'{"content":', b"}"))
    value = opening * depth + b"1"
    if draw(st.booleans()):
        value += closing * depth
    place = pick(draw, b'"model":"m"', b'"content":"', b'"usage":{', b'"finish_reason":"stop"')
    name, _, rest = place.partition(b":")
    member = name + b":" + value + b',"a":' + rest
    return _response(reply, reply.body.replace(place, member, 1))


def _types(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Put a value of another type where a reader expects one of its own."""
    value = pick(
        draw, b"null", b"true", b"0", b"1.5", b'""', b'"x"', b"[]", b"{}", b"[null]", b"[[]]"
    )
    name = b'"' + pick(draw, *TYPED_MEMBERS) + b'":'
    return _response(reply, reply.body.replace(name, name + value + b',"a":'))


def _members(draw: DrawFn, reply: ValidReply) -> RawResponse:
    member = pick(draw, *ODD_MEMBERS)
    return _response(reply, reply.body.replace(b'"model":"m"', member + b',"model":"m"'))


def _event_lines(draw: DrawFn, reply: ValidReply) -> RawResponse:
    usual, other = pick(draw, *EVENT_LINES)
    return _response(reply, reply.body.replace(usual, other), reply.text)


CONTENTS: Final[Mapping[str, Hostility]] = {
    "byte order mark": _bom,
    "another charset": _charset,
    "NUL": _nul,
    "invalid UTF-8": _broken_utf8,
    "lone surrogates": _surrogates,
    "duplicate keys": _duplicates,
    "odd numbers": _numbers,
    "deep nesting": _nesting,
    "odd types": _types,
    "odd members": _members,
    "odd event lines": _event_lines,
}
"""The ways of spoiling the contents, by name."""
