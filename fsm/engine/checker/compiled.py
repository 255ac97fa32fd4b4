"""What the machine of a table does, found by trying it.

Theory

A proof about the declarations of a table says nothing of a fault in what is compiled from them. So
each condition and each callback that the `transitions` library holds is tried here as a black box.

A condition is a conjunction: of facts that hold, facts that do not, and counters that have a unit
left. It is tried where it holds, and then once for each fact with that fact turned round, and once
for each counter with that counter used up. Where it no longer holds, it depends on that one. What
a callback changes shows in the counters of a run with one unit spent of each: 2 is one that it
takes a unit of, 0 is one that it refills. With all facts but one it refills as before, unless it
depends on that fact.

A condition of another form, such as a disjunction, would be read wrongly. The tests compare fuzzed
runs of the real machine with the rows that are read here. The cost is some forty tries a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import frozen

from rungwise.fsm.engine.machine.declare import Names
from rungwise.fsm.engine.machine.run import Run, fact_bits_of, machine_of
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.errors import TableError

LEFT = 9
"""The limit of each counter in a trial; of each, one unit is spent."""


@frozen
class CompiledRow:
    """Hold a row as its machine runs it.

    Arguments:
        event, source, target: those of the transition.
        holds, lacks: the facts that its conditions need, and those that must not hold.
        needs: the counters of which its conditions need a unit left.
        spends: the counter that its callbacks take a unit of.
        refills: the counters that they set back to 0.
        refills_on: the facts that must hold for this.
        counts: whether they count an attempt.
    """

    event: str
    source: str
    holds: Names
    lacks: Names
    needs: Names
    target: str
    spends: str | None
    refills: Names
    refills_on: Names
    counts: bool


def compiled_rows(table: Table) -> Iterator[CompiledRow]:
    """Yield the rows of a table as its machine runs them, each ladder in the order it is tried.

    Raises:
        TableError: a row does what no row may do.
    """
    for event in machine_of(table).events.values():
        for transitions in event.transitions.values():
            for transition in transitions:
                yield _Trial(table, transition).compiled(event.name)


@frozen
class _Trial:
    """Try what one transition does."""

    table: Table
    transition: Any

    def compiled(self, event: str) -> CompiledRow:
        """Try the conditions and the callbacks."""
        holds, lacks, needs = self.conditions()
        spends, refills, refills_on, attempts = self.callbacks()
        if len(spends) > 1:
            self.refuse(f"takes units of {' and '.join(spends)}, and may take one of one counter")
        source = self.transition.source
        target = self.transition.dest
        is_counted = attempts > 0
        return CompiledRow(
            event=event,
            source=source,
            holds=holds,
            lacks=lacks,
            needs=needs,
            target=target,
            spends=next(iter(spends), None),
            refills=refills,
            refills_on=refills_on,
            counts=is_counted,
        )

    def refuse(self, why: str) -> None:
        """Refuse the table for what this row does."""
        row = self.transition.before[-1].row
        raise TableError(f"{row}: as it is compiled, it {why}", table=self.table)

    def run(self, facts: int, used_up: int | None = None) -> Run:
        """Return a run in the row's state, with these facts, and perhaps one counter used up."""
        spent = [1] * len(self.table.counters)
        if used_up is not None:
            spent[used_up] = LEFT
        ceilings = (LEFT,) * len(spent)
        return Run(self.table, ceilings, self.transition.source, spent, facts)

    def is_open(self, run: Run) -> bool:
        """Tell whether all conditions hold."""
        return all(each.func(run) == each.target for each in self.transition.conditions)

    def conditions(self) -> tuple[Names, Names, Names]:
        """Find the facts that must hold, those that must not, and the counters that are needed."""
        guard = self.table.guard(self.transition.before[-1].row.guard)
        fact_bits = fact_bits_of(self.table)
        open_with = fact_bits.bits(guard.holds)
        if not self.is_open(self.run(open_with)):
            self.refuse("is not taken where its guard holds")
        holds: list[str] = []
        lacks: list[str] = []
        for fact in self.table.facts:
            bit = fact_bits.bits([fact.name])
            if not self.is_open(self.run(open_with ^ bit)):
                found = holds if open_with & bit else lacks
                found.append(fact.name)
        needs = []
        for place, counter in enumerate(self.table.counters):
            if not self.is_open(self.run(open_with, used_up=place)):
                needs.append(counter)
        return tuple(holds), tuple(lacks), tuple(needs)

    def changed(self, facts: int) -> tuple[Names, Names, int]:
        """Find the counters that lose a unit, those that are refilled, and the attempts counted."""
        run = self.run(facts)
        for callback in self.transition.before:
            callback(run)
        spends = []
        refills = []
        for counter, count in zip(self.table.counters, run.spent, strict=True):
            if count == 0:
                refills.append(counter)
            elif count == 2:
                spends.append(counter)
            elif count != 1:
                self.refuse(f"changes {counter} from 1 to {count}")
        return tuple(spends), tuple(refills), run.attempts

    def callbacks(self) -> tuple[Names, Names, Names, int]:
        """Find what the callbacks take, what they refill, on which facts, and what they count."""
        fact_bits = fact_bits_of(self.table)
        every_fact = fact_bits.bits(fact.name for fact in self.table.facts)
        _, refills, attempts = self.changed(every_fact)
        refills_on = []
        for fact in self.table.facts:
            without = every_fact ^ fact_bits.bits([fact.name])
            if self.changed(without)[1] != refills:
                refills_on.append(fact.name)
        # Where nothing is refilled, a unit that is taken shows, be its counter refilled or not.
        spends = self.changed(0)[0]
        return spends, refills, tuple(refills_on), attempts
