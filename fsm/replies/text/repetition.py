"""Recognise a model that is caught in a loop, by the figures of a guard that agents use: nobody
asks it to continue.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

# how many characters at the end of a text are checked: a model that loops does so there
TAIL = 16_384
MINIMUM_TEXT = 400  # the shortest text, in characters, that is checked line by line
MINIMUM_REPEATS = 5  # how often a line or a window must occur
WINDOW = 60  # the length, in characters, of the windows that find loops without line breaks

_BLOCK: Final = WINDOW // 2
"""Characters of the blocks that a text is cut into; each window holds a whole block."""

_WINDOWS_APART: Final = 4
_LINES_APART: Final = 4
"""How soon a block or a line must return to be counted, in windows or in lengths of the line."""


class LoopWatch:
    """Tell whether a growing text is a loop by now.

    The full count is made only if enough of the text has returned soon. That is looked for in new
    text alone, so a text in a thousand parts is read once. No loop is missed: a window that stands
    T times in a text without overlap, and covers half of it, leaves room for few gaps of more than
    four windows. At least (2 T - 5) / 3 of its repeats come sooner, and each of them holds a block
    that does. For a line, one repeat of which may be cut, it is (2 T - 7) / 3, and never none, so
    the repeats that come soon are at least a tenth of the text.
    """

    __slots__ = ("_block", "_blocks", "_line", "_lines", "_read")

    def __init__(self) -> None:
        self._block = 0  # where the next block begins
        self._line = 0  # where the line that is read begins
        self._read = 0  # where the text begins that is new
        self._blocks = _Returns()
        self._lines = _Returns()

    def is_repetitive(self, text: str) -> bool:
        """Tell whether at least half of the end of `text` is one line, or one window of 60
        characters, repeated.

        The text is that of last time, perhaps with more behind it; only `TAIL` characters at its
        end are checked.
        """
        start = max(0, len(text) - TAIL)
        size = len(text) - start
        self._read_blocks(text, start)
        begun = self._read_lines(text, start)
        may_repeat_line = 10 * (self._lines.since(start) + begun) >= size
        may_repeat_window = 3 * self._blocks.since(start) >= 2 * _least_windows(size) - 5
        if may_repeat_line and _repeats_line(text[start:]):
            return True
        return may_repeat_window and _repeats_window(text[start:])

    def _read_blocks(self, text: str, start: int) -> None:
        at = max(self._block, start - start % _BLOCK)
        while at + _BLOCK <= len(text):
            # What is nearer than a window would overlap, as in a ruler.
            since = max(0, at - _WINDOWS_APART * WINDOW)
            until = max(0, at - WINDOW + _BLOCK)
            if text.find(text[at : at + _BLOCK], since, until) >= 0:
                self._blocks.add(at, 1)
            at += _BLOCK
        self._block = at

    def _read_lines(self, text: str, start: int) -> int:
        """Count the lines that have returned; return the size of the last one if it has so far."""
        if self._read < start:
            self._line = self._read = start
        for piece in text[self._read :].splitlines(keepends=True):
            bare = piece.splitlines()[0]
            if len(piece) > len(bare):
                self._lines.add(self._line, self._size_if_returned(text, self._read + len(bare)))
                self._line = self._read + len(piece)
            self._read += len(piece)
        return self._size_if_returned(text, len(text))

    def _size_if_returned(self, text: str, end: int) -> int:
        """Return the size of the line up to here; 0 if it has not returned."""
        size = end - self._line
        if not 0 < size <= TAIL // MINIMUM_REPEATS:
            return 0
        since = max(0, self._line - _LINES_APART * size)
        has_returned = text.find(text[self._line : end], since, self._line) >= 0
        return size if has_returned else 0


class _Returns:
    """Add up what has returned at the end of a text."""

    __slots__ = ("_places", "_total")

    def __init__(self) -> None:
        self._places: deque[tuple[int, int]] = deque()
        self._total = 0

    def add(self, at: int, size: int) -> None:
        if size:
            self._places.append((at, size))
            self._total += size

    def since(self, start: int) -> int:
        """Return how much has returned from `start` on, and forget what stands before it."""
        while self._places and self._places[0][0] < start:
            self._total -= self._places.popleft()[1]
        return self._total


def _repeats_line(text: str) -> bool:
    if len(text) < MINIMUM_TEXT:
        return False
    for line, times in Counter(text.splitlines()).items():
        if times >= MINIMUM_REPEATS and 2 * times * len(line) >= len(text):
            return True
    return False


def _repeats_window(text: str) -> bool:
    threshold = _least_windows(len(text))
    if len(text) < threshold * WINDOW:
        return False
    places = range(len(text) - WINDOW + 1)
    windows = Counter(text[at : at + WINDOW] for at in places)
    # Overlapping windows count here, so this only picks candidates, some 2 * WINDOW; `str.count`
    # skips overlaps.
    for window, times in windows.items():
        if times >= threshold and text.count(window) >= threshold:
            return True
    return False


def _least_windows(size: int) -> int:
    """Return how often a window must stand in a text of some size."""
    return max(MINIMUM_REPEATS, size // (2 * WINDOW))
