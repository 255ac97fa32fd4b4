"""Where each protocol says what, as paths into the objects of its events (`places.toml`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.adapters.provider.manners.events import Events, WireEvent
from rungwise.fsm.values.files import toml_in

Path = tuple[str | int, ...]


def path(dotted: str) -> Path:
    """Return a path that is written with dots; digits are places in a list."""
    steps = dotted.split(".") if dotted else []
    return tuple([int(step) if step.isdigit() else step for step in steps])


def found(value: Any, where: Path) -> Any:
    """Return what stands at a path, or None."""
    for step in where:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def put(value: Any, where: Path, what: Any) -> None:
    """Write at a path; objects on the way that are missing are made."""
    for step in where[:-1]:
        value = value[step] if isinstance(step, int) else value.setdefault(step, {})
    value[where[-1]] = what


def holders(value: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects with a member of this name, at any depth but below such a member."""
    if isinstance(value, dict):
        if name in value:
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from holders(each, name)


@frozen
class PiecePlace:
    """Say where pieces of one kind stand.

    Arguments:
        where: the path of a piece.
        item: the path of what tells the items of this kind apart; none for one item.
        mark: the path of a member that tells these pieces from others at the same path.
        marked: what stands there.
    """

    where: Path = field(converter=path)
    item: Path = field(default="", converter=path)
    mark: Path = field(default="", converter=path)
    marked: Any = None

    def piece_in(self, event: WireEvent) -> str:
        """Return the piece in an event; "" for none."""
        if self.mark and found(event.value, self.mark) != self.marked:
            return ""
        piece = found(event.value, self.where)
        return piece if isinstance(piece, str) else ""

    def item_of(self, event: WireEvent) -> Any:
        """Return the item that an event belongs to."""
        return found(event.value, self.item) if self.item else None

    def pieces(self, events: Events) -> Iterator[tuple[int, Any, str]]:
        """Yield the number of each event with a piece, its item, and the piece."""
        for number, event in enumerate(events):
            piece = self.piece_in(event)
            if piece:
                yield number, self.item_of(event), piece

    def wholes(self, events: Events) -> dict[Any, str]:
        """Return the whole text of each item."""
        texts: dict[Any, str] = defaultdict(str)
        for _, item, piece in self.pieces(events):
            texts[item] += piece
        return texts


Places = Mapping[str, PiecePlace]
"""Places by the protocol."""
_PLACES: Final = toml_in(__package__, "places.toml")


def _of(kind: str) -> Places:
    return {api: PiecePlace(**row) for api, row in _PLACES[kind].items()}


TEXT: Final = _of("text")
REASONING: Final = _of("reasoning")
ARGUMENTS: Final = _of("arguments")
CHOICE: Final = path("choices.0")
CHUNK_CALL: Final = path("choices.0.delta.tool_calls.0")
"""Where a chunk of a chat completion has its call."""
