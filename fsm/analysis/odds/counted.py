"""Rates counted from journals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from math import erfc, exp, lgamma, log, sqrt
from operator import add
from typing import Any, Final, get_args

from attrs import define, field

from rungwise.fsm.analysis.odds.rates import (
    EVENTS,
    POSITIONS,
    SETTLED,
    TURN_EVENTS,
    TURN_KINDS,
    BackendRates,
    Dependence,
    Rates,
    position_of,
)
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.table import CALL
from rungwise.fsm.engine.journal.attempts import RecordedAttempt, attempts_of
from rungwise.fsm.engine.journal.path import SKIPPED
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.replies.failures.failure import Reason
from rungwise.fsm.turn.observe import OF_TOOLS
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.fsm.values.label import note

NORMAL: Final = 1.96
"""Standard deviations within which a normal variable lies in 95 % of the cases."""

FOLLOW: Final = SETTLED | {fact.name for fact in CALL.facts if fact.is_derived}
LEAST_EXPECTED: Final = 5  # of each cell of a table, for a chi-square test (Cochran 1954)

CAME: Final = ("event", "reason", "facts", "asked_wait")

_Came = tuple[str, str | None, tuple[str, ...], float | None]


def wilson(seen: int, attempts: int) -> tuple[float, float]:
    """Return the bounds of a share, of which so many of the attempts were seen (Wilson 1927)."""
    share = seen / attempts
    part = NORMAL**2 / attempts
    half = NORMAL * sqrt(share * (1 - share) / attempts + part / attempts / 4)
    return max(0.0, (share + part / 2 - half) / (1 + part)), min(
        1.0, (share + part / 2 + half) / (1 + part)
    )


def dependence_of(tables: Iterable[Mapping[tuple[str, str], int]]) -> Dependence | None:
    """Test by Pearson's chi-square whether the second kind depends on the first; None if there are
    too few.

    Arguments:
        tables: how often each kind of event followed each other kind, for each position.
    """
    chi_square = 0.0
    degrees = 0
    pairs = 0
    most = 0.0
    for counts in tables:
        firsts, seconds = (sorted(set(kinds)) for kinds in zip(*counts, strict=True))
        rows = _joined(
            [tuple([counts.get((first, second), 0) for second in seconds]) for first in firsts]
        )
        columns = list(zip(*rows, strict=True))
        total = sum(map(sum, rows))
        freedom = (len(rows) - 1) * (len(columns) - 1)
        if not freedom:
            continue
        for row in rows:
            for seen, column in zip(row, columns, strict=True):
                expected = sum(row) * sum(column) / total
                chi_square += (seen - expected) ** 2 / expected
        degrees = degrees + freedom
        pairs = pairs + total
        most += total * (min(len(rows), len(columns)) - 1)
    if not degrees:
        return None
    p = chi_square_tail(chi_square, degrees)
    v = sqrt(chi_square / most)
    return Dependence(pairs=pairs, p=float(f"{p:.2g}"), v=float(f"{v:.2g}"))


def chi_square_tail(chi_square: float, degrees: int) -> float:
    """Return the probability that a chi-square variable exceeds a value, by the recurrence of DLMF
    8.8.6.
    """
    half = chi_square / 2
    order = 0.5 if degrees % 2 else 1.0
    found = erfc(sqrt(half)) if degrees % 2 else exp(-half)
    while half and order < degrees / 2:
        found = found + exp(order * log(half) - half - lgamma(order + 1))
        order = order + 1
    return min(1.0, found)


def _joined(rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Join the rarest two rows or columns until every expected count is large enough."""
    while min(len(rows), len(rows[0])) > 1:
        rows, columns = sorted(rows, key=sum), sorted(zip(*rows, strict=True), key=sum)
        row = sum(rows[0])
        column = sum(columns[0])
        if row * column >= LEAST_EXPECTED * sum(map(sum, rows)):
            break
        one, other, *rest = rows if row <= column else columns
        joined = [tuple(map(add, one, other)), *rest]
        rows = joined if row <= column else [*zip(*joined, strict=True)]
    return rows


@define
class RatesCount:
    """Count what came of attempts by backend and position, and of turns by kind; amounts are
    rounded to two digits.
    """

    prices: dict[str, Any] = field(factory=dict)  # of each backend, in the order of the chain
    counts: defaultdict[tuple[str, str], dict[_Came, dict[str, Counter[float]]]] = field(
        factory=lambda: defaultdict(lambda: defaultdict(lambda: defaultdict(Counter)))
    )
    pairs: defaultdict[tuple[str, str], Counter[tuple[str, str]]] = field(
        factory=lambda: defaultdict(Counter)
    )

    def add(self, journal: Journal | TurnJournal) -> None:
        """Count a call, or a turn with its calls.

        An attempt counts only if the journal has what came back of it.
        """
        if isinstance(journal, TurnJournal):
            self._add_turn(journal)
            for call in journal.calls:
                self._add_call(call)
        else:
            self._add_call(journal)

    def _add_turn(self, journal: TurnJournal) -> None:
        """Count the rounds of tools and the compactions of a turn."""
        for attempt in attempts_of(journal.steps):
            back = attempt.back
            if back is None or back.event not in TURN_EVENTS:
                continue
            facts = tuple(sorted({*back.facts} & {*OF_TOOLS}))
            self._count(
                ("", TURN_EVENTS[back.event]),
                (back.event, None, facts, None),
                seconds=back.at - attempt.sent.at,
            )

    def _add_call(self, journal: Journal) -> None:
        """Count the attempts of a call, and which kinds followed each other at a backend."""
        for link in journal.setting.chain:
            self.prices[note(link.name)] = link.prices
        steps = journal.steps
        last_backend = ""
        last_kind = ""
        for attempt in attempts_of(steps):
            back = attempt.back
            # Not counted: the last attempt of a call that then passed over its last backends.
            if back is None or steps[attempt.sent.number].event == SKIPPED:
                continue
            if back.event not in EVENTS or back.backend not in self.prices:
                continue
            position = position_of(attempt.rung, attempt.wait)
            kind = self._count_attempt(attempt, back, position)
            if back.backend == last_backend:
                self.pairs[back.backend, position][last_kind, kind] += 1
            last_backend = back.backend
            last_kind = kind

    def _count_attempt(self, attempt: RecordedAttempt, back: Step, position: str) -> str:
        """Count what came back of an attempt, and return its kind: the event, and why it failed."""
        implied = FOLLOW
        if "has_text" in attempt.facts_before or "added_text" in back.facts:
            implied = FOLLOW | {"has_text"}
        facts = tuple(sorted({*back.facts} - implied))
        reason = back.reason if back.reason in get_args(Reason) else None
        asked_wait = None if back.asked_wait is None else _rounded(back.asked_wait)
        self._count(
            (back.backend, position),
            (back.event, reason, facts, asked_wait),
            seconds=back.at - attempt.sent.at,
            input_tokens=back.usage.input_tokens,
            output_tokens=back.usage.output_tokens,
        )
        return f"{back.event} {reason or ''}"

    def _count(self, group: tuple[str, str], came: _Came, **amounts: float) -> None:
        for name, amount in amounts.items():
            self.counts[group][came][name][_rounded(max(amount, 0.0))] += 1

    def rates(self) -> Rates:
        """Return the rates of the backends that were asked, with their intervals."""
        found = []
        for name, prices in self.prices.items():
            by_position: dict[str, Any] = {
                position: self._tables(name, position) for position in POSITIONS
            }
            some = next(filter(None, by_position.values()), None)
            if some:  # a backend that was never asked has no rates
                by_position["fresh"] = by_position["fresh"] or some
                depends = dependence_of(
                    [counts for (of, _), counts in self.pairs.items() if of == name]
                )
                found.append(
                    BackendRates(name=name, prices=prices, dependence=depends, **by_position)
                )
        return Rates(found, [table for kind in TURN_KINDS for table in self._tables("", kind)])

    def _tables(self, name: str, kind: str) -> list[dict[str, Any]]:
        """Return what came of attempts in a position, or of turns, as the fields of rates; the most
        frequent first.
        """
        counts = self.counts.get((name, kind), {})
        tables = []
        seen = {came: amounts["seconds"].total() for came, amounts in counts.items()}
        for came, number in sorted(seen.items(), key=lambda each: -each[1]):
            table: dict[str, Any] = {
                name: value for name, value in zip(CAME, came, strict=True) if value is not None
            }
            table |= {name: sorted(values.items()) for name, values in counts[came].items()}
            share = number / sum(seen.values())
            between = wilson(number, sum(seen.values()))
            tables.append({**table, "share": share, "seen": number, "between": between})
        return tables


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")
