"""Whether a walk would find a fault, told from few firings.

A table of one's own is checked at its first use in a process. A walk over a table with two more
rungs takes seconds, and this some tenths of one.

What a single firing can break is looked for with all values of the counters that its rows read,
reached or not. So the variant falls on every step, and no run goes on for ever. A walk from the
start ends once it has met every state and taken every row. The first outcome can be reached from
everywhere if from each state, whatever is left of the counters, some event leads closer to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from rungwise.fsm.engine.checker.properties import (
    ALIVE,
    REACHED,
    sometimes_reached,
    sometimes_taken,
)
from rungwise.fsm.engine.checker.walk import Walker
from rungwise.fsm.engine.machine.table import Table


def is_sound(table: Table, limits: Mapping[str, int]) -> bool:
    """Tell whether a walk over a proved table is sure to find no fault, after few firings.

    False says nothing: the fault may be where no run ever comes.

    Arguments:
        table: the table of the machine.
        limits: the limit of each counter.
    """
    known = {name: limits[name] for name in table.counters}
    walker = Walker(table, known, repeats=False)
    walker.run(None, is_brief=True)
    walker.check_machine()
    walker.judge(ALIVE, sometimes_taken(walker.walked))
    walker.judge(REACHED, sometimes_reached(walker.walked))
    able = _able(walker)
    if walker.faults:
        return False
    going = set(table.states).difference(table.outcomes)
    return going <= able


def _able(walker: Walker) -> set[str]:
    """Fire every event, and return the states from which the first outcome can be reached,
    whatever is left of the counters; of a cyclic machine, its start.
    """
    table = walker.table
    leads = {}
    for event, state in table.ladders:
        leads[event, state] = list(_leads(walker, event, state))
    goal = (*table.outcomes, table.start)[0]
    able = {goal}
    for _ in table.states:  # each time round, at least one more state, or all are found
        for (_, state), targets in leads.items():
            if not any(able.isdisjoint(each) for each in targets):
                able.add(state)
    return able


def _leads(
    walker: Walker,
    event: str,
    state: str,
) -> Iterator[set[str]]:
    """Yield the states to which an event leads, for each of the values of the counters that its
    rows read; all others are spent.

    Arguments:
        walker: fires it.
        event: the event.
        state: where it is fired.
    """
    places = walker.counters[event, state]
    ranges = [range(walker.limits[place] + 1) for place in places]
    for values in product(*ranges):
        spent = list(walker.limits)
        for place, value in zip(places, values, strict=True):
            spent[place] = value
        configuration = (state, tuple(spent))
        index = walker.index.get(configuration)
        if index is None:
            index = walker.add(configuration, None)
        walker.fire(index, event)
        changes = walker.known[event, state, values]
        yield {target for target, _, _ in changes}
