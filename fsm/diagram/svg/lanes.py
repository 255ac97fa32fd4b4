"""The two sides of the hub view: a column of states with a lane for each, and its arcs from and to
the hub.

From the hub outwards a lane holds a stub, the panel with the labels of the arc, an arrow, and the
state. The arc back to the hub runs below the panel. All lanes of a column have the same widths, so
no line ever crosses another.
"""

from __future__ import annotations

from attrs import frozen

from rungwise.fsm.diagram.line import Line
from rungwise.fsm.diagram.model import Arc, Node, Note, Picture
from rungwise.fsm.diagram.svg.document import (
    badges_width,
    box,
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
    Frame,
    draw_arrow,
    draw_node,
    draw_panel,
    draw_stub,
    node_width,
    panel_height,
    panel_width,
)

# the two visible pieces of an arc: from the hub to its panel, and on to its target
STUB = 16
ARROW = 26
BACK = 18  # what the arc back adds to a lane
GAP = 12  # between lanes
LEAST = 30  # the height of a state with no panel beside it
EMPTY = 28.0  # the width of the states of a column that has none
DOT = 10  # the size of the dot at which the machine begins
LEAD = 12  # from the dot, or from its edge, to the state


@frozen
class Track:
    """Hold one state of a column, with its arcs."""

    node: Node
    arc: Arc | None  # from the hub
    back: Arc | None  # to the hub
    notes: tuple[Note, ...]  # which lead to the state

    @classmethod
    def of(cls, picture: Picture, node: Node) -> Track:
        """Find the arcs and notes of a state."""
        arc = picture.arc(picture.hub, node.name)
        back = picture.arc(node.name, picture.hub)
        notes = [note for note in picture.notes if note.target == node.name]
        return cls(node, arc, back, tuple(notes))

    @property
    def lines(self) -> tuple[Line, ...]:
        """Return the lines of the arc from the hub."""
        return self.arc.lines if self.arc else ()

    @property
    def panel(self) -> float:
        """Return the height of the label panel."""
        return panel_height(self.lines, self.notes)

    @property
    def width(self) -> float:
        """Return the width that the labels need."""
        panel = panel_width(self.lines, self.notes)
        if self.back is None:
            return panel
        label = width(_label(self.back), "small")
        return max(panel, label + badges_width(self.back.steps) + 4 * PAD)

    @property
    def height(self) -> float:
        """Return the height of the lane."""
        labels = self.panel
        if self.back:
            labels += BACK
        return max(labels, TALL if self.node.pieces else LEAST)


@frozen
class Column:
    """Place one side of the picture.

    Arguments:
        lanes: its lanes, from the top to the bottom.
        hub: the x of the edge of the hub.
        sign: -1 to the left of the hub, 1 to the right.
        panel: the width of the label panels.
        states: the width of the states.
    """

    lanes: tuple[Track, ...]
    hub: float
    sign: int
    panel: float
    states: float

    @classmethod
    def of(cls, picture: Picture, nodes: tuple[Node, ...], sign: int) -> Column:
        """Measure a column; its place is 0 until its hub is known."""
        lanes = tuple(Track.of(picture, node) for node in nodes)
        panel = max((lane.width for lane in lanes), default=0.0)
        states = max(map(node_width, nodes), default=EMPTY)
        return cls(lanes, 0.0, sign, panel, states)

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
        if self.sign > 0:
            return self.hub + near
        return self.hub - near - wide


def draw_column(column: Column, top: float, height: float) -> list[str]:
    """Draw the lanes of a column, spread over a height."""
    spread = (height - column.height) / max(len(column.lanes) - 1, 1)
    x = column.x(column.far, column.states)
    parts: list[str] = []
    y = top
    for lane in column.lanes:
        middle = y + lane.height / 2
        back_at = middle
        if lane.panel:
            back_at = y + lane.height - BACK / 2
        parts.extend(_arc_to(column, lane, y))
        parts.extend(_arc_back(column, lane, back_at))
        parts.append(draw_node(lane.node, Frame(x, y, column.states, lane.height)))
        if lane.node.start:
            dot_right = x - LEAD
            parts.append(box(dot_right - DOT, middle - DOT / 2, DOT, DOT, "dot", DOT / 2))
            parts.append(line([(dot_right, middle), (x, middle)], "line", "arrow"))
        y += lane.height + GAP + spread
    return parts


def _arc_to(column: Column, lane: Track, y: float) -> list[str]:
    """Draw the arc from the hub: stub, label panel, arrow."""
    if not lane.panel:
        return []
    panel_at = column.x(STUB, column.panel)
    panel = draw_panel(panel_at, y, column.panel, lane.lines, lane.notes)
    if lane.arc is None:
        return panel
    middle = y + lane.panel / 2
    hub = (column.x(0), middle)
    near = (column.x(STUB), middle)
    far = (column.x(STUB + column.panel), middle)
    state = (column.x(column.far), middle)
    stub = draw_stub([hub, near], lane.arc)
    arrow = draw_arrow([far, state], lane.arc)
    return [group([stub, arrow, *panel], arc=f"{lane.arc.source} {lane.arc.target}")]


def _arc_back(column: Column, lane: Track, y: float) -> list[str]:
    """Draw the thin dashed arc back to the hub, with its label in a gap of the line."""
    arc = lane.back
    if arc is None:
        return []
    label = _label(arc)
    looks = "faint"
    if arc.steps:
        looks = "hit"
    elif arc.is_struck:
        looks = "struck"
    label_width = width(label, "small")
    wide = label_width + badges_width(arc.steps)
    x = column.x(STUB + (column.panel - wide) / 2, wide)
    state = (column.x(column.far), y)
    hub = (column.x(0), y)
    parts = [draw_arrow([state, hub], arc, back=True)]
    parts.append(box(x - 4, y - 7, wide + 8, 14, "page"))
    parts.append(text(x, y + 4, label, f"small {looks}"))
    parts += draw_badges(x + label_width, y, arc.steps)
    for item in arc.lines:
        parts.append(line_group(item, []))
    says = "\n".join(item.says for item in arc.lines)
    return [group(titled(says, parts), arc=f"{arc.source} {arc.target}")]


def _label(arc: Arc) -> str:
    """Write the lines of an arc as one label."""
    labels = []
    for item in arc.lines:
        labels.append(" ".join(filter(None, [item.sign, item.text, item.turn])))
    return ", ".join(labels)
