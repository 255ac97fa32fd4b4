"""One run of a machine: where it stands, what is spent, and the one way to fire an event on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import ge, gt
from typing import TYPE_CHECKING, Self

from attrs import define, field

from rungwise.fsm.errors import BrokenMachine, IllegalEvent
from rungwise.fsm.machine.compiled import machine_of
from rungwise.fsm.machine.table import Row, Table

if TYPE_CHECKING:
    from rungwise.fsm.machine.machine import RowMachine


@define(eq=False)
class Run:
    """Hold the configuration of one run, and check each of its steps against what was proved of the table.

    A proof is about the rows; the check is about what runs.

    Arguments:
        table: the machine that it runs on.
        limits: the limit of each counter, in the order of `table.counters`.
        state: where it stands.
        spent: what is spent of each counter.
        facts: the facts of the last reply, as bits.
        row: the row that was taken last.
        attempts: how often something was sent.
    """

    table: Table = field(repr=False)
    limits: tuple[int, ...]
    state: str
    spent: list[int]
    facts: int = 0
    row: Row | None = None
    attempts: int = 0
    machine: RowMachine = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.machine = machine_of(self.table)

    @classmethod
    def at_start(cls, table: Table, limits: Mapping[str, int]) -> Self:
        """Return a run that has not begun.

        Arguments:
            limits: the limit of each counter, by name.
        """
        ceilings = tuple(map(limits.__getitem__, table.counters))
        return cls(table, ceilings, table.start, [0] * len(ceilings))

    def spent_of(self, counter: str) -> int:
        """Return what is spent of a counter; 0 of one that the table does not have."""
        place = self.table.places.get(counter)
        return 0 if place is None else self.spent[place]

    def has_left(self, counter: str) -> bool:
        """Tell whether a counter of the table has a unit left."""
        place = self.table.places[counter]
        return self.spent[place] < self.limits[place]

    def is_guarded(self, event: str) -> bool:
        """Tell whether some guard decides on an event, so that facts must be found for it."""
        return event not in self.machine.unguarded

    def fire(self, event: str, facts: Iterable[str] = ()) -> Row:
        """Fire an event and return the row that was taken.

        Arguments:
            facts: the names of the facts that hold; all others do not.

        Raises:
            IllegalEvent: the state does not take the event, or no guard held; the run is as it was.
            BrokenMachine: the step left the limits, or did not lower the variant.
        """
        machine = self.machine
        handler, before, was = machine.events.get(event), self.spent.copy(), self.facts
        if event not in machine.unguarded:
            self.facts = machine.mask(facts)
        row = self.row if handler is not None and handler.trigger(self) else None
        if row is None:
            self.facts = was
            raise IllegalEvent(f"event {event!r} does not belong to state {self.state!r}")
        if row.target not in machine.outcomes:  # an end is nearer than anything, also to a run that went wrong
            self._check(row, before)
        return row

    def would_take(self, event: str, facts: Iterable[str]) -> Row | None:
        """Return the row that an event would take at the hub with some facts; nothing changes.

        Arguments:
            facts: the names of the facts that would hold.
        """
        was, self.facts = self.facts, self.machine.mask(facts)
        try:
            for each in self.machine.tried(event, self.table.hub):
                if each.test is None or each.test(self):
                    return each.row
            return None
        finally:
            self.facts = was

    def _check(self, row: Row, before: list[int]) -> None:
        hub = self.table.hub
        if self.spent == before and row.target == hub != row.source:
            return  # what waited to be sent is sent, and nothing else has changed
        if row.target == hub or not self._has_less_left(before):
            raise BrokenMachine(f"{row}: the variant did not fall")
        if min(self.spent) < 0 or any(map(gt, self.spent, self.limits)):
            pairs = zip(self.spent, self.limits, strict=True)
            count, limit = next((count, limit) for count, limit in pairs if not 0 <= count <= limit)
            raise BrokenMachine(f"{row}: a counter is {count}, and its limit is {limit}")

    def _has_less_left(self, before: list[int]) -> bool:
        """Tell whether the variant fell: of the counters that rank highest among those that changed, more is spent."""
        spent = self.spent
        if all(map(ge, spent, before)):
            return spent != before  # nothing was refilled, as in most steps, so the ranks do not matter
        for group in self.table.ranked_places:
            more = 0
            for place in group:
                more += spent[place] - before[place]
            if more:
                return more > 0
        return False
