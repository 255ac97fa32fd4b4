"""The moves of a table: what each step to a rung takes and refills, and whether nothing else stands in its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

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
    """

    row: Row
    facts: Mapping[str, bool]
    takes: str
    refills: frozenset[str]
    is_free: bool
    kind: str = ""
    spent: frozenset[str] = frozenset()


def moves_of(
    table: Table, limits: Mapping[str, int], kind: Callable[[Branch], str] = lambda branch: ""
) -> tuple[Move, ...]:
    """List the moves that differ in kind, target, taken or refilled counters, each in its freest form.

    Arguments:
        table: the machine.
        limits: the limit of each counter.
        kind: tells apart what leads to a rung, where the rung's weight depends on it.
    """
    lasts = {fact.name: fact.lasts for fact in table.facts if fact.lasts}
    found: dict[tuple[str, str, frozenset[str], str], Move] = {}
    for event, source in table.ladders:
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
            move = Move(row, branch.facts, takes, refills, is_free, kind(branch), spent)
            key = row.target, takes, refills, move.kind
            if key not in found or _ease(move) > _ease(found[key]):
                found[key] = move
    return tuple(found.values())


def _ease(move: Move) -> tuple[bool, bool]:
    return not move.spent, move.is_free
