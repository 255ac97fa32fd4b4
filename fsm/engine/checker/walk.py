"""The exhaustive walk: it puts the shipped machine into every configuration, fires every event, and
checks the result.

A configuration is a state with the values of all counters; an outcome is one. The walk goes breadth
first, so the first path to a fault is a shortest one. It fires each event with every combination of
facts that makes a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve, field, frozen

from rungwise.fsm.engine.checker.branches import Ask, changes, first_row, ways
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
PROPERTIES = (TOTAL, ORDERED, ALIVE, REACHED, ABSORB, ILLEGAL, PURE, COUNTS, BOUNDED, FALLS, ENDS)
OF_ENDINGS = frozenset({ABSORB, FALLS, ENDS})
"""The properties that a cyclic machine does not have: it has no outcomes and never ends."""

Change = tuple[str, str | None, tuple[str, ...]]
"""Where a firing leads, and the counters that it takes from and refills."""

Result = tuple[Row | None, str | None, tuple[str, ...]]
Leaf = tuple[list[tuple[str, bool]], Result]
"""The facts that one way reads, in that order, and its result."""

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
        goal: the state that must stay reachable; by default the first outcome, or the start of a
        cyclic machine. progress: called with the number of configurations seen, every thousand of
        them.
        repeats: whether an event is fired again where only counters differ that its rows neither
            read nor take from. It does the same then, unless the machine does other things than its
            table declares.
    """
    walker = _Walker(table, {name: limits[name] for name in table.counters}, repeats=repeats)
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
    names = (
        PROPERTIES
        if table.kind == "ending"
        else [name for name in PROPERTIES if name not in OF_ENDINGS]
    )
    found = [
        walker.faults.get(name) or Property(name, True, details[name])
        for name in (*names, goal_name)
    ]
    return Walk(
        tuple(walked.order), tuple(tuple(sorted(each)) for each in walked.edges), tuple(found)
    )


class _Walker:
    def __init__(self, table: Table, limits: dict[str, int], *, repeats: bool) -> None:
        self.table, self.limits, self.repeats = table, tuple(limits.values()), repeats
        # by event, state and the counters that matter to the rows
        self.known: dict[object, dict[Change, Firing]] = {}
        self.counters = {key: _counters(table, rows) for key, rows in table.ladders.items()}
        self.zero = (0,) * len(limits)
        self.real = Run.at_start(table, limits)
        self.combinations = {key: Combinations(table, rows) for key, rows in table.ladders.items()}
        self.walked = Walked(table, limits, [], [], set())
        self.index: dict[Configuration, int] = {}
        self.parents: list[tuple[int, PathStep] | None] = []
        self.fired = 0
        self.faults: dict[str, Property] = {}
        self.verdicts: dict[str, str] = {}

    # the walk

    def run(self, progress: Callable[[int], None] | None) -> None:
        events = {
            state: [event for event, source in self.table.ladders if source == state]
            for state in self.table.states
        }
        met: set[str] = set()
        self.add((self.table.start, self.zero), None)
        for index, (state, spent) in enumerate(self.walked.order):  # which grows on the way
            if state not in met:
                met.add(state)
                for event in (*self.table.events, UNKNOWN_EVENT):
                    if event not in events[state]:
                        self.look(index, event, ())
            counters = zip(self.table.counters, spent, self.limits, strict=True)
            left = {name: count < limit for name, count, limit in counters}
            for event in events[state]:
                self.fire(index, event, left)
            if progress is not None and (index + 1) % PROGRESS_EVERY == 0:
                progress(index + 1)

    def add(self, configuration: Configuration, parent: tuple[int, PathStep] | None) -> int:
        index = self.index[configuration] = len(self.walked.order)
        self.walked.order.append(configuration)
        self.walked.edges.append(set())
        self.parents.append(parent)
        return index

    def fire(self, index: int, event: str, left: dict[str, bool]) -> None:
        """Fire an event in a configuration with every combination of facts, or take what is known
        to come of it.
        """
        state, spent = self.walked.order[index]
        key = event, state, tuple([spent[place] for place in self.counters[event, state]])
        if self.repeats or key not in self.known:
            found = self.known[key] = {}
            for facts, first in self.combinations[event, state].at(left):
                self.fired += 1
                firing = self.look(index, event, facts, first)
                if firing is not None and firing.row is not None and not self.repeats:
                    takes, refills = changes(self.table, firing.row, firing.ask)
                    found.setdefault((firing.after[0], takes, refills), firing)
            return
        for (target, takes, refills), known in self.known[key].items():
            counters = zip(self.table.counters, spent, strict=True)
            after = tuple(
                [0 if name in refills else count + (name == takes) for name, count in counters]
            )
            self.arrive(index, known, (target, after))

    def look(
        self, index: int, event: str, facts: tuple[str, ...], first: Row | None = None
    ) -> Firing | None:
        """Fire an event in a configuration, check the result against each property, and return
        where it leads.
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
        beside = (real.attempts, real.facts)
        for _, conditions in rows_tried(real.machine, event, real.state):
            for holds in conditions:
                holds(real)
        after = real.state, tuple(real.spent)
        if (after, (real.attempts, real.facts)) != (before, beside):
            firing = Firing(self.table, self.limits, before, event, facts, None, after)
            self.fault(PURE, "a guard changed the run", index, firing)
            real.state = before[0]
            real.spent = list(before[1])

    def arrive(self, index: int, firing: Firing, after: Configuration) -> None:
        # With which counters a run ended makes no difference to anything, so an outcome is one
        # configuration.
        state, spent = after
        end = (state, self.zero) if state in self.table.outcomes else (state, spent)
        target = self.index.get(end)
        if target is None:
            step = self.step(evolve(firing, before=self.walked.order[index], after=after))
            target = self.add(end, (index, step))
        self.walked.edges[index].add(target)

    # what was found

    def judge(self, name: str, verdict: Verdict) -> None:
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
        outcomes = self.table.outcomes
        events = len(self.table.events) + 1
        steps = sum(map(len, self.walked.edges))
        return self.verdicts | {
            TOTAL: f"a row fired each time, in {self.fired} firings",
            ORDERED: "the machine took the first row whose guard holds",
            ABSORB: f"{sum(state in outcomes for state, _ in order)} outcomes refused each of "
            f"{events} events",
            ILLEGAL: f"each state refused all others of {events} events",
            PURE: "looked at before and after every firing",
            COUNTS: "no effect touched anything else; each send counted one attempt",
            BOUNDED: f"in each of {len(order)} configurations",
            FALLS: f"on each of {steps} steps from one configuration to another",
        }

    def fault(self, name: str, detail: str, index: int, firing: Firing) -> None:
        if name not in self.faults:
            self.faults[name] = Property(
                name, False, detail, (*self.path(index), self.step(firing))
            )

    def path(self, index: int) -> tuple[PathStep, ...]:
        steps: list[PathStep] = []
        parent = self.parents[index]
        while parent is not None:
            steps.append(parent[1])
            parent = self.parents[parent[0]]
        return tuple(reversed(steps))

    def step(self, firing: Firing) -> PathStep:
        row = firing.row
        pairs = zip(self.table.counters, firing.before[1], firing.after[1], strict=True)
        changed = {name: (before, value) for name, before, value in pairs if before != value}
        target = firing.after[0] if row else None
        return PathStep(
            firing.event,
            firing.before[0],
            target,
            row.guard if row else None,
            firing.facts,
            changed,
        )


def _counters(table: Table, rows: tuple[Row, ...]) -> set[int]:
    """Return the places of the counters that some rows read or take from."""
    names = {table.guard(row.guard).counter for row in rows} | {
        table.effect(row.effect).spends for row in rows
    }
    return {table.places[name] for name in names if name is not None}


class Combinations:
    """Find the combinations of facts that an event must be fired with; they are cached by the
    counters that are left.

    If both answers for a fact lead to the same result in every respect, one of them is enough.
    """

    def __init__(self, table: Table, rows: tuple[Row, ...]) -> None:
        self._table = table
        self._rows = rows
        guards = [table.guard(row.guard) for row in rows]
        self._counters = tuple(
            dict.fromkeys(guard.counter for guard in guards if guard.counter is not None)
        )
        self._found: dict[tuple[bool, ...], list[tuple[tuple[str, ...], Row | None]]] = {}

    def at(self, left: dict[str, bool]) -> list[tuple[tuple[str, ...], Row | None]]:
        """Return the facts to set, one tuple for each combination, with the first row whose guard
        then holds.
        """

        def body(ask: Ask) -> Result:
            row = first_row(
                self._table, self._rows, lambda name: left[name] if name in left else ask(name)
            )
            return (row, *(changes(self._table, row, ask) if row else (None, ())))

        key = tuple([left[name] for name in self._counters])
        if key not in self._found:
            leaves = [(list(answers.items()), result) for answers, result in ways(body)]
            self._found[key] = [(held, result[0]) for held, result in _apart(leaves, 0)]
        return self._found[key]


def _apart(leaves: list[Leaf], depth: int) -> list[tuple[tuple[str, ...], Result]]:
    """Return the facts that hold in each way and its result, without the questions that make no
    difference.
    """
    facts, result = leaves[0]
    if len(facts) == depth:
        return [((), result)]
    no, yes = (
        _apart([leaf for leaf in leaves if leaf[0][depth][1] is held], depth + 1)
        for held in (False, True)
    )
    return no if yes == no else [*no, *(((facts[depth][0], *held), result) for held, result in yes)]
