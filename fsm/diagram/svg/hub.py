"""The hub view as SVG: rungs on the left, the hub in the middle, outcomes on the right, and so no
line ever crosses.

A column has a lane for each state, with its arcs from and to the hub. The layout is our own, and
not Graphviz's, because it must hold labels of a dozen lines beside their targets, and come out the
same to the byte on every machine.
"""

from __future__ import annotations

from attrs import evolve, frozen

from rungwise.fsm.diagram.model import ENDS, Arc, Kind, Node, Note, Picture
from rungwise.fsm.diagram.svg.document import (
    badges_width,
    box,
    document,
    draw_badges,
    group,
    line,
    line_group,
    text,
    titled,
    width,
)
from rungwise.fsm.diagram.svg.parts import (
    PAD,
    TALL,
    draw_arrow,
    draw_node,
    draw_panel,
    draw_stub,
    node_width,
    panel_height,
    panel_width,
    sample,
)

# the two visible pieces of an arc: from the hub to its panel, and on to its target
STUB = 16
ARROW = 26
BACK = 18  # what the arc back adds to a lane
GAP = 12  # between lanes
LEAST = 30  # the height of a state with no panel beside it


@frozen
class Track:
    """Hold one state of a column, with its arcs."""

    node: Node
    arc: Arc | None
    back: Arc | None
    notes: tuple[Note, ...]

    @property
    def panel(self) -> float:
        """Return the height of the label panel."""
        return panel_height(self.arc.lines if self.arc else (), self.notes)

    @property
    def width(self) -> float:
        """Return the width that the labels need."""
        back = (
            width(_label(self.back), "small") + badges_width(self.back.steps) + 4 * PAD
            if self.back
            else 0.0
        )
        return max(panel_width(self.arc.lines if self.arc else (), self.notes), back)

    @property
    def height(self) -> float:
        """Return the height of the lane."""
        return max(self.panel + (BACK if self.back else 0), TALL if self.node.pieces else LEAST)


@frozen
class Column:
    """Place one side of the picture: the states on the outside, their labels between them and the
    hub.
    """

    lanes: tuple[Track, ...]  # from the top to the bottom
    hub: float  # where the edge of the hub is
    sign: int  # -1 to the left of the hub, 1 to the right
    panel: float  # the width of the label panels
    states: float  # the width of the states

    @classmethod
    def of(cls, picture: Picture, nodes: tuple[Node, ...], sign: int) -> Column:
        """Measure a column; its place is 0 until its hub is known."""
        lanes = tuple(_lane(picture, node) for node in nodes)
        panel = max((lane.width for lane in lanes), default=0.0)
        return cls(lanes, 0.0, sign, panel, max(map(node_width, nodes), default=28.0))

    @property
    def height(self) -> float:
        """Return the least height of the column."""
        return sum(lane.height for lane in self.lanes) + GAP * (len(self.lanes) - 1)

    @property
    def far(self) -> float:
        """Return the distance of the states from the hub."""
        return STUB + self.panel + ARROW

    @property
    def width(self) -> float:
        """Return the width of the column, from the hub to the outer edge of the states."""
        return self.far + self.states

    def x(self, near: float, wide: float = 0) -> float:
        """Return the left edge of what is `wide` and begins `near` pixels away from the hub."""
        return self.hub + near if self.sign > 0 else self.hub - near - wide


def draw_column(column: Column, top: float, height: float) -> list[str]:
    """Draw the lanes of a column, spread over a height."""
    spread = (height - column.height) / max(len(column.lanes) - 1, 1)
    parts: list[str] = []
    y = top
    for lane in column.lanes:
        x = column.x(column.far, column.states)
        middle = y + lane.height / 2
        parts.extend(_arc_to(column, lane, y))
        parts.extend(_arc_back(column, lane, y + lane.height - BACK / 2 if lane.panel else middle))
        parts.append(draw_node(lane.node, x, y, column.states, lane.height))
        if lane.node.start:
            parts += [
                box(x - 22, middle - 5, 10, 10, "dot", 5),
                line([(x - 12, middle), (x, middle)], "line", "arrow"),
            ]
        y += lane.height + GAP + spread
    return parts


def _lane(picture: Picture, node: Node) -> Track:
    notes = tuple(note for note in picture.notes if note.target == node.name)
    return Track(
        node, picture.arc(picture.hub, node.name), picture.arc(node.name, picture.hub), notes
    )


def _arc_to(column: Column, lane: Track, y: float) -> list[str]:
    """Draw the arc from the hub: stub, label panel, arrow."""
    if not lane.panel:
        return []
    panel = draw_panel(
        column.x(STUB, column.panel),
        y,
        column.panel,
        lane.arc.lines if lane.arc else (),
        lane.notes,
    )
    if lane.arc is None:
        return panel
    middle = y + lane.panel / 2
    stub = draw_stub([(column.x(0), middle), (column.x(STUB), middle)], lane.arc)
    arrow = draw_arrow(
        [(column.x(STUB + column.panel), middle), (column.x(column.far), middle)], lane.arc
    )
    return [group([stub, arrow, *panel], arc=f"{lane.arc.source} {lane.arc.target}")]


def _arc_back(column: Column, lane: Track, y: float) -> list[str]:
    """Draw the thin dashed arc back to the hub, with its label in a gap of the line."""
    if lane.back is None:
        return []
    label = _label(lane.back)
    steps = lane.back.steps
    looks = "hit" if steps else "struck" if lane.back.is_struck else "faint"
    wide = width(label, "small") + badges_width(steps)
    x = column.x(STUB + (column.panel - wide) / 2, wide)
    parts = [
        draw_arrow([(column.x(column.far), y), (column.x(0), y)], lane.back, back=True),
        box(x - 4, y - 7, wide + 8, 14, "page"),
        text(x, y + 4, label, f"small {looks}"),
        *draw_badges(x + width(label, "small"), y, steps),
        *(line_group(item, []) for item in lane.back.lines),
    ]
    says = "\n".join(item.says for item in lane.back.lines)
    return [group(titled(says, parts), arc=f"{lane.back.source} {lane.back.target}")]


def _label(arc: Arc) -> str:
    return ", ".join(
        " ".join(filter(None, [item.sign, item.text, item.turn])) for item in arc.lines
    )


# START leaves room for the dot at which the machine begins
MARGIN = 18
START = 34
TOP = 62
HUB = 72
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
    both = [*draw_column(left, top, height), *draw_column(right, top, height)]
    parts = [*headings, *both, draw_node(hub, left.hub, top, wide, height)]
    if hub.start:
        x = left.hub + wide / 2
        parts += [
            box(x - 5, top - 24, 10, 10, "dot", 5),
            line([(x, top - 14), (x, top)], "line", "arrow"),
        ]
    others, bottom = _others(picture, top + height)
    legend, right_edge = _legend(picture, bottom + 26)
    title = f"{picture.name}: one arc for each pair of states, one line for each row"
    widths = [
        right.hub + right.width,
        right_edge,
        *(MARGIN + width(says, size) for says, size in _titles(picture)),
    ]
    tall = bottom + 42 + SMALL * len(_remarks(picture)) + MARGIN
    return document(max(widths) + MARGIN, tall, title, [*parts, *others, *legend])


def _titles(picture: Picture) -> list[tuple[str, str]]:
    return [
        (picture.hub_title, "title"),
        *([(picture.caption, "small")] if picture.caption else []),
    ]


def _headings(picture: Picture, left: Column, right: Column) -> tuple[list[str], float]:
    """Return the texts above the columns, and the top of the columns."""
    titles = _titles(picture)
    top = TOP + (SMALL + 3) * (len(titles) - 1)
    parts = [
        text(MARGIN, 28 + (SMALL + 3) * place, says, size)
        for place, (says, size) in enumerate(titles)
    ]
    came = "what came back [guard]"
    has_outcomes = any(node.kind not in ("hub", "rung") for node in picture.nodes)
    parts.append(
        text(left.x(left.width), top - 12, "rungs" if has_outcomes else "states", "small faint")
    )
    for column, x in ((left, left.x(STUB, left.panel)), (right, right.x(STUB))):
        if column.panel >= width(came, "small"):
            parts.append(text(x, top - 12, came, "small faint"))
    if has_outcomes:
        parts.append(text(right.x(right.width), top - 12, "outcomes", "small faint", "end"))
    return parts, float(top)


def _others(picture: Picture, y: float) -> tuple[list[str], float]:
    """Draw the arcs that bypass the hub, one below the other; most machines have none."""
    arcs = [
        arc for arc in picture.arcs if (arc.source == picture.hub) == (arc.target == picture.hub)
    ]
    if not arcs:
        return [], y
    states = max(
        node_width(picture.node(name)) for arc in arcs for name in (arc.source, arc.target)
    )
    panel = max(panel_width(arc.lines) for arc in arcs)
    parts = [text(MARGIN, y + 32, f"not by way of {picture.hub}", "small faint")]
    xs = [MARGIN, MARGIN + states, MARGIN + states + STUB, MARGIN + states + STUB + panel]
    end = xs[3] + ARROW
    y += 42
    for arc in arcs:
        source = picture.node(arc.source)
        target = picture.node(arc.target)
        tall = panel_height(arc.lines)
        high = max(tall, TALL if source.pieces or target.pieces else LEAST)
        middle = y + high / 2
        drawn = [
            draw_node(source, xs[0], y, states, high),
            draw_stub([(xs[1], middle), (xs[2], middle)], arc),
            *draw_panel(xs[2], middle - tall / 2, panel, arc.lines),
            draw_arrow([(xs[3], middle), (end, middle)], arc),
            draw_node(target, end, y, states, high),
        ]
        parts.append(group(drawn, arc=f"{arc.source} {arc.target}"))
        y += high + GAP
    return parts, y


def _legend(picture: Picture, y: float) -> tuple[list[str], float]:
    """Draw the legend of shapes and signs; also return its right edge."""
    parts: list[str] = []
    x: float = MARGIN
    for kind, says in LEGEND:
        if picture.of_kind(kind):
            parts += [sample(kind, x, y), text(x + 32, y + 12, says, "small")]
            x += 32 + width(says, "small") + 22
    back = "back to the hub"
    parts += [
        line([(x, y + 8), (x + 30, y + 8)], "back", "return"),
        text(x + 36, y + 12, back, "small"),
    ]
    remarks = _remarks(picture)
    parts += [
        text(MARGIN, y + 36 + SMALL * place, says, "small faint")
        for place, says in enumerate(remarks)
    ]
    return parts, max(
        x + 36 + width(back, "small"), *(MARGIN + width(says, "small") for says in remarks)
    )


def _remarks(picture: Picture) -> list[str]:
    order = "In which order the guards of an event are tried is in the ladder view."
    return [
        order + (" The numbers are the steps of the path." if picture.marked else ""),
        *([OFF] if picture.is_struck and not picture.is_change else []),
        *([picture.key] if picture.key else []),
    ]
