"""Join a continuation to the text before it, without saying anything twice.

Only a repeat that is anchored at the seam is dropped. A match in the middle proves nothing, and losing text is worse
than repeating it.
"""

from __future__ import annotations

from collections.abc import Sequence

MINIMUM_ECHO = 6
"""The shortest text, in code points, whose return is taken for an echo from a backend that has not declared any."""

MINIMUM_OVERLAP = 12
"""The shortest overlap or restart that is dropped, in code points: some two words. Shorter ones come by chance."""


def stitch(gathered: str, part: str, *, echoes: bool = False, stripped: str = "") -> str:
    """Return what of `part` is new, to be appended to `gathered`.

    The first rule that fits decides: an echo (`part` begins with all of `gathered`), a restart (`gathered` begins with
    all of `part`), an overlap (`part` begins as `gathered` ends), whitespace sent again. Otherwise all of it is new.

    Arguments:
        gathered: the text so far, with the whitespace at its end.
        part: what the continuation brought.
        echoes: whether the backend declares that it repeats what it was sent, so that no echo is too short.
        stripped: the whitespace at the end of `gathered` that was kept off the wire.
    """
    if not gathered:
        return part
    if not gathered.endswith(stripped):
        stripped = ""
    if part.startswith(gathered) and (echoes or len(gathered) >= MINIMUM_ECHO):
        return part[len(gathered) :]
    if gathered.startswith(part) and (echoes or len(part) >= MINIMUM_OVERLAP):
        return ""
    sent = gathered.removesuffix(stripped)
    if echoes and sent and part.startswith(sent):
        return part[len(sent) :]
    if overlap := _overlap(gathered, part):
        return part[overlap:]
    return part.removeprefix(stripped)


class SeamFilter:
    """Stitch a part that arrives in chunks: what it hands out, joined, is what `stitch` returns for the whole part.

    It holds text back only while all of it occurs in `gathered`; until then any repeat may still come of it.

    Arguments:
        gathered: the text so far, with the whitespace at its end.
        echoes: whether the backend declares that it repeats what it was sent.
        stripped: the whitespace at the end of `gathered` that was kept off the wire.
    """

    __slots__ = ("_at", "_echoes", "_gathered", "_size", "_stripped")

    def __init__(self, gathered: str, *, echoes: bool = False, stripped: str = "") -> None:
        self._gathered = gathered  # empty once the seam is decided
        self._echoes = echoes
        self._stripped = stripped
        # The held text is a slice of `gathered`, so it needs no copy and a chunk is compared with what follows it.
        self._at = 0
        self._size = 0

    def feed(self, text: str) -> str:
        """Return what can be handed out now.

        Arguments:
            text: the next chunk of the part.
        """
        gathered = self._gathered
        if not gathered:
            return text
        end = self._at + self._size
        if gathered.startswith(text, end):
            self._size += len(text)
            return ""
        held = gathered[self._at : end] + text
        # What no longer matched cannot match more text, so all the searches together scan `gathered` once.
        at = gathered.find(held, self._at + 1)
        if at < 0:
            return self._decide(held)
        self._at = at
        self._size = len(held)
        return ""

    def close(self) -> str:
        """Return what is new of the text that was held back; the part has ended."""
        return self._decide(self._gathered[self._at : self._at + self._size])

    def _decide(self, held: str) -> str:
        gathered, self._gathered = self._gathered, ""
        return stitch(gathered, held, echoes=self._echoes, stripped=self._stripped)


def _overlap(gathered: str, part: str) -> int:
    """Return how much of `part` the end of `gathered` repeats; 0 where that would be a guess."""
    if min(len(gathered), len(part)) < MINIMUM_OVERLAP:
        return 0
    # An overlap begins as `part` does and ends as `gathered` does: two fast searches leave little to compare.
    start = gathered.find(part[:MINIMUM_OVERLAP], max(0, len(gathered) - len(part)))
    if start < 0:
        return 0
    end = part.rfind(gathered[-MINIMUM_OVERLAP:], 0, len(gathered) - start)
    if end < 0:
        return 0
    longest = end + MINIMUM_OVERLAP
    # None equals no letter, so no border reaches across it and the last one is the overlap.
    borders = _borders([*part[:longest], None, *gathered[-longest:]])
    overlap = borders[-1]
    if overlap < MINIMUM_OVERLAP:
        return 0
    # A repeated unit fits at each of its turns, and a ruler anywhere, so how much was said again is unknown.
    period = overlap - borders[overlap - 1]
    proves = 2 * period > overlap and any(map(str.isalnum, part[:overlap]))
    return overlap if proves else 0


def _borders(letters: Sequence[str | None]) -> list[int]:
    """Return for each prefix the length of its longest proper prefix that is also its suffix (Knuth, Morris, Pratt)."""
    borders = [0]
    border = 0
    for letter in letters[1:]:
        while border and letters[border] != letter:
            border = borders[border - 1]
        border += letters[border] == letter
        borders.append(border)
    return borders
