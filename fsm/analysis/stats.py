"""Count journals by day and model, and show the counts as tables with bars: text, picture, page.

A call counts for the model that it ended with, and a turn for that of its last call. An attempt,
what came of it, its waits, tokens and cost count for the model that was asked.

Journals may come from anybody, so memory is bounded: times are rounded to two digits, so that few
differ, and after `MOST` different counts all new names count as `(others)`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final

from attrs import define, field

from rungwise.fsm.call.budget.costs import cost_of
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.table import CALL
from rungwise.fsm.diagram.page.templates import render
from rungwise.fsm.diagram.svg.document import ROW, box, document, group, text, width
from rungwise.fsm.engine.journal.amounts import count_text, money_text, plain, seconds_text
from rungwise.fsm.engine.journal.attempts import SENT, attempts_of
from rungwise.fsm.engine.journal.path import SKIPPED
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.fsm.values.label import label
from rungwise.fsm.values.moments import LAST
from rungwise.fsm.values.money import as_money
from rungwise.fsm.values.usage import NO_USAGE

NAMED: Final = (
    "outcomes",
    "turns",
    "rungs",
    "causes",
    "backends_reached",
    "backends_skipped",
)
"""The kinds of counts whose names are listed, the most frequent first."""

TIMED: Final = ("waits", "first_token", "seconds")
"""The kinds of counts that are of times, in seconds."""

AMOUNTS: Final = ("input_tokens", "output_tokens", "unpriced_replies")
"""The whole numbers that are added up, of the kind `amounts`."""

MOST: Final = 200_000
"""How many counts are kept apart."""

OTHERS: Final = ("-", "(others)")
NO_CAUSES: Final = (SENT, SKIPPED, "answered", "called_tools")
"""The events that are no cause of another attempt or of an end without an answer."""

MICROSECONDS: Final = 1e6  # in a second; waits are added up as whole microseconds
LARGEST_IN_JSON: Final = 2**63 - 1
"""The largest amount that is written: orjson takes no larger whole number."""


Group = tuple[str, str]
"""A day, as in `2026-11-28`, and a model; `-` for one that is not known."""

Counts = defaultdict[str, Counter[Any]]
"""The counts of a group, by kind."""


@define
class Stats:
    """Count calls and turns.

    Arguments:
        counts: by day (UTC) and model, by kind, and by name or time: how often it was seen, or how
            much of it, for the kind `amounts`.
    """

    counts: Counter[tuple[Group, str, Any]] = field(factory=Counter)

    def add(self, journal: Journal | TurnJournal) -> None:
        """Count a call, or a turn with its calls."""
        if not isinstance(journal, TurnJournal):
            self._add_call(journal, journal.started)
            return
        group = ("-", "-")
        for call in journal.calls:
            group = self._add_call(call, call.started or journal.started)
        self._count(group, "turns", journal.outcome or "not ended")

    def _add_call(self, journal: Journal, started: float | None) -> Group:
        """Count a call, and return the group for which it counts."""
        day = _day_of(started)
        steps = journal.steps
        # of two backends of one name, the first one counts
        links = {link.name: link for link in reversed(journal.setting.chain)}
        groups = {name: (day, link.model or "-") for name, link in links.items()}
        last = (day, "-")
        seconds = 0.0
        if steps:
            last = groups.get(steps[-1].backend, last)
            seconds = steps[-1].at
        self._count(last, "outcomes", journal.outcome or "not ended")
        self._count(last, "seconds", seconds)
        for attempt in attempts_of(steps):
            backend = attempt.sent.backend
            group = groups.get(backend, last)
            self._count(group, "rungs", attempt.rung)
            self._count(group, "backends_reached", backend)
        for step in steps:
            link = links.get(step.backend)
            prices = None if link is None else link.prices
            self._add_step(step, groups.get(step.backend, last), prices)
        return last

    def _add_step(
        self,
        step: Step,
        group: Group,
        prices: Prices | None,
    ) -> None:
        """Count what a step brought. Not every step belongs to an attempt, and each counts."""
        if step.event in (SKIPPED, "found_open"):
            self._count(group, "backends_skipped", step.backend)
        if step.event not in NO_CAUSES:
            cause = step.event
            if step.reason:
                cause += f" ({step.reason})"
            self._count(group, "causes", cause)
        if step.wait:
            self._count(group, "waits", step.wait)
            self._count(group, "amounts", "waited", round(step.wait * MICROSECONDS))
        if step.first_token is not None:
            self._count(group, "first_token", step.first_token)
        usage = step.usage
        if usage != NO_USAGE:
            self._count(group, "amounts", "input_tokens", usage.input_tokens)
            self._count(group, "amounts", "output_tokens", usage.output_tokens)
            cost = cost_of(usage, prices)
            if cost is None:
                self._count(group, "amounts", "unpriced_replies")
            else:
                self._count(group, "amounts", "cost", cost)

    def _count(
        self,
        group: Group,
        kind: str,
        seen: str | float,
        number: int = 1,
    ) -> None:
        """Count a name, or a time in seconds.

        Arguments:
            group: for which it counts.
            kind: of the count.
            seen: the name or the time.
            number: how often, or how much of it.
        """
        name = label(seen) if isinstance(seen, str) else float(f"{round(seen, 6):.2g}")
        is_new = (group, kind, name) not in self.counts
        if is_new and len(self.counts) >= MOST:
            group = OTHERS
            if kind in NAMED:
                name = OTHERS[1]
        self.counts[group, kind, name] += number

    def as_mapping(self) -> dict[str, Any]:
        """Return all counts as plain values: in total, and by day and model."""
        total: Counts = defaultdict(Counter)
        groups: defaultdict[Group, Counts] = defaultdict(lambda: defaultdict(Counter))
        for (own, kind, name), number in self.counts.items():
            total[kind][name] += number
            groups[own][kind][name] += number
        by_day = []
        for (day, model), counts in sorted(groups.items()):
            by_day.append({"day": day, "model": model, **_summary(counts)})
        return {"total": _summary(total), "groups": by_day}


def _day_of(started: float | None) -> str:
    """Return the day (UTC) of a moment in seconds since 1970; `-` if it is unknown or absurd."""
    if started is None or not 0 <= started <= LAST:
        return "-"
    return datetime.fromtimestamp(started, UTC).date().isoformat()


def _summary(counts: Counts) -> dict[str, Any]:
    """Return the counts of a group as plain values, in the order in which they are shown."""
    amounts = counts["amounts"]
    summary: dict[str, Any] = {
        "calls": counts["outcomes"].total(),
        "attempts": counts["rungs"].total(),
    }
    for kind in NAMED:
        summary[kind] = dict(counts[kind].most_common())
    for kind in TIMED:
        summary[kind] = _spread(counts[kind])
    summary["waited"] = amounts["waited"] / MICROSECONDS
    for name in AMOUNTS:
        summary[name] = min(amounts[name], LARGEST_IN_JSON)
    is_unknown = amounts["unpriced_replies"] and not amounts["cost"]
    summary["cost"] = None if is_unknown else as_money(amounts["cost"])
    return summary


def _spread(times: Counter[float]) -> dict[str, float | None]:
    """Return how many times there are, and the least ones that half and 95 % do not exceed."""
    values = sorted(times)
    number = times.total()
    spread: dict[str, float | None] = {
        "count": number,
        "p50": None,
        "p95": None,
    }
    if values:
        ranks = [*accumulate(times[value] for value in values)]
        spread["p50"] = values[bisect_left(ranks, 0.5 * number)]
        spread["p95"] = values[bisect_left(ranks, 0.95 * number)]
    return spread


# What is shown

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


def _ranked(kind: str, numbers: Mapping[str, int]) -> Iterator[StatsRow]:
    """Yield a row for each name, the most frequent first, with its share."""
    table = {"outcomes": CALL, "turns": TURN}.get(kind)
    total = sum(numbers.values())
    for name, number in [*numbers.items()][:MOST_ROWS]:
        colour = "rung"
        if table is not None:
            colour = table.kind_of_end(name)
        cells = (count_text(number), f"{number / total:.1%}")
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
