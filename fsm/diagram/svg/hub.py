"""The hub view as SVG: rungs on the left, the hub in the middle, outcomes on the right.

Theory. A machine of this kind is a star: nearly every arc begins or ends at the hub. So the layout
needs no general algorithm for graphs. Each side is a column with a lane for each state
(`lanes.py`), as wide as its longest label, and the hub is as high as the higher column. No two
lines can cross. Arcs that bypass the hub are rare and stand below, each with both of its states.

The layout is our own and not Graphviz's for two reasons: it must hold labels of a dozen lines
beside their targets, and come out the same to the byte on every machine.
"""

from __future__ import annotations

from attrs import evolve

from rungwise.fsm.diagram.model import ENDS, Arc, Kind, Picture
from rungwise.fsm.diagram.svg.document import box, document, group, line, text, width
from rungwise.fsm.diagram.svg.lanes import ARROW, DOT, GAP, LEAST, STUB, Column, draw_column
from rungwise.fsm.diagram.svg.parts import (
    TALL,
    Frame,
    draw_arrow,
    draw_node,
    draw_panel,
    draw_stub,
    node_width,
    panel_height,
    panel_width,
    sample,
)

# START leaves room for the dot at which the machine begins
MARGIN = 18
START = 34
TOP = 62
HUB = 72
SMALL = 15  # the height of a line of small words
CAPTION = 18  # the height of a caption below the title
LEGEND: tuple[tuple[Kind, str], ...] = (
    ("rung", "the next thing to do"),
    ("hub", "waiting for what comes back"),
    ("answer", "an answer"),
    ("lesser", "less than one"),
    ("error", "an error"),
    ("outcome", "an end"),
)
CAME = "what came back [guard]"
BACK_TO_HUB = "back to the hub"
ORDER = "In which order the guards of an event are tried is in the ladder view."
NUMBERS = "The numbers are the steps of the path."
OFF = "What is struck is off: it is never taken. Point at it to see why."


def draw_hub_view(picture: Picture) -> str:
    """Draw one arc for each pair of states, with a label line for each row."""
    left = Column.of(picture, picture.of_kind("rung"), -1)
    right = Column.of(picture, picture.of_kind(*ENDS), 1)
    height = max(left.height, right.height)
    hub = picture.node(picture.hub)
    hub_width = max(HUB, node_width(hub) - 12)
    left = evolve(left, hub=START + left.width)
    right = evolve(right, hub=left.hub + hub_width)
    titles = _titles(picture)
    top = float(TOP + CAPTION * (len(titles) - 1))
    parts = _headings(picture, left, right, top)
    parts += draw_column(left, top, height)
    parts += draw_column(right, top, height)
    parts.append(draw_node(hub, Frame(left.hub, top, hub_width, height)))
    if hub.start:
        x = left.hub + hub_width / 2
        parts.append(box(x - DOT / 2, top - 24, DOT, DOT, "dot", DOT / 2))
        parts.append(line([(x, top - 14), (x, top)], "line", "arrow"))
    others, bottom = _others(picture, top + height)
    legend, legend_right = _legend(picture, bottom + 26)
    widths = [right.hub + right.width, legend_right]
    for says, size in titles:
        widths.append(MARGIN + width(says, size))
    legend_height = 42 + SMALL * len(_remarks(picture))
    title = f"{picture.name}: one arc for each pair of states, one line for each row"
    return document(
        w=max(widths) + MARGIN,
        h=bottom + legend_height + MARGIN,
        title=title,
        parts=[*parts, *others, *legend],
    )


def _titles(picture: Picture) -> list[tuple[str, str]]:
    """Return the title and the caption, each with its size."""
    titles = [(picture.hub_title, "title")]
    if picture.caption:
        titles.append((picture.caption, "small"))
    return titles


def _headings(picture: Picture, left: Column, right: Column, top: float) -> list[str]:
    """Draw the texts above the columns.

    Arguments:
        picture: the picture.
        left, right: its columns.
        top: the y of their upper edge.
    """
    parts = []
    for place, (says, size) in enumerate(_titles(picture)):
        parts.append(text(MARGIN, 28 + CAPTION * place, says, size))
    y = top - 12
    has_outcomes = any(node.kind not in ("hub", "rung") for node in picture.nodes)
    states = "rungs" if has_outcomes else "states"
    parts.append(text(left.x(left.width), y, states, "small faint"))
    room = width(CAME, "small")
    if left.panel >= room:
        parts.append(text(left.x(STUB, left.panel), y, CAME, "small faint"))
    if right.panel >= room:
        parts.append(text(right.x(STUB), y, CAME, "small faint"))
    if has_outcomes:
        parts.append(text(right.x(right.width), y, "outcomes", "small faint", "end"))
    return parts


def _others(picture: Picture, y: float) -> tuple[list[str], float]:
    """Draw the arcs that bypass the hub, one below the other; most machines have none.

    Also returns the y below them.
    """
    arcs = []
    for arc in picture.arcs:
        begins_at_hub = arc.source == picture.hub
        ends_at_hub = arc.target == picture.hub
        if begins_at_hub == ends_at_hub:
            arcs.append(arc)
    if not arcs:
        return [], y
    ends = [arc.source for arc in arcs] + [arc.target for arc in arcs]
    states = max(node_width(picture.node(name)) for name in ends)
    panel = max(panel_width(arc.lines) for arc in arcs)
    parts = [text(MARGIN, y + 32, f"not by way of {picture.hub}", "small faint")]
    y += 42
    for arc in arcs:
        has_detail = picture.node(arc.source).pieces or picture.node(arc.target).pieces
        least = TALL if has_detail else LEAST
        height = max(panel_height(arc.lines), least)
        source = Frame(MARGIN, y, states, height)
        parts.append(_bypass(picture, arc, source, panel))
        y += height + GAP
    return parts, y


def _bypass(picture: Picture, arc: Arc, source: Frame, panel: float) -> str:
    """Draw an arc that bypasses the hub: its source, a stub, its panel, an arrow and its target.

    Arguments:
        picture: the picture.
        arc: the arc.
        source: where its source is; its target is as large.
        panel: the width of its panel.
    """
    middle = source.y + source.h / 2
    stub_at = source.x + source.w
    panel_at = stub_at + STUB
    arrow_at = panel_at + panel
    target = evolve(source, x=arrow_at + ARROW)
    panel_top = middle - panel_height(arc.lines) / 2
    drawn = [draw_node(picture.node(arc.source), source)]
    drawn.append(draw_stub([(stub_at, middle), (panel_at, middle)], arc))
    drawn += draw_panel(panel_at, panel_top, panel, arc.lines)
    drawn.append(draw_arrow([(arrow_at, middle), (target.x, middle)], arc))
    drawn.append(draw_node(picture.node(arc.target), target))
    return group(drawn, arc=f"{arc.source} {arc.target}")


def _legend(picture: Picture, y: float) -> tuple[list[str], float]:
    """Draw the legend of shapes and signs; also return its right edge."""
    parts: list[str] = []
    x: float = MARGIN
    for kind, says in LEGEND:
        if picture.of_kind(kind):
            parts.append(sample(kind, x, y))
            parts.append(text(x + 32, y + 12, says, "small"))
            x += 32 + width(says, "small") + 22
    parts.append(line([(x, y + 8), (x + 30, y + 8)], "back", "return"))
    parts.append(text(x + 36, y + 12, BACK_TO_HUB, "small"))
    right = x + 36 + width(BACK_TO_HUB, "small")
    for place, says in enumerate(_remarks(picture)):
        parts.append(text(MARGIN, y + 36 + SMALL * place, says, "small faint"))
        right = max(right, MARGIN + width(says, "small"))
    return parts, right


def _remarks(picture: Picture) -> list[str]:
    """Return the sentences below the legend."""
    remarks = [ORDER]
    if picture.marked:
        remarks = [f"{ORDER} {NUMBERS}"]
    if picture.is_struck and not picture.is_change:
        remarks.append(OFF)
    if picture.key:
        remarks.append(picture.key)
    return remarks
