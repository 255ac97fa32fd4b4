"""The exhaustive walk: the shipped machine is put into every configuration, every event is fired, and we look.

A configuration is a state with the values of all counters; an outcome is one configuration. The walk goes breadth first
from the start, so the first path to a fault is a shortest one. Each event is fired with every combination of facts that
makes a difference.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from attrs import field, fields, frozen

from rungwise.fsm.call.ladder import COUNTER, FACT, names_of
from rungwise.fsm.checker.combinations import Combinations
from rungwise.fsm.checker.counterexample import PathStep, Property
from rungwise.fsm.checker.explore import ATTEMPTS, WRITABLE, Refusal
from rungwise.fsm.checker.graph import able_to_reach, first_cycle
from rungwise.fsm.checker.proof import prove
from rungwise.fsm.errors import IllegalEvent
from rungwise.fsm.machine.machine import fire, machine_of
from rungwise.fsm.machine.table import Row, Table

Configuration = tuple[str, tuple[int, ...]]

TOTAL = "total"
ORDERED = "deterministic by order"
ALIVE = "no dead row"
REACHED = "no unreachable state"
ABSORB = "finals absorb"
ILLEGAL = "illegal events change nothing"
PURE = "guards pure"
COUNTS = "effects only count"
BOUNDED = "counters within limits"
FALLS = "the variant falls on every step"
ENDS = "every path ends"
PROPERTIES = (TOTAL, ORDERED, ALIVE, REACHED, ABSORB, ILLEGAL, PURE, COUNTS, BOUNDED, FALLS, ENDS)

UNKNOWN_EVENT = "no event of any table"
PROGRESS_EVERY = 1000


@frozen
class Walk:
    """Hold what a walk found.

    Arguments:
        limits: the limits walked with, by counter.
        configurations: every configuration that was reached, the nearest to the start first.
        edges: for each of them, the indices of those that one step leads to.
        properties: what was checked, with the verdicts.
    """

    limits: Mapping[str, int]
    configurations: tuple[Configuration, ...] = field(repr=False)
    edges: tuple[tuple[int, ...], ...] = field(repr=False)
    properties: tuple[Property, ...]

    @property
    def ok(self) -> bool:
        """Tell whether every property holds."""
        return all(each.holds for each in self.properties)


def walk(
    table: Table,
    limits: Mapping[str, int],
    *,
    goal: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Walk:
    """Walk over every configuration of a table's machine with the given limits.

    Arguments:
        limits: the limit of each counter.
        goal: the outcome that must stay reachable; the first outcome of the table where None.
        progress: is given the number of configurations looked at, every thousand of them.
    """
    walker = _Walker(table, {name: limits[name] for name in names_of(table.model, COUNTER)})
    walker.run(progress)
    walker.check_machine()
    walker.check_rows()
    walker.check_end()
    goal_name = walker.check_goal(goal or table.outcomes[0])
    walker.describe(goal_name)
    edges = tuple(tuple(sorted(each)) for each in walker.edges)
    found = tuple(walker.property(name) for name in (*PROPERTIES, goal_name))
    return Walk(walker.limits, tuple(walker.order), edges, found)


class _Firing(NamedTuple):
    """Hold what is fired where: the index of the configuration, the event and the facts that hold."""

    source: int
    event: str
    facts: tuple[str, ...]


class _Walker:
    def __init__(self, table: Table, limits: dict[str, int]) -> None:
        self.table, self.limits = table, limits
        self.outcomes, self.zero = frozenset(table.outcomes), (0,) * len(limits)
        self.counters, self.ceilings = tuple(limits), tuple(limits.values())
        self.machine = machine_of(table)
        self.real = self.fresh()
        others = [each.name for each in fields(table.model) if each.name not in limits]
        self.counts = _getter(self.counters)
        self.rest = _getter([name for name in others if name not in (*WRITABLE, "rung", "row")])
        self.attempts: Callable[[Any], int] | None = attrgetter(ATTEMPTS) if ATTEMPTS in others else None
        self.groups = [[self.counters.index(name) for name in group] for group in table.ranks]
        self.ladders = {(row.source, row.event): table.ladder(row.event, row.source) for row in table.rows}
        self.combinations = {key: Combinations(rows) for key, rows in self.ladders.items()}
        self.index: dict[Configuration, int] = {}
        self.order: list[Configuration] = []
        self.edges: list[set[int]] = []
        self.parents: list[tuple[int, PathStep] | None] = []
        self.variants: list[tuple[int, ...]] = []
        self.taken: set[Row] = set()
        self.fired = 0
        self.faults: dict[str, Property] = {}
        self.details: dict[str, str] = {}

    def fresh(self) -> Any:
        limits: Any = namedtuple("Limits", self.limits)(**self.limits)  # an effect cannot raise its own limit
        real: Any = self.table.model(limits)
        for name in names_of(self.table.model, FACT):
            setattr(real, name, False)
        return real

    # the walk

    def run(self, progress: Callable[[int], None] | None) -> None:
        events = {state: [event for source, event in self.ladders if source == state] for state in self.table.states}
        met: set[str] = set()
        self.add((self.table.start, self.zero), None)
        for index in _growing(self.order):
            state = self.order[index][0]
            if state not in met:
                met.add(state)
                self.fire_illegal(index, events[state])
            for event in events[state]:
                self.fire_all(index, event)
            if progress is not None and (index + 1) % PROGRESS_EVERY == 0:
                progress(index + 1)

    def add(self, configuration: Configuration, parent: tuple[int, PathStep] | None) -> int:
        index = self.index[configuration] = len(self.order)
        self.order.append(configuration)
        self.edges.append(set())
        self.parents.append(parent)
        self.variants.append(self.variant(*configuration))
        return index

    def variant(self, state: str, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Return what is left, by rank, and then whether something waits to be sent; less after the end."""
        if state in self.table.outcomes:
            return (0,)
        left = [sum(self.ceilings[index] - counts[index] for index in group) for group in self.groups]
        return (1, *left, int(state != self.table.hub))

    def place(self, configuration: Configuration) -> None:
        real = self.real
        real.rung, counts = configuration
        if self.counts(real) != counts:
            for name, count in zip(self.counters, counts, strict=True):
                setattr(real, name, count)

    def fire_all(self, index: int, event: str) -> None:
        configuration = self.order[index]
        key = configuration[0], event
        self.place(configuration)
        try:
            combinations = self.combinations[key].at(self.real)
        except Refusal as refusal:
            self.fault(TOTAL, str(refusal), _Firing(index, event, ()))
            return
        for facts in combinations:
            self.place(configuration)
            for name in facts:
                setattr(self.real, name, True)
            firing = _Firing(index, event, facts)
            try:
                self.fire_one(configuration, firing, self.ladders[key])
            except IllegalEvent:
                self.fault(TOTAL, "no row fires", firing)
            except Exception as error:
                self.fault(TOTAL, f"raises {type(error).__name__}: {error}", firing)
                self.real = self.fresh()
            for name in facts:
                setattr(self.real, name, False)

    def fire_one(self, configuration: Configuration, firing: _Firing, rows: tuple[Row, ...]) -> None:
        real = self.real
        rest = self.rest(real)
        attempts = self.attempts(real) if self.attempts else 0
        first = self.first_of(rows)
        if self.rest(real) != rest or (real.rung, self.counts(real)) != configuration:
            self.fault(PURE, "a guard changed the model", firing)
            self.place(configuration)
        self.fired += 1
        row = fire(self.machine, real, firing.event)
        self.taken.add(row)
        after: Configuration = real.rung, self.counts(real)
        if row is not first or real.rung != row.target:
            self.fault(ORDERED, f"took {row}, not {first}", firing, after)
        counted = self.attempts(real) - attempts if self.attempts else int(row.target == self.table.hub)
        if self.rest(real) != rest or counted != (row.target == self.table.hub):
            self.fault(COUNTS, f"{row} does more, or less, than count", firing, after)
            self.real = self.fresh()
        self.arrive(firing, row, after)

    def first_of(self, rows: tuple[Row, ...]) -> Row | None:
        """Return the first row whose guard holds, in the table's order."""
        for row in rows:
            if row.guard is None:
                return row
            value = getattr(self.real, row.guard)
            value = value() if callable(value) else value
            if type(value) is not bool:
                raise TypeError(f"the guard {row.guard!r} returns {value!r}, which is no bool")
            if value:
                return row
        return None

    def arrive(self, firing: _Firing, row: Row, after: Configuration) -> None:
        # With which counters a call ended makes no difference to anything, so an outcome is one configuration.
        end = (after[0], self.zero) if after[0] in self.outcomes else after
        target = self.index.get(end)
        if target is None:
            for name, count, limit in zip(self.counters, after[1], self.ceilings, strict=True):
                if type(count) is not int or not 0 <= count <= limit:
                    self.fault(BOUNDED, f"{name} is {count!r}, its limit {limit}", firing, after)
                    return
            parent = firing.source, self.step(firing, after, row)
            target = self.add(end, parent)
        self.edges[firing.source].add(target)
        if self.variants[target] >= self.variants[firing.source]:
            before, now = self.variants[firing.source], self.variants[target]
            self.fault(FALLS, f"it goes from {before} to {now}", firing, after)

    def fire_illegal(self, index: int, legal: list[str]) -> None:
        configuration = self.order[index]
        name = ABSORB if configuration[0] in self.table.outcomes else ILLEGAL
        for event in (*self.table.events, UNKNOWN_EVENT):
            if event in legal:
                continue
            self.place(configuration)
            rest = self.rest(self.real)
            try:
                fire(self.machine, self.real, event)
                self.fault(name, f"{event!r} is taken", _Firing(index, event, ()))
            except IllegalEvent:
                if self.rest(self.real) != rest or (self.real.rung, self.counts(self.real)) != configuration:
                    self.fault(name, f"{event!r} is refused, but changes the model", _Firing(index, event, ()))

    # what was found

    def check_rows(self) -> None:
        """Find rows that were never taken and states never reached, apart from those that a limit of 0 switches off."""
        off = {proof.row for proof in prove(self.table) if proof.takes and self.limits[proof.takes] == 0}
        expected = {self.table.start}
        for state in _growing(open_states := [self.table.start]):
            new = {
                row.target for row in self.table.rows if row.source == open_states[state] and row not in off
            } - expected
            expected |= new
            open_states += sorted(new)
        due = [row for row in self.table.rows if row.source in expected and row not in off]
        dead = [row for row in due if row not in self.taken]
        switched = f"; {len(self.table.rows) - len(due)} are off, as their limit is 0" if off else ""
        self.details[ALIVE] = f"all {len(due)} rows were taken{switched}"
        if dead:
            self.faults[ALIVE] = Property(ALIVE, False, f"never taken: {'; '.join(map(str, dead))}")
        missing = expected - {state for state, _ in self.order}
        self.details[REACHED] = f"{len(expected)} states"
        if missing:
            self.faults[REACHED] = Property(REACHED, False, f"never reached: {', '.join(sorted(missing))}")

    def check_goal(self, goal: str) -> str:
        """Find the nearest configuration from which the goal is out of reach; return the property's name."""
        name = f"every configuration can still reach {goal}"
        able = able_to_reach(self.edges, [index for index, (state, _) in enumerate(self.order) if state == goal])
        lost = (
            index for index, (state, _) in enumerate(self.order) if index not in able and state not in self.outcomes
        )
        for index in lost:
            detail = f"not from {self.order[index][0]!r} at the end of the path"
            self.faults[name] = Property(name, False, detail, self.path(index))
            break
        return name

    def check_end(self) -> None:
        """Find the nearest configuration that leads back to itself."""
        cycle = first_cycle(self.edges)
        if cycle:
            states = " -> ".join(self.order[index][0] for index in cycle)
            detail = f"from the end of the path it goes round for ever: {states}"
            self.faults[ENDS] = Property(ENDS, False, detail, self.path(cycle[0]))

    def check_machine(self) -> None:
        """Compare the transitions of the machine with the rows, one by one."""
        for (state, event), rows in self.ladders.items():
            tried = [getattr(each, "row", None) for each in self.machine.events[event].transitions[state]]
            if tried != list(rows):
                detail = f"for {event!r} in {state!r} the machine tries {'; '.join(map(str, tried))}"
                self.faults[ORDERED] = Property(ORDERED, False, detail)

    def describe(self, goal_name: str) -> None:
        """Say of each property what was looked at."""
        events, outcomes = len(self.table.events) + 1, sum(state in self.outcomes for state, _ in self.order)
        steps = sum(map(len, self.edges))
        self.details |= {
            TOTAL: f"a row fired each time, in {self.fired} firings",
            ORDERED: "the machine took the first row whose guard holds",
            ABSORB: f"{outcomes} outcomes refused each of {events} events",
            ILLEGAL: f"each state refused all others of {events} events",
            PURE: "looked at before and after every firing",
            COUNTS: "no effect touched anything else; each send counted one attempt",
            BOUNDED: f"in each of {len(self.order)} configurations",
            FALLS: f"on each of {steps} steps from one configuration to another",
            ENDS: f"{steps} steps, and no cycle",
            goal_name: f"from each of {len(self.order) - outcomes} configurations that do not end the call",
        }

    def property(self, name: str) -> Property:
        return self.faults.get(name) or Property(name, True, self.details[name])

    def fault(self, name: str, detail: str, firing: _Firing, after: Configuration | None = None) -> None:
        if name not in self.faults:
            row = self.real.row if after else None
            self.faults[name] = Property(
                name, False, detail, (*self.path(firing.source), self.step(firing, after, row))
            )

    def path(self, index: int) -> tuple[PathStep, ...]:
        steps: list[PathStep] = []
        parent = self.parents[index]
        while parent is not None:
            steps.append(parent[1])
            parent = self.parents[parent[0]]
        return tuple(reversed(steps))

    def step(self, firing: _Firing, after: Configuration | None, row: Row | None) -> PathStep:
        state, counts = self.order[firing.source]
        target, now = after or (None, counts)
        pairs = zip(self.counters, counts, now, strict=True)
        changed = {name: (before, value) for name, before, value in pairs if before != value}
        return PathStep(firing.event, state, target, row.guard if row else None, firing.facts, changed)


def _growing(items: list[Any]) -> Iterator[int]:
    """Yield the index of each item, also of those that are added on the way."""
    index = 0
    while index < len(items):
        yield index
        index += 1


def _getter(names: tuple[str, ...] | list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda real: tuple(getattr(real, name) for name in names)
