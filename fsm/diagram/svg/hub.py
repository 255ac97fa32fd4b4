"""The hub view as SVG: rungs on the left, the hub in the middle, outcomes on the right, and so no line ever crosses.

The layout is our own, and not Graphviz's, because it must hold labels of a dozen lines beside their targets, and come
out the same to the byte on every machine.
"""

from __future__ import annotations

from attrs import evolve

from rungwise.fsm.diagram.model import ENDS, Arc, Kind, Picture
from rungwise.fsm.diagram.svg.column import ARROW, GAP, LEAST, STUB, Column, draw_column
from rungwise.fsm.diagram.svg.document import box, document, draw_node, group, line, sample, text, width
from rungwise.fsm.diagram.svg.panel import draw_arrow, draw_panel, draw_stub, panel_height, panel_width

MARGIN, START, TOP, HUB = 18, 34, 62, 72  # START leaves room for the dot at which the machine begins
LEAST_WIDTH = 900  # what the legend needs
LEGEND: tuple[tuple[Kind, str], ...] = (
    ("rung", "the next thing to do"),
    ("hub", "waiting for what comes back"),
    ("answer", "an answer"),
    ("lesser", "less than one"),
    ("error", "an error"),
)


def draw_hub_view(picture: Picture) -> str:
    """Draw one arc for each pair of states, with a label line for each row."""
    left = Column.of(picture, picture.of_kind("rung"), -1)
    right = Column.of(picture, picture.of_kind(*ENDS), 1)
    height = max(left.height, right.height)
    left = evolve(left, hub=START + left.width)
    right = evolve(right, hub=left.hub + HUB)
    hub = picture.node(picture.hub)
    parts = [
        *_headings(picture, left, right),
        *draw_column(left, TOP, height),
        *draw_column(right, TOP, height),
        draw_node(hub, left.hub, TOP, HUB, height),
    ]
    if hub.start:
        x = left.hub + HUB / 2
        parts += [box(x - 5, TOP - 24, 10, 10, "dot", 5), line([(x, TOP - 14), (x, TOP)], "line", "arrow")]
    others, bottom = _others(picture, TOP + height)
    legend = _legend(picture, bottom + 26)
    title = f"{picture.name}: one arc for each pair of states, one line for each row"
    wide = max(right.hub + right.width + MARGIN, LEAST_WIDTH)
    return document(wide, bottom + 78, title, [*parts, *others, *legend])


def _headings(picture: Picture, left: Column, right: Column) -> list[str]:
    rows = sum(len(decision.rows) for decision in picture.decisions)
    return [
        text(MARGIN, 28, f"{picture.name}: {len(picture.nodes)} states, {rows} rows", "title"),
        text(left.x(left.width), TOP - 12, "rungs", "small faint"),
        text(left.x(STUB, left.panel), TOP - 12, "what came back [guard]", "small faint"),
        text(right.x(STUB), TOP - 12, "what came back [guard]", "small faint"),
        text(right.x(right.width), TOP - 12, "outcomes", "small faint", "end"),
    ]


def _others(picture: Picture, y: float) -> tuple[list[str], float]:
    """Draw the arcs that pass the hub by, one below the other; most machines have none."""
    arcs = [arc for arc in picture.arcs if (arc.source == picture.hub) == (arc.target == picture.hub)]
    if not arcs:
        return [], y
    states = max(width(name, "name") for arc in arcs for name in (arc.source, arc.target)) + 28
    panel = max(panel_width(arc.lines) for arc in arcs)
    parts = [text(MARGIN, y + 32, f"not by way of {picture.hub}", "small faint")]
    y += 42
    for arc in arcs:
        parts.append(_other(picture, arc, y, states, panel))
        y += max(panel_height(arc.lines), LEAST) + GAP
    return parts, y


def _other(picture: Picture, arc: Arc, y: float, states: float, panel: float) -> str:
    high = max(panel_height(arc.lines), LEAST)
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


def _legend(picture: Picture, y: float) -> list[str]:
    """Explain the shapes, and where the order of the guards is to be seen."""
    parts: list[str] = []
    x: float = MARGIN
    for kind, says in LEGEND:
        parts += [sample(kind, x, y), text(x + 32, y + 12, says, "small")]
        x += 32 + width(says, "small") + 26
    parts += [line([(x, y + 8), (x + 30, y + 8)], "back", "return"), text(x + 36, y + 12, "back to the hub", "small")]
    words = "In which order the guards of an event are tried is in the ladder view."
    if picture.marked:
        words += " The numbers are the steps of the path."
    return [*parts, text(MARGIN, y + 36, words, "small faint")]
