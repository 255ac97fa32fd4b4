"""What the SVG pictures are built of: a state, whose shape shows its kind, and the label panel of
an arc.
"""

from __future__ import annotations

from collections.abc import Iterable

from rungwise.fsm.diagram.model import SIGNS, Arc, Kind, Line, Node, Note, Piece, wrapped
from rungwise.fsm.diagram.svg.document import (
    ROW,
    badges_width,
    box,
    draw_badges,
    group,
    line,
    line_group,
    shape,
    text,
    titled,
    width,
)

TALL = 40  # the least height of a state with a detail below its name
CORNERS: dict[Kind, tuple[bool, bool, bool, bool]] = {
    "lesser": (False, True, False, False),
    "error": (True, True, True, True),
}
"""Which corners are cut, clockwise from the top left: one for a lesser answer, all for an error."""


def draw_node(node: Node, x: float, y: float, w: float, h: float) -> str:
    """Draw a state: a rung rounded, the hub as a pill, an outcome with a double border."""
    middle = x + w / 2
    base = y + h / 2 + (-3 if node.pieces else 4.5)
    detail = draw_pieces(middle - pieces_width(node.pieces) / 2, base + 16, node.pieces)
    parts = [
        *_shape(node.kind, x, y, w, h, _node_looks(node)),
        *_name(node, middle, base, "name"),
        *detail,
    ]
    return group(titled(node.says, parts), state=node.name, kind=node.kind)


def node_width(node: Node) -> float:
    """Return the least width of a state."""
    return max(width(node.label, "name"), pieces_width(node.pieces)) + 28


def chip(node: Node, x: float, y: float, w: float, h: float) -> str:
    """Draw a state at the size of a word."""
    name = _name(node, x + w / 2, y + h - 5, "label")
    return "".join(
        [*_shape(node.kind, x, y, w, h, f" chip{_node_looks(node, visited=False)}"), *name]
    )


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


def _node_looks(node: Node, *, visited: bool = True) -> str:
    struck = " idle" if node.is_struck else ""
    return (
        (" visited" if node.visited and visited else "")
        + struck
        + (" new" if node.change == "added" else "")
    )


def _name(node: Node, middle: float, y: float, size: str) -> list[str]:
    """Write the name of a state; the sign before it is never struck."""
    words = f"{size}{' struck' if node.is_struck else ''}"
    if node.change is None:
        return [text(middle, y, node.name, words, "middle")]
    x = middle - width(node.label, size) / 2
    sign = SIGNS[node.change]
    return [
        text(x, y, sign, f"{size} sign"),
        text(x + width(f"{sign} ", size), y, node.name, words),
    ]


def _shape(kind: Kind, x: float, y: float, w: float, h: float, more: str) -> list[str]:
    inset, cut = (3.0, 9.0) if h > 20 else (2.0, 5.0)
    parts = [_outline(kind, x, y, w, h, cut, kind + more)]
    if kind in ("answer", "lesser", "outcome"):
        inner = cut - inset / 2
        parts.append(
            _outline(
                kind,
                x + inset,
                y + inset,
                w - 2 * inset,
                h - 2 * inset,
                inner,
                f"{kind}{more} inner",
            )
        )
    return parts


def _outline(kind: Kind, x: float, y: float, w: float, h: float, cut: float, classes: str) -> str:
    corners = CORNERS.get(kind)
    if corners is None:
        return box(
            x, y, w, h, classes, {"rung": min(8.0, h / 3), "hub": min(w, h) / 2}.get(kind, 0.0)
        )
    points: list[tuple[float, float]] = []
    for is_cut, (at_x, at_y), (right, down), clockwise in zip(
        corners,
        ((x, y), (x + w, y), (x + w, y + h), (x, y + h)),
        ((1, 1), (-1, 1), (-1, -1), (1, -1)),
        (1, 0, 1, 0),
        strict=True,
    ):
        ends = [(at_x, at_y + down * cut), (at_x + right * cut, at_y)] if is_cut else [(at_x, at_y)]
        points += ends if clockwise else ends[::-1]
    return shape(points, classes)


PAD = 6
NOTE = 40  # characters in a line of a note


def panel_width(lines: tuple[Line, ...], notes: tuple[Note, ...] = ()) -> float:
    """Return the least width of a panel."""
    widths = [_guard_at(lines) + width(_guard(item)) + _after(item) for item in lines]
    for note in notes:
        whole = note.line
        widths.append(_sign_width((whole,)) + width(whole.text) + _after(whole))
    widths += [width(words, "small") for note in notes for words in wrapped(note.where, NOTE)]
    return max(widths) + 2 * PAD if widths else 0.0


def panel_height(lines: tuple[Line, ...], notes: tuple[Note, ...] = ()) -> float:
    """Return the height of a panel; 0 without lines."""
    rows = len(lines) + sum(1 + len(wrapped(note.where, NOTE)) for note in notes)
    return rows * ROW + 2 * PAD - 2 if rows else 0.0


def draw_panel(
    x: float, y: float, w: float, lines: tuple[Line, ...], notes: tuple[Note, ...] = ()
) -> list[str]:
    """Draw a panel with the lines of an arc, or with notes that replace arcs."""
    parts = [box(x, y, w, panel_height(lines, notes), "panel" if lines else "panel loose", 4)]
    x = x + PAD
    y = y + PAD - 1
    for item in lines:
        parts.append(_label(x, y, lines, item))
        y += ROW
    for note in notes:
        words = wrapped(note.where, NOTE)
        parts.append(_note(x, y, note, words))
        y += ROW * (1 + len(words))
    return parts


def draw_arrow(points: list[tuple[float, float]], arc: Arc, *, back: bool = False) -> str:
    """Draw the end of an arc; it is thick if a path took it or it is new."""
    kind = "back" if back else "line"
    if arc.steps:
        return line(points, f"{kind} went", "taken")
    return line(points, kind + _arc_looks(arc), "return" if back else "arrow")


def draw_stub(points: list[tuple[float, float]], arc: Arc) -> str:
    """Draw the beginning of an arc, up to its panel."""
    return line(points, "line went" if arc.steps else "line" + _arc_looks(arc))


def _arc_looks(arc: Arc) -> str:
    return (" off" if arc.is_struck else "") + (" new" if arc.change == "added" else "")


def _sign_width(lines: tuple[Line, ...]) -> float:
    return width("+ ") if any(item.sign for item in lines) else 0.0


def _after(item: Line) -> float:
    """Return the width of what follows the words of a line."""
    return (width(f" {item.turn}", "small") if item.turn else 0.0) + badges_width(item.steps)


def _guard(item: Line) -> str:
    return f" [{item.row.guard}]" if item.row.guard else ""


def _guard_at(lines: tuple[Line, ...]) -> float:
    """Return where the guards of a panel begin."""
    return _sign_width(lines) + max((width(item.row.event) for item in lines), default=0.0)


def _label(x: float, y: float, lines: tuple[Line, ...], item: Line) -> str:
    hit = " hit" if item.steps else " struck" if item.is_struck else ""
    parts = [text(x, y + 12, item.sign, "label sign")] if item.sign else []
    begin = x + _sign_width(lines)
    parts.append(text(begin, y + 12, item.row.event, f"label{hit}"))
    end = begin + width(item.row.event)
    if item.row.guard:
        at = x + _guard_at(lines)
        parts.append(
            text(at + width(" "), y + 12, f"[{item.row.guard}]", f"label{hit or ' guard'}")
        )
        end = at + width(_guard(item))
    return line_group(item, [*parts, *_rest(end, y, item)])


def _rest(x: float, y: float, item: Line) -> list[str]:
    """Draw what follows the words of a line: its change, and the steps that took it."""
    parts = [text(x + width(" ", "small"), y + 12, item.turn, "small sign")] if item.turn else []
    return [*parts, *draw_badges(x + _after(item) - badges_width(item.steps), y + 8, item.steps)]


def _note(x: float, y: float, note: Note, words: list[str]) -> str:
    item = note.line
    hit = " hit" if item.steps else " struck" if item.is_struck else ""
    begin = x + _sign_width((item,))
    parts = [text(x, y + 12, item.sign, "label sign")] if item.sign else []
    parts.append(text(begin, y + 12, item.text, f"label{hit}"))
    parts.extend(_rest(begin + width(item.text), y, item))
    parts.extend(
        text(x, y + 12 + ROW * place, says, "small faint")
        for place, says in enumerate(words, start=1)
    )
    parts.extend(line_group(each, []) for each in note.lines)
    return group(parts, note=note.name)
