"""Whether the steps of a journal are a path through its table: each a row, in order, with a falling variant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rungwise.fsm.checker.properties import (
    Firing,
    Predicate,
    always_bounded,
    always_counting,
    always_falling,
    always_first,
)
from rungwise.fsm.journal.path import SKIPPED
from rungwise.fsm.journal.record import Step
from rungwise.fsm.machine.table import Row, Table
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall

ENDED = "every call ends in an outcome"
LEGAL = "every step is the first row of the table whose guard holds"
COUNTED = "counters and attempts are what the rows count"
BOUNDED = "counters stay within their limits"
FALLS = "the variant falls on every step"
PREDICATES: tuple[tuple[str, Predicate], ...] = (
    (LEGAL, always_first),
    (COUNTED, always_counting),
    (BOUNDED, always_bounded),
    (FALLS, always_falling),
)
"""What must hold for every step, as for every firing in a walk."""


def check_end(ended: EndedCall) -> None:
    """Check that the last step, and only that, leads to the outcome of the journal and the result."""
    result, outcomes = ended.result, ended.table.outcomes
    if not ended.path:
        raise Dishonest(ENDED, "the journal is empty")
    last = ended.steps[-1]
    if result.outcome not in outcomes:
        raise Dishonest(ENDED, f"{result.outcome!r} is no outcome of the table {ended.table.name!r}", last)
    if last.target != result.outcome or ended.journal.outcome != result.outcome:
        raise Dishonest(ENDED, f"the result says {result.outcome!r}, the journal {ended.journal.outcome!r}", last)
    for step in ended.steps[:-1]:
        if step.target in outcomes:
            raise Dishonest(ENDED, f"something follows the outcome {step.target!r}", step)
    if ended.call is not None and (not ended.call.is_over or ended.call.position.state != result.outcome):
        raise Dishonest(ENDED, f"the call is in state {ended.call.position.state!r}", last)


def check_rows(ended: EndedCall) -> None:
    """Check the numbers of steps, and each as a firing of the machine, by the predicates of the exhaustive walk."""
    follow_numbers(ended.steps)
    attempts = follow_rows(ended.table, ended.limits, ended.steps)
    if ended.result.attempts != attempts:
        raise Dishonest(COUNTED, f"the result says {ended.result.attempts} attempts, and {attempts} requests went out")


def follow_numbers(steps: Iterable[Step]) -> None:
    """Check the numbers and times of any machine's steps."""
    before = 0.0
    for number, step in enumerate(steps, 1):
        if step.number != number:
            raise Dishonest(LEGAL, f"step {number} is numbered {step.number}", step)
        if step.at < before:
            raise Dishonest(LEGAL, f"it happened at {step.at:g} s, and the one before at {before:g} s", step)
        before = step.at


def follow_rows(table: Table, limits: Mapping[str, int], steps: Iterable[Step]) -> int:
    """Check the rows of any machine's steps, and return how often something was sent."""
    most = tuple(limits.values())
    here, attempts = (table.start, (0,) * len(most)), 0
    for step in steps:
        if step.source != here[0]:
            raise Dishonest(LEGAL, f"it leaves {step.source!r}, and the state was {here[0]!r}", step)
        if step.event == SKIPPED:
            if step.target != step.source:
                raise Dishonest(LEGAL, "a step that passes a backend over leads to another state", step)
            continue
        unknown = set(step.facts).difference(table.found_facts)
        if unknown:
            raise Dishonest(LEGAL, f"it knows {sorted(unknown)[0]!r}, which is no fact of the table", step)
        if not table.ladder(step.event, step.source):
            raise Dishonest(LEGAL, f"the table has no row for {step.event!r} in {step.source!r}", step)
        row = Row(step.event, step.source, step.guard, step.target, step.effect)
        after = step.target, tuple(step.spent.get(name, 0) for name in table.counters)
        firing = Firing(table, most, here, step.event, step.facts, row, after, step.attempts - attempts)
        for name, predicate in PREDICATES:
            wrong = predicate(firing)
            if wrong is not None:
                raise Dishonest(name, wrong, step)
        here, attempts = after, step.attempts
    return attempts
