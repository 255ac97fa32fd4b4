"""Decode the content-encoding and the charset of a body, piece by piece: a few bytes must not fill
the memory.
"""

from __future__ import annotations

import re
import zlib
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from rungwise.adapters.wires.backend import PIECE
from rungwise.fsm.values.secret import SecretMap

ACCEPTED: Final = "gzip, deflate"
"""The encodings that requests accept: zlib can stop in the middle of them."""

MOST_OUT: Final = 2**23
"""Bytes that a body may unpack to in any case."""

RATIO: Final = 100
"""Bytes that it may unpack to beyond that, for each byte received. Text packs to a tenth, rarely to
a thirtieth.
"""

_GZIP: Final = zlib.MAX_WBITS | 16
_MEMBER: Final = b"\x1f\x8b"  # how each member of a gzip file begins
# bytes that each further member counts for: an empty one takes work, too
_MEMBER_COST: Final = 2**12
_NAMES: Final = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}


def asking(headers: Mapping[str, str]) -> SecretMap:
    """Add the accepted encodings to the headers of a request.

    A caller may accept fewer of them, but no others.
    """
    own = [name for name in headers if name.lower() == "accept-encoding"]
    if not own:
        return SecretMap(headers, {"accept-encoding": ACCEPTED})
    wanted = headers[own[-1]]
    if not all(name in ("gzip", "deflate", "identity") for name in _names_in(wanted)):
        wanted = ACCEPTED
    rest = SecretMap({name: headers[name] for name in headers if name not in own})
    return SecretMap(rest, {"accept-encoding": wanted})


def _names_in(header: str) -> list[str]:
    return [name.partition(";")[0].strip().lower() for name in header.split(",")]


class Unreadable(Exception):
    """Raised when a body does not decode, or unpacks to far too much."""


Decode = Callable[[bytes], Iterator[bytes]]
"""Decodes bytes, a piece at a time."""


def plain(data: bytes) -> Iterator[bytes]:
    """Pass a body on as it is, in pieces of limited size."""
    return (data[start : start + PIECE] for start in range(0, len(data), PIECE))


class Unpacker:
    """Unpack a body with zlib.

    Arguments:
        window: `zlib.MAX_WBITS` for a body with zlib's own header, `_GZIP` for one with gzip's.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._zlib: Any = None
        self._left = MOST_OUT  # bytes that it may still unpack to
        self._begun = b""  # the first byte of what may be another member
        self._is_over = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Unpack bytes, a piece at a time. Bytes after the last member are ignored.

        Raises:
            Unreadable: they do not unpack, or to too much.
        """
        for piece in plain(data):
            yield from self._unpack(piece)

    def _unpack(self, packed: bytes) -> Iterator[bytes]:
        if self._zlib is None:
            # Some servers omit the header of deflate, whose low bits are 8.
            bare = self._window == zlib.MAX_WBITS and packed[0] & 15 != 8
            self._zlib = zlib.decompressobj(-zlib.MAX_WBITS if bare else self._window)
        self._left += RATIO * len(packed)
        piece = packed = self._begun + packed
        self._begun = b""
        while packed or len(piece) == PIECE:
            if self._zlib.eof and not self._begin_member(packed):
                return
            try:
                piece = self._zlib.decompress(packed, PIECE)
            except zlib.error:
                raise Unreadable from None
            packed = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
            self._left -= len(piece)
            if self._left < 0:
                raise Unreadable
            if piece:
                yield piece

    def _begin_member(self, packed: bytes) -> bool:
        """Prepare for another member of a gzip file, if one begins here.

        If half its beginning stands here, that is remembered.
        """
        if self._is_over or self._window != _GZIP:
            return False
        if len(packed) < len(_MEMBER) and _MEMBER.startswith(packed):
            self._begun = packed
            return False
        self._is_over = not packed.startswith(_MEMBER)
        if not self._is_over:
            self._zlib = zlib.decompressobj(_GZIP)
            self._left -= _MEMBER_COST
        return not self._is_over


_TEXT: Final = re.compile(rb'[\xef\xbb\xbf\s]*(?:\{\s*"|\[\s*[{\]]|data:|event:|id:|retry:|:)')
"""How a body begins that is JSON or events."""


def encoding_of(headers: Mapping[str, str], beginning: bytes) -> Decode | None:
    """Return what decodes a body; None if its encoding is not one of `ACCEPTED`.

    Proxies unpack bodies and leave the header that said how they were packed
    [agentgateway/agentgateway#3040], or pack them without a word. So the first bytes count for
    more: nothing but gzip begins as gzip does, and nothing packed is seen to begin as JSON or
    events do.

    Arguments:
        headers: of the response.
        beginning: the first bytes of its body, as many as have come.
    """
    if beginning.startswith(_MEMBER[:1]):
        return Unpacker(_GZIP).pieces
    names = _names_in(headers.get("content-encoding", ""))
    encodings = [name for name in names if name not in ("", "identity")]
    if not encodings or _TEXT.match(beginning):
        return plain
    if len(encodings) > 1 or encodings[0] not in _NAMES:
        return None
    return Unpacker(_NAMES[encodings[0]]).pieces


_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
"""The charset that a content type names."""
_KNOWN: Final = re.compile(
    r"iso-?8859|latin|windows-12|cp12|utf-?(?:16|32)|shift_?jis|euc-|gb|big5|koi8", re.IGNORECASE
)
"""How the names of charsets begin that are read; Python has further codecs, and slow ones."""
_WIDE: Final = re.compile(r"utf-?(?:16|32)", re.IGNORECASE)
"""Charsets whose text may look like UTF-8 with zeros in it."""


def in_utf8(content_type: str, decode: Decode) -> Decode:
    """Return what decodes a body and hands its text on in UTF-8.

    JSON and events are UTF-8 by their standards, and many a server names another charset for text
    that is UTF-8 all the same. So text is taken as UTF-8 for as long as it is that; the rest is
    read by the charset that the header names.

    Arguments:
        content_type: of the response.
        decode: what decodes the body.
    """
    named = _CHARSET.search(content_type)
    if named is None or not _KNOWN.match(named[1]):
        return decode
    try:
        charset = getincrementaldecoder(named[1])("replace")
    except LookupError:
        return decode
    return Recoder(decode, charset, is_wide=_WIDE.match(named[1]) is not None).pieces


class Recoder:
    """Write text of another charset in UTF-8; see `in_utf8`.

    Arguments:
        decode: what decodes the body.
        charset: what reads its text.
        is_wide: whether none of it is UTF-8.
    """

    def __init__(self, decode: Decode, charset: IncrementalDecoder, *, is_wide: bool) -> None:
        self._decode = decode
        self._charset = charset
        self._utf8 = None if is_wide else getincrementaldecoder("utf-8")()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decode bytes, a piece at a time."""
        for piece in self._decode(data):
            yield self._text(piece).encode("utf-8", "replace")

    def _text(self, piece: bytes) -> str:
        if self._utf8 is not None:
            held, _ = self._utf8.getstate()
            try:
                return self._utf8.decode(piece)
            except UnicodeDecodeError:
                self._utf8 = None
                piece = held + piece
        return self._charset.decode(piece)


def comes_decoded(response: Any) -> bool:
    """Tell whether a response of a client yields only decoded bytes, as one made in memory does."""
    if not hasattr(response, "iter_raw"):
        return True
    return bool(getattr(response, "is_stream_consumed", False))
