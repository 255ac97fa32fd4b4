"""The `transitions` machine of a table, and one run on it.

Theory. The `transitions` library fires the rows: guards become its conditions, effects its `before`
callbacks. One machine serves every run on its table, in any number of threads, because it has no
models of its own; each event is triggered with the run as its model.

What runs is compiled from the same declarations that the proof reads, but the proof is about the
rows and not about the library. So a run checks each of its steps: the counters stay within their
limits, and the variant falls.

Facts are the bits of one number, so a condition is one comparison and at most one look at a
counter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
from operator import ge, gt
from typing import Any, Final, Self

from attrs import define, field, frozen
from transitions import Machine, MachineError

from rungwise.fsm.engine.machine.build import COUNT_ATTEMPT
from rungwise.fsm.engine.machine.table import Row, Table
from rungwise.fsm.errors import BrokenMachine, IllegalEvent

NAME: Final = "rungwise"
LOGGERS: Final = (logging.getLogger("transitions"), logging.getLogger("transitions.core"))


def _is_logged(record: logging.LogRecord) -> bool:
    """Drop what the library logs of each step of our machines, unless its level has been set.

    A program that logs at INFO would get some ten lines for each step. Other machines are logged as
    ever.
    """
    is_ours = isinstance(record.args, tuple) and record.args[:1] == (f"{NAME}: ",)
    is_asked_for = any(each.level for each in LOGGERS)
    return not is_ours or is_asked_for or record.levelno >= logging.WARNING


LOGGERS[-1].addFilter(_is_logged)  # the one that the library writes to

Condition = Callable[[Any], bool]


class FactBits:
    """Write facts as the bits of one number, so that a guard compares all of its facts at once."""

    def __init__(self, table: Table) -> None:
        self._bits = {fact.name: 1 << place for place, fact in enumerate(table.facts)}
        # For each derived fact, its bit and those of `any_holds` and `any_lacks`. A fact comes
        # after those that it follows from.
        self._derived: list[tuple[int, int, int]] = []
        for name in TopologicalSorter(table.follows_from).static_order():
            fact = table.fact(name)
            if fact.is_derived:
                any_holds = self.bits(fact.any_holds)
                any_lacks = self.bits(fact.any_lacks)
                self._derived.append((self._bits[name], any_holds, any_lacks))

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
    """Take a row: note it on the run, for its journal, and count what its effect says."""

    row: Row
    # changes the counters of a run, if the row has an effect on them
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
        states = [{"name": name, "final": name in table.outcomes} for name in table.states]
        machine = Machine(
            model=None,
            name=NAME,
            states=states,
            initial=table.start,
            transitions=[_transition(table, row) for row in table.rows],
            auto_transitions=False,
            queued=False,
            send_event=False,
        )
        vars(table)["_machine"] = machine
    return machine


def _transition(table: Table, row: Row) -> dict[str, Any]:
    """Return a row as the library takes it."""
    return {
        "trigger": row.event,
        "source": row.source,
        "dest": row.target,
        "conditions": _conditions(table, row),
        "before": [TakeRow(row, _count(table, row))],
    }


def fact_bits_of(table: Table) -> FactBits:
    """Return the bits of the table's facts, built on first use."""
    bits: FactBits | None = vars(table).get("_fact_bits")
    if bits is None:
        bits = FactBits(table)
        vars(table)["_fact_bits"] = bits
    return bits


def rows_tried(machine: Machine, event: str, state: str) -> Iterator[tuple[Row, list[Any]]]:
    """Yield the rows that a machine tries for an event in a state, in order.

    Each comes with its compiled conditions, as functions of a run.
    """
    if event in machine.events:
        transitions: list[Any] = machine.events[event].transitions.get(state, [])
        for each in transitions:
            yield each.before[-1].row, [condition.func for condition in each.conditions]


def _conditions(table: Table, row: Row) -> list[Condition]:
    if row.guard is None:
        return []
    guard = table.guard(row.guard)
    fact_bits = fact_bits_of(table)
    holds = fact_bits.bits(guard.holds)
    read = fact_bits.bits((*guard.holds, *guard.lacks))
    if guard.counter is None:
        return [lambda run: run.facts & read == holds]
    place = table.places[guard.counter]
    return [lambda run: run.facts & read == holds and run.spent[place] < run.limits[place]]


def _count(table: Table, row: Row) -> Callable[[Any], None] | None:
    if row.effect == COUNT_ATTEMPT.name:
        return _count_attempt
    effect = table.effect(row.effect)
    fact_bits = fact_bits_of(table)
    if effect.spends is None and not effect.refills:
        return None
    spends = table.places.get(effect.spends or "")
    refills = [table.places[name] for name in effect.refills]
    refills_on = 0  # no bits, which always hold
    if effect.refills_on:
        refills_on = fact_bits.bits([effect.refills_on])

    def count(run: Any) -> None:
        if spends is not None:
            run.spent[spends] += 1
        if run.facts & refills_on == refills_on:
            for place in refills:
                run.spent[place] = 0

    return count


def _count_attempt(run: Any) -> None:
    run.attempts += 1


@define(eq=False)
class Run:
    """Be the model of one run on a table, and check each of its steps.

    Arguments:
        table: the table.
        limits: the most units of each counter, in the order of `table.counters`.
        state: where the run is; the machine sets it.
        spent: the units spent of each counter, in the same order.
        facts: the facts of the last reply, as bits.
        row: the last row that was taken.
        attempts: the number of sends.
    """

    table: Table = field(repr=False)
    limits: tuple[int, ...]
    state: str
    spent: list[int]
    facts: int = 0
    row: Row | None = None
    attempts: int = 0
    machine: Machine = field(init=False, repr=False)
    _fact_bits: FactBits = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.machine = machine_of(self.table)
        self._fact_bits = fact_bits_of(self.table)

    @classmethod
    def at_start(cls, table: Table, limits: Mapping[str, int]) -> Self:
        """Return a run that has not begun."""
        ceilings = tuple(map(limits.__getitem__, table.counters))
        return cls(table, ceilings, table.start, [0] * len(ceilings))

    def spent_of(self, counter: str) -> int:
        """Return the units spent of a counter; 0 for one that the table does not have."""
        place = self.table.places.get(counter)
        return 0 if place is None else self.spent[place]

    def has_left(self, counter: str) -> bool:
        """Tell whether a counter of the table has a unit left."""
        place = self.table.places[counter]
        return self.spent[place] < self.limits[place]

    def is_guarded(self, event: str) -> bool:
        """Tell whether a guard decides on an event, so that its facts are needed."""
        return event in self.table.guarded_events

    def fire(self, event: str, facts: Iterable[str] = ()) -> Row:
        """Fire an event and return the row that was taken.

        Arguments:
            event: its name.
            facts: the facts that hold, by name, besides those that follow from them.

        Raises:
            IllegalEvent: the state does not take the event, or no guard holds. The run is
                unchanged.
            BrokenMachine: the step left the limits, or, in a machine that must end, did not lower
                the variant.
        """
        spent_before = self.spent.copy()
        facts_before = self.facts
        if self.is_guarded(event):
            self.facts = self._fact_bits.mask(facts)
        events = self.machine.events
        try:
            is_taken = event in events and events[event].trigger(self, self)
        except MachineError:
            is_taken = False
        if not is_taken:
            self.facts = facts_before
            raise IllegalEvent(f"event {event!r} does not belong to state {self.state!r}")
        assert self.row is not None
        if self.row.target not in self.table.outcomes:  # a run that went wrong may still end
            self._check(self.row, spent_before)
        return self.row

    def would_take(self, event: str, facts: Iterable[str]) -> Row | None:
        """Return the row that an event would take at the hub if these facts held.

        The run is unchanged.
        """
        facts_before = self.facts
        self.facts = self._fact_bits.mask(facts)
        try:
            for row, conditions in rows_tried(self.machine, event, self.table.hub):
                if all(holds(self) for holds in conditions):
                    return row
            return None
        finally:
            self.facts = facts_before

    def _check(self, row: Row, before: list[int]) -> None:
        """Check the counters after a row, given the units spent before it.

        Raises:
            BrokenMachine: a counter left its limits, or the variant did not fall.
        """
        hub = self.table.hub
        is_ending = self.table.kind == "ending"
        is_send = row.target == hub and row.source != hub
        if self.spent == before and (is_send or not is_ending):
            return  # nothing was counted, and nothing had to be
        if is_ending and (row.target == hub or not self._has_less_left(before)):
            raise BrokenMachine(f"{row}: the variant did not fall")
        if min(self.spent) < 0 or any(map(gt, self.spent, self.limits)):
            for count, limit in zip(self.spent, self.limits, strict=True):
                if not 0 <= count <= limit:
                    raise BrokenMachine(f"{row}: a counter is {count}, and its limit is {limit}")

    def _has_less_left(self, before: list[int]) -> bool:
        """Tell whether the variant fell: more is spent in the highest rank that changed."""
        spent = self.spent
        if all(map(ge, spent, before)):
            # nothing was refilled, as in most steps, so the ranks do not matter
            return spent != before
        for group in self.table.ranked_places:
            more = 0
            for place in group:
                more += spent[place] - before[place]
            if more:
                return more > 0
        return False
