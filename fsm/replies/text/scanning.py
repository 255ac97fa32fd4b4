"""Tell when the pieces of a text are one whole JSON object, reading each piece once."""

from __future__ import annotations

import re
from array import array
from itertools import accumulate
from typing import Final

_WINDOW: Final = 2**16
"""Characters that are looked at in one go."""
_MUCH: Final = 2**10
"""Characters from which on `ObjectScanner` tries to skip text at once."""


class ObjectScanner:
    """Tell by their brackets whether the pieces of a text are one whole JSON object.

    Each piece is scanned once, and most of a long one in C: see `_within`.
    """

    __slots__ = ("_broken", "_depth", "_inside", "_started")

    _NEXT: Final = re.compile(r'[^"{}\[\]]*+(["{}\[\]]?)')
    _REST: Final = re.compile(r'(?:[^"\\]++|\\.)*+(["\\]?)', re.DOTALL)
    _WHOLE: Final = re.compile(r'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
    _NO_BRACKETS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[^"{}\[\]]++', re.DOTALL)
    _STEPS: Final = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")

    def __init__(self) -> None:
        self._depth = 0
        self._started = self._broken = False
        # The quotation mark of the string that this stands in, and a backslash that ended the last
        # piece.
        self._inside = ""

    @property
    def is_whole(self) -> bool:
        """Tell whether the object is complete, with nothing but blanks around it."""
        return self._started and not self._depth and not self._broken

    def feed(self, piece: str) -> None:
        """Scan one more piece."""
        place = 0
        if self._inside == '"\\' and piece:
            place = 1
            self._inside = '"'
        closely = 0  # how far the brackets are looked at one by one
        while place < len(piece) and not self._broken:
            if self._inside:
                place = self._string(piece, place)
            elif self._depth < 1 or place < closely or len(piece) - place < _MUCH:
                place = self._plain(piece, place)
            elif end := self._within(piece, place):
                place = end
            else:
                closely = place + _WINDOW

    def _within(self, piece: str, place: int) -> int:
        """Skip much text at once, unless that could end the object.

        With strings and other text removed, a bracket is one step up or down; the object cannot end
        where the running sum of the steps stays above 0. Return how far that is, or 0 if it may
        end.
        """
        match = self._WHOLE.match(piece, place, place + _WINDOW)
        assert match is not None
        brackets = self._NO_BRACKETS.sub("", match[0])
        steps = array("b", brackets.encode().translate(self._STEPS))
        if not match[0] or min(accumulate(steps, initial=self._depth)) < 1:
            return 0
        self._depth += sum(steps)
        return match.end()

    def _string(self, piece: str, place: int) -> int:
        """Go on inside a string; return the place behind it, or the end of the piece."""
        match = self._REST.match(piece, place)
        assert match is not None
        self._inside = {'"': "", "\\": '"\\', "": '"'}[match[1]]
        return match.end()

    def _plain(self, piece: str, place: int) -> int:
        """Go on to the next bracket or string; return the place behind its first character."""
        match = self._NEXT.match(piece, place)
        assert match is not None
        mark = match[1]
        end = match.end()
        if not self._depth:
            begins = mark == "{" and not self._started
            self._broken |= bool(piece[place : end - begins].strip())
        if mark == '"':
            self._inside = '"'
        elif mark in ("{", "["):
            self._started = True
            self._depth += 1
        elif mark:
            self._started = True
            self._depth -= 1
        return end
