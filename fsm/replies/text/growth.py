"""Tell the pieces of a text from its snapshots: a server may send what is new, or all so far.

Theory
------

Every protocol sends what is new. Some servers send all the text so far in each event
[QwenLM/qwen-code#3896, tashfeenahmed/freellmapi#1007], or all of it once more at the end
[openclaw/openclaw#142888]. No event says which, and some bytes can be either: "ha", "haha" is
"hahaha" in pieces and "haha" in snapshots. Then the protocol's own reading holds, for a text that
repeats itself by nature must never be shortened.

A snapshot begins with all the text before it. The first pieces of an ordinary text nearly never do
that twice in a row, and not with thirty characters. So a piece that does it is held until the next
one decides, and `ENOUGH` characters in three growing pieces make a server of snapshots. Any other
piece makes one of pieces, for good: from then on nothing is looked at, nor held.

What is once more at the end is one piece that is all the text before it, in two pieces or more
(`GrowingText.once`): a line that stands there twice comes in two pieces, and stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Final, Literal

from attrs import define, field

ENOUGH: Final = 30
"""Characters of a text that are no coincidence."""
MOST_HELD: Final = 64
"""The most characters that are held until the next piece comes."""


@define(eq=False)
class GrowingText:
    """Follow the pieces of one text, and return what is new in them."""

    sends: Literal["pieces", "snapshots", "not known"] = "not known"
    _so_far: str = field(default="", init=False)  # what was handed out while that counts
    _held: list[str] = field(factory=list, init=False)
    _first: int = field(default=0, init=False)  # characters of the first piece
    _last: str = field(default="", init=False)  # the last piece

    def new_in(self, pieces: Sequence[str]) -> str:
        """Return what is new in some pieces, and may be handed out."""
        self._last = pieces[-1]
        if self.sends == "pieces":
            return "".join(pieces)
        if not self._first:
            self._first = len(pieces[0])
        return "".join([self._new_in(piece) for piece in pieces])

    def end(self) -> str:
        """Return what was held and is new after all: nothing followed that would tell."""
        rest = "".join(self._held)
        self._held.clear()
        self.sends = "pieces"
        return rest

    def settle(self) -> None:
        """Forget what was held: the whole text has come, which says it."""
        self._held.clear()
        self._last = ""
        self.sends = "pieces"

    def once(self, text: str) -> str:
        """Return the text so far once, if its last piece is all of it over again."""
        last = len(self._last)
        is_copy = self._first < last and last >= ENOUGH and 2 * last == len(text)
        return text[:last] if is_copy and text.startswith(text[last:]) else text

    def _new_in(self, piece: str) -> str:
        if self.sends == "pieces":
            return piece
        latest = self._held[-1] if self._held else self._so_far
        if not latest.strip():
            self._so_far += piece
            return piece
        if piece.startswith(latest) and (self.sends == "snapshots" or piece != latest):
            self._held.append(piece)
            is_clear = len(self._held) > 1 and len(piece) >= ENOUGH
            if is_clear or self.sends == "snapshots":
                new = piece[len(self._so_far) :]
                self.sends = "snapshots"
                self._so_far = piece
                self._held.clear()
                return new
            if sum(map(len, self._held)) <= MOST_HELD:
                return ""
            piece = ""  # it is among those that were held
        return self.end() + piece


def whole_object(text: str, beginnings: Sequence[int]) -> str:
    """Return the last of some snapshots of an object in JSON, or the text itself if they are none.

    Arguments:
        text: all that came.
        beginnings: where the pieces of it stand that begin as an object does.
    """
    snapshots = list(_between(text, beginnings))
    pairs = pairwise(snapshots)
    if len(snapshots) > 1 and all(later.startswith(earlier) for earlier, later in pairs):
        return snapshots[-1]
    return text


def _between(text: str, beginnings: Sequence[int]) -> Iterator[str]:
    for start, end in zip(beginnings, chain(beginnings[1:], [len(text)]), strict=True):
        yield text[start:end]
