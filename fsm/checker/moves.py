"""The moves of a table: what each step to a rung takes and refills, and whether nothing else stands in its way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import evolve, frozen

from rungwise.fsm.checker.branches import Branch, branches
from rungwise.fsm.machine.table import Row, Table


@frozen
class Move:
    """Hold one way to a rung.

    Arguments:
        row: the row that is taken.
        facts: the facts that lead there.
        takes: the counter of which one unit is taken.
        refills: the counters that are set to 0, apart from those with a limit of 0.
        is_free: whether the row is taken from the hub whenever a unit is left, whatever the other counters hold.
        kind: tells apart what leads to a rung, where the rung's weight depends on it.
        spent: the counters of which nothing may be left, as far as facts say so.
        via: the move to another rung that comes first, where nothing goes out before this one is made.
        also: the counter of which that one takes a unit, where this one does not refill it.
    """

    row: Row
    facts: Mapping[str, bool]
    takes: str
    refills: frozenset[str]
    is_free: bool
    kind: str = ""
    spent: frozenset[str] = frozenset()
    via: Move | None = None
    also: str | None = None

    @property
    def key(self) -> tuple[str, str, str | None, frozenset[str], str]:
        """Return what a worst case knows of a move: two with the same key weigh the same and lead to the same."""
        return self.row.target, self.takes, self.also, self.refills, self.kind


def moves_of(
    table: Table, limits: Mapping[str, int], kind: Callable[[Branch], str] = lambda branch: ""
) -> tuple[Move, ...]:
    """List the moves that differ in kind, target, taken or refilled counters, each in its freest form.

    Arguments:
        table: the machine.
        limits: the limit of each counter.
        kind: tells apart what leads to a rung, where the rung's weight depends on it.
    """
    found: list[Move] = []
    for event, source in table.ladders:
        found += _moves_from(table, limits, event, source, kind)
    return _freest(found)


def detours_of(
    table: Table, limits: Mapping[str, int], moves: Iterable[Move], kind: Callable[[Branch], str] = lambda branch: ""
) -> tuple[Move, ...]:
    """List the moves by way of a rung that sends nothing, because another rung is turned to from there.

    Both rungs' counters are spent then, and one attempt is made. A rung that is turned to from itself is left out.

    Arguments:
        table: the machine.
        limits: the limit of each counter.
        moves: those that `moves_of` has listed.
        kind: tells apart what leads to a rung, where the rung's weight depends on it.
    """
    found: list[Move] = []
    for first in moves:
        if first.row.source != table.hub:
            continue
        rung = first.row.target
        for event, source in table.ladders:
            for then in _moves_from(table, limits, event, source, kind) if source == rung else ():
                if then.row.target != rung:
                    also = None if first.takes in then.refills else first.takes
                    refills = then.refills | first.refills
                    found.append(evolve(then, refills=refills, spent=first.spent, via=first, also=also))
    return _freest(found)


def _moves_from(
    table: Table, limits: Mapping[str, int], event: str, source: str, kind: Callable[[Branch], str]
) -> Iterator[Move]:
    lasts = {fact.name: fact.lasts for fact in table.facts if fact.lasts}
    for branch in branches(table, event, source):
        row, takes = branch.row, branch.takes
        if row is None or takes is None or row.target not in table.rungs:
            continue
        if not all(limits[name] for name in branch.left):
            continue
        refills = frozenset(name for name in branch.refills if limits[name] > 0)
        is_free = source == table.hub and branch.left <= {takes} and not any(limits[name] for name in branch.spent)
        gone = branch.spent.intersection(lasts.values())
        gone |= {lasts[fact] for fact, held in branch.facts.items() if fact in lasts and not held}
        spent = frozenset(name for name in gone if limits.get(name))
        yield Move(row, branch.facts, takes, refills, is_free, kind(branch), spent)


def _freest(moves: Iterable[Move]) -> tuple[Move, ...]:
    found: dict[object, Move] = {}
    for move in moves:
        if move.key not in found or _ease(move) > _ease(found[move.key]):
            found[move.key] = move
    return tuple(found.values())


def _ease(move: Move) -> tuple[bool, bool]:
    is_free = move.is_free if move.via is None else move.via.is_free
    return not move.spent, is_free
