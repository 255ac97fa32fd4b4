"""The ladder view as SVG: a card for each event with its decision list, tried from the top."""

from __future__ import annotations

from attrs import evolve, frozen

from rungwise.fsm.diagram.model import Decision, Line, Picture, Piece, columns, wrapped
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
from rungwise.fsm.diagram.svg.parts import chip, draw_pieces, pieces_width

MARGIN = 18
GUTTER = 14
PAD = 10
ROW = 20
HEAD = 26
SMALL = 15
TOP = 62
CHIP = 12  # what a chip adds to the width of its name
COLUMNS = 2


@frozen
class Grid:
    """Hold the columns of a card, in pixels from its left edge."""

    rank: float
    guard: float
    target: float
    effect: float
    width: float

    @classmethod
    def of(cls, picture: Picture) -> Grid:
        """Measure the longest guard, target, effect and aside."""
        lines = [line for decision in picture.decisions for line in decision.lines]
        most = max(len(decision.lines) for decision in picture.decisions)
        rank = PAD + (width("+ ") if any(line.sign for line in lines) else 0)
        guard = rank + width(f"{most} ") + 4
        target = (
            guard + max(width(d.guard(line)) for d in picture.decisions for line in d.lines) + 10
        )
        effect = (
            target + max(width(picture.node(line.row.target).label) for line in lines) + CHIP + 10
        )
        rest = max(
            width(line.row.effect or "")
            + badges_width(line.steps)
            + badges_width(line.tried)
            + _aside_width(_aside(picture, line))
            for line in lines
        )
        names = max(width(decision.event, "name") for decision in picture.decisions)
        for decision in picture.decisions:
            names = max(names, *(width(word, "small") for word in decision.where.split() or [""]))
        return cls(rank, guard, target, effect, max(effect + rest, names + PAD) + PAD)


def _aside(picture: Picture, line: Line) -> tuple[tuple[Piece, ...], str]:
    """Return what stands at the end of a line: the detail of its rung, and the change of the
    row.
    """
    was = f"was {line.was}." if line.was is not None else ""
    return picture.node(line.row.target).pieces, " ".join(filter(None, [line.turn, was]))


def _aside_width(aside: tuple[tuple[Piece, ...], str]) -> float:
    return sum(wide + 8 for wide in (pieces_width(aside[0]), width(aside[1], "small")) if wide)


def draw_ladder_view(picture: Picture) -> str:
    """Draw a card for each event with its guards in the order in which they are tried."""
    grid = Grid.of(picture)
    broken = columns(picture.decisions, COLUMNS, lambda decision: _height(decision, grid) + GUTTER)
    parts, top = _headings(picture)
    bottom = top
    for place, column in enumerate(broken):
        x = MARGIN + place * (grid.width + GUTTER)
        y = top
        for decision in column:
            parts.append(_card(picture, decision, grid, x, y))
            y += _height(decision, grid) + GUTTER
        bottom = max(bottom, y)
    widths = [len(broken) * (grid.width + GUTTER) - GUTTER, width(picture.ladder_title, "title")]
    widths += [width(says, "small") for says in _remarks(picture)]
    title = f"{picture.name}: what each event leads to, guard by guard"
    return document(2 * MARGIN + max(widths), bottom + MARGIN - GUTTER, title, parts)


def _remarks(picture: Picture) -> list[str]:
    remarks = {
        picture.caption: True,
        "For each event the first guard that holds decides. Then the effect runs and the state "
        "changes.": True,
        "A filled number is the step that took a row; a hollow one found its guard "
        "false.": picture.marked,
        OFF: picture.is_struck and not picture.is_change,
        picture.key: True,
    }
    return [says for says, holds in remarks.items() if says and holds]


def _headings(picture: Picture) -> tuple[list[str], float]:
    parts = [text(MARGIN, 28, picture.ladder_title, "title")]
    remarks = _remarks(picture)
    for place, says in enumerate(remarks):
        parts.append(
            text(
                MARGIN,
                48 + SMALL * place,
                says,
                "small" if says == picture.caption else "small faint",
            )
        )
    return parts, float(TOP + SMALL * (len(remarks) - 1))


def _where(decision: Decision, grid: Grid) -> list[str]:
    return wrapped(decision.where, int((grid.width - 2 * PAD) / width("x", "small")))


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
    for rank, line in decision.ranked:
        parts.append(_line(picture, decision, line, grid, x, y, rank))
        y += ROW
    shown = {line.row for line in decision.lines}
    parts.extend(line_group(Line(row), []) for row in decision.rows if row not in shown)
    return group(parts, decision=decision.event)


def _line(
    picture: Picture,
    decision: Decision,
    line: Line,
    grid: Grid,
    x: float,
    y: float,
    rank: int | None,
) -> str:
    base = y + 14
    node = picture.node(line.row.target)
    looks = (
        " struck"
        if line.is_struck
        else " hit"
        if line.steps
        else ""
        if line.row.guard
        else " faint"
    )
    if line.is_struck:
        node = evolve(node, is_off=True)
    target = chip(node, x + grid.target, y + 1, width(node.label) + CHIP, ROW - 3)
    parts = [text(x + grid.guard, base, decision.guard(line), f"label{looks}"), target]
    if line.sign:
        parts.append(text(x + PAD, base, line.sign, "label sign"))
    if rank is not None:
        parts.append(text(x + grid.rank, base, str(rank), "label guard"))
    end = x + grid.effect
    if line.row.effect:
        parts.append(
            text(end, base, line.row.effect, "label struck" if line.is_struck else "label guard")
        )
        end += width(line.row.effect)
    parts.extend(draw_badges(end, y + 10, line.steps))
    parts.extend(draw_badges(end + badges_width(line.steps), y + 10, line.tried, hollow=True))
    aside = detail, words = _aside(picture, line)
    at = x + grid.width - PAD - _aside_width(aside) + 8
    parts.extend(draw_pieces(at, base, detail))
    if words:
        parts.append(text(x + grid.width - PAD, base, words, "small sign", "end"))
    return line_group(line, parts, node.says)
