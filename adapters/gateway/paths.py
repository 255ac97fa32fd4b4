"""The paths that are passed on to a backend: only those that every server reads as lying within its
base URL.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

READINGS: Final = 4
"""How often a path is read: as it came, and decoded once more by each of some servers in a row."""

_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_OLD_ESCAPE: Final = re.compile(r"%u[0-9a-fA-F]{4}")
_ENDS_PATH: Final = re.compile(r"[?#\x00-\x1f\x7f]")
_SEPARATORS: Final = re.compile(r"[/\\]")
_UP: Final = re.compile(r"[.\s]*\.[.\s]*")
"""A segment of dots alone; some systems drop blanks and dots at the end of a name."""


def path_as_sent(scope: Mapping[str, Any]) -> str:
    """Return the path of a request as it came, still encoded."""
    raw: bytes | None = scope.get("raw_path")
    if raw is None:  # the server does not tell
        return quote(scope["path"])
    return raw.partition(b"?")[0].decode("latin-1")


def simplest(path: str) -> str:
    """Return a path as a server may read it that is lenient: decoded, without doubled slashes and
    without what stands behind a semicolon or at an end.
    """
    segments = [each.partition(";")[0].strip() for each in unquote(path).split("/")]
    return "/" + "/".join(filter(None, segments))


def stays_within(path: str) -> bool:
    """Tell whether a path stays below what stands before it, however a server reads it.

    A server may decode it more than once, fold letters that look alike, take backslashes for
    slashes, leave out what stands behind a semicolon, or end it at a question mark.
    """
    if _BAD_ESCAPE.search(path) or not path.isascii():
        return False
    read = path
    for _ in range(READINGS):
        folded = unicodedata.normalize("NFKC", read)
        if _ENDS_PATH.search(folded) or _OLD_ESCAPE.search(folded):
            return False
        for segment in _SEPARATORS.split(folded):
            if _UP.fullmatch(segment.partition(";")[0]):
                return False
        try:
            read = unquote(read, errors="strict")
        except UnicodeDecodeError:  # a long form of a short letter, which some servers read
            return False
    return True
