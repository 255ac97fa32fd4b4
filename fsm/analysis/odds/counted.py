"""Rates counted from journals.

Each attempt counts for its backend and position (`rates.py`), with what came back of it. Shares
come with Wilson's interval, which stays within 0 and 1 for rare events, where the usual one does
not.

Theory: do attempts depend on the one before?

The odds take attempts of a backend in a position as independent. Whether they were is tested by
Pearson's chi-square: a table counts how often each kind of event followed each other kind, and is
compared with what independent kinds would give. The statistic of several positions is the sum of
theirs, and so are the degrees of freedom. It is trustworthy only if every expected count is large
enough (Cochran 1954), so rare kinds are joined first. Cramér's V says how strong the dependence is,
whatever the number of pairs.
"""

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
"""The fields of rates by which what came back is told apart."""

_Came = tuple[str, str | None, tuple[str, ...], float | None]
_Group = tuple[str, str]
"""A backend and a position; or an empty name and a kind of `TURN_KINDS`."""

_Seen = defaultdict[str, Counter[float]]
"""How often each amount was seen, by the field of rates that it is of."""

_Pair = tuple[str, str]
"""The kind of an attempt, and that of the next one."""

_Row = tuple[int, ...]


def wilson(seen: int, attempts: int) -> tuple[float, float]:
    """Return the bounds of a share, seen so often in so many attempts (Wilson 1927)."""
    share = seen / attempts
    part = NORMAL**2 / attempts
    middle = share + part / 2
    variance = share * (1 - share) / attempts
    half = NORMAL * sqrt(variance + part / attempts / 4)
    lower = (middle - half) / (1 + part)
    upper = (middle + half) / (1 + part)
    return max(0.0, lower), min(1.0, upper)


def dependence_of(tables: Iterable[Mapping[_Pair, int]]) -> Dependence | None:
    """Test whether the second kind of a pair depends on the first; None if there are too few.

    Arguments:
        tables: how often each pair was seen, for each position.
    """
    chi_square = 0.0
    degrees = 0
    pairs = 0
    most = 0.0  # that chi-square could be
    for counts in tables:
        rows = _joined(_rows_of(counts))
        columns = list(zip(*rows, strict=True))
        freedom = (len(rows) - 1) * (len(columns) - 1)
        if not freedom:
            continue
        total = sum(map(sum, rows))
        for row in rows:
            for seen, column in zip(row, columns, strict=True):
                expected = sum(row) * sum(column) / total
                chi_square += (seen - expected) ** 2 / expected
        degrees += freedom
        pairs += total
        most += total * (min(len(rows), len(columns)) - 1)
    if not degrees:
        return None
    p = chi_square_tail(chi_square, degrees)
    v = sqrt(chi_square / most)
    return Dependence(pairs=pairs, p=_rounded(p), v=_rounded(v))


def chi_square_tail(chi_square: float, degrees: int) -> float:
    """Return the probability that a chi-square variable exceeds a value.

    It is the regularized incomplete gamma function, by the recurrence of DLMF 8.8.6 from the closed
    forms for one and two degrees of freedom.
    """
    half = chi_square / 2
    if degrees % 2:
        order = 0.5
        tail = erfc(sqrt(half))
    else:
        order = 1.0
        tail = exp(-half)
    while half and order < degrees / 2:
        power = order * log(half) - half
        tail += exp(power - lgamma(order + 1))
        order += 1
    return min(1.0, tail)


def _rows_of(counts: Mapping[_Pair, int]) -> list[_Row]:
    """Return pairs as the rows of a table: one for each first kind."""
    firsts = sorted({first for first, _ in counts})
    seconds = sorted({second for _, second in counts})
    rows = []
    for first in firsts:
        row = [counts.get((first, second), 0) for second in seconds]
        rows.append(tuple(row))
    return rows


def _joined(rows: list[_Row]) -> list[_Row]:
    """Join the rarest two rows or columns until every expected count is large enough."""
    while min(len(rows), len(rows[0])) > 1:
        columns = sorted(zip(*rows, strict=True), key=sum)
        rows = sorted(rows, key=sum)
        rarest_row = sum(rows[0])
        rarest_column = sum(columns[0])
        if rarest_row * rarest_column >= LEAST_EXPECTED * sum(map(sum, rows)):
            break
        if rarest_row <= rarest_column:
            rows = _first_two_joined(rows)
        else:
            rows = [*zip(*_first_two_joined(columns), strict=True)]
    return rows


def _first_two_joined(rows: list[_Row]) -> list[_Row]:
    """Add the first two rows of a table."""
    one, other, *rest = rows
    return [tuple(map(add, one, other)), *rest]


def _counts_of_a_group() -> defaultdict[_Came, _Seen]:
    return defaultdict(lambda: defaultdict(Counter))


@define
class RatesCount:
    """Count what came of attempts by backend and position, and of turns by kind.

    Arguments:
        prices: of each backend, in the order of the chain.
        counts: for each group and what came, how often each amount was seen, rounded to two digits.
        pairs: for a backend and a position, how often each kind followed each other kind.
    """

    prices: dict[str, Any] = field(factory=dict)
    counts: defaultdict[_Group, defaultdict[_Came, _Seen]] = field(
        factory=lambda: defaultdict(_counts_of_a_group)
    )
    pairs: defaultdict[_Group, Counter[_Pair]] = field(factory=lambda: defaultdict(Counter))

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
            group = ("", TURN_EVENTS[back.event])
            came = (back.event, None, facts, None)
            self._count(group, came, seconds=back.at - attempt.sent.at)

    def _add_call(self, journal: Journal) -> None:
        """Count the attempts of a call, and which kinds followed each other at a backend."""
        for link in journal.setting.chain:
            self.prices[note(link.name)] = link.prices
        steps = journal.steps
        last_backend = ""
        last_kind = ""
        for attempt in attempts_of(steps):
            back = attempt.back
            if back is None or back.event not in EVENTS or back.backend not in self.prices:
                continue
            position = position_of(attempt.rung, attempt.wait)
            kind = self._count_attempt(attempt, back, position)
            if back.backend == last_backend:
                self.pairs[back.backend, position][last_kind, kind] += 1
            last_backend = back.backend
            last_kind = kind

    def _count_attempt(
        self,
        attempt: RecordedAttempt,
        back: Step,
        position: str,
    ) -> str:
        """Count what came back of an attempt, and return its kind: the event, and why it failed."""
        implied = FOLLOW
        if "has_text" in attempt.facts_before or "added_text" in back.facts:
            implied = FOLLOW | {"has_text"}
        facts = tuple(sorted({*back.facts} - implied))
        reason = back.reason if back.reason in get_args(Reason) else None
        asked_wait = None if back.asked_wait is None else _rounded(back.asked_wait)
        group = (back.backend, position)
        came = (back.event, reason, facts, asked_wait)
        self._count(
            group,
            came,
            seconds=back.at - attempt.sent.at,
            input_tokens=back.usage.input_tokens,
            output_tokens=back.usage.output_tokens,
        )
        return f"{back.event} {reason or ''}"

    def _count(self, group: _Group, came: _Came, **amounts: float) -> None:
        """Count the amounts of an attempt, by the fields of rates."""
        seen = self.counts[group][came]
        for name, amount in amounts.items():
            seen[name][_rounded(max(amount, 0.0))] += 1

    def rates(self) -> Rates:
        """Return the rates of the backends that were asked, with their intervals."""
        backends = [self._rates_of(name) for name in self.prices]
        turn = [table for kind in TURN_KINDS for table in self._tables("", kind)]
        return Rates([each for each in backends if each is not None], turn)

    def _rates_of(self, name: str) -> BackendRates | None:
        """Return the rates of a backend; None if it was never asked."""
        tables: dict[str, Any] = {}
        for position in POSITIONS:
            tables[position] = self._tables(name, position)
        some = next(filter(None, tables.values()), None)
        if some is None:
            return None
        tables["fresh"] = tables["fresh"] or some
        pairs = [self.pairs[backend, at] for backend, at in self.pairs if backend == name]
        dependence = dependence_of(pairs)
        return BackendRates(
            name=name,
            prices=self.prices[name],
            dependence=dependence,
            **tables,
        )

    def _tables(self, name: str, kind: str) -> list[dict[str, Any]]:
        """Return what came as the fields of rates, the most frequent first.

        Arguments:
            name: the backend; empty for turns.
            kind: the position, or the kind of `TURN_KINDS`.
        """
        counts: Mapping[_Came, _Seen] = self.counts.get((name, kind), {})
        seen = {came: amounts["seconds"].total() for came, amounts in counts.items()}
        total = sum(seen.values())
        tables = []
        for came, number in sorted(seen.items(), key=lambda each: -each[1]):
            table: dict[str, Any] = {}
            for field_name, value in zip(CAME, came, strict=True):
                if value is not None:
                    table[field_name] = value
            for field_name, amounts in counts[came].items():
                table[field_name] = sorted(amounts.items())
            table["share"] = number / total
            table["seen"] = number
            table["between"] = wilson(number, total)
            tables.append(table)
        return tables


def _rounded(value: float) -> float:
    """Round to two digits, so that few values differ."""
    return float(f"{value:.2g}")
