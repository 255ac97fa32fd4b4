"""Rates counted from journals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
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
from rungwise.fsm.call.table import CALL, UNSENT
from rungwise.fsm.engine.journal.path import SENT
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
        """Count a call, or a turn with its calls. What the journal does not tell of an attempt is
        not counted.
        """
        for before, brought in pairwise(journal.steps if isinstance(journal, TurnJournal) else ()):
            if kind := TURN_EVENTS.get(brought.event):
                of_tools = tuple(sorted({*brought.facts} & {*OF_TOOLS}))
                self._count(
                    ("", kind),
                    (brought.event, None, of_tools, None),
                    seconds=brought.at - before.at,
                )
        for call in journal.calls if isinstance(journal, TurnJournal) else (journal,):
            self.prices.update({note(link.name): link.prices for link in call.setting.chain})
            wait = 0.0
            position = POSITIONS[0]
            sent = None
            facts = set[str]()
            last = ("", "")
            for step in call.steps:
                if step.event == SENT:
                    sent = step
                    position = position_of(step.source, wait)
                elif step.event in UNSENT:  # the rung sends nothing, so nobody waits in it
                    wait = step.wait
                elif sent is not None and step.source == CALL.hub:
                    if step.event in EVENTS and step.backend in self.prices:
                        kind = self._count_attempt(sent, position, step, facts)
                        if last[0] == step.backend:
                            self.pairs[step.backend, position][last[1], kind] += 1
                        last = step.backend, kind
                    wait = step.wait
                    sent = None
                    facts = facts | {*step.facts}

    def _count_attempt(self, sent: Step, position: str, step: Step, before: set[str]) -> str:
        old = {"has_text"} if "has_text" in before or "added_text" in step.facts else set[str]()
        facts = tuple(sorted({*step.facts} - FOLLOW - old))
        reason = step.reason if step.reason in get_args(Reason) else None
        asked = None if step.asked_wait is None else _rounded(step.asked_wait)
        tokens = {name: getattr(step.usage, name) for name in ("input_tokens", "output_tokens")}
        self._count(
            (step.backend, position),
            (step.event, reason, facts, asked),
            seconds=step.at - sent.at,
            **tokens,
        )
        return f"{step.event} {reason or ''}"

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
