"""Why every call ends, row by row and for all limits at once.

The variant of a table is how much is left of its counters, by rank, and last whether something waits to be sent. A row
that leads to a rung takes one unit of a counter of which its guard found one left, and refills only counters that rank
below; a row that leads to the hub comes from a rung and changes no counter. So every step lowers the variant in the
lexicographic order, which is well-founded, and no counter ever exceeds its limit. (Floyd 1967; several counters as in
Dershowitz and Manna 1979.)
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import fields, frozen

from rungwise.fsm.checker.explore import ATTEMPTS, Refusal, Symbol, SymbolicPath, apply, explore, value_of
from rungwise.fsm.machine.table import Row, Table


@frozen
class RowProof:
    """Hold the argument for one row.

    Arguments:
        row: the row.
        takes: the counter of which it takes one unit.
        refills: the counters that it may set back to 0, the most significant first.
        verdict: whether the row was proved.
        why: the argument, or what is wrong.
    """

    row: Row
    takes: str | None
    refills: tuple[str, ...]
    verdict: Literal["proved", "refused"]
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return the argument as plain values."""
        return {
            "row": str(self.row),
            "takes": self.takes,
            "refills": list(self.refills),
            "verdict": self.verdict,
            "why": self.why,
        }


@frozen
class Change:
    """Hold what one run of an effect did to the counters."""

    takes: frozenset[str] = frozenset()
    refills: frozenset[str] = frozenset()


def prove(table: Table) -> tuple[RowProof, ...]:
    """Prove each row of a table, in its order."""
    return tuple(prove_row(table, row) for row in table.rows)


def prove_row(table: Table, row: Row) -> RowProof:
    """Run a row's guard and effect for all limits, and decide whether every step through it lowers the variant."""
    try:
        changes = _changes_of(table, row)
        if row.target in table.outcomes:
            touched = sorted(set().union(*(change.takes | change.refills for _, change in changes)))
            if touched:
                raise Refusal(f"changes {_list(touched)}, and a row that ends the call has nothing to pay for")
            return RowProof(row, None, (), "proved", "the call ends")
        if row.target == table.hub:
            return _prove_sent(table, row, changes)
        return _prove_spent(table, row, changes)
    except Refusal as refusal:
        return RowProof(row, None, (), "refused", str(refusal))


def change_of(path: SymbolicPath) -> Change:
    """Read off a run which counters it took from and which it refilled.

    Raises:
        Refusal: a counter became something else than one more, or 0.
    """
    takes: set[str] = set()
    refills: set[str] = set()
    for name, value in path.changed.items():
        if name not in (*path.counters, ATTEMPTS):
            continue
        terms, constant = (value.terms, value.constant) if isinstance(value, Symbol) else ((), value)
        if terms == ((name, 1),) and constant == 1:
            takes.add(name)
        elif terms == () and type(constant) is int and constant == 0:
            refills.add(name)
        elif terms != ((name, 1),) or constant != 0:
            raise Refusal(f"sets {name!r} to something other than one more, or 0")
    return Change(frozenset(takes), frozenset(refills))


def _changes_of(table: Table, row: Row) -> list[tuple[SymbolicPath, Change]]:
    def body(probe: Any, path: SymbolicPath) -> bool:
        path.in_guard = True
        held = value_of(probe, row.guard)
        path.in_guard = False
        if held:
            apply(probe, row.effect)
        return held

    runs = explore(lambda answers: SymbolicPath(answers, table.model, row.source), body)
    changes = [(path, change_of(path)) for path, held in runs if held]
    if not changes:
        raise Refusal(f"{row.guard!r} never holds")
    counted = ATTEMPTS in (field.name for field in fields(table.model))
    expected = frozenset({ATTEMPTS}) if row.target == table.hub and counted else frozenset()
    for _, change in changes:
        if change.takes & {ATTEMPTS} != expected or ATTEMPTS in change.refills:
            raise Refusal("counts no attempt" if expected else "changes the count of attempts, which only a send does")
    return changes


def _prove_sent(table: Table, row: Row, changes: list[tuple[SymbolicPath, Change]]) -> RowProof:
    if row.source not in table.rungs:
        raise Refusal(f"leads to {table.hub!r} from {row.source!r}, which is no rung, so nothing falls")
    for _, change in changes:
        touched = (change.takes | change.refills) - {ATTEMPTS}
        if touched:
            raise Refusal(f"changes {_list(sorted(touched))}, and a send changes no counter")
    return RowProof(row, None, (), "proved", "what waited to be sent is sent; no counter changes")


def _prove_spent(table: Table, row: Row, changes: list[tuple[SymbolicPath, Change]]) -> RowProof:
    ranks = {name: rank for rank, group in enumerate(table.ranks) for name in group}
    taken: set[str] = set()
    refilled: set[str] = set()
    for path, change in changes:
        if len(change.takes) != 1:
            what = _list(sorted(change.takes)) if change.takes else "nothing"
            raise Refusal(f"takes {what}, and a row to a rung takes one unit of exactly one counter")
        (counter,) = change.takes
        if not path.left(counter):
            raise Refusal(f"takes one of {counter!r}, but its guard did not find {counter} < limits.{counter}")
        above = [name for name in sorted(change.refills) if ranks[name] <= ranks[counter]]
        if above:
            raise Refusal(f"refills {_list(above)}, which does not rank below {counter!r}")
        taken.add(counter)
        refilled |= change.refills
    if len(taken) > 1:
        raise Refusal(f"takes one of {' or of '.join(map(repr, sorted(taken)))}, depending on facts")
    (counter,) = taken
    refills = tuple(name for group in table.ranks for name in group if name in refilled)
    below = f" and refills {', '.join(refills)}, which rank below" if refills else ""
    return RowProof(row, counter, refills, "proved", f"finds {counter} < limit, takes one{below}")


def _list(names: list[str]) -> str:
    return " and ".join(map(repr, names))
