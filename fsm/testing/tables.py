"""Strategies and assertions for a table of any machine: whatever is fired on it, what must always hold does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.checker.firing import broken_by, fired
from rungwise.fsm.machine.run import Run
from rungwise.fsm.machine.table import Table

NO_EVENT = "no event of any table"
LONGEST = 40


def events_of(table: Table) -> SearchStrategy[list[tuple[str, frozenset[str]]]]:
    """Generate what may be fired on a run: events, also of no table, each with the facts that hold.

    What leads from a rung to the hub comes more often than the rest, so that runs get on.
    """
    sends = [row.event for row in table.rows if row.target == table.hub]
    events = st.sampled_from((*table.events, *sends, NO_EVENT))
    facts = st.frozensets(st.sampled_from(table.found_facts)) if table.found_facts else st.just(frozenset[str]())
    return st.lists(st.tuples(events, facts), max_size=LONGEST)


def assert_run_holds(table: Table, limits: Mapping[str, int], events: Iterable[tuple[str, Iterable[str]]]) -> Run:
    """Fire events on a new run, and demand of each firing what the walk demands; return the run.

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
