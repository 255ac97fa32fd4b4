"""A state in the SVG pictures: its shape shows its kind, and the detail stands below its name."""

from __future__ import annotations

from collections.abc import Iterable

from rungwise.fsm.diagram.model import SIGNS, Kind, Node, Piece
from rungwise.fsm.diagram.svg.document import box, group, shape, text, titled, width

TALL = 40  # the least height of a state with a detail below its name
CORNERS: dict[Kind, tuple[bool, bool, bool, bool]] = {
    "lesser": (False, True, False, False),
    "error": (True, True, True, True),
}
"""Which corners are cut, clockwise from the top left: one for a lesser answer, all for an error."""


def draw_node(node: Node, x: float, y: float, w: float, h: float) -> str:
    """Draw a state: a rung rounded, the hub as a pill, an outcome with a double border."""
    middle, base = x + w / 2, y + h / 2 + (-3 if node.pieces else 4.5)
    detail = draw_pieces(middle - pieces_width(node.pieces) / 2, base + 16, node.pieces)
    parts = [*_shape(node.kind, x, y, w, h, _looks(node)), *_name(node, middle, base, "name"), *detail]
    return group(titled(node.says, parts), state=node.name, kind=node.kind)


def node_width(node: Node) -> float:
    """Return the least width of a state."""
    return max(width(node.label, "name"), pieces_width(node.pieces)) + 28


def chip(node: Node, x: float, y: float, w: float, h: float) -> str:
    """Draw a state at the size of a word."""
    name = _name(node, x + w / 2, y + h - 5, "label")
    return "".join([*_shape(node.kind, x, y, w, h, f" chip{_looks(node, visited=False)}"), *name])


def sample(kind: Kind, x: float, y: float) -> str:
    """Draw a small shape of a kind, for a legend or beside a name."""
    return "".join(_shape(kind, x, y, 26, 16, ""))


def pieces_width(pieces: Iterable[Piece]) -> float:
    """Return the width of a detail."""
    return sum(width(words, "small") for words, _ in pieces)


def draw_pieces(x: float, y: float, pieces: Iterable[Piece]) -> list[str]:
    """Write a detail from `x` to the right, with its struck pieces struck through."""
    parts: list[str] = []
    for words, is_struck in pieces:
        before = len(words) - len(words.lstrip())  # SVG drops spaces at the ends of a text
        if words.strip():
            begin = x + width(" " * before, "small")
            parts.append(text(begin, y, words.strip(), "small struck" if is_struck else "small"))
        x += width(words, "small")
    return parts


def _looks(node: Node, *, visited: bool = True) -> str:
    struck = " idle" if node.is_struck else ""
    return (" visited" if node.visited and visited else "") + struck + (" new" if node.change == "added" else "")


def _name(node: Node, middle: float, y: float, size: str) -> list[str]:
    """Write the name of a state; the sign before it is never struck."""
    words = f"{size}{' struck' if node.is_struck else ''}"
    if node.change is None:
        return [text(middle, y, node.name, words, "middle")]
    x = middle - width(node.label, size) / 2
    sign = SIGNS[node.change]
    return [text(x, y, sign, f"{size} sign"), text(x + width(f"{sign} ", size), y, node.name, words)]


def _shape(kind: Kind, x: float, y: float, w: float, h: float, more: str) -> list[str]:
    inset, cut = (3.0, 9.0) if h > 20 else (2.0, 5.0)
    parts = [_outline(kind, x, y, w, h, cut, kind + more)]
    if kind in ("answer", "lesser", "outcome"):
        inner = cut - inset / 2
        parts.append(_outline(kind, x + inset, y + inset, w - 2 * inset, h - 2 * inset, inner, f"{kind}{more} inner"))
    return parts


def _outline(kind: Kind, x: float, y: float, w: float, h: float, cut: float, classes: str) -> str:
    corners = CORNERS.get(kind)
    if corners is None:
        return box(x, y, w, h, classes, {"rung": min(8.0, h / 3), "hub": min(w, h) / 2}.get(kind, 0.0))
    points: list[tuple[float, float]] = []
    for is_cut, (at_x, at_y), (right, down), clockwise in zip(
        corners, ((x, y), (x + w, y), (x + w, y + h), (x, y + h)), ((1, 1), (-1, 1), (-1, -1), (1, -1)), (1, 0, 1, 0),
        strict=True,
    ):  # fmt: skip
        ends = [(at_x, at_y + down * cut), (at_x + right * cut, at_y)] if is_cut else [(at_x, at_y)]
        points += ends if clockwise else ends[::-1]
    return shape(points, classes)
