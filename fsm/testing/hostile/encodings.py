"""Hostile content encodings: compressed well, badly, several times, without end, and labelled as something else."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.fsm.testing.hostile.raw import RawResponse, RawStep
from rungwise.fsm.testing.hostile.valid import Hostility, ValidReply, chunk, pick

MEBIBYTE: Final = 2**20
BOMB: Final = 384 * MEBIBYTE
"""Bytes that a bomb unpacks to: more than any reader needs, and few enough for a machine to survive."""

GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
EMPTY_BLOCK: Final = b"\x00\x00\x00\xff\xff"
"""A block of a deflate stream that brings nothing."""

PACKERS: Final[tuple[Callable[[bytes], bytes], ...]] = (bytes, gzip.compress, zlib.compress)
LABELS: Final = ("gzip", "deflate", "br", "zstd", "compress", "x-gzip", "identity", "aes128gcm", "", "gzip;q=1", "\xff")


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
    return reply.response(_packed(reply, _gzip(reply, pick(draw, 6, 0, 9)), "gzip"), "keep")


def _deflated(draw: DrawFn, reply: ValidReply) -> RawResponse:
    bits = pick(draw, 15, -15)  # with the header of zlib, as the standard says, and without, as some do
    packer = zlib.compressobj(wbits=bits)
    return reply.response(_packed(reply, packer.compress(reply.body) + packer.flush(), "deflate"))


def _stacked(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Compress over and over: each layer costs the reader as much as the first, and may grow a thousandfold."""
    layers = pick(draw, 2, 3, 10, 100)
    body = reply.body
    for _ in range(layers):
        body = gzip.compress(body, 1, mtime=0)
    return reply.response(_packed(reply, body, ", ".join(["gzip"] * layers)))


def _mislabelled(draw: DrawFn, reply: ValidReply) -> RawResponse:
    pack = pick(draw, *PACKERS)
    return reply.response(_packed(reply, pack(reply.body), pick(draw, *LABELS)))


def _cut_inside(draw: DrawFn, reply: ValidReply) -> RawResponse:
    body = _gzip(reply)
    cut = draw(st.integers(1, len(body) // 2))
    return reply.response(_packed(reply, body[:cut], "gzip"), is_whole=False)


def _trailing(draw: DrawFn, reply: ValidReply) -> RawResponse:
    more = pick(draw, b"junk", b"\0" * 600, gzip.compress(b"data: {}\n\n", mtime=0))
    return RawResponse([RawStep(_packed(reply, _gzip(reply) + more, "gzip"))])


def _bomb(draw: DrawFn, reply: ValidReply) -> RawResponse:
    """Unpack to hundreds of megabytes inside one JSON string, or in bytes that no reader has any use for."""
    layers, filler = pick(draw, 1, 2, 3), pick(draw, b"a", b" ", b"\n", b"\0", b": a\n\n")
    opening = reply.body.partition(reply.text[:4].encode())[0] if filler == b"a" else b""
    label = ", ".join(["gzip"] * layers)
    status = pick(draw, b"200 OK", b"429 Too Many Requests")
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
    "unlabelled encoding": lambda _, reply: RawResponse([RawStep(reply.written(_gzip(reply)))], is_whole=False),
    "cut encoding": _cut_inside,
    "bytes after the encoding": _trailing,
    "bomb": _bomb,
}
