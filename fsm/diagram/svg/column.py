"""One side of the hub view: a lane for each state, with its arcs from and to the hub."""

from __future__ import annotations

from attrs import frozen

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
from rungwise.fsm.diagram.svg.panel import PAD, draw_arrow, draw_panel, draw_stub, panel_height, panel_width
from rungwise.fsm.diagram.svg.state import TALL, draw_node, node_width

STUB, ARROW = 16, 26  # the two visible pieces of an arc: from the hub to its panel, and on to its target
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
        back = width(_label(self.back), "small") + badges_width(self.back.steps) + 4 * PAD if self.back else 0.0
        return max(panel_width(self.arc.lines if self.arc else (), self.notes), back)

    @property
    def height(self) -> float:
        """Return the height of the lane."""
        return max(self.panel + (BACK if self.back else 0), TALL if self.node.pieces else LEAST)


@frozen
class Column:
    """Place one side of the picture: the states on the outside, their labels between them and the hub."""

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
        x, middle = column.x(column.far, column.states), y + lane.height / 2
        parts.extend(_arc_to(column, lane, y))
        parts.extend(_arc_back(column, lane, y + lane.height - BACK / 2 if lane.panel else middle))
        parts.append(draw_node(lane.node, x, y, column.states, lane.height))
        if lane.node.start:
            parts += [box(x - 22, middle - 5, 10, 10, "dot", 5), line([(x - 12, middle), (x, middle)], "line", "arrow")]
        y += lane.height + GAP + spread
    return parts


def _lane(picture: Picture, node: Node) -> Track:
    notes = tuple(note for note in picture.notes if note.target == node.name)
    return Track(node, picture.arc(picture.hub, node.name), picture.arc(node.name, picture.hub), notes)


def _arc_to(column: Column, lane: Track, y: float) -> list[str]:
    """Draw the arc from the hub: stub, label panel, arrow."""
    if not lane.panel:
        return []
    panel = draw_panel(column.x(STUB, column.panel), y, column.panel, lane.arc.lines if lane.arc else (), lane.notes)
    if lane.arc is None:
        return panel
    middle = y + lane.panel / 2
    stub = draw_stub([(column.x(0), middle), (column.x(STUB), middle)], lane.arc)
    arrow = draw_arrow([(column.x(STUB + column.panel), middle), (column.x(column.far), middle)], lane.arc)
    return [group([stub, arrow, *panel], arc=f"{lane.arc.source} {lane.arc.target}")]


def _arc_back(column: Column, lane: Track, y: float) -> list[str]:
    """Draw the thin dashed arc back to the hub, with its label in a gap of the line."""
    if lane.back is None:
        return []
    label, steps = _label(lane.back), lane.back.steps
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
    return ", ".join(" ".join(filter(None, [item.sign, item.text, item.turn])) for item in arc.lines)
