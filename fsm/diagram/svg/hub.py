"""The hub view as SVG: rungs on the left, the hub in the middle, outcomes on the right, and so no line ever crosses.

The layout is our own, and not Graphviz's, because it must hold labels of a dozen lines beside their targets, and come
out the same to the byte on every machine.
"""

from __future__ import annotations

from attrs import evolve

from rungwise.fsm.diagram.model import ENDS, Arc, Kind, Picture
from rungwise.fsm.diagram.svg.column import ARROW, GAP, LEAST, STUB, Column, draw_column
from rungwise.fsm.diagram.svg.document import box, document, group, line, text, width
from rungwise.fsm.diagram.svg.panel import draw_arrow, draw_panel, draw_stub, panel_height, panel_width
from rungwise.fsm.diagram.svg.state import TALL, draw_node, node_width, sample

MARGIN, START, TOP, HUB = 18, 34, 62, 72  # START leaves room for the dot at which the machine begins
SMALL = 15  # the height of a line of small words
LEGEND: tuple[tuple[Kind, str], ...] = (
    ("rung", "the next thing to do"),
    ("hub", "waiting for what comes back"),
    ("answer", "an answer"),
    ("lesser", "less than one"),
    ("error", "an error"),
    ("outcome", "an end"),
)
OFF = "What is struck is off: it is never taken. Point at it to see why."


def draw_hub_view(picture: Picture) -> str:
    """Draw one arc for each pair of states, with a label line for each row."""
    left = Column.of(picture, picture.of_kind("rung"), -1)
    right = Column.of(picture, picture.of_kind(*ENDS), 1)
    height = max(left.height, right.height)
    hub = picture.node(picture.hub)
    wide = max(HUB, node_width(hub) - 12)
    left = evolve(left, hub=START + left.width)
    right = evolve(right, hub=left.hub + wide)
    headings, top = _headings(picture, left, right)
    parts = [
        *headings,
        *draw_column(left, top, height),
        *draw_column(right, top, height),
        draw_node(hub, left.hub, top, wide, height),
    ]
    if hub.start:
        x = left.hub + wide / 2
        parts += [box(x - 5, top - 24, 10, 10, "dot", 5), line([(x, top - 14), (x, top)], "line", "arrow")]
    others, bottom = _others(picture, top + height)
    legend, right_edge = _legend(picture, bottom + 26)
    title = f"{picture.name}: one arc for each pair of states, one line for each row"
    widths = [right.hub + right.width, right_edge, *(MARGIN + width(says, size) for says, size in _titles(picture))]
    tall = bottom + 42 + SMALL * len(_remarks(picture)) + MARGIN
    return document(max(widths) + MARGIN, tall, title, [*parts, *others, *legend])


def _titles(picture: Picture) -> list[tuple[str, str]]:
    return [(picture.hub_title, "title"), *([(picture.caption, "small")] if picture.caption else [])]


def _headings(picture: Picture, left: Column, right: Column) -> tuple[list[str], float]:
    """Return the texts above the columns, and the top of the columns."""
    titles = _titles(picture)
    top = TOP + (SMALL + 3) * (len(titles) - 1)
    parts = [text(MARGIN, 28 + (SMALL + 3) * place, says, size) for place, (says, size) in enumerate(titles)]
    came = "what came back [guard]"
    parts.append(text(left.x(left.width), top - 12, "rungs", "small faint"))
    for column, x in ((left, left.x(STUB, left.panel)), (right, right.x(STUB))):
        if column.panel >= width(came, "small"):
            parts.append(text(x, top - 12, came, "small faint"))
    parts.append(text(right.x(right.width), top - 12, "outcomes", "small faint", "end"))
    return parts, float(top)


def _others(picture: Picture, y: float) -> tuple[list[str], float]:
    """Draw the arcs that bypass the hub, one below the other; most machines have none."""
    arcs = [arc for arc in picture.arcs if (arc.source == picture.hub) == (arc.target == picture.hub)]
    if not arcs:
        return [], y
    states = max(node_width(picture.node(name)) for arc in arcs for name in (arc.source, arc.target))
    panel = max(panel_width(arc.lines) for arc in arcs)
    parts = [text(MARGIN, y + 32, f"not by way of {picture.hub}", "small faint")]
    y += 42
    for arc in arcs:
        parts.append(_other(picture, arc, y, states, panel))
        y += _high(picture, arc) + GAP
    return parts, y


def _other(picture: Picture, arc: Arc, y: float, states: float, panel: float) -> str:
    high = _high(picture, arc)
    middle = y + high / 2
    xs = [MARGIN, MARGIN + states, MARGIN + states + STUB, MARGIN + states + STUB + panel]
    end = xs[3] + ARROW
    parts = [
        draw_node(picture.node(arc.source), xs[0], y, states, high),
        draw_stub([(xs[1], middle), (xs[2], middle)], arc),
        *draw_panel(xs[2], middle - panel_height(arc.lines) / 2, panel, arc.lines),
        draw_arrow([(xs[3], middle), (end, middle)], arc),
        draw_node(picture.node(arc.target), end, y, states, high),
    ]
    return group(parts, arc=f"{arc.source} {arc.target}")


def _high(picture: Picture, arc: Arc) -> float:
    is_tall = any(picture.node(name).pieces for name in (arc.source, arc.target))
    return max(panel_height(arc.lines), TALL if is_tall else LEAST)


def _legend(picture: Picture, y: float) -> tuple[list[str], float]:
    """Draw the legend of shapes and signs; also return its right edge."""
    parts: list[str] = []
    x: float = MARGIN
    for kind, says in LEGEND:
        if picture.of_kind(kind):
            parts += [sample(kind, x, y), text(x + 32, y + 12, says, "small")]
            x += 32 + width(says, "small") + 22
    back = "back to the hub"
    parts += [line([(x, y + 8), (x + 30, y + 8)], "back", "return"), text(x + 36, y + 12, back, "small")]
    remarks = _remarks(picture)
    parts += [text(MARGIN, y + 36 + SMALL * place, says, "small faint") for place, says in enumerate(remarks)]
    return parts, max(x + 36 + width(back, "small"), *(MARGIN + width(says, "small") for says in remarks))


def _remarks(picture: Picture) -> list[str]:
    order = "In which order the guards of an event are tried is in the ladder view."
    return [
        order + (" The numbers are the steps of the path." if picture.marked else ""),
        *([OFF] if picture.is_struck and not picture.is_change else []),
        *([picture.key] if picture.key else []),
    ]
