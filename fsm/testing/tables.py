"""A strategy and an assertion for any table: whatever events are fired, its properties hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.checker.properties import broken_by, fired
from rungwise.fsm.machine.run import Run
from rungwise.fsm.machine.table import Table

NO_EVENT = "no event of any table"
LONGEST = 40


def events_of(table: Table) -> SearchStrategy[list[tuple[str, frozenset[str]]]]:
    """Generate events to fire on a run, unknown ones included, each with the facts that hold.

    Events that lead from a rung to the hub are more frequent, so that runs advance.
    """
    sends = [row.event for row in table.rows if row.target == table.hub]
    events = st.sampled_from((*table.events, *sends, NO_EVENT))
    facts = st.frozensets(st.sampled_from(table.found_facts)) if table.found_facts else st.just(frozenset[str]())
    return st.lists(st.tuples(events, facts), max_size=LONGEST)


def assert_run_holds(table: Table, limits: Mapping[str, int], events: Iterable[tuple[str, Iterable[str]]]) -> Run:
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
            raise AssertionError(f"{name}: {wrong}, where {event!r} was fired in {firing.before} with {sorted(facts)}")
    return run
