"""What an event can lead to: every way through its rows, with what facts and counters must be for it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from attrs import frozen

from rungwise.fsm.checker.explore import SymbolicPath, apply, explore, left_of, value_of
from rungwise.fsm.checker.proof import change_of
from rungwise.fsm.machine.table import Row, Table


@frozen
class Branch:
    """Hold one way through the rows of an event.

    Arguments:
        row: the row taken; None if no guard held.
        facts: the facts that were looked at.
        left: the counters of which a unit was found left.
        spent: the counters that were found spent.
        is_plain: whether nothing else was asked of counters and limits.
        takes: the counters of which one unit is taken.
        refills: the counters set to 0.
    """

    row: Row | None
    facts: Mapping[str, bool]
    left: frozenset[str]
    spent: frozenset[str]
    is_plain: bool
    takes: frozenset[str]
    refills: frozenset[str]


def branches(table: Table, event: str, source: str) -> tuple[Branch, ...]:
    """List every way through the rows of an event, for all limits.

    Raises:
        Refusal: a guard or an effect cannot be followed.
    """
    rows = table.ladder(event, source)

    def body(probe: Any, path: SymbolicPath) -> Row | None:
        path.in_guard = True
        row = next((row for row in rows if value_of(probe, row.guard)), None)
        path.in_guard = False
        apply(probe, row.effect if row else None)
        return row

    runs = explore(lambda answers: SymbolicPath(answers, table.model, source), body)
    return tuple(_branch(path, row) for path, row in runs)


def _branch(path: SymbolicPath, row: Row | None) -> Branch:
    change = change_of(path)
    looked = {counter: path.range_of(left_of(counter)) for counter in path.counters}
    left = frozenset(counter for counter, found in looked.items() if found == (1, None))
    spent = frozenset(counter for counter, found in looked.items() if found == (0, 0))
    is_plain = set(path.bounds) == {left_of(counter) for counter in left | spent}
    return Branch(row, path.facts, left, spent, is_plain, change.takes, change.refills)


def ladders(table: Table) -> tuple[tuple[str, str], ...]:
    """List each event with each state that takes it, in the order of the table."""
    return tuple(dict.fromkeys((row.event, row.source) for row in table.rows))


def dead_rows(table: Table) -> tuple[Row, ...]:
    """List the rows that the rows before them leave nothing to, whatever the limits.

    Raises:
        Refusal: a guard or an effect cannot be followed.
    """
    alive = {branch.row for event, source in ladders(table) for branch in branches(table, event, source)}
    return tuple(row for row in table.rows if row not in alive)


def overlaps(table: Table) -> tuple[tuple[Row, Row], ...]:
    """List the pairs of guarded rows of one event that can hold at once, so that their order decides.

    Raises:
        Refusal: a guard cannot be followed.
    """
    guarded = [[row for row in table.ladder(*ladder) if row.guard] for ladder in ladders(table)]
    return tuple(pair for rows in guarded for pair in combinations(rows, 2) if _hold_together(table, *pair))


def finds(table: Table, row: Row, fact: str, *, held: bool = True) -> bool:
    """Tell whether the guard of a row holds only where a fact does, or with `held` of False only where it does not.

    Raises:
        Refusal: the guard cannot be followed.
    """

    def body(probe: Any, path: SymbolicPath) -> bool:
        path.in_guard = True
        return value_of(probe, row.guard)

    runs = explore(lambda answers: SymbolicPath(answers, table.model, row.source), body)
    return all(path.facts.get(fact, not held) is held for path, holds in runs if holds)


def _hold_together(table: Table, first: Row, second: Row) -> bool:
    def body(probe: Any, path: SymbolicPath) -> bool:
        path.in_guard = True
        return value_of(probe, first.guard) and value_of(probe, second.guard)

    runs = explore(lambda answers: SymbolicPath(answers, table.model, first.source), body)
    return any(together for _, together in runs)
