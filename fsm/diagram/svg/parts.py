"""What the SVG pictures are built of: states, whose shapes show their kinds, and label panels."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from rungwise.fsm.diagram.layout import wrapped
from rungwise.fsm.diagram.line import SIGNS, Line
from rungwise.fsm.diagram.model import Arc, Kind, Node, Note, Piece
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

CUTS: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = (
    ((0, 1), (1, 0)),
    ((-1, 0), (0, 1)),
    ((0, -1), (-1, 0)),
    ((1, 0), (0, -1)),
)
"""How far from each corner, in the same order, its cut begins and ends, in x and y."""

DOUBLE: tuple[Kind, ...] = ("answer", "lesser", "outcome")
"""The kinds with a double border."""

SAMPLE_WIDTH = 26
SAMPLE_HEIGHT = 16
SMALL = 20  # the height up to which a state is drawn small


@frozen
class Frame:
    """Hold a rectangle: its upper left corner, its width and its height."""

    x: float
    y: float
    w: float
    h: float

    @property
    def middle(self) -> float:
        """Return the x in the middle."""
        return self.x + self.w / 2

    def inset(self, by: float) -> Frame:
        """Return a rectangle inside this one, `by` pixels from each of its sides."""
        return Frame(
            self.x + by,
            self.y + by,
            self.w - 2 * by,
            self.h - 2 * by,
        )


def draw_node(node: Node, frame: Frame) -> str:
    """Draw a state: a rung rounded, the hub as a pill, an outcome with a double border."""
    below_middle = -3 if node.pieces else 4.5  # a name with a detail below it stands higher
    base = frame.y + frame.h / 2 + below_middle
    looks = _node_looks(node)
    if node.visited:
        looks = f" visited{looks}"
    parts = _shape(node.kind, frame, looks)
    parts += _name(node, frame.middle, base, "name")
    detail_at = frame.middle - pieces_width(node.pieces) / 2
    parts += draw_pieces(detail_at, base + 16, node.pieces)
    return group(titled(node.says, parts), state=node.name, kind=node.kind)


def node_width(node: Node) -> float:
    """Return the least width of a state."""
    return max(width(node.label, "name"), pieces_width(node.pieces)) + 28


def chip(node: Node, frame: Frame) -> str:
    """Draw a state at the size of a word."""
    outline = _shape(node.kind, frame, f" chip{_node_looks(node)}")
    name = _name(node, frame.middle, frame.y + frame.h - 5, "label")
    return "".join([*outline, *name])


def sample(kind: Kind, x: float, y: float) -> str:
    """Draw a small shape of a kind, for a legend or beside a name."""
    return "".join(_shape(kind, Frame(x, y, SAMPLE_WIDTH, SAMPLE_HEIGHT), ""))


def pieces_width(pieces: Iterable[Piece]) -> float:
    """Return the width of a detail."""
    return sum(width(words, "small") for words, _ in pieces)


def draw_pieces(x: float, y: float, pieces: Iterable[Piece]) -> list[str]:
    """Write a detail from `x` to the right, with its struck pieces struck through."""
    parts: list[str] = []
    for words, is_struck in pieces:
        if words.strip():
            # SVG drops spaces at the ends of a text, so the text begins behind them
            spaces = len(words) - len(words.lstrip())
            begin = x + width(" " * spaces, "small")
            classes = "small struck" if is_struck else "small"
            parts.append(text(begin, y, words.strip(), classes))
        x += width(words, "small")
    return parts


def _node_looks(node: Node) -> str:
    """Return the classes of a state besides its kind, each with a space before it."""
    looks = ""
    if node.is_struck:
        looks += " idle"
    if node.change == "added":
        looks += " new"
    return looks


def _name(node: Node, middle: float, y: float, size: str) -> list[str]:
    """Write the name of a state; the sign before it is never struck.

    Arguments:
        node: the state.
        middle: the x in the middle of the name.
        y: its baseline.
        size: its size, `name` or `label`.
    """
    classes = f"{size} struck" if node.is_struck else size
    if node.change is None:
        return [text(middle, y, node.name, classes, "middle")]
    x = middle - width(node.label, size) / 2
    sign = SIGNS[node.change]
    name_at = x + width(f"{sign} ", size)
    return [
        text(x, y, sign, f"{size} sign"),
        text(name_at, y, node.name, classes),
    ]


def _shape(kind: Kind, frame: Frame, looks: str) -> list[str]:
    """Draw the outline of a state, and for some kinds a second one inside it."""
    inset = 3.0
    cut = 9.0
    if frame.h <= SMALL:
        inset = 2.0
        cut = 5.0
    parts = [_outline(kind, frame, cut, kind + looks)]
    if kind in DOUBLE:
        # The inner cut is shorter, so that the two slanted lines run as far apart as the others.
        inner_cut = cut - inset / 2
        parts.append(_outline(kind, frame.inset(inset), inner_cut, f"{kind}{looks} inner"))
    return parts


def _outline(kind: Kind, frame: Frame, cut: float, classes: str) -> str:
    """Draw one outline of a state.

    Arguments:
        kind: the kind of the state: it decides which corners are cut, or how far they are rounded.
        frame: where the state is.
        cut: how much of either side a cut corner takes.
        classes: the classes of the outline.
    """
    corners = CORNERS.get(kind)
    if corners is not None:
        return shape(_with_cut_corners(frame, cut, corners), classes)
    radius = 0.0
    if kind == "rung":
        radius = min(8.0, frame.h / 3)
    elif kind == "hub":
        radius = min(frame.w, frame.h) / 2
    return box(frame.x, frame.y, frame.w, frame.h, classes, radius)


def _with_cut_corners(
    frame: Frame, cut: float, corners: tuple[bool, bool, bool, bool]
) -> list[tuple[float, float]]:
    """Return the points of a rectangle some of whose corners are cut, clockwise from the top left.

    A corner that stands is one point; a cut one is two, where the cut meets its two sides.
    """
    right = frame.x + frame.w
    bottom = frame.y + frame.h
    places = (
        (frame.x, frame.y),
        (right, frame.y),
        (right, bottom),
        (frame.x, bottom),
    )
    points: list[tuple[float, float]] = []
    for is_cut, (x, y), ends in zip(corners, places, CUTS, strict=True):
        if is_cut:
            points += [(x + dx * cut, y + dy * cut) for dx, dy in ends]
        else:
            points.append((x, y))
    return points


# A panel aligns what its lines have in common. First comes the sign of a change, then the event;
# the guards begin below each other, behind the longest event; what a change does to a row and the
# badges of the steps follow directly behind the guard.
PAD = 6
NOTE = 40  # characters in a line of a note
BASE = 12  # from the top of a line to its baseline


def panel_width(lines: tuple[Line, ...], notes: tuple[Note, ...] = ()) -> float:
    """Return the least width of a panel."""
    widths: list[float] = []
    for item in lines:
        widths.append(_guard_at(lines) + width(_guard(item)) + _after(item))
    for note in notes:
        whole = note.line
        widths.append(_sign_width((whole,)) + width(whole.text) + _after(whole))
        for words in wrapped(note.where, NOTE):
            widths.append(width(words, "small"))
    if not widths:
        return 0.0
    return max(widths) + 2 * PAD


def panel_height(lines: tuple[Line, ...], notes: tuple[Note, ...] = ()) -> float:
    """Return the height of a panel; 0 without lines."""
    rows = len(lines)
    for note in notes:
        rows += 1 + len(wrapped(note.where, NOTE))
    if not rows:
        return 0.0
    return rows * ROW + 2 * PAD - 2


def draw_panel(
    x: float,
    y: float,
    w: float,
    lines: tuple[Line, ...],
    notes: tuple[Note, ...] = (),
) -> list[str]:
    """Draw a panel with the lines of an arc, or with notes that replace arcs.

    Arguments:
        x, y: its upper left corner.
        w: its width.
        lines: the lines of the arc.
        notes: the notes below them.
    """
    classes = "panel"
    if not lines:
        classes = "panel loose"
    parts = [box(x, y, w, panel_height(lines, notes), classes, 4)]
    x += PAD
    y += PAD - 1
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
    kind = "line"
    head = "arrow"
    if back:
        kind = "back"
        head = "return"
    if arc.steps:
        return line(points, f"{kind} went", "taken")
    return line(points, f"{kind}{_arc_looks(arc)}", head)


def draw_stub(points: list[tuple[float, float]], arc: Arc) -> str:
    """Draw the beginning of an arc, up to its panel."""
    if arc.steps:
        return line(points, "line went")
    return line(points, f"line{_arc_looks(arc)}")


def _arc_looks(arc: Arc) -> str:
    """Return the classes of an arc besides its kind, each with a space before it."""
    looks = ""
    if arc.is_struck:
        looks += " off"
    if arc.change == "added":
        looks += " new"
    return looks


def _sign_width(lines: tuple[Line, ...]) -> float:
    """Return the room for signs before some lines: none if no line has a sign."""
    if any(item.sign for item in lines):
        return width("+ ")
    return 0.0


def _after(item: Line) -> float:
    """Return the width of what follows the words of a line."""
    turn = width(f" {item.turn}", "small") if item.turn else 0.0
    return turn + badges_width(item.steps)


def _guard(item: Line) -> str:
    return f" [{item.row.guard}]" if item.row.guard else ""


def _guard_at(lines: tuple[Line, ...]) -> float:
    """Return where the guards of a panel begin."""
    return _sign_width(lines) + max((width(item.row.event) for item in lines), default=0.0)


def _line_looks(item: Line) -> str:
    """Return the classes of the words of a line, with a space before them."""
    if item.steps:
        return " hit"
    if item.is_struck:
        return " struck"
    return ""


def _label(x: float, y: float, lines: tuple[Line, ...], item: Line) -> str:
    """Draw a line of a panel.

    Arguments:
        x, y: the upper left corner of the line.
        lines: all lines of the panel, with which this one is aligned.
        item: the line.
    """
    base = y + BASE
    looks = _line_looks(item)
    parts: list[str] = []
    if item.sign:
        parts.append(text(x, base, item.sign, "label sign"))
    begin = x + _sign_width(lines)
    parts.append(text(begin, base, item.row.event, f"label{looks}"))
    end = begin + width(item.row.event)
    if item.row.guard:
        guard_at = x + _guard_at(lines)
        classes = f"label{looks or ' guard'}"
        parts.append(text(guard_at + width(" "), base, f"[{item.row.guard}]", classes))
        end = guard_at + width(_guard(item))
    parts.extend(_rest(end, y, item))
    return line_group(item, parts)


def _rest(x: float, y: float, item: Line) -> list[str]:
    """Draw what follows the words of a line: its change, and the steps that took it."""
    parts: list[str] = []
    if item.turn:
        parts.append(text(x + width(" ", "small"), y + BASE, item.turn, "small sign"))
    badges_at = x + _after(item) - badges_width(item.steps)
    parts.extend(draw_badges(badges_at, y + 8, item.steps))
    return parts


def _note(x: float, y: float, note: Note, words: list[str]) -> str:
    """Draw a note: what it shares, and below that where it holds.

    Arguments:
        x, y: the upper left corner of the note.
        note: the note.
        words: where it holds, line by line.
    """
    item = note.line
    base = y + BASE
    parts: list[str] = []
    if item.sign:
        parts.append(text(x, base, item.sign, "label sign"))
    begin = x + _sign_width((item,))
    parts.append(text(begin, base, item.text, f"label{_line_looks(item)}"))
    parts.extend(_rest(begin + width(item.text), y, item))
    for place, says in enumerate(words, start=1):
        parts.append(text(x, base + ROW * place, says, "small faint"))
    for each in note.lines:
        parts.append(line_group(each, []))
    return group(parts, note=note.name)
