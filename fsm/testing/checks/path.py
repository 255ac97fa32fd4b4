"""Whether the steps of a journal, or of any run, are a path through its table.

Theory. The exhaustive walk of a table checks predicates on every firing that can happen: the first
row whose guard holds is taken, counters count and stay bounded, the variant falls (see
`engine/checker/properties.py`). Here the same predicates run on the firings of a real call, as its
journal tells them. So a run cannot drift from its proof: a driver that skipped a row, or a journal
that lied about one, would break a predicate that is known to hold for the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.engine.checker import properties
from rungwise.fsm.engine.checker.properties import (
    Configuration,
    Firing,
    Predicate,
    broken_by,
    fired,
)
from rungwise.fsm.engine.journal.path import SKIPPED
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.engine.machine.table import Row, Table
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall

ENDED = "every call ends in an outcome"
LEGAL = "every step is the first row of the table whose guard holds"
COUNTED = "counters and attempts are what the rows count"
BOUNDED = "counters stay within their limits"
FALLS = "the variant falls on every step"
PREDICATES: tuple[tuple[str, Predicate], ...] = (
    (LEGAL, properties.always_first),
    (COUNTED, properties.always_counting),
    (BOUNDED, properties.always_bounded),
    (FALLS, properties.always_falling),
)
"""What must hold for every step, as for every firing in a walk."""

NO_EVENT = "no event of any table"
LONGEST = 40  # events of a drawn run, at most


def check_end(ended: EndedCall) -> None:
    """Check that the last step alone leads to the outcome of the journal and the result."""
    result = ended.result
    outcomes = ended.table.outcomes
    if not ended.path:
        raise Dishonest(ENDED, "the journal is empty")
    last = ended.steps[-1]
    if result.outcome not in outcomes:
        raise Dishonest(
            ENDED, f"{result.outcome!r} is no outcome of the table {ended.table.name!r}", last
        )
    if last.target != result.outcome or ended.journal.outcome != result.outcome:
        raise Dishonest(
            ENDED,
            f"the result says {result.outcome!r}, the journal {ended.journal.outcome!r}",
            last,
        )
    for step in ended.steps[:-1]:
        if step.target in outcomes:
            raise Dishonest(ENDED, f"something follows the outcome {step.target!r}", step)
    if ended.call is not None:
        state = ended.call.position.state
        if not ended.call.is_over or state != result.outcome:
            raise Dishonest(ENDED, f"the call is in state {state!r}", last)


def check_rows(ended: EndedCall) -> None:
    """Check each step as a firing of the machine, and the number of attempts."""
    attempts = follow(ended.table, ended.limits, ended.steps)
    if ended.result.attempts != attempts:
        raise Dishonest(
            COUNTED,
            f"the result says {ended.result.attempts} attempts, and {attempts} requests went out",
        )


def follow(table: Table, limits: Mapping[str, int], steps: Iterable[Step]) -> int:
    """Check the steps of any machine, and return how often something was sent.

    Arguments:
        table: the machine.
        limits: the limit of each counter.
        steps: the steps, from the start of the machine.

    Raises:
        Dishonest: a step has a wrong number or time, or is no firing of the machine.
    """
    most = tuple(limits.values())
    before: Configuration = (table.start, (0,) * len(most))
    attempts = 0
    latest = 0.0  # seconds at the step before
    for number, step in enumerate(steps, 1):
        if step.number != number:
            raise Dishonest(LEGAL, f"step {number} is numbered {step.number}", step)
        if step.at < latest:
            wrong = f"it happened at {step.at:g} s, and the one before at {latest:g} s"
            raise Dishonest(LEGAL, wrong, step)
        latest = step.at
        _check_place(table, step, before[0])
        if step.event == SKIPPED:
            continue
        spent = tuple(step.spent.get(name, 0) for name in table.counters)
        after: Configuration = (step.target, spent)
        row = Row(step.event, step.source, step.guard, step.target, step.effect)
        firing = Firing(
            table,
            limits=most,
            before=before,
            event=step.event,
            facts=step.facts,
            row=row,
            after=after,
            sends=step.attempts - attempts,
        )
        for name, predicate in PREDICATES:
            broken = predicate(firing)
            if broken is not None:
                raise Dishonest(name, broken, step)
        before = after
        attempts = step.attempts
    return attempts


def _check_place(table: Table, step: Step, state: str) -> None:
    """Check that a step leaves the state that the machine was in, by words of its table."""
    if step.source != state:
        raise Dishonest(LEGAL, f"it leaves {step.source!r}, and the state was {state!r}", step)
    if step.event == SKIPPED:
        if step.target != step.source:
            wrong = "a step that passes a backend over leads to another state"
            raise Dishonest(LEGAL, wrong, step)
        return
    unknown = set(step.facts).difference(table.found_facts)
    if unknown:
        first = sorted(unknown)[0]
        raise Dishonest(LEGAL, f"it knows {first!r}, which is no fact of the table", step)
    if not table.ladder(step.event, step.source):
        wrong = f"the table has no row for {step.event!r} in {step.source!r}"
        raise Dishonest(LEGAL, wrong, step)


def events_of(table: Table) -> SearchStrategy[list[tuple[str, frozenset[str]]]]:
    """Generate events to fire on a run, unknown ones included, each with the facts that hold.

    Events that lead from a rung to the hub are more frequent, so that runs advance.
    """
    sends = [row.event for row in table.rows if row.target == table.hub]
    events = st.sampled_from((*table.events, *sends, NO_EVENT))
    facts: SearchStrategy[frozenset[str]] = st.just(frozenset())
    if table.found_facts:
        facts = st.frozensets(st.sampled_from(table.found_facts))
    return st.lists(st.tuples(events, facts), max_size=LONGEST)


def assert_run_holds(
    table: Table, limits: Mapping[str, int], events: Iterable[tuple[str, Iterable[str]]]
) -> Run:
    """Fire events on a new run, and assert for each firing what the walk asserts; return the run.

    Arguments:
        table: the machine.
        limits: the limit of each counter.
        events: each with the facts that hold.

    Raises:
        AssertionError: a firing breaks a property; it names the firing and the property.
    """
    run = Run.at_start(table, limits)
    for event, facts in events:
        held = sorted(facts)
        firing = fired(run, event, tuple(held))
        for name, wrong in broken_by(firing).items():
            where = f"where {event!r} was fired in {firing.before} with {held}"
            raise AssertionError(f"{name}: {wrong}, {where}")
    return run
