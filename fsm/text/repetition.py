"""Recognise a model that has fallen into a loop, so that nobody asks it to go on.

The figures are those of a guard in use in agents.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

TAIL = 16_384
"""How many characters at the end of a text are looked at: a model that goes on in a loop is in it there."""

MINIMUM_TEXT = 400
"""The shortest text, in characters, that is judged by its lines."""

MINIMUM_REPEATS = 5
"""How often a line or a window must occur at least."""

WINDOW = 60
"""The length, in characters, of the windows that find a loop without line breaks."""

_BLOCK: Final = WINDOW // 2
"""Characters of the blocks that a text is cut into: each window that stands in it holds a whole one of them."""

_WINDOWS_APART: Final = 4
_LINES_APART: Final = 4
"""How soon a block or a line must come back to be noted, in windows, or in lengths of the line."""


class LoopWatch:
    """Tell of a text that grows whether it is a loop by now; all is counted only where enough of it has come back soon.

    What comes back soon is looked for in what is new alone, so a text in a thousand parts is read once. That no loop is
    missed is arithmetic. A window that stands T times in a text without overlap, and covers half of it, leaves room for
    few gaps of more than four windows: at least (2 T - 5) / 3 of its turns come back sooner, and each of them holds a
    block that does. Of a line, one turn of which may be cut, it is (2 T - 7) / 3, and never none, so that the turns
    that come back soon are a tenth of the text at least.
    """

    __slots__ = ("_block", "_blocks", "_line", "_lines", "_read")

    def __init__(self) -> None:
        self._block = self._line = self._read = 0  # where the next block begins, the line that is read, and what is new
        self._blocks, self._lines = _Returns(), _Returns()

    def is_repetitive(self, text: str) -> bool:
        """Tell whether half of the end of `text` or more is one line, or one window of 60 characters, again and again.

        Arguments:
            text: the text of last time with more behind it; no more than `TAIL` characters at its end are looked at.
        """
        start = max(0, len(text) - TAIL)
        size = len(text) - start
        self._read_blocks(text, start)
        begun = self._read_lines(text, start)
        may_repeat_line = 10 * (self._lines.since(start) + begun) >= size
        may_repeat_window = 3 * self._blocks.since(start) >= 2 * _least_windows(size) - 5
        tail = text[start:] if may_repeat_line or may_repeat_window else ""
        return (may_repeat_line and _repeats_line(tail)) or (may_repeat_window and _repeats_window(tail))

    def _read_blocks(self, text: str, start: int) -> None:
        at = max(self._block, start - start % _BLOCK)
        while at + _BLOCK <= len(text):
            # What is nearer than a window would overlap, as in a ruler.
            since, until = max(0, at - _WINDOWS_APART * WINDOW), max(0, at - WINDOW + _BLOCK)
            if text.find(text[at : at + _BLOCK], since, until) >= 0:
                self._blocks.add(at, 1)
            at += _BLOCK
        self._block = at

    def _read_lines(self, text: str, start: int) -> int:
        """Note the lines that have come back, and return the size of the last one if it has so far."""
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
        """Return the size of the line that is read up to here, 0 where it has not come back."""
        size = end - self._line
        if not 0 < size <= TAIL // MINIMUM_REPEATS:
            return 0
        found = text.find(text[self._line : end], max(0, self._line - _LINES_APART * size), self._line)
        return size if found >= 0 else 0


class _Returns:
    """Add up what has come back at the end of a text."""

    __slots__ = ("_found", "_total")

    def __init__(self) -> None:
        self._found: deque[tuple[int, int]] = deque()
        self._total = 0

    def add(self, at: int, size: int) -> None:
        """Add what has come back at a place."""
        if size:
            self._found.append((at, size))
            self._total += size

    def since(self, start: int) -> int:
        """Return how much has come back from a place on, and forget what stands before it."""
        while self._found and self._found[0][0] < start:
            self._total -= self._found.popleft()[1]
        return self._total


def is_repetitive(text: str) -> bool:
    """Tell of a whole text what a `LoopWatch` tells of one that grows.

    Arguments:
        text: the visible text of a truncated reply.
    """
    return LoopWatch().is_repetitive(text)


def _repeats_line(text: str) -> bool:
    if len(text) < MINIMUM_TEXT:
        return False
    lines = Counter(text.splitlines())
    return any(times >= MINIMUM_REPEATS and 2 * times * len(line) >= len(text) for line, times in lines.items())


def _repeats_window(text: str) -> bool:
    threshold = _least_windows(len(text))
    if len(text) < threshold * WINDOW:
        return False
    windows = Counter(text[at : at + WINDOW] for at in range(len(text) - WINDOW + 1))
    # Overlapping windows count here, so this only picks candidates, some 2 * WINDOW; `str.count` skips overlaps.
    return any(text.count(window) >= threshold for window, times in windows.items() if times >= threshold)


def _least_windows(size: int) -> int:
    """Return how often a window must stand in a text of some size."""
    return max(MINIMUM_REPEATS, size // (2 * WINDOW))
