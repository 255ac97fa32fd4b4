"""Gather the arguments of one tool call while they arrive.

Theory
------

Arguments are one JSON object, in pieces of its text. Some servers send all of it so far with each
piece, or once more at the end [NousResearch/hermes-agent#35718, lidge-jun/opencodex#361]; some an
empty object before the first piece; some send objects, each with some of the members, in place of
text [can1357/oh-my-pi#2082], and some the text of the object as a text in JSON
[quarkiverse/quarkus-langchain4j#2642]. Some mend all of it so far, so that each piece is a whole
object, and the next one has more; two such objects may be those of two calls, three are not. JSON
itself tells these apart: two objects behind each other
are none, and a text is none. So the text is looked at once it is asked for, and only if it is no
object as it is. Where the pieces stand that begin as an object does is kept for that. What no
manner of sending explains stays as it came: it is never handed out as a whole call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from attrs import define, field

from rungwise.fsm.replies.assembly.gathered import MOST_LATE
from rungwise.fsm.replies.assembly.lists import has_grown
from rungwise.fsm.replies.text.contents import is_json, json_in, without_halves
from rungwise.fsm.replies.text.held import HeldText
from rungwise.fsm.replies.text.scanning import ObjectScanner

_DECODER: Final = json.JSONDecoder()
_BLANKS: Final = re.compile(r"\s*")
_MOST_PIECES: Final = 1_000
"""The most pieces that are held before they are joined."""


@define(eq=False)
class Arguments:
    """Gather the arguments of one call."""

    size: int = field(default=0, init=False)
    """Characters so far."""
    has_objects: bool = False
    """Whether they come as objects in place of text."""
    _new: list[str] = field(factory=list, init=False)  # pieces that are not joined yet
    _beginnings: list[int] = field(factory=list, init=False)  # of pieces that begin an object
    _text: HeldText = field(factory=HeldText, init=False)
    _late: int = field(default=0, init=False)  # pieces behind all of them that are looked for
    _scanner: ObjectScanner = field(factory=ObjectScanner, init=False)

    def add(self, piece: str) -> None:
        """Take the next piece; behind all of them, one that is some of them is late."""
        if self._late:
            self._late -= 1
            if piece in self.written:
                return
        if piece.startswith("{") and len(self._beginnings) < _MOST_PIECES:
            self._beginnings.append(self.size)
        self.size += len(piece)
        self._new.append(piece)
        if len(self._new) >= _MOST_PIECES:
            self._join()

    def settle(self, whole: str) -> None:
        """Take all of them, as the protocol sends them behind its pieces; that decides.

        Nothing, or an empty object, erases nothing.
        """
        if whole.strip() in ("", "{}") and self.size:
            return
        self.size = 0
        self._new.clear()
        self._beginnings.clear()
        self._text = HeldText()
        self._scanner = ObjectScanner()
        self._late = 0
        self.add(whole)
        self._late = MOST_LATE

    @property
    def is_whole(self) -> bool:
        """Tell whether they are one whole object so far."""
        self._join()
        return self._scanner.is_whole

    def is_another(self, piece: str) -> bool:
        """Tell whether a piece is the whole arguments of another call.

        That is an object of its own, behind a whole one. An equal one is a copy, an empty one says
        nothing, one behind an empty one is the first that says more, and one that has grown may be
        the same one.
        """
        if not piece.startswith("{") or not self.is_whole:
            return False
        before, _ = json_in(self.written)
        value, is_one = json_in(piece)
        return is_one and bool(before) and bool(value) and not has_grown(before, value)

    @property
    def written(self) -> str:
        """Return them as they came."""
        self._join()
        return without_halves(self._text.getvalue())

    @property
    def text(self) -> str:
        """Return them as the text of one object, if that is what came."""
        text = self.written
        if text.startswith('"'):
            inner, _ = json_in(text)
            if isinstance(inner, str):
                return inner
        if len(self._beginnings) < 2 or is_json(text):
            return text
        objects = _objects_in(text)
        if self.has_objects and objects:
            return _merged(objects)
        objects = [each for each in objects if each[0] != {}] or objects
        if objects and all(value == objects[0][0] for value, _ in objects):
            return objects[-1][1]
        values = [value for value, _ in objects]
        if len(values) > 2 and all(has_grown(each, later) for each, later in pairwise(values)):
            return objects[-1][1]
        snapshots = _cut(text, self._beginnings)
        if snapshots[0].strip() == "{}":
            del snapshots[0]
        are_snapshots = all(later.startswith(each) for each, later in pairwise(snapshots))
        return snapshots[-1] if are_snapshots and is_json(snapshots[-1]) else text

    def _join(self) -> None:
        """Append the pieces and scan them once: a check must not start over each time."""
        piece = "".join(self._new)
        self._new.clear()
        self._text.write(piece)
        self._scanner.feed(piece)


def _objects_in(text: str) -> list[tuple[Any, str]]:
    """Return the objects that stand one behind the other in a text, each with its text.

    Empty if there is anything else in it.
    """
    objects: list[tuple[Any, str]] = []
    place = _behind_blanks(text, 0)
    while place < len(text):
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        objects.append((value, text[place:end]))
        place = _behind_blanks(text, end)
    return objects


def _behind_blanks(text: str, place: int) -> int:
    match = _BLANKS.match(text, place)
    assert match is not None
    return match.end()


def _cut(text: str, beginnings: Sequence[int]) -> list[str]:
    """Return what stands between the places where pieces begin as an object does."""
    ends = [*beginnings[1:], len(text)]
    snapshots = [text[: beginnings[0]]] if text[: beginnings[0]].strip() else []
    for start, end in zip(beginnings, ends, strict=True):
        snapshots.append(text[start:end])
    return snapshots


def _merged(objects: Iterable[tuple[Any, str]]) -> str:
    """Return the members of some objects as one object."""
    members: dict[str, Any] = {}
    for value, _ in objects:
        members |= value
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))
