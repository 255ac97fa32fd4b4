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

Answers = dict[str, bool]
"""What was answered, by name, in the order of the questions."""


def ways(body: Callable[[Ask], T]) -> Iterator[tuple[Answers, T]]:
    """Yield each way through a body: its answers, in the order of its questions, and its result.

    The body must ask the same questions after the same answers, and terminate. It runs once for
    each way: a depth-first search through its tree of questions that needs no tree.
    """
    todo: list[tuple[bool, ...]] = [()]
    while todo:
        preset = todo.pop()
        questions = _Questions(preset)
        result = body(questions.ask)
        answers = tuple(questions.answers.values())
        # Each question behind the preset was answered with yes: answer it with no another time.
        todo += [(*answers[:index], False) for index in range(len(preset), len(answers))]
        yield questions.answers, result


class _Questions:
    """Answer questions: the first as preset, the others with yes; the same one always alike."""

    def __init__(self, preset: tuple[bool, ...]) -> None:
        self.preset = preset
        self.answers: Answers = {}

    def ask(self, name: str) -> bool:
        """Answer one question."""
        if name not in self.answers:
            place = len(self.answers)
            is_preset = place < len(self.preset)
            self.answers[name] = self.preset[place] if is_preset else True
        return self.answers[name]


def holds(table: Table, guard: Guard, ask: Ask) -> bool:
    """Tell whether a guard holds: its facts first, then its counter."""
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
    if any(is_fact(table, each, ask) for each in fact.any_holds):
        return True
    return not all(is_fact(table, each, ask) for each in fact.any_lacks)


def first_row(table: Table, rows: Iterable[Row], ask: Ask) -> Row | None:
    """Return the first row whose guard holds."""
    for row in rows:
        guard = table.guard(row.guard)
        if holds(table, guard, ask):
            return row
    return None


def changes(table: Table, row: Row, ask: Ask) -> tuple[str | None, tuple[str, ...]]:
    """Return the counter of which a row takes a unit, and those that it refills."""
    effect = table.effect(row.effect)
    if effect.refills_on is None or is_fact(table, effect.refills_on, ask):
        return effect.spends, effect.refills
    return effect.spends, ()


@frozen
class Branch:
    """Hold one way through the rows of an event.

    Arguments:
        row: the row that is taken; None if no guard holds.
        facts: what the guards read.
        left: the counters of which they found a unit left.
        spent: the counters of which they found none.
        takes: the counter that loses a unit.
        refills: the counters that are set to 0.
    """

    row: Row | None
    facts: Mapping[str, bool]
    left: frozenset[str]
    spent: frozenset[str]
    takes: str | None
    refills: frozenset[str]


def branches(table: Table, event: str, source: str) -> tuple[Branch, ...]:
    """List every way through the rows of an event, for all limits."""
    rows = table.ladder(event, source)

    def body(ask: Ask) -> tuple[Row | None, str | None, frozenset[str]]:
        row = first_row(table, rows, ask)
        if row is None:
            return None, None, frozenset()
        takes, refills = changes(table, row, ask)
        return row, takes, frozenset(refills)

    found = []
    for answers, (row, takes, refills) in ways(body):
        facts: Answers = {}
        left: set[str] = set()
        spent: set[str] = set()
        for name, answer in answers.items():
            if name not in table.counters:
                facts[name] = answer
            elif answer:
                left.add(name)
            else:
                spent.add(name)
        branch = Branch(
            row=row,
            facts=facts,
            left=frozenset(left),
            spent=frozenset(spent),
            takes=takes,
            refills=refills,
        )
        found.append(branch)
    return tuple(found)


def dead_rows(table: Table) -> tuple[Row, ...]:
    """List the rows that are never taken, because rows before them always win, for all limits."""
    alive: set[Row | None] = set()
    for event, source in table.ladders:
        alive |= {branch.row for branch in branches(table, event, source)}
    return tuple(row for row in table.rows if row not in alive)


def overlaps(table: Table) -> tuple[tuple[Row, Row], ...]:
    """List the pairs of guarded rows of one event that can hold at once, so that their order
    decides.
    """
    found: list[tuple[Row, Row]] = []
    for rows in table.ladders.values():
        guarded = [row for row in rows if row.guard]
        for first, second in combinations(guarded, 2):
            if _hold_together(table, first, second):
                found.append((first, second))
    return tuple(found)


def finds(table: Table, row: Row, fact: str, *, held: bool = True) -> bool:
    """Tell whether the guard of a row holds only if a fact does.

    Arguments:
        table: where the row stands.
        row: the row.
        fact: the name of the fact.
        held: False to ask whether the guard holds only if the fact does not.
    """
    guard = table.guard(row.guard)
    for answers, is_held in ways(lambda ask: holds(table, guard, ask)):
        if is_held and answers.get(fact, not held) is not held:
            return False
    return True


def _hold_together(table: Table, first: Row, second: Row) -> bool:
    """Tell whether the guards of two rows can hold at once."""
    one = table.guard(first.guard)
    other = table.guard(second.guard)

    def both_hold(ask: Ask) -> bool:
        return holds(table, one, ask) and holds(table, other, ask)

    return any(both for _, both in ways(both_hold))
