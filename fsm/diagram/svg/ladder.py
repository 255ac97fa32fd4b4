"""The ladder view as SVG: a card for each event with its decision list, tried from the top."""

from __future__ import annotations

from attrs import evolve, frozen

from rungwise.fsm.diagram.layout import columns, wrapped
from rungwise.fsm.diagram.line import Line
from rungwise.fsm.diagram.model import DecisionList, Picture, Piece
from rungwise.fsm.diagram.svg.document import (
    badges_width,
    box,
    document,
    draw_badges,
    group,
    line_group,
    text,
    width,
)
from rungwise.fsm.diagram.svg.hub import OFF
from rungwise.fsm.diagram.svg.parts import Frame, chip, draw_pieces, pieces_width

MARGIN = 18
GUTTER = 14  # between cards
PAD = 10  # inside a card
ROW = 20  # the height of a line of a decision list
HEAD = 26  # the height of the name of an event
SMALL = 15  # the height of a line of small words
TOP = 62
CHIP = 12  # what a chip adds to the width of its name
COLUMNS = 2
GAP = 10  # between the columns of a card
ASIDE_GAP = 8  # between what stands at the end of a line

HOW_TO_READ = (
    "For each event the first guard that holds decides. Then the effect runs and the state changes."
)
STEPS = "A filled number is the step that took a row; a hollow one found its guard false."


@frozen
class Grid:
    """Hold where the columns of a card begin, in pixels from its left edge, and how wide it is."""

    rank: float
    guard: float
    target: float
    effect: float
    width: float

    @classmethod
    def of(cls, picture: Picture) -> Grid:
        """Measure the longest guard, target, effect and aside of all cards, which share a grid."""
        guards: list[float] = []
        targets: list[float] = []
        ends: list[float] = []
        heads: list[float] = []
        has_signs = False
        for decision in picture.decisions:
            heads.append(width(decision.event, "name"))
            heads.extend(width(word, "small") for word in decision.where.split())
            for line in decision.lines:
                guards.append(width(decision.guard(line)))
                targets.append(width(picture.node(line.row.target).label))
                ends.append(_end_width(picture, line))
                has_signs = has_signs or bool(line.sign)
        most = max(len(decision.lines) for decision in picture.decisions)
        rank = float(PAD)
        if has_signs:
            rank += width("+ ")
        guard = rank + width(f"{most} ") + 4
        target = guard + max(guards) + GAP
        effect = target + max(targets) + CHIP + GAP
        inner = max(effect + max(ends), max(heads) + PAD)
        return cls(rank, guard, target, effect, width=inner + PAD)


def _end_width(picture: Picture, line: Line) -> float:
    """Return the width of what follows the target of a line."""
    effect = width(line.row.effect or "")
    steps = badges_width(line.steps) + badges_width(line.tried)
    return effect + steps + _aside_width(_aside(picture, line))


def _aside(picture: Picture, line: Line) -> tuple[tuple[Piece, ...], str]:
    """Return what stands at the end of a line: the detail of its rung, and the change of the
    row.
    """
    changes = []
    if line.turn:
        changes.append(line.turn)
    if line.was is not None:
        changes.append(f"was {line.was}.")
    return picture.node(line.row.target).pieces, " ".join(changes)


def _aside_width(aside: tuple[tuple[Piece, ...], str]) -> float:
    """Return the width of an aside, with a gap before each of its two parts."""
    pieces, change = aside
    total = 0.0
    for wide in (pieces_width(pieces), width(change, "small")):
        if wide:
            total += wide + ASIDE_GAP
    return total


def draw_ladder_view(picture: Picture) -> str:
    """Draw a card for each event with its guards in the order in which they are tried."""
    grid = Grid.of(picture)

    def height(decision: DecisionList) -> float:
        return _height(decision, grid) + GUTTER

    card_columns = columns(picture.decisions, COLUMNS, height)
    remarks = _remarks(picture)
    top = float(TOP + SMALL * (len(remarks) - 1))
    parts = _headings(picture, remarks)
    bottom = top
    for place, column in enumerate(card_columns):
        x = MARGIN + place * (grid.width + GUTTER)
        y = top
        for decision in column:
            parts.append(_card(picture, decision, grid, x, y))
            y += height(decision)
        bottom = max(bottom, y)
    widths = [
        len(card_columns) * (grid.width + GUTTER) - GUTTER,
        width(picture.ladder_title, "title"),
    ]
    widths += [width(says, "small") for says in remarks]
    return document(
        w=2 * MARGIN + max(widths),
        h=bottom + MARGIN - GUTTER,
        title=f"{picture.name}: what each event leads to, guard by guard",
        parts=parts,
    )


def _remarks(picture: Picture) -> list[str]:
    """Return the sentences below the title, the caption first."""
    remarks = [picture.caption, HOW_TO_READ]
    if picture.marked:
        remarks.append(STEPS)
    if picture.is_struck and not picture.is_change:
        remarks.append(OFF)
    remarks.append(picture.key)
    return [says for says in remarks if says]


def _headings(picture: Picture, remarks: list[str]) -> list[str]:
    parts = [text(MARGIN, 28, picture.ladder_title, "title")]
    for place, says in enumerate(remarks):
        classes = "small" if says == picture.caption else "small faint"
        parts.append(text(MARGIN, 48 + SMALL * place, says, classes))
    return parts


def _where(decision: DecisionList, grid: Grid) -> list[str]:
    """Break the words that say where an event occurs into lines as wide as a card."""
    room = (grid.width - 2 * PAD) / width("x", "small")
    return wrapped(decision.where, int(room))


def _height(decision: DecisionList, grid: Grid) -> float:
    return HEAD + SMALL * len(_where(decision, grid)) + ROW * len(decision.lines) + PAD


def _card(picture: Picture, decision: DecisionList, grid: Grid, x: float, y: float) -> str:
    """Draw the card of an event.

    Arguments:
        picture: the picture.
        decision: the decision list of the event.
        grid: the columns of the card.
        x, y: its upper left corner.
    """
    parts = [box(x, y, grid.width, _height(decision, grid), "panel", 6)]
    parts.append(text(x + PAD, y + 18, decision.event, "name"))
    y += HEAD
    for words in _where(decision, grid):
        parts.append(text(x + PAD, y + 9, words, "small faint"))
        y += SMALL
    for rank, line in decision.ranked:
        drawing = _LineDrawing(picture, grid, x, y, line)
        parts.append(drawing.draw(decision.guard(line), rank))
        y += ROW
    shown = {line.row for line in decision.lines}
    for row in decision.rows:
        if row not in shown:  # the row of another state, which the card shows by its twin
            parts.append(line_group(Line(row), []))
    return group(parts, decision=decision.event)


@frozen
class _LineDrawing:
    """Draw one line of a card, whose upper left corner is at `x` and `y`."""

    picture: Picture
    grid: Grid
    x: float
    y: float
    line: Line

    def draw(self, guard: str, rank: int | None) -> str:
        """Draw the line with the words of its guard, and with its rank if it has one."""
        line = self.line
        parts = [self._text(self.grid.guard, guard, f"label{self._looks}"), self._target()]
        if line.sign:
            parts.append(self._text(PAD, line.sign, "label sign"))
        if rank is not None:
            parts.append(self._text(self.grid.rank, str(rank), "label guard"))
        parts.extend(self._effect())
        parts.extend(self._right_end())
        return line_group(line, parts, self.picture.node(line.row.target).says)

    @property
    def _base(self) -> float:
        return self.y + 14

    @property
    def _looks(self) -> str:
        """Return the classes of the guard, with a space before them."""
        if self.line.is_struck:
            return " struck"
        if self.line.steps:
            return " hit"
        if self.line.row.guard:
            return ""
        return " faint"

    def _text(self, near: float, words: str, classes: str) -> str:
        return text(self.x + near, self._base, words, classes)

    def _target(self) -> str:
        node = self.picture.node(self.line.row.target)
        if self.line.is_struck:
            node = evolve(node, is_off=True)
        left = self.x + self.grid.target
        wide = width(node.label) + CHIP
        return chip(node, Frame(left, self.y + 1, wide, ROW - 3))

    def _effect(self) -> list[str]:
        """Draw the effect, and the steps that took the row or tried it."""
        line = self.line
        parts: list[str] = []
        end = self.x + self.grid.effect
        if line.row.effect:
            classes = "label struck" if line.is_struck else "label guard"
            parts.append(self._text(self.grid.effect, line.row.effect, classes))
            end += width(line.row.effect)
        middle = self.y + 10
        parts.extend(draw_badges(end, middle, line.steps))
        end += badges_width(line.steps)
        parts.extend(draw_badges(end, middle, line.tried, hollow=True))
        return parts

    def _right_end(self) -> list[str]:
        """Draw what stands at the right edge of the card."""
        aside = _aside(self.picture, self.line)
        pieces, change = aside
        right = self.x + self.grid.width - PAD
        parts = draw_pieces(right - _aside_width(aside) + ASIDE_GAP, self._base, pieces)
        if change:
            parts.append(text(right, self._base, change, "small sign", "end"))
        return parts
