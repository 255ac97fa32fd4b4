"""Whether the steps of a journal are a path through its table: each a row, in order, and nearer to the end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import attrs

from rungwise.fsm.call.ladder import FACT, names_of
from rungwise.fsm.journal.record import Step
from rungwise.fsm.machine.table import Row
from rungwise.fsm.testing.checks.ended import SKIPPED, Dishonest, EndedCall

ENDED = "every call ends in an outcome"
LEGAL = "every step is the first row of the table whose guard holds"
COUNTED = "counters and attempts are what the rows count"
BOUNDED = "counters stay within their limits"
FALLS = "the variant falls on every step"


def check_end(ended: EndedCall) -> None:
    """Check that the last step, and no other, leads to the outcome that everything agrees on."""
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
    if ended.call is not None and (not ended.call.is_over or ended.call.ladder.rung != result.outcome):
        raise Dishonest(ENDED, f"the call is in state {ended.call.ladder.rung!r}", last)


def check_numbers(ended: EndedCall) -> None:
    """Check that the steps are numbered through, and that time never goes back."""
    before = 0.0
    for number, step in enumerate(ended.steps, 1):
        if step.number != number:
            raise Dishonest(LEGAL, f"step {number} is numbered {step.number}", step)
        if step.at < before:
            raise Dishonest(LEGAL, f"it happened at {step.at:g} s, and the one before at {before:g} s", step)
        before = step.at


def check_rows(ended: EndedCall) -> None:
    """Walk a model of the table along the journal and compare every step with the row that the model takes."""
    facts = frozenset(names_of(ended.table.model, FACT))
    model: Any = ended.table.model(_limits_object(ended), ended.table.start)
    for step in ended.steps:
        if step.source != model.rung:
            raise Dishonest(LEGAL, f"it leaves {step.source!r}, and the call was in {model.rung!r}", step)
        if step.event == SKIPPED:
            if step.target != step.source:
                raise Dishonest(LEGAL, "a step that passes a backend over leads to another state", step)
            continue
        unknown = set(step.facts) - facts
        if unknown:
            raise Dishonest(LEGAL, f"it knows {sorted(unknown)[0]!r}, which is no fact of the table", step)
        for name in facts:
            setattr(model, name, name in step.facts)
        row = _row_of(ended, model, step)
        if row.effect is not None:
            getattr(model, row.effect)()
        model.rung = row.target
        _compare_counts(ended, model, step)


def _limits_object(ended: EndedCall) -> Any:
    return attrs.evolve(ended.policy.limits, fallbacks=ended.limits.get("fallbacks"))


def _row_of(ended: EndedCall, model: Any, step: Step) -> Row:
    rows = ended.ladder(step)
    if not rows:
        raise Dishonest(LEGAL, f"the table has no row for {step.event!r} in {step.source!r}", step)
    for row in rows:
        held = True if row.guard is None else getattr(model, row.guard)
        if held() if callable(held) else held:
            if (row.guard, row.target, row.effect) != (step.guard, step.target, step.effect):
                raise Dishonest(LEGAL, f"the first row whose guard holds is {row}", step)
            return row
    raise Dishonest(LEGAL, "no guard holds", step)


def _compare_counts(ended: EndedCall, model: Any, step: Step) -> None:
    for name in ended.journal.counters:
        expected, spent = getattr(model, name), step.spent.get(name)
        if spent != expected:
            raise Dishonest(COUNTED, f"{name} is {spent}, and its rows count {expected}", step)
    if step.attempts != model.attempts:
        raise Dishonest(COUNTED, f"attempts is {step.attempts}, and {model.attempts} requests went out", step)


def check_counts(ended: EndedCall) -> None:
    """Check that counters stay within their limits, and that attempts count the requests."""
    attempts = 0
    for step in ended.steps:
        attempts += step.event == "sent"
        if step.attempts != attempts:
            raise Dishonest(COUNTED, f"attempts is {step.attempts}, and {attempts} requests went out", step)
        for name, spent in step.spent.items():
            if not 0 <= spent <= ended.limits.get(name, 0):
                raise Dishonest(BOUNDED, f"{name} is {spent}, its limit {ended.limits.get(name, 0)}", step)
    if ended.result.attempts != attempts:
        raise Dishonest(COUNTED, f"the result says {ended.result.attempts} attempts, and {attempts} requests went out")


def check_variant(ended: EndedCall) -> None:
    """Check that what is left, by rank, is less after every step."""
    table, limits = ended.table, ended.limits
    before = (1, *(sum(limits[name] for name in group) for group in table.ranks), 1)
    for step in ended.path:
        left = [sum(limits[name] - step.spent.get(name, 0) for name in group) for group in table.ranks]
        after = (0,) if step.target in table.outcomes else (1, *left, int(step.target != table.hub))
        if after >= before:
            raise Dishonest(FALLS, f"it goes from {before} to {after}", step)
        before = after


def chain_changes(ended: EndedCall) -> Iterator[tuple[Step, Step]]:
    """Yield each request that went to another backend than the one before, with that one."""
    for before, step in pairwise(ended.sent):
        if step.backend != before.backend:
            yield before, step
