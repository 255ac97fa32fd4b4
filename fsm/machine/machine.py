"""The `transitions` machine of a table. The library fires the rows.

Guards become conditions and effects become `before` callbacks, both compiled from the declarations. One machine serves
every run on its table, in any number of threads: it has no models of its own, and each event is triggered with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from graphlib import TopologicalSorter
from typing import Any, Final

from attrs import frozen
from transitions import Machine

from rungwise.fsm.machine.table import Row, Table

NAME: Final = "rungwise"

Condition = Callable[[Any], bool]


class FactBits:
    """Write facts as the bits of one number, so that a guard compares all of its facts at once."""

    def __init__(self, table: Table) -> None:
        self._bits = {fact.name: 1 << place for place, fact in enumerate(table.facts)}
        order = TopologicalSorter(table.follows_from).static_order()
        self._derived = [
            (self._bits[fact.name], self.bits(fact.any_holds), self.bits(fact.any_lacks))
            for fact in map(table.fact, order)
            if fact.is_derived
        ]

    def bits(self, facts: Iterable[str]) -> int:
        """Return the bits of some facts and no others."""
        mask = 0
        for name in facts:
            mask |= self._bits[name]
        return mask

    def mask(self, facts: Iterable[str]) -> int:
        """Return the bits of the facts that hold, including those that follow from them."""
        mask = self.bits(facts)
        for bit, any_holds, any_lacks in self._derived:
            if mask & any_holds or ~mask & any_lacks:
                mask |= bit
        return mask


@frozen
class TakeRow:
    """Take a row: note it on the run, for its journal, and count what its effect spends and refills.

    Arguments:
        count: changes the counters of a run; None if the row has no effect on them.
    """

    row: Row
    count: Callable[[Any], None] | None = None

    def __call__(self, run: Any) -> None:
        """Note the row and count."""
        run.row = self.row
        if self.count is not None:
            self.count(run)


def machine_of(table: Table) -> Machine:
    """Return the table's one machine, built on first use."""
    machine: Machine | None = vars(table).get("_machine")
    if machine is None:
        machine = vars(table)["_machine"] = Machine(
            model=None,
            name=NAME,
            states=[{"name": name, "final": name in table.outcomes} for name in table.states],
            initial=table.start,
            transitions=[
                {
                    "trigger": row.event,
                    "source": row.source,
                    "dest": row.target,
                    "conditions": _conditions(table, row),
                    "before": [TakeRow(row, _count(table, row))],
                }
                for row in table.rows
            ],
            auto_transitions=False,
            queued=False,
            send_event=False,
        )
    return machine


def fact_bits_of(table: Table) -> FactBits:
    """Return the bits of the table's facts, built on first use."""
    bits: FactBits | None = vars(table).get("_fact_bits")
    if bits is None:
        bits = vars(table)["_fact_bits"] = FactBits(table)
    return bits


def rows_tried(machine: Machine, event: str, state: str) -> Iterator[tuple[Row, list[Any]]]:
    """Yield the rows that a machine tries for an event in a state, in order, each with its compiled conditions."""
    if event in machine.events:
        transitions: list[Any] = machine.events[event].transitions.get(state, [])
        yield from ((each.before[-1].row, [condition.func for condition in each.conditions]) for each in transitions)


def _conditions(table: Table, row: Row) -> list[Condition]:
    if row.guard is None:
        return []
    guard, facts = table.guard(row.guard), fact_bits_of(table)
    holds, seen = facts.bits(guard.holds), facts.bits((*guard.holds, *guard.lacks))
    if guard.counter is None:
        return [lambda run: run.facts & seen == holds]
    place = table.places[guard.counter]
    return [lambda run: run.facts & seen == holds and run.spent[place] < run.limits[place]]


def _count(table: Table, row: Row) -> Callable[[Any], None] | None:
    if row.target == table.hub:
        return _count_attempt
    effect, bits = table.effect(row.effect), fact_bits_of(table)
    if effect.spends is None:
        return None
    spends, refills = table.places[effect.spends], [table.places[name] for name in effect.refills]
    refills_on = bits.bits([effect.refills_on] if effect.refills_on else [])

    def count(run: Any) -> None:
        run.spent[spends] += 1
        if run.facts & refills_on == refills_on:
            for place in refills:
                run.spent[place] = 0

    return count


def _count_attempt(run: Any) -> None:
    run.attempts += 1
