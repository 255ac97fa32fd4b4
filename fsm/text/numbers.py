"""Whole numbers of more than 64 bits in JSON, which orjson rounds when it reads them and refuses to write."""

from __future__ import annotations

import json
from typing import Any, Final

_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 20
"""As many digits as a number has, or one more, that does not fit into 64 bits."""
_MOST_DIGITS: Final = 4300
"""Python itself refuses to read more."""


def exact(value: Any, data: bytes) -> Any:
    """Return a JSON value with its whole numbers as they are written.

    Arguments:
        value: what orjson has read.
        data: what it was read from.
    """
    if _LONG not in data.translate(_ZEROS):
        return value
    try:
        return json.loads(data, parse_int=whole)
    except (ValueError, RecursionError):
        return value


def whole(digits: str) -> float:
    """Return a whole number of JSON; one of more digits than Python reads is infinite."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def is_long(value: object) -> bool:
    """Tell whether a value is a whole number that orjson does not write."""
    return isinstance(value, int) and not -(2**63) <= value < 2**64
