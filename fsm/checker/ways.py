"""Every possible result of the guards and the effect of some rows, read from their declarations.

A guard asks questions: does this fact hold, is a unit of this counter left? A body runs once for each way to answer its
questions, in the order in which it asks them, so that one list covers all limits at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rungwise.fsm.machine.declare import Guard
from rungwise.fsm.machine.table import Row, Table

T = TypeVar("T")
Ask = Callable[[str], bool]
"""Tells whether a fact holds, or a unit of a counter is left, by name."""


def ways(body: Callable[[Ask], T]) -> Iterator[tuple[dict[str, bool], T]]:
    """Yield each way through a body: its answers, in the order of its questions, and its result."""
    todo: list[tuple[bool, ...]] = [()]
    while todo:
        preset = todo.pop()
        answers: dict[str, bool] = {}

        def ask(name: str, preset: tuple[bool, ...] = preset, answers: dict[str, bool] = answers) -> bool:
            if name not in answers:
                answers[name] = preset[len(answers)] if len(answers) < len(preset) else True
            return answers[name]

        result = body(ask)
        values = tuple(answers.values())
        todo += [(*values[:index], False) for index in range(len(preset), len(values))]
        yield answers, result


def holds(table: Table, guard: Guard, ask: Ask) -> bool:
    """Tell whether a guard holds: the facts that must, those that must not, and then the counter."""
    for name in guard.holds:
        if not is_fact(table, name, ask):
            return False
    for name in guard.lacks:
        if is_fact(table, name, ask):
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
    for row in rows:
        if holds(table, table.guard(row.guard), ask):
            return row
    return None


def changes(table: Table, row: Row, ask: Ask) -> tuple[str | None, tuple[str, ...]]:
    """Return the counter of which a row takes a unit, and those that it refills."""
    effect = table.effect(row.effect)
    refills = effect.refills if effect.refills_on is None or is_fact(table, effect.refills_on, ask) else ()
    return effect.spends, refills
