"""What must be true of a machine: predicates on each firing of an event, and on a whole walk.

A predicate named `always_` looks at one observed firing, and so serves anyone who watches a
machine. Those named `sometimes_` and `eventually_` look at all that a walk has visited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

from attrs import frozen

from rungwise.fsm.engine.checker.branches import changes, first_row
from rungwise.fsm.engine.checker.proof import prove
from rungwise.fsm.engine.checker.structure import reached_states
from rungwise.fsm.engine.machine.build import COUNT_ATTEMPT
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.engine.machine.table import Row, Table
from rungwise.fsm.errors import BrokenMachine, IllegalEvent

Configuration = tuple[str, tuple[int, ...]]
"""A state, with what is spent of each counter."""

TOTAL = "total"
ORDERED = "deterministic by order"
ABSORB = "finals absorb"
ILLEGAL = "illegal events change nothing"
COUNTS = "effects only count"
BOUNDED = "counters within limits"
FALLS = "the variant falls on every step"
ALIVE = "no dead row"
REACHED = "no unreachable state"
ENDS = "every path ends"


@frozen
class Firing:
    """Hold an event that was fired, and its result.

    Arguments:
        table: the table of the machine.
        limits: the limit of each counter, in the order of `table.counters`.
        before: the configuration in which it was fired.
        event: the event.
        facts: those that held.
        row: the row that was taken; None if the event was refused.
        after: the configuration afterwards.
        sends: the attempts that were counted.
        first: the first row whose guard holds, if it is already known.
    """

    table: Table
    limits: tuple[int, ...]
    before: Configuration
    event: str
    facts: tuple[str, ...]
    row: Row | None
    after: Configuration
    sends: int = 0
    first: Row | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the rows that are tried."""
        return self.table.ladder(self.event, self.before[0])

    @property
    def expected(self) -> Row | None:
        """Return the first row whose guard holds, by the declarations."""
        return self.first or first_row(self.table, self.rows, self.ask)

    def ask(self, name: str) -> bool:
        """Tell whether a fact holds, or a unit of a counter is left."""
        place = self.table.places.get(name)
        return name in self.facts if place is None else self.before[1][place] < self.limits[place]


def fired(run: Run, event: str, facts: tuple[str, ...] = (), first: Row | None = None) -> Firing:
    """Fire an event on a run and return the result, even if it was refused or is illegal.

    Arguments:
        run: the run, which changes.
        event: the event.
        facts: those that hold.
        first: the first row whose guard holds, if it is already known.
    """
    before = (run.state, tuple(run.spent))
    attempts = run.attempts
    row = None
    try:
        row = run.fire(event, facts)
    except IllegalEvent:
        pass
    except BrokenMachine:
        row = run.row
    after = (run.state, tuple(run.spent))
    return Firing(
        table=run.table,
        limits=run.limits,
        before=before,
        event=event,
        facts=facts,
        row=row,
        after=after,
        sends=run.attempts - attempts,
        first=first,
    )


Predicate = Callable[[Firing], str | None]
"""Says what is wrong with a firing; None if nothing is."""


def always_taken(firing: Firing) -> str | None:
    """Demand that each event of a state's ladders takes a row."""
    return "no row fires" if firing.rows and firing.row is None else None


def always_first(firing: Firing) -> str | None:
    """Demand that the row taken is the first whose guard holds, and leads where it says."""
    if not firing.rows or firing.row is None:
        return None
    expected = firing.expected
    if firing.row == expected and firing.after[0] == firing.row.target:
        return None
    return f"took {firing.row}, not {expected}"


def always_absorbed(firing: Firing) -> str | None:
    """Demand that an outcome takes no event."""
    return _unmoved(firing) if firing.before[0] in firing.table.outcomes else None


def always_refused(firing: Firing) -> str | None:
    """Demand that an event that is illegal in a state changes nothing."""
    if firing.rows or firing.before[0] in firing.table.outcomes:
        return None
    return _unmoved(firing)


def _unmoved(firing: Firing) -> str | None:
    if firing.row is not None:
        return f"{firing.event!r} is taken"
    if firing.after != firing.before:
        return f"{firing.event!r} is refused, but changes the run"
    return None


def always_counting(firing: Firing) -> str | None:
    """Demand that a row changes what its effect declares and nothing else, and counts each send."""
    if firing.row is None:
        return None
    takes, refills = changes(firing.table, firing.row, firing.ask)
    places = firing.table.places
    spent = list(firing.before[1])
    if takes is not None:
        spent[places[takes]] += 1
    for name in refills:
        spent[places[name]] = 0
    sends = int(firing.row.effect == COUNT_ATTEMPT.name)
    if firing.after[1] == tuple(spent) and firing.sends == sends:
        return None
    return f"{firing.row} does more, or less, than count"


def always_bounded(firing: Firing) -> str | None:
    """Demand that every counter stays within its limit."""
    counters = zip(firing.table.counters, firing.after[1], firing.limits, strict=True)
    for name, count, limit in counters:
        if not 0 <= count <= limit:
            return f"{name} is {count!r}, its limit {limit}"
    return None


def always_falling(firing: Firing) -> str | None:
    """Demand that what is left, by rank, is less after every step, if the machine must end."""
    if firing.row is None or firing.table.kind == "cyclic":
        return None
    before = variant(firing.table, firing.limits, firing.before)
    after = variant(firing.table, firing.limits, firing.after)
    if after < before:
        return None
    return f"it goes from {before} to {after}"


def variant(table: Table, limits: tuple[int, ...], configuration: Configuration) -> tuple[int, ...]:
    """Return what is left, by rank, then whether something waits to be sent.

    The variant of an outcome is lower than any other.
    """
    state, spent = configuration
    if state in table.outcomes:
        return (0,)
    left = [limit - count for limit, count in zip(limits, spent, strict=True)]
    ranked = [sum([left[place] for place in group]) for group in table.ranked_places]
    return (1, *ranked, int(state != table.hub))


ALWAYS: dict[str, Predicate] = {
    TOTAL: always_taken,
    ORDERED: always_first,
    ABSORB: always_absorbed,
    ILLEGAL: always_refused,
    COUNTS: always_counting,
    BOUNDED: always_bounded,
    FALLS: always_falling,
}
"""What must be true of every firing, by the name of the property."""


def broken_by(firing: Firing) -> dict[str, str]:
    """Return the properties that a firing breaks: what is wrong, by the name of each."""
    broken = {}
    for name, always in ALWAYS.items():
        wrong = always(firing)
        if wrong is not None:
            broken[name] = wrong
    return broken


@frozen
class Walked:
    """Hold what a walk has visited.

    Arguments:
        table: the table of the machine.
        limits: the limit of each counter.
        order: the configurations, the nearest to the start first.
        edges: for each configuration, the indices of those one step away.
        taken: the rows that were taken.
    """

    table: Table
    limits: dict[str, int]
    order: list[Configuration]
    edges: list[set[int]]
    taken: set[Row]


@frozen
class Verdict:
    """Hold the finding for a property of a whole walk.

    Arguments:
        holds: whether it holds.
        detail: what was checked, or what is wrong.
        at: the index of the configuration that shows what is wrong.
    """

    holds: bool
    detail: str
    at: int | None = None


def sometimes_taken(walked: Walked) -> Verdict:
    """Demand that each row is taken, except those that a limit of 0 switches off."""
    off = _off(walked)
    reached = reached_states(walked.table, off)
    due = [row for row in walked.table.rows if row.source in reached and row not in off]
    dead = [row for row in due if row not in walked.taken]
    if dead:
        return Verdict(False, f"never taken: {'; '.join(map(str, dead))}")
    detail = f"all {len(due)} rows were taken"
    if off:
        detail += f"; {len(walked.table.rows) - len(due)} are off, as their limit is 0"
    return Verdict(True, detail)


def sometimes_reached(walked: Walked) -> Verdict:
    """Demand that each state is reached, except those that a limit of 0 switches off."""
    expected = reached_states(walked.table, _off(walked))
    missing = expected - {state for state, _ in walked.order}
    if missing:
        return Verdict(False, f"never reached: {', '.join(sorted(missing))}")
    return Verdict(True, f"{len(expected)} states")


def eventually_over(walked: Walked) -> Verdict:
    """Demand that no configuration leads back to itself."""
    cycle = first_cycle(walked.edges)
    if cycle:
        states = " -> ".join(walked.order[index][0] for index in cycle)
        return Verdict(
            False, f"from the end of the path it goes round for ever: {states}", cycle[0]
        )
    return Verdict(True, f"{sum(map(len, walked.edges))} steps, and no cycle")


def eventually_able(walked: Walked, goal: str) -> Verdict:
    """Demand that the goal can be reached from every configuration that does not end the run."""
    outcomes = walked.table.outcomes
    goals = [index for index, (state, _) in enumerate(walked.order) if state == goal]
    able = able_to_reach(walked.edges, goals)
    going = [index for index, (state, _) in enumerate(walked.order) if state not in outcomes]
    lost = next((index for index in going if index not in able), None)
    if lost is not None:
        return Verdict(False, f"not from {walked.order[lost][0]!r} at the end of the path", lost)
    kind = f" that do not end the {walked.table.name}" if outcomes else ""
    return Verdict(True, f"from each of {len(going)} configurations{kind}")


def _off(walked: Walked) -> set[Row]:
    """Return the rows that a limit of 0 switches off."""
    off = set()
    for proof in prove(walked.table):
        if proof.takes is not None and walked.limits[proof.takes] == 0:
            off.add(proof.row)
    return off


# a graph of numbered nodes: what can reach what, and where the cycles are


def able_to_reach(edges: Sequence[Collection[int]], goals: Iterable[int]) -> set[int]:
    """Return the nodes that can reach a goal, the goals included."""
    sources = _sources(edges)
    able = set(goals)
    todo = list(able)
    while todo:
        new = [source for source in sources[todo.pop()] if source not in able]
        able.update(new)
        todo += new
    return able


def first_cycle(edges: Sequence[Collection[int]]) -> list[int]:
    """Return a shortest cycle through the lowest node that is on any; empty if none is.

    That node stands first and last.
    """
    # What leads nowhere is taken away until nothing or a cycle is left (Kahn 1962).
    sources = _sources(edges)
    ahead = [len(targets) for targets in edges]
    todo = [node for node, count in enumerate(ahead) if count == 0]
    while todo:
        for source in sources[todo.pop()]:
            ahead[source] -= 1
            if ahead[source] == 0:
                todo.append(source)
    left: list[set[int]] = [set() for _ in edges]
    for node, targets in enumerate(edges):
        if ahead[node]:
            left[node] = {target for target in targets if ahead[target]}
    for node, targets in enumerate(left):
        trip = _round_trip(left, node) if targets else []
        if trip:
            return trip
    return []


def _round_trip(edges: Sequence[Collection[int]], start: int) -> list[int]:
    """Return a shortest path from a node back to itself, found breadth first; empty if none is."""
    before: dict[int, int] = {}
    todo = deque([start])
    while todo and start not in before:
        node = todo.popleft()
        for target in sorted(edges[node]):
            if target not in before:
                before[target] = node
                todo.append(target)
    if start not in before:
        return []
    trip = [start, before[start]]
    while trip[-1] != start:
        trip.append(before[trip[-1]])
    return trip[::-1]


def _sources(edges: Sequence[Collection[int]]) -> list[list[int]]:
    """Return the nodes that lead to each node."""
    sources: list[list[int]] = [[] for _ in edges]
    for source, targets in enumerate(edges):
        for target in targets:
            sources[target].append(source)
    return sources
