"""Counts of journals as tables with bars: text for a terminal, a picture, a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from rungwise.fsm.call.table import CALL
from rungwise.fsm.diagram.page.templates import render
from rungwise.fsm.diagram.svg.document import ROW, box, document, group, text, width
from rungwise.fsm.journal.digest import count_text, money_text, plain, seconds_text
from rungwise.fsm.stats.counts import NAMED, TIMED, Stats
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.values.label import label

TITLE: Final = "What calls came to"
WIDTH: Final = 100  # characters of a line
MOST_ROWS: Final = 200  # of a table: the newest days, or what was seen most often
BAR: Final = 200  # pixels
HEADINGS: Final = ("calls", "done", "attempts", "waited", "first", "p95", "took", "p95", "cost")

StatsRow = tuple[str, Sequence[str], Sequence[tuple[int, str]]]
"""The name of a row, its cells, and the parts of its bar, each with the kind that colours it."""


def tables_of(stats: Stats) -> list[list[StatsRow]]:
    """Return the tables that are not empty; the first row of each holds its title and its headings."""
    counts = stats.as_mapping()
    total, groups = counts["total"], counts["groups"]
    tables: list[list[StatsRow]] = [[("in all", ("number", "p50", "p95"), ())]]
    for name, value in total.items():
        if name in NAMED:
            tables.append([(plain(name), ("number", "share"), ()), *_ranked(name, value)])
        else:
            values = value.values() if name in TIMED else [value]
            tables[0].append((plain(name), [_cell(each, name) for each in values], ()))
    older = f", the last {MOST_ROWS} of {len(groups)}" if len(groups) > MOST_ROWS else ""
    tables.append([(f"by day and model{older}", HEADINGS, ()), *map(_of_group, groups[-MOST_ROWS:])])
    return [rows for rows in tables if len(rows) > 1]


def _ranked(kind: str, numbers: Mapping[str, int]) -> Iterator[StatsRow]:
    table = {"outcomes": CALL, "turns": TURN}.get(kind)
    for name, number in [*numbers.items()][:MOST_ROWS]:
        share = f"{number / sum(numbers.values()):.1%}"
        yield plain(name), (count_text(number), share), [(number, table.kind_of_end(name) if table else "rung")]


def _of_group(counts: Mapping[str, Any]) -> StatsRow:
    ends, times = counts["outcomes"], [counts[kind][at] for kind in ("first_token", "seconds") for at in ("p50", "p95")]
    numbers = [counts["calls"], ends.get("done", 0), counts["attempts"], counts["waited"], *times]
    parts = sorted([(CALL.kind_of_end(name), number) for name, number in ends.items()])
    cells = [*map(_cell, numbers), _cell(counts["cost"], "cost")]
    return f"{counts['day']} {counts['model']}", cells, [(number, kind) for kind, number in parts]


def _cell(value: float | None, name: str = "") -> str:
    if value is None:
        return "-"
    return money_text(value) if name == "cost" else count_text(value) if isinstance(value, int) else seconds_text(value)


def lines_of(rows: Sequence[StatsRow]) -> list[str]:
    """Write a table as aligned lines."""
    widths = [max(len("".join(cells[at : at + 1])) for _, cells, _ in rows) for at in range(len(rows[0][1]))]
    room = min(max(len(name) for name, *_ in rows), max(WIDTH - sum(widths) - 2 * len(widths), 10))
    names = [str(label(name, room)).ljust(room) for name, *_ in rows]
    cells = [[cell.rjust(most) for cell, most in zip(row[1], widths, strict=False)] for row in rows]
    return ["  ".join([name, *each]) for name, each in zip(names, cells, strict=True)]


def picture_of_stats(stats: Stats) -> str:
    """Draw the lines of the tables, which are set in a fixed pitch, with their bars."""
    y, parts = 32.0, [text(20, 32, TITLE, "title")]
    for rows in tables_of(stats):
        lines = lines_of(rows)
        most = max(sum(number for number, _ in bar) for *_, bar in rows) or 1
        y, at = y + ROW, 40 + width(max(lines, key=len))
        for (name, _, bar), line in zip(rows, lines, strict=True):
            y, x = y + 1.25 * ROW, at
            drawn = [text(20, y, line.replace(" ", "\u00a0"), "label hit" if line is lines[0] else "label")]
            for number, kind in bar:
                drawn.append(box(x, y - 11, BAR * number / most, 14, kind))
                x += BAR * number / most
            parts.append(group(drawn, row=name))
    return document(60 + width("x" * WIDTH) + BAR, y + ROW, TITLE, parts)


FORMS: Final[Mapping[str, Callable[[Stats], str]]] = {
    "": lambda stats: "\n".join("".join(f"{line}\n" for line in lines_of(rows)) for rows in tables_of(stats)),
    ".svg": picture_of_stats,
    ".html": lambda stats: render("stats", title=TITLE, tables=tables_of(stats)),
}
"""How counts are written, to a terminal, and to a file by the end of its name."""
