"""Show counts of journals as tables with bars: text, picture, page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rungwise.fsm.analysis.stats.counts import NAMED, OF_CALLERS, TIMED, Stats
from rungwise.fsm.call.table import CALL
from rungwise.fsm.diagram.page.templates import render
from rungwise.fsm.diagram.svg.document import ROW, box, document, group, text, width
from rungwise.fsm.engine.journal.amounts import count_text, money_text, plain, seconds_text
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.values.label import label

TITLE: Final = "What calls came to"
WIDTH: Final = 100  # characters of a line
MOST_ROWS: Final = 200  # of a table: the newest days, or what was seen most often
LEAST_ROOM: Final = 10  # characters of a name, however wide its cells are
BAR: Final = 200  # pixels
NO_BREAK: Final = "\u00a0"  # a space that SVG does not collapse
HEADINGS: Final = (
    "calls",
    "done",
    "attempts",
    "waited",
    "first",
    "p95",
    "took",
    "p95",
    "cost",
)

StatsRow = tuple[str, Sequence[str], Sequence[tuple[float, str]]]
"""The name of a row, its cells, and the parts of its bar, each with the kind that colours it.

The kinds are those of outcomes (`answer`, `lesser`, `error`), and `rung`.
"""


def tables_of(stats: Stats) -> list[list[StatsRow]]:
    """Return the tables that are not empty.

    The first row of each holds its title and its headings.
    """
    counts = stats.as_mapping()
    headings = ("number", "p50", "p95")
    in_all: list[StatsRow] = [("in all", headings, ())]
    tables = [in_all]
    for name, value in counts["total"].items():
        if name in NAMED:
            head = (plain(name), ("number", "share"), ())
            tables.append([head, *_ranked(name, value)])
        elif name == "callers":
            tables.append([*_rows_of_callers(name, value)])
        else:
            values = value.values() if name in TIMED else [value]
            cells = [_cell(each, name) for each in values]
            in_all.append((plain(name), cells, ()))
    groups = counts["groups"]
    title = "by day and model"
    if len(groups) > MOST_ROWS:
        title += f", the last {MOST_ROWS} of {len(groups)}"
    newest = map(_row_of_group, groups[-MOST_ROWS:])
    tables.append([(title, HEADINGS, ()), *newest])
    return [rows for rows in tables if len(rows) > 1]


def _rows_of_callers(title: str, callers: Mapping[str, Mapping[str, Any]]) -> Iterator[StatsRow]:
    """Yield the headings of the callers, and a row for each with what it has asked for.

    Arguments:
        title: of the table.
        callers: the sums of each caller, by its name.
    """
    headings = [plain(each) for each in OF_CALLERS]
    yield title, headings, ()
    for caller, sums in callers.items():
        cells = []
        for name, amount in sums.items():
            cells.append(_cell(amount, name))
        yield caller, cells, ()


def _ranked(kind: str, numbers: Mapping[str, int]) -> Iterator[StatsRow]:
    """Yield a row for each name, the most frequent first, with its share."""
    table = {"outcomes": CALL, "turns": TURN}.get(kind)
    total = sum(numbers.values())
    for name, number in [*numbers.items()][:MOST_ROWS]:
        colour = "rung"
        if table is not None:
            colour = table.kind_of_end(name)
        share = number / total
        cells = (count_text(number), f"{share:.1%}")
        yield plain(name), cells, [(number, colour)]


def _row_of_group(counts: Mapping[str, Any]) -> StatsRow:
    """Return the row of a day and model, with a bar of its outcomes."""
    outcomes = counts["outcomes"]
    numbers = [
        counts["calls"],
        outcomes.get("done", 0),
        counts["attempts"],
        counts["waited"],
    ]
    for times in (counts["first_token"], counts["seconds"]):
        numbers += [times["p50"], times["p95"]]
    cells = [_cell(number) for number in numbers]
    cells.append(_cell(counts["cost"], "cost"))
    parts = []
    for name, number in outcomes.items():
        parts.append((CALL.kind_of_end(name), number))
    bar = [(number, kind) for kind, number in sorted(parts)]
    return f"{counts['day']} {counts['model']}", cells, bar


def _cell(value: float | None, name: str = "") -> str:
    """Write a figure: money by its name, a whole number as a count, any other as seconds."""
    if value is None:
        return "-"
    if name == "cost":
        return money_text(value)
    if isinstance(value, int):
        return count_text(value)
    return seconds_text(value)


def lines_of(rows: Sequence[StatsRow]) -> list[str]:
    """Write a table as aligned lines; a row may have fewer cells than the first one."""
    _, headings, _ = rows[0]
    widths = []
    for at in range(len(headings)):
        column = [cells[at] for _, cells, _ in rows if at < len(cells)]
        widths.append(max(map(len, column)))
    longest = max(len(name) for name, _, _ in rows)
    left = WIDTH - sum(widths) - 2 * len(widths)
    room = min(longest, max(left, LEAST_ROOM))
    lines = []
    for name, cells, _ in rows:
        parts = [str(label(name, room)).ljust(room)]
        for cell, most in zip(cells, widths, strict=False):
            parts.append(cell.rjust(most))
        lines.append("  ".join(parts))
    return lines


def text_of(tables: Iterable[Sequence[StatsRow]]) -> str:
    """Write tables as text, with an empty line between them.

    Terminals show it, and so do the odds, whose tables have the same rows.
    """
    texts = []
    for rows in tables:
        texts.append("".join(f"{line}\n" for line in lines_of(rows)))
    return "\n".join(texts)


def picture_of_stats(stats: Stats) -> str:
    """Draw the lines of the tables, which are set in a fixed pitch, with their bars."""
    y = 32.0
    parts = [text(20, 32, TITLE, "title")]
    for rows in tables_of(stats):
        lines = lines_of(rows)
        totals = [sum(number for number, _ in bar) for _, _, bar in rows]
        most = max(totals) or 1
        bars_at = 40 + width(max(lines, key=len))
        y += ROW
        for (name, _, bar), line in zip(rows, lines, strict=True):
            y += 1.25 * ROW
            looks = "label hit" if line is lines[0] else "label"
            words = line.replace(" ", NO_BREAK)
            drawn = [text(20, y, words, looks)]
            x = bars_at
            for number, kind in bar:
                length = BAR * number / most
                drawn.append(box(x, y - 11, length, 14, kind))
                x += length
            parts.append(group(drawn, row=name))
    widest = 60 + width("x" * WIDTH) + BAR
    return document(widest, y + ROW, TITLE, parts)


def text_of_stats(stats: Stats) -> str:
    """Write counts as text."""
    return text_of(tables_of(stats))


def page_of_stats(stats: Stats) -> str:
    """Write counts as a page of HTML."""
    return render("stats", title=TITLE, tables=tables_of(stats))


FORMS: Final[Mapping[str, Callable[[Stats], str]]] = {
    "": text_of_stats,
    ".svg": picture_of_stats,
    ".html": page_of_stats,
}
"""How counts are written; the key is the end of a file's name, and empty for a terminal."""
