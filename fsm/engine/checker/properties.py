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
    """Hold an event that was fired, and its result."""

    table: Table
    limits: tuple[int, ...]  # in the order of `table.counters`
    before: Configuration
    event: str
    facts: tuple[str, ...]  # that held
    row: Row | None  # that was taken; None if the event was refused
    after: Configuration
    sends: int = 0  # attempts that were counted
    first: Row | None = None  # the first row whose guard holds, if it is already known

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
    """Fire an event on a run and return the result, even if it was refused or is illegal."""
    before = (run.state, tuple(run.spent))
    attempts = run.attempts
    row = None
    try:
        row = run.fire(event, facts)
    except IllegalEvent:
        pass
    except BrokenMachine:
        row = run.row
    after = run.state, tuple(run.spent)
    return Firing(
        run.table, run.limits, before, event, facts, row, after, run.attempts - attempts, first
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
    is_first = firing.row == expected and firing.after[0] == firing.row.target
    return None if is_first else f"took {firing.row}, not {expected}"


def always_absorbed(firing: Firing) -> str | None:
    """Demand that an outcome takes no event."""
    return _unmoved(firing) if firing.before[0] in firing.table.outcomes else None


def always_refused(firing: Firing) -> str | None:
    """Demand that an event that is illegal in a state changes nothing."""
    return None if firing.rows or firing.before[0] in firing.table.outcomes else _unmoved(firing)


def _unmoved(firing: Firing) -> str | None:
    if firing.row is not None:
        return f"{firing.event!r} is taken"
    return (
        None
        if firing.after == firing.before
        else f"{firing.event!r} is refused, but changes the run"
    )


def always_counting(firing: Firing) -> str | None:
    """Demand that a row takes and refills what its effect declares and nothing else, and that each
    send is counted.
    """
    if firing.row is None:
        return None
    takes, refills = changes(firing.table, firing.row, firing.ask)
    counters = zip(firing.table.counters, firing.before[1], strict=True)
    spent = tuple(0 if name in refills else count + (name == takes) for name, count in counters)
    is_right = firing.after[1] == spent and firing.sends == (
        firing.row.effect == COUNT_ATTEMPT.name
    )
    return None if is_right else f"{firing.row} does more, or less, than count"


def always_bounded(firing: Firing) -> str | None:
    """Demand that every counter stays within its limit."""
    for name, count, limit in zip(
        firing.table.counters, firing.after[1], firing.limits, strict=True
    ):
        if not 0 <= count <= limit:
            return f"{name} is {count!r}, its limit {limit}"
    return None


def always_falling(firing: Firing) -> str | None:
    """Demand that what is left, by rank, is less after every step, unless the machine need not
    end.
    """
    if firing.row is None or firing.table.kind == "cyclic":
        return None
    before, now = (
        variant(firing.table, firing.limits, each) for each in (firing.before, firing.after)
    )
    return None if now < before else f"it goes from {before} to {now}"


def variant(table: Table, limits: tuple[int, ...], configuration: Configuration) -> tuple[int, ...]:
    """Return what is left, by rank, then whether something waits to be sent; the end is lower than
    any.
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
    return {name: wrong for name, always in ALWAYS.items() if (wrong := always(firing)) is not None}


@frozen
class Walked:
    """Hold the configurations that were reached, the steps between them, and the rows that were
    taken.
    """

    table: Table
    limits: dict[str, int]  # of each counter
    order: list[Configuration]  # the nearest to the start first
    edges: list[set[int]]  # for each configuration, the indices of those one step away
    taken: set[Row]


@frozen
class Verdict:
    """Hold the finding for a property: what is wrong or was checked, and the configuration that
    shows it.
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
    others = f"; {len(walked.table.rows) - len(due)} are off, as their limit is 0" if off else ""
    return Verdict(True, f"all {len(due)} rows were taken{others}")


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
    able = able_to_reach(
        walked.edges, [index for index, (state, _) in enumerate(walked.order) if state == goal]
    )
    going = [index for index, (state, _) in enumerate(walked.order) if state not in outcomes]
    lost = next((index for index in going if index not in able), None)
    if lost is not None:
        return Verdict(False, f"not from {walked.order[lost][0]!r} at the end of the path", lost)
    kind = f" that do not end the {walked.table.name}" if outcomes else ""
    return Verdict(True, f"from each of {len(going)} configurations{kind}")


def _off(walked: Walked) -> set[Row]:
    return {
        proof.row
        for proof in prove(walked.table)
        if proof.takes and walked.limits[proof.takes] == 0
    }


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
    """Return a shortest cycle through the lowest node that is on any, that node first and last;
    empty if none is.
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
    left = [
        {target for target in targets if ahead[target]} if ahead[node] else set()
        for node, targets in enumerate(edges)
    ]
    return next(
        (found for node in range(len(edges)) if left[node] and (found := _round_trip(left, node))),
        [],
    )


def _round_trip(edges: Sequence[Collection[int]], start: int) -> list[int]:
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
    sources: list[list[int]] = [[] for _ in edges]
    for source, targets in enumerate(edges):
        for target in targets:
            sources[target].append(source)
    return sources
