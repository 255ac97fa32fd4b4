"""Gather the arguments of one tool call while they arrive.

Theory
------

Arguments are one JSON object, in pieces of its text. Some servers send all of it so far with each
piece, or once more at the end [NousResearch/hermes-agent#35718, lidge-jun/opencodex#361]; some an
empty object before the first piece; some send objects, each with some of the members, in place of
text [can1357/oh-my-pi#2082]. JSON itself tells these apart: two objects behind each other are none.
So the text is looked at once it is asked for, and only if it is no JSON as it is. Where the pieces
stand that begin as an object does is kept for that. What no manner of sending explains stays as it
came: it is no JSON, and is never handed out as a whole call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from attrs import define, field

from rungwise.fsm.replies.text.contents import is_json, json_in, without_halves
from rungwise.fsm.replies.text.held import HeldText
from rungwise.fsm.replies.text.scanning import ObjectScanner

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
    _scanner: ObjectScanner = field(factory=ObjectScanner, init=False)

    def add(self, piece: str) -> None:
        """Take the next piece."""
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
        self.add(whole)

    @property
    def is_whole(self) -> bool:
        """Tell whether they are one whole object so far."""
        self._join()
        return self._scanner.is_whole

    def is_another(self, piece: str) -> bool:
        """Tell whether a piece is the whole arguments of another call: an object of its own, behind
        a whole one. An equal one is a copy, and one behind an empty one the first that says more.
        """
        if not piece.startswith("{") or not self.is_whole:
            return False
        before, _ = json_in(self.written)
        value, is_one = json_in(piece)
        return is_one and bool(before) and value != before

    @property
    def written(self) -> str:
        """Return them as they came."""
        self._join()
        return without_halves(self._text.getvalue())

    @property
    def text(self) -> str:
        """Return them as the text of one object, if that is what came."""
        text = self.written
        if len(self._beginnings) < 2 or is_json(text):
            return text
        first = self._beginnings[0]
        if text[:first].strip():
            return text
        objects = _cut(text, self._beginnings)
        if self.has_objects:
            return _merged(objects) or text
        while objects[0].strip() == "{}" and len(objects) > 1:
            del objects[0]
        rest = "".join(objects)
        if is_json(rest):
            return rest
        are_snapshots = all(later.startswith(each) for each, later in pairwise(objects))
        if is_json(objects[-1]) and (are_snapshots or _are_equal(objects)):
            return objects[-1]
        return text

    def _join(self) -> None:
        """Append the pieces and scan them once: a check must not start over each time."""
        piece = "".join(self._new)
        self._new.clear()
        self._text.write(piece)
        self._scanner.feed(piece)


def _cut(text: str, beginnings: Sequence[int]) -> list[str]:
    """Return what stands between the places where objects begin."""
    ends = [*beginnings[1:], len(text)]
    objects = []
    for start, end in zip(beginnings, ends, strict=True):
        objects.append(text[start:end])
    return objects


def _are_equal(objects: Sequence[str]) -> bool:
    """Tell whether some texts are the same value of JSON, however it is written."""
    first, _ = json_in(objects[0])
    for each in objects:
        value, is_one = json_in(each)
        if not is_one or value != first:
            return False
    return True


def _merged(objects: Sequence[str]) -> str:
    """Return the members of several objects as one object; "" if one is none."""
    members: dict[str, Any] = {}
    for each in objects:
        try:
            value = json.loads(each)
        except (ValueError, RecursionError):
            return ""
        if not isinstance(value, Mapping):
            return ""
        members |= value
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))
