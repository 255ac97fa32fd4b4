"""The moves of a table: what each step to a rung takes and refills, and whether it needs anything
else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from attrs import evolve, frozen

from rungwise.fsm.engine.checker.branches import Branch, branches
from rungwise.fsm.engine.machine.table import Row, Table


@frozen
class Move:
    """Hold one way to a rung."""

    row: Row
    facts: Mapping[str, bool]  # that lead there
    takes: str  # the counter that loses a unit
    refills: frozenset[str]  # counters that are set to 0, without those whose limit is 0
    is_free: bool  # whether a unit is all that the row needs at the hub
    kind: str = ""  # sets apart moves to a rung whose weight depends on it
    spent: frozenset[str] = frozenset()  # counters that must be used up, as far as facts say so
    via: Move | None = None  # the move to another rung before this one, from which nothing is sent
    also: str | None = None  # the counter that `via` takes from, unless this move refills it

    @property
    def key(self) -> tuple[str, str, str | None, frozenset[str], str]:
        """Return all that a worst case reads of a move: two with the same key weigh the same and
        lead to the same.
        """
        return self.row.target, self.takes, self.also, self.refills, self.kind


def moves_of(
    table: Table, limits: Mapping[str, int], kind: Callable[[Branch], str] = lambda branch: ""
) -> tuple[Move, ...]:
    """List the moves that differ in kind, target, taken or refilled counters, each in its freest
    form.
    """
    found: list[Move] = []
    for event, source in table.ladders:
        found += _moves_from(table, limits, event, source, kind)
    return _freest(found)


def detours_of(
    table: Table,
    limits: Mapping[str, int],
    moves: Iterable[Move],
    kind: Callable[[Branch], str] = lambda branch: "",
) -> tuple[Move, ...]:
    """List the moves through a rung that sends nothing, because the run turns to another rung
    there.

    They spend the counters of both rungs for one attempt. A rung that turns to itself is left out.
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
                    found.append(
                        evolve(then, refills=refills, spent=first.spent, via=first, also=also)
                    )
    return _freest(found)


def openings_of(table: Table, limits: Mapping[str, int]) -> list[Move]:
    """List the moves from the start to a rung, with nothing sent."""
    events = [event for event, source in table.ladders if source == table.start]
    return [
        move
        for event in events
        for move in _moves_from(table, limits, event, table.start, lambda branch: "")
    ]


def without_idle_units(moves: Iterable[Move], weighs: Container[str]) -> list[Move]:
    """Let no move take a second unit that has no weight anywhere: to save that one is never a
    loss.
    """
    found: dict[object, Move] = {}
    for move in moves:
        lighter = move if move.also in weighs else evolve(move, also=None)
        found.setdefault(lighter.key, lighter)
    return list(found.values())


def _moves_from(
    table: Table, limits: Mapping[str, int], event: str, source: str, kind: Callable[[Branch], str]
) -> Iterator[Move]:
    lasts = {fact.name: fact.lasts for fact in table.facts if fact.lasts}
    for branch in branches(table, event, source):
        row = branch.row
        takes = branch.takes
        if row is None or takes is None or row.target not in table.rungs:
            continue
        if not all(limits[name] for name in branch.left):
            continue
        refills = frozenset(name for name in branch.refills if limits[name] > 0)
        is_free = (
            source == table.hub
            and branch.left <= {takes}
            and not any(limits[name] for name in branch.spent)
        )
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
