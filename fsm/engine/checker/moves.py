"""The moves of a table: what each step to a rung takes and refills, and whether it needs anything
else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from attrs import evolve, frozen

from rungwise.fsm.engine.checker.branches import Branch, branches
from rungwise.fsm.engine.machine.table import Row, Table

Way = tuple[str, str]
"""A rung, and the kind of the move that led there."""


@frozen
class Move:
    """Hold one way to a rung.

    Arguments:
        row: the row that leads there.
        facts: what the guards read on the way.
        takes: the counter that loses a unit.
        refills: the counters that are set to 0, without those whose limit is 0.
        is_free: whether a unit is all that the row needs at the hub.
        kind: sets apart moves to a rung whose weight depends on it.
        spent: the counters that must be used up, as far as facts say so.
        via: the move to another rung before this one, from which nothing is sent.
        also: the counter that `via` takes from, unless this move refills it.
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
    def way(self) -> Way:
        """Return the rung that it leads to, with its kind."""
        return self.row.target, self.kind

    @property
    def taken(self) -> set[str]:
        """Name the counters of which it takes a unit."""
        return {self.takes} if self.also is None else {self.takes, self.also}

    @property
    def key(self) -> tuple[str, str, str | None, frozenset[str], str]:
        """Return all that a worst case reads of a move.

        Two moves with the same key weigh the same and lead to the same.
        """
        return self.row.target, self.takes, self.also, self.refills, self.kind


def moves_of(
    table: Table,
    limits: Mapping[str, int],
    kind: Callable[[Branch], str] = lambda branch: "",
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

    Arguments:
        table: the table.
        limits: the limit of each counter.
        moves: the moves to the first rung.
        kind: sets the second moves apart.
    """
    found: list[Move] = []
    for first in moves:
        rung = first.row.target
        if first.row.source != table.hub:
            continue
        for event, source in table.ladders:
            if source != rung:
                continue
            for then in _moves_from(table, limits, event, source, kind):
                if then.row.target != rung:
                    found.append(_detour(first, then))
    return _freest(found)


def _detour(first: Move, then: Move) -> Move:
    """Return a move through a rung, from which a second move leads on with nothing sent."""
    return evolve(
        then,
        refills=then.refills | first.refills,
        spent=first.spent,
        via=first,
        also=None if first.takes in then.refills else first.takes,
    )


def openings_of(table: Table, limits: Mapping[str, int]) -> list[Move]:
    """List the moves from the start to a rung, with nothing sent."""
    found: list[Move] = []
    for event, source in table.ladders:
        if source == table.start:
            found += _moves_from(table, limits, event, source, lambda branch: "")
    return found


def without_idle_units(moves: Iterable[Move], weighs: Container[str]) -> list[Move]:
    """Let no move take a second unit that has no weight: to save that one is never a loss.

    Arguments:
        moves: the moves.
        weighs: the counters that some weight reads.
    """
    found: dict[object, Move] = {}
    for move in moves:
        lighter = move if move.also in weighs else evolve(move, also=None)
        found.setdefault(lighter.key, lighter)
    return list(found.values())


def _moves_from(
    table: Table, limits: Mapping[str, int], event: str, source: str, kind: Callable[[Branch], str]
) -> Iterator[Move]:
    """Yield the moves of one event in one state, those to outcomes apart.

    Arguments:
        table: the table.
        limits: the limit of each counter; a move that needs a unit of one whose limit is 0 is none.
        event: the event.
        source: the state in which it is fired.
        kind: sets moves apart.
    """
    lasts = {fact.name: fact.lasts for fact in table.facts if fact.lasts}
    for branch in branches(table, event, source):
        row = branch.row
        takes = branch.takes
        if row is None or takes is None or row.target not in table.rungs:
            continue
        if not all(limits[name] for name in branch.left):
            continue
        refills = frozenset(name for name in branch.refills if limits[name] > 0)
        needs_no_other = branch.left <= {takes}
        needs_none_spent = not any(limits[name] for name in branch.spent)
        is_free = source == table.hub and needs_no_other and needs_none_spent
        used_up = set(branch.spent.intersection(lasts.values()))
        for fact, holds in branch.facts.items():
            if fact in lasts and not holds:  # which lasts as long as units of a counter are left
                used_up.add(lasts[fact])
        spent = frozenset([name for name in used_up if limits.get(name)])
        yield Move(
            row=row,
            facts=branch.facts,
            takes=takes,
            refills=refills,
            is_free=is_free,
            kind=kind(branch),
            spent=spent,
        )


def _freest(moves: Iterable[Move]) -> tuple[Move, ...]:
    """Return one move for each key, that with the fewest needs."""
    found: dict[object, Move] = {}
    for move in moves:
        if move.key not in found or _ease(move) > _ease(found[move.key]):
            found[move.key] = move
    return tuple(found.values())


def _ease(move: Move) -> tuple[bool, bool]:
    """Return a key that is larger for a move with fewer needs."""
    is_free = move.is_free if move.via is None else move.via.is_free
    return not move.spent, is_free
