"""What an event can lead to: every way through its rows, with the facts and counters that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from attrs import frozen

from rungwise.fsm.checker.ways import Ask, changes, first_row, holds, ways
from rungwise.fsm.machine.table import Row, Table


@frozen
class Branch:
    """Hold one way through the rows of an event."""

    row: Row | None  # that is taken; None if no guard holds
    facts: Mapping[str, bool]  # that the guards read
    left: frozenset[str]  # counters with a unit left
    spent: frozenset[str]  # counters without one
    takes: str | None  # the counter that loses a unit
    refills: frozenset[str]  # counters that are set to 0


def branches(table: Table, event: str, source: str) -> tuple[Branch, ...]:
    """List every way through the rows of an event, for all limits."""
    rows = table.ladder(event, source)

    def body(ask: Ask) -> tuple[Row | None, str | None, frozenset[str]]:
        row = first_row(table, rows, ask)
        takes, refills = changes(table, row, ask) if row else (None, ())
        return row, takes, frozenset(refills)

    found = []
    for answers, (row, takes, refills) in ways(body):
        counters = {name: left for name, left in answers.items() if name in table.counters}
        facts = {name: held for name, held in answers.items() if name not in counters}
        left = frozenset(name for name, is_left in counters.items() if is_left)
        found.append(Branch(row, facts, left, frozenset(counters) - left, takes, refills))
    return tuple(found)


def dead_rows(table: Table) -> tuple[Row, ...]:
    """List the rows that are never taken, because the rows before them always win, whatever the limits."""
    alive = {branch.row for event, source in table.ladders for branch in branches(table, event, source)}
    return tuple(row for row in table.rows if row not in alive)


def overlaps(table: Table) -> tuple[tuple[Row, Row], ...]:
    """List the pairs of guarded rows of one event that can hold at once, so that their order decides."""
    guarded = [[row for row in rows if row.guard] for rows in table.ladders.values()]
    return tuple(pair for rows in guarded for pair in combinations(rows, 2) if _hold_together(table, *pair))


def finds(table: Table, row: Row, fact: str, *, held: bool = True) -> bool:
    """Tell whether the guard of a row holds only if a fact holds; with `held=False`, only if it does not."""
    guard = table.guard(row.guard)
    found = ways(lambda ask: holds(table, guard, ask))
    return all(answers.get(fact, not held) is held for answers, is_held in found if is_held)


def _hold_together(table: Table, first: Row, second: Row) -> bool:
    one, other = table.guard(first.guard), table.guard(second.guard)
    return any(both for _, both in ways(lambda ask: holds(table, one, ask) and holds(table, other, ask)))
