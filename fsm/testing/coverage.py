"""What a test run has covered: paths, states, rows, guards, pairs of rows, and the worst path.

Theory. That each row was taken says little of what leads to it: a row that is right after one rung
may be wrong after another. So pairs of successive rows are counted as well. They are to a table
what edges are to the graph of a program, which fuzzers of programs count for the same reason
(Zalewski, "Technical whitepaper for afl-fuzz", 2013). Of each row with a guard it is noted that the
guard held, which is that the row was taken, and that it did not: a row below it was taken. A pair
is possible if the first row ends in the state in which the second one begins. Not each of these can
come about: a policy may have no fallback, and no guard lets a limit pass. So the counts are no
marks. They are to be compared between two runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, product, takewhile
from threading import Lock

from attrs import define, field, frozen

from rungwise.fsm.analysis.certificate.certificate import Certificate, compressed
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.engine.machine.table import Row, Table
from rungwise.fsm.testing.checks.ended import EndedCall
from rungwise.fsm.testing.checks.spending import spending

MOST_NAMED = 4  # rows that were never taken are named if there are no more than this
EXTREMES = ("attempts", "waiting seconds")  # the worst cases whose worst path is reported


@frozen
class Extreme:
    """The most that any call spent of one thing."""

    name: str
    amount: float  # in the unit of its name
    certified: float | None  # the worst case that was proved; None without a certificate
    rungs: tuple[str, ...]  # the path that spent it

    @property
    def share(self) -> float:
        """Return its share of the proved worst case; 0 without one."""
        return self.amount / self.certified if self.certified else 0.0

    def __str__(self) -> str:
        amount = f"{self.amount:g}"
        if self.certified is not None:
            amount = f"{amount} of {self.certified:g}"
        return f"{amount} {self.name}"


@define(eq=False)
class Coverage:
    """Record what calls cover; safe to use from several threads."""

    paths: int = 0
    rows: Counter[Row] = field(factory=Counter)
    passed: set[Row] = field(factory=set)  # those whose guard did not hold
    pairs: set[tuple[Row, Row]] = field(factory=set)  # those that followed each other
    _distinct: set[int] = field(factory=set)
    _tables: list[Table] = field(factory=list)
    _extremes: dict[str, Extreme] = field(factory=dict)
    _lock: Lock = field(factory=Lock, repr=False)

    def record(self, ended: EndedCall) -> None:
        """Record a call."""
        self.record_path(ended.table, ended.path, spending(ended), ended.certificate)

    def record_path(
        self,
        table: Table,
        steps: Iterable[Step],
        spent: Mapping[str, float],
        certificate: Certificate | None,
    ) -> None:
        """Record a path through any table.

        Arguments:
            table: the machine.
            steps: the path.
            spent: what it spent, by the names of the worst cases.
            certificate: the proved worst cases; None where nothing was proved.
        """
        path = [
            Row(step.event, step.source, step.guard, step.target, step.effect) for step in steps
        ]
        rungs = (table.start, *(row.target for row in path if row.target != table.hub))
        certified: dict[str, float | None] = {}
        if certificate is not None:
            certified = {worst.name: worst.value for worst in certificate.worst}
        with self._lock:
            self.paths += 1
            self._distinct.add(hash(tuple(path)))
            self.rows.update(path)
            self.pairs.update(pairwise(path))
            for row in path:
                ladder = table.ladder(row.event, row.source)
                # The guards of the rows above it did not hold.
                self.passed.update(takewhile(row.__ne__, ladder))
            if not any(each is table for each in self._tables):
                self._tables.append(table)
            for name in EXTREMES:
                self._keep_worse(Extreme(name, spent[name], certified.get(name), rungs))

    def _keep_worse(self, extreme: Extreme) -> None:
        """Keep an extreme if its share of the proved worst case is larger, or else its amount."""
        worst = self._extremes.get(extreme.name)
        if worst is None or (extreme.share, extreme.amount) > (worst.share, worst.amount):
            self._extremes[extreme.name] = extreme

    def reset(self) -> None:
        """Forget everything."""
        with self._lock:
            self.paths = 0
            for gathered in (self.rows, self.passed, self.pairs, self._distinct, self._tables):
                gathered.clear()
            self._extremes.clear()

    @property
    def distinct(self) -> int:
        """Count the paths that differ."""
        return len(self._distinct)

    @property
    def table_rows(self) -> tuple[Row, ...]:
        """Return every row of the tables that calls ran on."""
        return tuple(dict.fromkeys(row for table in self._tables for row in table.rows))

    @property
    def missing(self) -> tuple[Row, ...]:
        """Return the rows that were never taken."""
        return tuple(row for row in self.table_rows if row not in self.rows)

    @property
    def reached(self) -> int:
        """Count what was reached: pairs of rows, and guards that did not hold."""
        return len(self.pairs) + len(self.passed)

    @property
    def guarded(self) -> tuple[Row, ...]:
        """Return the rows that have a guard."""
        return tuple(row for row in self.table_rows if row.guard is not None)

    @property
    def possible_pairs(self) -> tuple[tuple[Row, Row], ...]:
        """Return every two rows of which the second begins in the state in which the first ends."""
        pairs = product(self.table_rows, self.table_rows)
        return tuple(pair for pair in pairs if pair[0].target == pair[1].source)

    def unreached(self) -> Iterator[str]:
        """Describe what was never reached, a line for each.

        A row that was never taken has one line, whatever its guard and its pairs.
        """
        for row in self.missing:
            yield f"never taken: {row}"
        for row in self.guarded:
            if row in self.rows and row not in self.passed:
                yield f"its guard always held: {row}"
        for first, second in self.possible_pairs:
            if first in self.rows and second in self.rows and (first, second) not in self.pairs:
                yield f"never in succession: {first}, {second}"

    @property
    def states(self) -> tuple[int, int]:
        """Return how many states were seen, and how many there are."""
        states = {state for table in self._tables for state in table.states}
        visited = {state for row in self.rows for state in (row.source, row.target)}
        return len(visited & states), len(states)

    @property
    def extremes(self) -> tuple[Extreme, ...]:
        """Return the worst paths that were seen."""
        return tuple(self._extremes.values())

    def summary(self) -> str:
        """Describe the coverage on one line."""
        visited, states = self.states
        rows = len(self.table_rows)
        missing = self.missing
        taken = rows - len(missing)
        parts = [f"{self.paths} paths, {self.distinct} of them different"]
        parts.append(f"{visited} of {states} states and {taken} of {rows} rows")
        if 0 < len(missing) <= MOST_NAMED:
            parts.append(f"never taken: {', '.join(map(str, missing))}")
        guarded = self.guarded
        both = sum(row in self.rows and row in self.passed for row in guarded)
        pairs = self.possible_pairs
        followed = len(self.pairs.intersection(pairs))
        parts.append(f"{both} of {len(guarded)} guards both ways")
        parts.append(f"{followed} of {len(pairs)} pairs of rows")
        if self.extremes:
            amounts = ", ".join(map(str, self.extremes))
            parts.append(f"at worst {amounts} ({compressed(self.extremes[0].rungs)})")
        return "; ".join(parts)


RECORDER = Coverage()
"""What this process has covered; the pytest plugin prints it at the end of a run."""
