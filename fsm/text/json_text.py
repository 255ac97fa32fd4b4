"""JSON that its readers and writers disagree on: numbers of more than 64 bits, and halves of surrogate pairs."""

from __future__ import annotations

import json
import re
from math import isfinite
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


_HALVES: Final = re.compile("[\ud800-\udfff]")


def without_halves(text: str) -> str:
    """Return a text in which two halves are joined, and a lone one is replaced."""
    if text.isascii() or not _HALVES.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_json(text: str) -> bool:
    """Tell whether a text is one JSON value and nothing else."""
    import orjson

    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return _is_odd_json(text)
    return True


def _is_odd_json(text: str) -> bool:
    """Tell whether a text is JSON that stricter readers refuse for halves of surrogate pairs, or long whole numbers."""
    try:
        json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return False
    return True


def _finite(number: str) -> float:
    """Return a number; `NaN`, `Infinity` and 1e400 are none that a reader of JSON could hold.

    Raises:
        ValueError: it is none.
    """
    value = float(number)
    if not isfinite(value):
        raise ValueError("the number is not finite")
    return value
