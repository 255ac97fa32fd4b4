"""Whether the steps of a journal are a path through its table: each a row, in order, and nearer to the end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import attrs

from rungwise.fsm.call.ladder import FACT, names_of
from rungwise.fsm.journal.record import Step
from rungwise.fsm.machine.table import Row
from rungwise.fsm.testing.checks.seen import SKIPPED, Dishonest, Seen

ENDED = "every call ends in an outcome"
LEGAL = "every step is the first row of the table whose guard holds"
COUNTED = "counters and attempts are what the rows count"
BOUNDED = "counters stay within their limits"
FALLS = "the variant falls on every step"


def check_end(seen: Seen) -> None:
    """Check that the last step, and no other, leads to the outcome that everything agrees on."""
    result, outcomes = seen.result, seen.table.outcomes
    if not seen.path:
        raise Dishonest(ENDED, "the journal is empty")
    last = seen.steps[-1]
    if result.outcome not in outcomes:
        raise Dishonest(ENDED, f"{result.outcome!r} is no outcome of the table {seen.table.name!r}", last)
    if last.target != result.outcome or seen.journal.outcome != result.outcome:
        raise Dishonest(ENDED, f"the result says {result.outcome!r}, the journal {seen.journal.outcome!r}", last)
    for step in seen.steps[:-1]:
        if step.target in outcomes:
            raise Dishonest(ENDED, f"something follows the outcome {step.target!r}", step)
    if seen.call is not None and (not seen.call.is_over or seen.call.position.state != result.outcome):
        raise Dishonest(ENDED, f"the call is in state {seen.call.position.state!r}", last)


def check_numbers(seen: Seen) -> None:
    """Check that the steps are numbered through, and that time never goes back."""
    before = 0.0
    for number, step in enumerate(seen.steps, 1):
        if step.number != number:
            raise Dishonest(LEGAL, f"step {number} is numbered {step.number}", step)
        if step.at < before:
            raise Dishonest(LEGAL, f"it happened at {step.at:g} s, and the one before at {before:g} s", step)
        before = step.at


def check_rows(seen: Seen) -> None:
    """Walk a model of the table along the journal and compare every step with the row that the model takes."""
    facts = frozenset(names_of(seen.table.model, FACT))
    model: Any = seen.table.model(_limits_object(seen), seen.table.start)
    for step in seen.steps:
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
        row = _row_of(seen, model, step)
        if row.effect is not None:
            getattr(model, row.effect)()
        model.rung = row.target
        _compare_counts(seen, model, step)


def _limits_object(seen: Seen) -> Any:
    return attrs.evolve(seen.policy.limits, fallbacks=seen.limits.get("fallbacks"))


def _row_of(seen: Seen, model: Any, step: Step) -> Row:
    rows = seen.ladder(step)
    if not rows:
        raise Dishonest(LEGAL, f"the table has no row for {step.event!r} in {step.source!r}", step)
    for row in rows:
        held = True if row.guard is None else getattr(model, row.guard)
        if held() if callable(held) else held:
            if (row.guard, row.target, row.effect) != (step.guard, step.target, step.effect):
                raise Dishonest(LEGAL, f"the first row whose guard holds is {row}", step)
            return row
    raise Dishonest(LEGAL, "no guard holds", step)


def _compare_counts(seen: Seen, model: Any, step: Step) -> None:
    for name in seen.journal.counters:
        expected, spent = getattr(model, name), step.spent.get(name)
        if spent != expected:
            raise Dishonest(COUNTED, f"{name} is {spent}, and its rows count {expected}", step)
    if step.attempts != model.attempts:
        raise Dishonest(COUNTED, f"attempts is {step.attempts}, and {model.attempts} requests went out", step)


def check_counts(seen: Seen) -> None:
    """Check that counters stay within their limits, and that attempts count the requests."""
    attempts = 0
    for step in seen.steps:
        attempts += step.event == "sent"
        if step.attempts != attempts:
            raise Dishonest(COUNTED, f"attempts is {step.attempts}, and {attempts} requests went out", step)
        for name, spent in step.spent.items():
            if not 0 <= spent <= seen.limits.get(name, 0):
                raise Dishonest(BOUNDED, f"{name} is {spent}, its limit {seen.limits.get(name, 0)}", step)
    if seen.result.attempts != attempts:
        raise Dishonest(COUNTED, f"the result says {seen.result.attempts} attempts, and {attempts} requests went out")


def check_variant(seen: Seen) -> None:
    """Check that what is left, by rank, is less after every step."""
    table, limits = seen.table, seen.limits
    before = (1, *(sum(limits[name] for name in group) for group in table.ranks), 1)
    for step in seen.path:
        left = [sum(limits[name] - step.spent.get(name, 0) for name in group) for group in table.ranks]
        after = (0,) if step.target in table.outcomes else (1, *left, int(step.target != table.hub))
        if after >= before:
            raise Dishonest(FALLS, f"it goes from {before} to {after}", step)
        before = after


def chain_changes(seen: Seen) -> Iterator[tuple[Step, Step]]:
    """Yield each request that went to another backend than the one before, with that one."""
    for before, step in pairwise(seen.sent):
        if step.backend != before.backend:
            yield before, step
