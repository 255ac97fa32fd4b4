"""Hostile content encodings: compressed well, badly, several times, without end, and labelled as something else."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.fsm.testing.hostile.raw import RawResponse, RawStep
from rungwise.fsm.testing.hostile.valid import Hostility, ValidReply, chunk

MEBIBYTE: Final = 2**20
BOMB: Final = 384 * MEBIBYTE
"""Bytes that a bomb unpacks to: more than any reader needs, and few enough for a machine to survive."""

GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
EMPTY_BLOCK: Final = b"\x00\x00\x00\xff\xff"
"""A block of a deflate stream that brings nothing."""

LABELS: Final = ("gzip", "deflate", "br", "zstd", "compress", "x-gzip", "identity", "aes128gcm", "", "gzip;q=1", "\xff")


def _labelled(label: str) -> bytes:
    return b"content-encoding: " + label.encode("latin-1")


def _packed(reply: ValidReply, body: bytes, label: str) -> RawStep:
    return RawStep(reply.written(body, _labelled(label)))


def _gzipped(draw: DrawFn, reply: ValidReply) -> RawResponse:
    body = gzip.compress(reply.body, draw(st.sampled_from((6, 0, 9))), mtime=0)
    return RawResponse([_packed(reply, body, "gzip")], "keep", says=reply.text)


def _deflated(draw: DrawFn, reply: ValidReply) -> RawResponse:
    bits = draw(st.sampled_from((15, -15)))  # with the header of zlib, as the standard says, and without, as some do
    packer = zlib.compressobj(wbits=bits)
    return RawResponse([_packed(reply, packer.compress(reply.body) + packer.flush(), "deflate")], says=reply.text)


def _stacked(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Compress over and over: each layer costs the reader as much as the first, and may grow a thousandfold."""
    layers = draw(st.sampled_from((2, 3, 10, 100)))
    body = reply.body
    for _ in range(layers):
        body = gzip.compress(body, 1, mtime=0)
    return RawResponse([_packed(reply, body, ", ".join(["gzip"] * layers))], says=reply.text)


def _mislabelled(draw: DrawFn, reply: ValidReply) -> RawResponse:
    packed = draw(st.sampled_from((None, gzip.compress, zlib.compress)))
    body = reply.body if packed is None else packed(reply.body)
    return RawResponse([_packed(reply, body, draw(st.sampled_from(LABELS)))], says=reply.text)


def _unlabelled(draw: DrawFn, reply: ValidReply) -> RawResponse:
    return RawResponse([RawStep(reply.written(gzip.compress(reply.body, mtime=0)))], is_whole=False)


def _cut_inside(draw: DrawFn, reply: ValidReply) -> RawResponse:
    body = gzip.compress(reply.body, mtime=0)
    cut = draw(st.integers(1, len(body) // 2))
    return RawResponse([_packed(reply, body[:cut], "gzip")], says=reply.text, is_whole=False)


def _trailing(draw: DrawFn, reply: ValidReply) -> RawResponse:
    more = draw(st.sampled_from((b"junk", b"\0" * 600, gzip.compress(b"data: {}\n\n", mtime=0))))
    return RawResponse([_packed(reply, gzip.compress(reply.body, mtime=0) + more, "gzip")])


def _bomb(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Unpack to hundreds of megabytes inside one JSON string, or in bytes that no reader has any use for."""
    layers, filler = draw(st.sampled_from((1, 2, 3))), draw(st.sampled_from((b"a", b" ", b"\n", b"\0", b": a\n\n")))
    opening = reply.body.partition(reply.text[:4].encode())[0] if filler == b"a" else b""
    label = ", ".join(["gzip"] * layers)
    status = draw(st.sampled_from((b"200 OK", b"429 Too Many Requests")))
    head = RawStep(reply.head(b"transfer-encoding: chunked", _labelled(label), status=status))
    start, block = _bomb_of(opening, filler)
    if layers == 1:
        steps = [RawStep(chunk(start)), RawStep(chunk(block), times=BOMB // MEBIBYTE)]
        return RawResponse([head, *steps], is_whole=False)
    return RawResponse([head, RawStep(chunk(_packed_again(start, block, layers - 1)))], is_whole=False)


@cache
def _bomb_of(opening: bytes, filler: bytes) -> tuple[bytes, bytes]:
    """Return the beginning of a gzip stream, and a block of a mebibyte that may follow as often as one likes."""
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
    "bytes after the encoding": _trailing,
    "bomb": _bomb,
}
