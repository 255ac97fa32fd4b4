"""What a text contains: anything visible, JSON, and the characters and numbers that JSON tools
disagree on.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import isfinite
from typing import Any, Final

from attrs import astuple, has

_VISIBLE = re.compile(r"[!-~]")
"""Any printable ASCII sign but the space: what nearly every text begins with."""

_FIRST: Final = 64  # how many characters are checked one by one

_EMPTY: Final = frozenset({"Cc", "Cf", "Cs", "Cn"})
"""Unicode's categories of control, format, surrogate and unassigned code points."""

# What renderers show as nothing or as a blank, although its category says letter, mark or symbol:
# the combining grapheme joiner, fillers of Hangul, Khmer and Khitan, variation selectors, a musical
# null, the blank Braille pattern.
_SELECTORS: Final = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_IGNORABLE: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159"
).union(*[map(chr, selectors) for selectors in _SELECTORS])

# For pictographs and ideographs: a newer Unicode than Python's may have letters there, so they
# count as visible.
_RESERVED: Final = (range(0x1F000, 0x1FB00), range(0x20000, 0x2FFFE), range(0x30000, 0x3FFFE))

_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 20
"""As many digits as a number has, or one more, that does not fit into 64 bits."""
_MOST_DIGITS: Final = 4300  # the most digits that Python reads

_HALVES: Final = re.compile("[\ud800-\udfff]")

SENTENCE_ENDS: Final = frozenset(
    ".!?\u2026\"')]}*\u2019\u201d\u00bb\u3002\uff01\uff1f\uff09\u300d\u300f"
)
"""What a sentence ends with, in Chinese and Japanese too."""
_BLOCK_ENDS: Final = frozenset("`|")


def is_blank(text: str) -> bool:
    """Tell whether a text shows nothing: it is empty, or all white space and invisible code
    points.
    """
    if not text or _VISIBLE.match(text):
        return not text
    # Nearly every text shows within its first characters; a long one that does not has few
    # different ones.
    return all(map(_is_empty, text[:_FIRST])) and all(map(_is_empty, set(text[_FIRST:])))


def _is_empty(letter: str) -> bool:
    if letter.isspace() or letter in _IGNORABLE:
        return True
    category = unicodedata.category(letter)
    if category == "Cn" and any(ord(letter) in reserved for reserved in _RESERVED):
        return False
    return category in _EMPTY


def ends_within_sentence(text: str) -> bool:
    """Tell whether a text stops amid a word or a sentence, and not behind a sentence, code or a row
    of a table.
    """
    last = text.rstrip()[-1:]
    return bool(last) and last not in SENTENCE_ENDS and last not in _BLOCK_ENDS


def is_json(text: str) -> bool:
    """Tell whether a text is one JSON value and nothing else."""
    _, is_one = json_in(text)
    return is_one


def json_in(text: str) -> tuple[Any, bool]:
    """Return the one JSON value that a text is, and whether it is one."""
    import orjson  # an answer in words does without

    try:
        return orjson.loads(text), True
    except orjson.JSONDecodeError:
        pass  # which it says of halves of surrogate pairs and of long whole numbers as well
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite), True
    except (ValueError, RecursionError):
        return None, False


def is_cut_json(text: str) -> bool:
    """Tell whether a text is the beginning of a JSON value, cut before its end."""
    from pydantic_core import from_json  # what is whole does without

    try:
        json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        with suppress(ValueError):
            from_json(text.encode("utf-8", "replace"), allow_partial="trailing-strings")
            return True
    return False


def _finite(number: str) -> float:
    """Return a number; `NaN`, `Infinity` and 1e400 are none that a JSON reader could hold."""
    value = float(number)
    if not isfinite(value):
        raise ValueError("the number is not finite")
    return value


def exact(value: Any, data: bytes) -> Any:
    """Return a JSON value with its whole numbers as they are written; orjson rounds those of more
    than 64 bits.
    """
    if _LONG not in data.translate(_ZEROS):
        return value
    try:
        return json.loads(data, parse_int=whole)
    except (ValueError, RecursionError):
        return value


def whole(digits: str) -> float:
    """Return a whole number of JSON; infinity for one of more digits than Python reads."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def is_long(value: object) -> bool:
    """Tell whether a value is a whole number that orjson refuses to write."""
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def without_halves(text: str) -> str:
    """Join the halves of surrogate pairs in a text, and replace those that stand alone: UTF-8 can
    hold neither.
    """
    if text.isascii() or not _HALVES.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in messages, or in other plain values, but not the names of their fields."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            todo += item.values()
        elif isinstance(item, (list, tuple)):
            todo += item
        elif has(type(item)):
            todo += astuple(item, recurse=False)
