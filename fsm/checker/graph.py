"""Questions about a graph of numbered nodes: what can reach what, and where the cycles are."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence


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
    """Return a shortest cycle through the lowest node that is on any, that node first and last; empty if there is none.

    What leads nowhere is taken away until nothing or a cycle is left (Kahn 1962).
    """
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
