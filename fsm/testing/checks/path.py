"""Whether the steps of a journal, or of any run, are a path through its table: rows, with a falling
variant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.engine.checker import properties
from rungwise.fsm.engine.checker.properties import Firing, Predicate, broken_by, fired
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
LONGEST = 40


def check_end(ended: EndedCall) -> None:
    """Check that the last step, and only that, leads to the outcome of the journal and the
    result.
    """
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
    if ended.call is not None and (
        not ended.call.is_over or ended.call.position.state != result.outcome
    ):
        raise Dishonest(ENDED, f"the call is in state {ended.call.position.state!r}", last)


def check_rows(ended: EndedCall) -> None:
    """Check the numbers of steps, and each as a firing of the machine, by the predicates of the
    exhaustive walk.
    """
    attempts = follow(ended.table, ended.limits, ended.steps)
    if ended.result.attempts != attempts:
        raise Dishonest(
            COUNTED,
            f"the result says {ended.result.attempts} attempts, and {attempts} requests went out",
        )


def follow(table: Table, limits: Mapping[str, int], steps: Iterable[Step]) -> int:
    """Check the numbers, times and rows of any machine's steps, and return how often something was
    sent.
    """
    most = tuple(limits.values())
    here = (table.start, (0,) * len(most))
    attempts = 0
    before = 0.0
    for number, step in enumerate(steps, 1):
        if step.number != number:
            raise Dishonest(LEGAL, f"step {number} is numbered {step.number}", step)
        if step.at < before:
            raise Dishonest(
                LEGAL, f"it happened at {step.at:g} s, and the one before at {before:g} s", step
            )
        before = step.at
        if step.source != here[0]:
            raise Dishonest(
                LEGAL, f"it leaves {step.source!r}, and the state was {here[0]!r}", step
            )
        if step.event == SKIPPED:
            if step.target != step.source:
                raise Dishonest(
                    LEGAL, "a step that passes a backend over leads to another state", step
                )
            continue
        unknown = set(step.facts).difference(table.found_facts)
        if unknown:
            raise Dishonest(
                LEGAL, f"it knows {sorted(unknown)[0]!r}, which is no fact of the table", step
            )
        if not table.ladder(step.event, step.source):
            raise Dishonest(
                LEGAL, f"the table has no row for {step.event!r} in {step.source!r}", step
            )
        row = Row(step.event, step.source, step.guard, step.target, step.effect)
        after = step.target, tuple(step.spent.get(name, 0) for name in table.counters)
        firing = Firing(
            table, most, here, step.event, step.facts, row, after, step.attempts - attempts
        )
        for name, predicate in PREDICATES:
            wrong = predicate(firing)
            if wrong is not None:
                raise Dishonest(name, wrong, step)
        here = after
        attempts = step.attempts
    return attempts


def events_of(table: Table) -> SearchStrategy[list[tuple[str, frozenset[str]]]]:
    """Generate events to fire on a run, unknown ones included, each with the facts that hold.

    Events that lead from a rung to the hub are more frequent, so that runs advance.
    """
    sends = [row.event for row in table.rows if row.target == table.hub]
    events = st.sampled_from((*table.events, *sends, NO_EVENT))
    facts = (
        st.frozensets(st.sampled_from(table.found_facts))
        if table.found_facts
        else st.just(frozenset[str]())
    )
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
        firing = fired(run, event, tuple(sorted(facts)))
        for name, wrong in broken_by(firing).items():
            raise AssertionError(
                f"{name}: {wrong}, where {event!r} was fired in {firing.before} with "
                f"{sorted(facts)}"
            )
    return run
