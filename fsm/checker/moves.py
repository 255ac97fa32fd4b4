"""The moves of a table: what each step to a rung takes and refills, and whether nothing else stands in its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from rungwise.fsm.checker.branches import Branch, branches, ladders
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


LASTS: Mapping[str, str] = {"has_next_backend": "fallbacks"}
"""The facts that hold as long as units of a counter are left, whatever comes back."""


def _alike(branch: Branch) -> str:
    return ""


def moves_of(table: Table, limits: Mapping[str, int], kind: Callable[[Branch], str] = _alike) -> tuple[Move, ...]:
    """List the moves that differ in kind, target, taken or refilled counters, each in its freest form.

    Arguments:
        table: the machine.
        limits: the limit of each counter.
        kind: tells apart what leads to a rung, where the rung's weight depends on it.

    Raises:
        Refusal: a guard or an effect cannot be followed.
    """
    found: dict[tuple[str, str, frozenset[str], str], Move] = {}
    for event, source in ladders(table):
        for branch in branches(table, event, source):
            if (
                branch.row is None
                or branch.row.target not in table.rungs
                or any(limits[name] == 0 for name in branch.left)
            ):
                continue
            for counter in branch.takes:
                refills = frozenset(name for name in branch.refills if limits[name] > 0)
                is_free = _is_free(branch, counter, table.hub, limits)
                gone = branch.spent.intersection(LASTS.values())
                gone |= {LASTS[fact] for fact, held in branch.facts.items() if fact in LASTS and not held}
                spent = frozenset(name for name in gone if limits.get(name))
                move = Move(branch.row, branch.facts, counter, refills, is_free, kind(branch), spent)
                key = branch.row.target, counter, refills, move.kind
                if key not in found or _ease(move) > _ease(found[key]):
                    found[key] = move
    return tuple(found.values())


def _ease(move: Move) -> tuple[bool, bool]:
    return not move.spent, move.is_free


def _is_free(branch: Branch, counter: str, hub: str, limits: Mapping[str, int]) -> bool:
    assert branch.row is not None
    others_spent = all(limits[name] == 0 for name in branch.spent)
    return branch.row.source == hub and branch.is_plain and branch.left <= {counter} and others_spent
