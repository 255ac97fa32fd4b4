"""The exhaustive walk: it puts the shipped machine into every configuration, fires every event, and
checks the result.

A configuration is a state with the values of all counters; an outcome is one. The walk goes breadth
first, so the first path to a fault is a shortest one. It fires each event with every combination of
facts that makes a difference.

The proof (`proof.py`) argues about the table, for all limits. The walk cross-checks it from the
other side: it looks at the machine that runs, and believes only what it sees. It costs a firing for
each configuration, event and combination of facts. A walk that does not repeat itself fires an
event once for all configurations in which its rows read the same counters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve, field, frozen

from rungwise.fsm.engine.checker.branches import changes
from rungwise.fsm.engine.checker.combinations import Combinations
from rungwise.fsm.engine.checker.counterexample import PathStep, Property
from rungwise.fsm.engine.checker.properties import (
    ABSORB,
    ALIVE,
    BOUNDED,
    COUNTS,
    ENDS,
    FALLS,
    ILLEGAL,
    ORDERED,
    REACHED,
    TOTAL,
    Configuration,
    Firing,
    Verdict,
    Walked,
    broken_by,
    eventually_able,
    eventually_over,
    fired,
    sometimes_reached,
    sometimes_taken,
)
from rungwise.fsm.engine.machine.run import Run, fact_bits_of, rows_tried
from rungwise.fsm.engine.machine.table import Row, Table

PURE = "guards pure"
PROPERTIES = (
    TOTAL,
    ORDERED,
    ALIVE,
    REACHED,
    ABSORB,
    ILLEGAL,
    PURE,
    COUNTS,
    BOUNDED,
    FALLS,
    ENDS,
)
"""What a walk checks, in the order of the certificate."""

OF_ENDINGS = frozenset({ABSORB, FALLS, ENDS})
"""The properties that a cyclic machine does not have: it has no outcomes and never ends."""

Change = tuple[str, str | None, tuple[str, ...]]
"""Where a firing leads, and the counters that it takes from and refills."""

Ladder = tuple[str, str]
"""An event, and the state in which it is fired."""

Parent = tuple[int, Firing, Configuration]
"""The configuration from which a walk first came, the firing that led on or one that does the same,
and where it led.
"""

UNKNOWN_EVENT = "no event of any table"
PROGRESS_EVERY = 1000


@frozen
class Walk:
    """Hold the configurations of a walk, nearest first, the indices of the next ones, and the
    verdicts.
    """

    configurations: tuple[Configuration, ...] = field(repr=False)
    edges: tuple[tuple[int, ...], ...] = field(repr=False)
    properties: tuple[Property, ...]


def walk(
    table: Table,
    limits: Mapping[str, int],
    *,
    goal: str | None = None,
    progress: Callable[[int], None] | None = None,
    repeats: bool = True,
) -> Walk:
    """Visit every configuration of a machine.

    Arguments:
        table: the table of the machine.
        limits: the limit of each counter.
        goal: the state that must stay reachable; by default the first outcome, or the start of a
            cyclic machine.
        progress: called with the number of configurations seen, every thousand of them.
        repeats: whether an event is fired again where only counters differ that its rows neither
            read nor take from. It does the same then, unless the machine does other things than its
            table declares.
    """
    known = {name: limits[name] for name in table.counters}
    walker = Walker(table, known, repeats=repeats)
    walker.run(progress)
    walker.check_machine()
    goal = goal or (*table.outcomes, table.start)[0]
    walked = walker.walked
    goal_name = f"every configuration can still reach {goal}"
    walker.judge(ALIVE, sometimes_taken(walked))
    walker.judge(REACHED, sometimes_reached(walked))
    walker.judge(ENDS, eventually_over(walked))
    walker.judge(goal_name, eventually_able(walked, goal))
    details = walker.details()
    names = [*PROPERTIES, goal_name]
    if table.kind != "ending":
        names = [name for name in names if name not in OF_ENDINGS]
    properties = []
    for name in names:
        fault = walker.faults.get(name)
        properties.append(fault or Property(name, True, details[name]))
    return Walk(
        configurations=tuple(walked.order),
        edges=tuple(tuple(sorted(each)) for each in walked.edges),
        properties=tuple(properties),
    )


class Walker:
    """Walk over the configurations of a machine, and record faults.

    Arguments:
        table: the table of the machine.
        limits: the limit of each counter.
        repeats: whether an event is fired again where only counters differ that its rows ignore.
    """

    def __init__(self, table: Table, limits: dict[str, int], *, repeats: bool) -> None:
        self.table = table
        self.limits = tuple(limits.values())
        self.repeats = repeats
        # by event, state and the counters that matter to the rows
        self.known: dict[object, dict[Change, Firing]] = {}
        self.counters: dict[Ladder, set[int]] = {}
        self.combinations: dict[Ladder, Combinations] = {}
        for ladder, rows in table.ladders.items():
            self.counters[ladder] = _counters(table, rows)
            self.combinations[ladder] = Combinations(table, rows)
        self.zero = (0,) * len(limits)
        self.real = Run.at_start(table, limits)
        self.walked = Walked(table, limits, [], [], set())
        self.index: dict[Configuration, int] = {}
        self.parents: list[Parent | None] = []
        self.fired = 0
        self.faults: dict[str, Property] = {}
        self.verdicts: dict[str, str] = {}

    # the walk

    def run(self, progress: Callable[[int], None] | None, *, is_brief: bool = False) -> None:
        """Fire every event in every configuration, the nearest to the start first.

        Arguments:
            progress: as for `walk`.
            is_brief: whether to stop once every state was met and every row was taken.
        """
        events = {
            state: [event for event, source in self.table.ladders if source == state]
            for state in self.table.states
        }
        met: set[str] = set()
        self.add((self.table.start, self.zero), None)
        for index, (state, _) in enumerate(self.walked.order):  # which grows on the way
            if state not in met:
                met.add(state)
                for event in (*self.table.events, UNKNOWN_EVENT):
                    if event not in events[state]:
                        self.look(index, event, ())
            for event in events[state]:
                self.fire(index, event)
            if progress is not None and (index + 1) % PROGRESS_EVERY == 0:
                progress(index + 1)
            has_all = len(self.walked.taken) == len(self.table.rows)
            if is_brief and has_all and len(met) == len(self.table.states):
                break

    def add(self, configuration: Configuration, parent: Parent | None) -> int:
        """Add a configuration with what led there, and return its index."""
        index = self.index[configuration] = len(self.walked.order)
        self.walked.order.append(configuration)
        self.walked.edges.append(set())
        self.parents.append(parent)
        return index

    def fire(self, index: int, event: str) -> None:
        """Fire an event in a configuration, or take what is known to come of it.

        Arguments:
            index: of the configuration.
            event: the event, which is fired with every combination of facts.
        """
        state, spent = self.walked.order[index]
        read = tuple([spent[place] for place in self.counters[event, state]])
        key = (event, state, read)
        if self.repeats or key not in self.known:
            found = self.known[key] = {}
            left = {}
            counters = zip(self.table.counters, spent, self.limits, strict=True)
            for name, count, limit in counters:
                left[name] = count < limit
            for facts, first in self.combinations[event, state].at(left):
                self.fired += 1
                firing = self.look(index, event, facts, first)
                if firing is not None and firing.row is not None and not self.repeats:
                    takes, refills = changes(self.table, firing.row, firing.ask)
                    found.setdefault((firing.after[0], takes, refills), firing)
            return
        # What comes of it does not depend on the other counters, so they stay as they are.
        places = self.table.places
        for (target, takes, refills), known in self.known[key].items():
            after = list(spent)
            if takes is not None:
                after[places[takes]] += 1
            for name in refills:
                after[places[name]] = 0
            self.arrive(index, known, (target, tuple(after)))

    def look(
        self,
        index: int,
        event: str,
        facts: tuple[str, ...],
        first: Row | None = None,
    ) -> Firing | None:
        """Fire an event in a configuration, and check the result against each property.

        Arguments:
            index: of the configuration.
            event: the event.
            facts: those that hold.
            first: the first row whose guard then holds, if it is known.

        Returns:
            where it leads; None if it was refused, or if counters are beyond their limits.
        """
        before = self.walked.order[index]
        real = self.real
        real.state = before[0]
        real.spent = list(before[1])
        self.check_guards(index, event, facts)
        firing = fired(real, event, facts, first)
        wrong = broken_by(firing)
        for name, what in wrong.items():
            self.fault(name, what, index, firing)
        if firing.row is None or BOUNDED in wrong:
            return None
        self.walked.taken.add(firing.row)
        self.arrive(index, firing, firing.after)
        return firing

    def check_guards(self, index: int, event: str, facts: tuple[str, ...]) -> None:
        """Try the compiled guards of an event, and check that they change nothing."""
        real = self.real
        real.facts = fact_bits_of(self.table).mask(facts)
        before = (real.state, tuple(real.spent))
        others = (real.attempts, real.facts)
        for _, conditions in rows_tried(real.machine, event, real.state):
            for holds in conditions:
                holds(real)
        after = (real.state, tuple(real.spent))
        if after != before or (real.attempts, real.facts) != others:
            firing = Firing(self.table, self.limits, before, event, facts, None, after)
            self.fault(PURE, "a guard changed the run", index, firing)
            real.state = before[0]
            real.spent = list(before[1])

    def arrive(self, index: int, firing: Firing, after: Configuration) -> None:
        """Note the step from a configuration to another, which may be new."""
        end = after
        if after[0] in self.table.outcomes:  # with which counters a run ended makes no difference
            end = (after[0], self.zero)
        target = self.index.get(end)
        if target is None:
            target = self.add(end, (index, firing, after))
        self.walked.edges[index].add(target)

    # what was found

    def judge(self, name: str, verdict: Verdict) -> None:
        """Record the verdict on a property of the whole walk."""
        if verdict.holds:
            self.verdicts[name] = verdict.detail
        else:
            path = self.path(verdict.at) if verdict.at is not None else ()
            self.faults[name] = Property(name, False, verdict.detail, path)

    def check_machine(self) -> None:
        """Compare the transitions of the machine with the rows, one by one."""
        for (event, state), rows in self.table.ladders.items():
            tried = [row for row, _ in rows_tried(self.real.machine, event, state)]
            if tried != list(rows):
                detail = (
                    f"for {event!r} in {state!r} the machine tries {'; '.join(map(str, tried))}"
                )
                self.faults[ORDERED] = Property(ORDERED, False, detail)

    def details(self) -> dict[str, str]:
        """Say what was checked for each property."""
        order = self.walked.order
        outcomes = sum(state in self.table.outcomes for state, _ in order)
        events = len(self.table.events) + 1
        steps = sum(map(len, self.walked.edges))
        details = dict(self.verdicts)
        details[TOTAL] = f"a row fired each time, in {self.fired} firings"
        details[ORDERED] = "the machine took the first row whose guard holds"
        details[ABSORB] = f"{outcomes} outcomes refused each of {events} events"
        details[ILLEGAL] = f"each state refused all others of {events} events"
        details[PURE] = "looked at before and after every firing"
        details[COUNTS] = "no effect touched anything else; each send counted one attempt"
        details[BOUNDED] = f"in each of {len(order)} configurations"
        details[FALLS] = f"on each of {steps} steps from one configuration to another"
        return details

    def fault(self, name: str, detail: str, index: int, firing: Firing) -> None:
        """Record the first fault of a property.

        Arguments:
            name: of the property.
            detail: what is wrong.
            index: of the configuration in which the event was fired.
            firing: the event, and its result.
        """
        if name not in self.faults:
            path = (*self.path(index), self.step(firing))
            self.faults[name] = Property(name, False, detail, path)

    def path(self, index: int) -> tuple[PathStep, ...]:
        """Return a shortest path to a configuration."""
        steps: list[PathStep] = []
        parent = self.parents[index]
        while parent is not None:
            index, firing, after = parent
            before = self.walked.order[index]
            steps.append(self.step(evolve(firing, before=before, after=after)))
            parent = self.parents[index]
        return tuple(reversed(steps))

    def step(self, firing: Firing) -> PathStep:
        """Return a firing as a step of a path."""
        row = firing.row
        source, before = firing.before
        target, after = firing.after
        changed = {}
        for name, old, new in zip(self.table.counters, before, after, strict=True):
            if old != new:
                changed[name] = (old, new)
        return PathStep(
            event=firing.event,
            source=source,
            target=target if row else None,
            guard=row.guard if row else None,
            facts=firing.facts,
            changed=changed,
        )


def _counters(table: Table, rows: tuple[Row, ...]) -> set[int]:
    """Return the places of the counters that some rows read or take from."""
    names = {table.guard(row.guard).counter for row in rows}
    names |= {table.effect(row.effect).spends for row in rows}
    return {table.places[name] for name in names if name is not None}
