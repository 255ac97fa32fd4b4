"""Count journals by day and model.

A call counts for the model that it ended with, and a turn for that of its last call. An attempt,
what came of it, its waits, tokens and cost count for the model that was asked.

Journals may come from anybody, so memory is bounded: times are rounded to two digits, so that few
differ, and after `MOST` different counts all new names count as `(others)`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final

from attrs import define, field

from rungwise.fsm.call.budget.costs import cost_of
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.engine.journal.attempts import SENT, attempts_of
from rungwise.fsm.engine.journal.path import SKIPPED
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.fsm.values.label import label
from rungwise.fsm.values.moments import LAST
from rungwise.fsm.values.money import as_money
from rungwise.fsm.values.usage import NO_USAGE, Usage

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

OF_CALLERS: Final = (
    "calls",
    "input_tokens",
    "output_tokens",
    "cost",
)
"""What is added up for each caller that a gateway or proxy tells apart."""

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
        # Of two backends of one name, the first one counts.
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
        caller = journal.setting.caller
        if caller is not None:
            self._count(last, "calls", caller)
        for step in steps:
            link = links.get(step.backend)
            prices = None if link is None else link.prices
            self._add_step(step, groups.get(step.backend, last), prices)
            if caller is not None and step.usage != NO_USAGE:
                self._add_to_caller(caller, last, step.usage, prices)
        return last

    def _add_to_caller(
        self,
        caller: str,
        group: Group,
        usage: Usage,
        prices: Prices | None,
    ) -> None:
        """Count what an attempt took for the caller who asked.

        Arguments:
            caller: the name by which a gateway or proxy knows who asked.
            group: of the model that the call ended with, for a caller asks for a whole call.
            usage: the tokens of the attempt.
            prices: those of its backend; without any, it counts as free.
        """
        amounts = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost": cost_of(usage, prices) or 0,
        }
        for kind, amount in amounts.items():
            self._count(group, kind, caller, amount)

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
            if kind in NAMED or kind in OF_CALLERS:
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
    if counts["calls"]:
        summary["callers"] = {name: _of_caller(name, counts) for name in counts["calls"]}
    is_unknown = amounts["unpriced_replies"] and not amounts["cost"]
    summary["cost"] = None if is_unknown else as_money(amounts["cost"])
    return summary


def _of_caller(name: str, counts: Counts) -> dict[str, Any]:
    """Return what is added up for a caller."""
    sums = {kind: min(counts[kind][name], LARGEST_IN_JSON) for kind in OF_CALLERS}
    return {**sums, "cost": as_money(counts["cost"][name])}


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
