"""Count journals by day and model, in bounded memory, and show the counts as tables with bars:
text, a picture, a page.

A call counts for the model that it ended with, and a turn for that of its last call. An attempt,
what came of it, its waits, tokens and cost count for the model that was asked. Times are rounded to
two digits, so that few differ.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final

from attrs import define, field

from rungwise.fsm.call.budget.costs import price_of
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.table import CALL
from rungwise.fsm.diagram.page.templates import render
from rungwise.fsm.diagram.svg.document import ROW, box, document, group, text, width
from rungwise.fsm.engine.journal.attempts import SENT, attempts_of
from rungwise.fsm.engine.journal.digest import count_text, money_text, plain, seconds_text
from rungwise.fsm.engine.journal.path import SKIPPED
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.fsm.values.label import label
from rungwise.fsm.values.moments import LAST
from rungwise.fsm.values.money import as_money

NAMED: Final = ("outcomes", "turns", "rungs", "causes", "backends_reached", "backends_skipped")
TIMED: Final = ("waits", "first_token", "seconds")
AMOUNTS: Final = ("input_tokens", "output_tokens", "unpriced_replies")
MOST: Final = 200_000  # counts that are kept apart: journals may come from anybody
OTHERS: Final = ("-", "(others)")
NO_CAUSES: Final = (SENT, SKIPPED, "answered", "called_tools")
"""The events that are no cause of another attempt or of an end without an answer."""

MICROSECONDS: Final = 1e6  # in a second; waits are added up as whole microseconds
LARGEST_IN_JSON: Final = 2**63 - 1


Group = tuple[str, str]
"""A day, as in `2026-11-28`, and a model; `-` for one that is not known."""


@define
class Stats:
    """Count calls and turns: how often a name or a time was seen, or an amount, by day (UTC) and
    model and by kind.
    """

    counts: Counter[tuple[tuple[str, str], str, Any]] = field(factory=Counter)

    def add(self, journal: Journal | TurnJournal) -> None:
        """Count a call, or a turn with its calls."""
        if isinstance(journal, TurnJournal):
            groups = [
                self._add_call(call, call.started or journal.started) for call in journal.calls
            ]
            self._count(
                groups[-1] if groups else ("-", "-"), "turns", journal.outcome or "not ended"
            )
        else:
            self._add_call(journal, journal.started)

    def _add_call(self, journal: Journal, started: float | None) -> tuple[str, str]:
        is_dated = started is not None and 0 <= started <= LAST
        day = datetime.fromtimestamp(started or 0, UTC).date().isoformat() if is_dated else "-"
        steps = journal.steps
        links = {link.name: link for link in reversed(journal.setting.chain)}
        groups = {name: (day, link.model or "-") for name, link in links.items()}
        last = groups.get(steps[-1].backend if steps else "", (day, "-"))
        self._count(last, "outcomes", journal.outcome or "not ended")
        self._count(last, "seconds", steps[-1].at if steps else 0.0)
        for attempt in attempts_of(steps):
            backend = attempt.sent.backend
            group = groups.get(backend, last)
            self._count(group, "rungs", attempt.rung)
            self._count(group, "backends_reached", backend)
        for step in steps:
            prices = getattr(links.get(step.backend), "prices", None)
            self._add_step(step, groups.get(step.backend, last), prices)
        return last

    def _add_step(self, step: Step, group: Group, prices: Prices | None) -> None:
        """Count what a step brought. Not every step belongs to an attempt, and each counts."""
        if step.event in (SKIPPED, "found_open"):
            self._count(group, "backends_skipped", step.backend)
        if step.event not in NO_CAUSES:
            cause = f"{step.event} ({step.reason})" if step.reason else step.event
            self._count(group, "causes", cause)
        if step.wait:
            self._count(group, "waits", step.wait)
            self._count(group, "amounts", "waited", round(step.wait * MICROSECONDS))
        if step.first_token is not None:
            self._count(group, "first_token", step.first_token)
        usage = step.usage
        if usage.total_tokens:
            self._count(group, "amounts", "input_tokens", usage.input_tokens)
            self._count(group, "amounts", "output_tokens", usage.output_tokens)
            if prices is None:
                self._count(group, "amounts", "unpriced_replies")
            else:
                self._count(group, "amounts", "cost", price_of(usage, prices))

    def _count(self, group: tuple[str, str], kind: str, seen: str | float, number: int = 1) -> None:
        name = label(seen) if isinstance(seen, str) else float(f"{round(seen, 6):.2g}")
        if (group, kind, name) not in self.counts and len(self.counts) >= MOST:
            group = OTHERS
            name = name if kind not in NAMED else OTHERS[1]
        self.counts[group, kind, name] += number

    def as_mapping(self) -> dict[str, Any]:
        """Return all counts as plain values."""
        groups: defaultdict[Any, defaultdict[str, Counter[Any]]] = defaultdict(
            lambda: defaultdict(Counter)
        )
        for (own, kind, name), number in self.counts.items():
            for counts in (groups[None], groups[own]):
                counts[kind][name] += number
        total = _summary(groups.pop(None, defaultdict(Counter)))
        by_day = [
            {"day": day, "model": model, **_summary(each)}
            for (day, model), each in sorted(groups.items())
        ]
        return {"total": total, "groups": by_day}


def _summary(counts: Mapping[str, Counter[Any]]) -> dict[str, Any]:
    amounts = counts["amounts"]
    return {
        "calls": counts["outcomes"].total(),
        "attempts": counts["rungs"].total(),
        **{kind: dict(counts[kind].most_common()) for kind in NAMED},
        **{kind: _spread(counts[kind]) for kind in TIMED},
        "waited": amounts["waited"] / 1e6,
        **{name: min(amounts[name], LARGEST_IN_JSON) for name in AMOUNTS},
        "cost": None
        if amounts["unpriced_replies"] and not amounts["cost"]
        else as_money(amounts["cost"]),
    }


def _spread(times: Counter[float]) -> dict[str, float | None]:
    values = sorted(times)
    number = times.total()
    ranks = [*accumulate(times[value] for value in values)]
    p50, p95 = (
        values[bisect_left(ranks, share * number)] if values else None for share in (0.5, 0.95)
    )
    return {"count": number, "p50": p50, "p95": p95}


TITLE: Final = "What calls came to"
WIDTH: Final = 100  # characters of a line
MOST_ROWS: Final = 200  # of a table: the newest days, or what was seen most often
BAR: Final = 200  # pixels
HEADINGS: Final = ("calls", "done", "attempts", "waited", "first", "p95", "took", "p95", "cost")

StatsRow = tuple[str, Sequence[str], Sequence[tuple[float, str]]]
"""The name of a row, its cells, and the parts of its bar, each with the kind that colours it."""


def tables_of(stats: Stats) -> list[list[StatsRow]]:
    """Return the tables that are not empty; the first row of each holds its title and its
    headings.
    """
    counts = stats.as_mapping()
    total = counts["total"]
    groups = counts["groups"]
    tables: list[list[StatsRow]] = [[("in all", ("number", "p50", "p95"), ())]]
    for name, value in total.items():
        if name in NAMED:
            tables.append([(plain(name), ("number", "share"), ()), *_ranked(name, value)])
        else:
            values = value.values() if name in TIMED else [value]
            tables[0].append((plain(name), [_cell(each, name) for each in values], ()))
    older = f", the last {MOST_ROWS} of {len(groups)}" if len(groups) > MOST_ROWS else ""
    tables.append(
        [(f"by day and model{older}", HEADINGS, ()), *map(_of_group, groups[-MOST_ROWS:])]
    )
    return [rows for rows in tables if len(rows) > 1]


def _ranked(kind: str, numbers: Mapping[str, int]) -> Iterator[StatsRow]:
    table = {"outcomes": CALL, "turns": TURN}.get(kind)
    for name, number in [*numbers.items()][:MOST_ROWS]:
        share = f"{number / sum(numbers.values()):.1%}"
        yield (
            plain(name),
            (count_text(number), share),
            [(number, table.kind_of_end(name) if table else "rung")],
        )


def _of_group(counts: Mapping[str, Any]) -> StatsRow:
    ends = counts["outcomes"]
    times = [counts[kind][at] for kind in ("first_token", "seconds") for at in ("p50", "p95")]
    numbers = [counts["calls"], ends.get("done", 0), counts["attempts"], counts["waited"], *times]
    parts = sorted([(CALL.kind_of_end(name), number) for name, number in ends.items()])
    cells = [*map(_cell, numbers), _cell(counts["cost"], "cost")]
    return f"{counts['day']} {counts['model']}", cells, [(number, kind) for kind, number in parts]


def _cell(value: float | None, name: str = "") -> str:
    if value is None:
        return "-"
    return (
        money_text(value)
        if name == "cost"
        else count_text(value)
        if isinstance(value, int)
        else seconds_text(value)
    )


def lines_of(rows: Sequence[StatsRow]) -> list[str]:
    """Write a table as aligned lines."""
    widths = [
        max(len("".join(cells[at : at + 1])) for _, cells, _ in rows)
        for at in range(len(rows[0][1]))
    ]
    room = min(max(len(name) for name, *_ in rows), max(WIDTH - sum(widths) - 2 * len(widths), 10))
    names = [str(label(name, room)).ljust(room) for name, *_ in rows]
    cells = [[cell.rjust(most) for cell, most in zip(row[1], widths, strict=False)] for row in rows]
    return ["  ".join([name, *each]) for name, each in zip(names, cells, strict=True)]


def text_of(tables: Iterable[Sequence[StatsRow]]) -> str:
    """Write tables as text, with an empty line between them."""
    return "\n".join("".join(f"{line}\n" for line in lines_of(rows)) for rows in tables)


def picture_of_stats(stats: Stats) -> str:
    """Draw the lines of the tables, which are set in a fixed pitch, with their bars."""
    y = 32.0
    parts = [text(20, 32, TITLE, "title")]
    for rows in tables_of(stats):
        lines = lines_of(rows)
        most = max(sum(number for number, _ in bar) for *_, bar in rows) or 1
        y = y + ROW
        at = 40 + width(max(lines, key=len))
        for (name, _, bar), line in zip(rows, lines, strict=True):
            y = y + 1.25 * ROW
            x = at
            drawn = [
                text(
                    20, y, line.replace(" ", "\u00a0"), "label hit" if line is lines[0] else "label"
                )
            ]
            for number, kind in bar:
                drawn.append(box(x, y - 11, BAR * number / most, 14, kind))
                x += BAR * number / most
            parts.append(group(drawn, row=name))
    return document(60 + width("x" * WIDTH) + BAR, y + ROW, TITLE, parts)


FORMS: Final[Mapping[str, Callable[[Stats], str]]] = {
    "": lambda stats: text_of(tables_of(stats)),
    ".svg": picture_of_stats,
    ".html": lambda stats: render("stats", title=TITLE, tables=tables_of(stats)),
}
"""How counts are written, to a terminal, and to a file by the end of its name."""
