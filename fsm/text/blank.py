"""Tell whether a text shows anything at all: the one test of emptiness for answers, reasoning and names."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_VISIBLE = re.compile(r"[!-~]")
"""Any printable ASCII sign but the space: what nearly every text begins with."""

_FIRST: Final = 64
"""How many letters are looked at one by one."""

_EMPTY: Final = frozenset({"Cc", "Cf", "Cs", "Cn"})
"""Unicode's categories of control, format, surrogate and unassigned code points."""

# What renderers show as nothing, or as a blank, although its category says letter, mark or symbol: the combining
# grapheme joiner, fillers of Hangul, Khmer and Khitan, variation selectors, a musical null, the blank Braille pattern.
_IGNORABLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159").union(
    map(chr, [*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])
)

# Set aside for pictographs and ideographs: a newer Unicode than Python's has letters there, so they are kept.
_RESERVED: Final = (range(0x1F000, 0x1FB00), range(0x20000, 0x2FFFE), range(0x30000, 0x3FFFE))


def is_blank(text: str) -> bool:
    """Tell whether a text has nothing in it that can be seen, only white space and invisible code points.

    Arguments:
        text: any text; also an empty one, which is blank.
    """
    if not text or _VISIBLE.match(text):
        return not text
    # Nearly every text shows within its first letters; a long one that does not has few different ones.
    return all(map(_is_empty, text[:_FIRST])) and all(map(_is_empty, set(text[_FIRST:])))


def _is_empty(letter: str) -> bool:
    """Tell whether a code point shows nothing."""
    if letter.isspace() or letter in _IGNORABLE:
        return True
    category = unicodedata.category(letter)
    return category in _EMPTY and not (category == "Cn" and any(ord(letter) in reserved for reserved in _RESERVED))
