"""The ladder view as SVG: a card for each event with its decision list, tried from the top."""

from __future__ import annotations

import textwrap

from attrs import frozen

from rungwise.fsm.diagram.model import Decision, Line, Picture, columns
from rungwise.fsm.diagram.svg.document import (
    badges_width,
    box,
    chip,
    document,
    draw_badges,
    group,
    line_group,
    text,
    width,
)

MARGIN, GUTTER, PAD, ROW, HEAD, SMALL, TOP = 18, 14, 10, 20, 26, 15, 62
CHIP = 12  # what a chip adds to the width of its name
COLUMNS = 2
LEAST_WIDTH = 680  # what the headings need


@frozen
class Grid:
    """Say where the parts of a card's lines stand, counted from its left edge."""

    guard: float
    target: float
    effect: float
    width: float

    @classmethod
    def of(cls, picture: Picture) -> Grid:
        """Measure the longest guard, target and effect."""
        lines = [line for decision in picture.decisions for line in decision.lines]
        guard = PAD + width("0 ") + 4
        target = guard + max(width(d.guard(line)) for d in picture.decisions for line in d.lines) + 14
        effect = target + max(width(line.row.target) for line in lines) + CHIP + 14
        numbers = max(badges_width(line.steps) + badges_width(line.tried) for line in lines)
        return cls(guard, target, effect, effect + max(width(line.row.effect or "") for line in lines) + numbers + PAD)


def draw_ladder_view(picture: Picture) -> str:
    """Draw a card for each event with its guards in the order in which they are tried."""
    grid = Grid.of(picture)
    broken = columns(picture.decisions, COLUMNS, lambda decision: _height(decision, grid) + GUTTER)
    parts, top = _headings(picture)
    bottom = top
    for place, column in enumerate(broken):
        x, y = MARGIN + place * (grid.width + GUTTER), top
        for decision in column:
            parts.append(_card(picture, decision, grid, x, y))
            y += _height(decision, grid) + GUTTER
        bottom = max(bottom, y)
    total = max(2 * MARGIN + len(broken) * (grid.width + GUTTER) - GUTTER, LEAST_WIDTH)
    return document(total, bottom + MARGIN - GUTTER, f"{picture.name}: what each event leads to, guard by guard", parts)


def _headings(picture: Picture) -> tuple[list[str], float]:
    rows = sum(len(decision.rows) for decision in picture.decisions)
    parts = [text(MARGIN, 28, f"{picture.name}: {len(picture.decisions)} decision lists, {rows} rows", "title")]
    words = ["For each event the first guard that holds decides. Then the effect runs and the state changes."]
    if picture.marked:
        words.append("A filled number is the step that took a row; a hollow one found its guard false.")
    parts += [text(MARGIN, 48 + SMALL * place, says, "small faint") for place, says in enumerate(words)]
    return parts, float(TOP + SMALL * (len(words) - 1))


def _where(decision: Decision, grid: Grid) -> list[str]:
    return textwrap.wrap(decision.where, int((grid.width - 2 * PAD) / width("x", "small")))


def _height(decision: Decision, grid: Grid) -> float:
    return HEAD + SMALL * len(_where(decision, grid)) + ROW * len(decision.lines) + PAD


def _card(picture: Picture, decision: Decision, grid: Grid, x: float, y: float) -> str:
    parts = [
        box(x, y, grid.width, _height(decision, grid), "panel", 6),
        text(x + PAD, y + 18, decision.event, "name"),
    ]
    y += HEAD
    for words in _where(decision, grid):
        parts.append(text(x + PAD, y + 9, words, "small faint"))
        y += SMALL
    for rank, line in enumerate(decision.lines, start=1):
        parts.append(_line(picture, decision, line, grid, x, y, rank))
        y += ROW
    shown = {line.row for line in decision.lines}
    parts.extend(line_group(Line(row), []) for row in decision.rows if row not in shown)
    return group(parts, decision=decision.event)


def _line(picture: Picture, decision: Decision, line: Line, grid: Grid, x: float, y: float, rank: int) -> str:
    base = y + 14
    hit = " hit" if line.steps else ""
    last = "" if line.row.guard or hit else " faint"
    parts = [
        text(x + PAD, base, str(rank), "label guard"),
        text(x + grid.guard, base, decision.guard(line), f"label{hit}{last}"),
        chip(picture.node(line.row.target), x + grid.target, y + 1, width(line.row.target) + CHIP, ROW - 3),
    ]
    end = x + grid.effect
    if line.row.effect:
        parts.append(text(end, base, line.row.effect, "label guard"))
        end += width(line.row.effect)
    parts.extend(draw_badges(end, y + 10, line.steps))
    parts.extend(draw_badges(end + badges_width(line.steps), y + 10, line.tried, hollow=True))
    return line_group(line, parts)
