"""What a walk has visited, and what must be true of the whole: what happens sometimes, and what eventually."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from attrs import frozen

from rungwise.fsm.checker.firing import Configuration
from rungwise.fsm.checker.proof import prove
from rungwise.fsm.checker.structure import reached_states
from rungwise.fsm.machine.table import Row, Table

ALIVE = "no dead row"
REACHED = "no unreachable state"
ENDS = "every path ends"


@frozen
class Walked:
    """Hold the configurations that were reached, the steps between them, and the rows that were taken."""

    table: Table
    limits: dict[str, int]  # of each counter
    order: list[Configuration]  # the nearest to the start first
    edges: list[set[int]]  # for each configuration, the indices of those one step away
    taken: set[Row]


@frozen
class Verdict:
    """Hold the finding for a property: what is wrong or was checked, and the configuration that shows it."""

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
        return Verdict(False, f"from the end of the path it goes round for ever: {states}", cycle[0])
    return Verdict(True, f"{sum(map(len, walked.edges))} steps, and no cycle")


def eventually_able(walked: Walked, goal: str) -> Verdict:
    """Demand that the goal can be reached from every configuration that does not end the run."""
    outcomes = walked.table.outcomes
    able = able_to_reach(walked.edges, [index for index, (state, _) in enumerate(walked.order) if state == goal])
    going = [index for index, (state, _) in enumerate(walked.order) if state not in outcomes]
    lost = next((index for index in going if index not in able), None)
    if lost is not None:
        return Verdict(False, f"not from {walked.order[lost][0]!r} at the end of the path", lost)
    kind = f" that do not end the {walked.table.name}" if outcomes else ""
    return Verdict(True, f"from each of {len(going)} configurations{kind}")


def _off(walked: Walked) -> set[Row]:
    return {proof.row for proof in prove(walked.table) if proof.takes and walked.limits[proof.takes] == 0}


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
    """Return a shortest cycle through the lowest node that is on any, that node first and last; empty if none is."""
    # What leads nowhere is taken away until nothing or a cycle is left (Kahn 1962).
    sources, ahead = _sources(edges), [len(targets) for targets in edges]
    todo = [node for node, count in enumerate(ahead) if count == 0]
    while todo:
        for source in sources[todo.pop()]:
            ahead[source] -= 1
            if ahead[source] == 0:
                todo.append(source)
    left = [
        {target for target in targets if ahead[target]} if ahead[node] else set() for node, targets in enumerate(edges)
    ]
    return next((found for node in range(len(edges)) if left[node] and (found := _round_trip(left, node))), [])


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
