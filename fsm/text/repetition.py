"""Recognise a model that has fallen into a loop, so that nobody asks it to go on.

The figures are those of a guard in use in agents.
"""

from __future__ import annotations

from collections import Counter

TAIL = 16_384
"""How many characters at the end of a text are looked at: a model that goes on in a loop is in it there."""

MINIMUM_TEXT = 400
"""The shortest text, in characters, that is judged by its lines."""

MINIMUM_REPEATS = 5
"""How often a line or a window must occur at least."""

WINDOW = 60
"""The length, in characters, of the windows that find a loop without line breaks."""


def is_repetitive(text: str) -> bool:
    """Tell whether half of the end of `text` or more is one line, or one window of 60 characters, again and again.

    Arguments:
        text: the visible text of a truncated reply; no more than `TAIL` characters at its end are looked at.
    """
    tail = text[-TAIL:]
    return _repeats_line(tail) or _repeats_window(tail)


def _repeats_line(text: str) -> bool:
    if len(text) < MINIMUM_TEXT:
        return False
    lines = Counter(text.splitlines())
    return any(times >= MINIMUM_REPEATS and 2 * times * len(line) >= len(text) for line, times in lines.items())


def _repeats_window(text: str) -> bool:
    threshold = max(MINIMUM_REPEATS, len(text) // (2 * WINDOW))
    if len(text) < threshold * WINDOW:
        return False
    windows = Counter(text[at : at + WINDOW] for at in range(len(text) - WINDOW + 1))
    # Overlapping windows count here, so this only picks candidates, some 2 * WINDOW; `str.count` skips overlaps.
    return any(text.count(window) >= threshold for window, times in windows.items() if times >= threshold)
