"""What an event can lead to: every way through its rows, with the facts and counters that it needs.

A guard asks questions: does this fact hold, is a unit of this counter left? A body runs once for
each way to answer its questions, in the order in which it asks them, so that one list covers all
limits at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import TypeVar

from attrs import frozen

from rungwise.fsm.engine.machine.declare import Guard
from rungwise.fsm.engine.machine.table import Row, Table

T = TypeVar("T")
Ask = Callable[[str], bool]
"""Tells whether a fact holds, or a unit of a counter is left, by name."""


def ways(body: Callable[[Ask], T]) -> Iterator[tuple[dict[str, bool], T]]:
    """Yield each way through a body: its answers, in the order of its questions, and its result."""
    todo: list[tuple[bool, ...]] = [()]
    while todo:
        preset = todo.pop()
        answers: dict[str, bool] = {}

        def ask(
            name: str, preset: tuple[bool, ...] = preset, answers: dict[str, bool] = answers
        ) -> bool:
            if name not in answers:
                answers[name] = preset[len(answers)] if len(answers) < len(preset) else True
            return answers[name]

        result = body(ask)
        values = tuple(answers.values())
        todo += [(*values[:index], False) for index in range(len(preset), len(values))]
        yield answers, result


def holds(table: Table, guard: Guard, ask: Ask) -> bool:
    """Tell whether a guard holds: the facts that must, those that must not, and then the
    counter.
    """
    if not all(is_fact(table, name, ask) for name in guard.holds):
        return False
    if any(is_fact(table, name, ask) for name in guard.lacks):
        return False
    return guard.counter is None or ask(guard.counter)


def is_fact(table: Table, name: str, ask: Ask) -> bool:
    """Tell whether a fact holds, on its own or because others imply it."""
    fact = table.fact(name)
    if not fact.is_derived:
        return ask(name)
    return any(is_fact(table, each, ask) for each in fact.any_holds) or not all(
        is_fact(table, each, ask) for each in fact.any_lacks
    )


def first_row(table: Table, rows: Iterable[Row], ask: Ask) -> Row | None:
    """Return the first row whose guard holds."""
    return next((row for row in rows if holds(table, table.guard(row.guard), ask)), None)


def changes(table: Table, row: Row, ask: Ask) -> tuple[str | None, tuple[str, ...]]:
    """Return the counter of which a row takes a unit, and those that it refills."""
    effect = table.effect(row.effect)
    refills = (
        effect.refills
        if effect.refills_on is None or is_fact(table, effect.refills_on, ask)
        else ()
    )
    return effect.spends, refills


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
    """List the rows that are never taken, because the rows before them always win, whatever the
    limits.
    """
    alive = {
        branch.row for event, source in table.ladders for branch in branches(table, event, source)
    }
    return tuple(row for row in table.rows if row not in alive)


def overlaps(table: Table) -> tuple[tuple[Row, Row], ...]:
    """List the pairs of guarded rows of one event that can hold at once, so that their order
    decides.
    """
    guarded = [[row for row in rows if row.guard] for rows in table.ladders.values()]
    return tuple(
        pair for rows in guarded for pair in combinations(rows, 2) if _hold_together(table, *pair)
    )


def finds(table: Table, row: Row, fact: str, *, held: bool = True) -> bool:
    """Tell whether the guard of a row holds only if a fact holds; with `held=False`, only if it
    does not.
    """
    guard = table.guard(row.guard)
    found = ways(lambda ask: holds(table, guard, ask))
    return all(answers.get(fact, not held) is held for answers, is_held in found if is_held)


def _hold_together(table: Table, first: Row, second: Row) -> bool:
    one = table.guard(first.guard)
    other = table.guard(second.guard)
    return any(
        both for _, both in ways(lambda ask: holds(table, one, ask) and holds(table, other, ask))
    )
