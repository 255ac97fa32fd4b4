"""Points in time in text: RFC 3339, or seconds or milliseconds since 1970."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Final

from rungwise.fsm.values.patterns import Pattern

# numbers from here on (the year 5138 in seconds) count milliseconds since 1970
EPOCH_MILLISECONDS: Final = 1e11

LAST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
"""Seconds since 1970 behind which no year has four digits."""

_RFC_3339: Final = Pattern(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,20})?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)
_NUMBER: Final = Pattern(r"\d{1,20}(\.\d{1,20})?", re.ASCII)

_NOISE: Final = 0.01
"""Milliseconds by which a moment that was counted on one clock and then on another may have become
earlier.
"""


def read_rfc_3339(text: str) -> float | None:
    """Return the seconds since 1970 of a time with its offset; None if the text is no such time."""
    if not _RFC_3339.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper()).timestamp()
    except (ValueError, OverflowError):  # such as the 31st of February
        return None


def read_moment(text: str) -> float | None:
    """Return the seconds since 1970 of a time in RFC 3339, or of a number; None if it is
    neither.
    """
    if not _NUMBER.fullmatch(text):
        return read_rfc_3339(text)
    seconds = float(text)
    if seconds >= EPOCH_MILLISECONDS:
        seconds /= 1000
    return seconds if seconds <= LAST else None


def write_moment(seconds: float) -> str:
    """Write a moment, given in seconds since 1970, in RFC 3339: in UTC, rounded down to the
    millisecond.
    """
    milliseconds = math.floor(min(max(seconds, 0.0), LAST) * 1000 + _NOISE)
    whole, rest = divmod(milliseconds, 1000)
    moment = datetime.fromtimestamp(whole, UTC).replace(microsecond=1000 * rest)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
