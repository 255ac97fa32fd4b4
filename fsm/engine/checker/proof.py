"""Why every run ends, row by row and for all limits at once.

The variant of a table is how much is left of its counters, by rank, and last whether something
waits to be sent. A row that leads to a rung takes one unit of a counter that its guard has checked,
and refills only counters that rank below; a row that leads to the hub comes from a rung and changes
no counter. So every step lowers the variant in the lexicographic order, which is well-founded, and
no counter ever exceeds its limit. (Floyd 1967; several counters as in Dershowitz and Manna 1979.)

Of a cyclic machine, which never ends, only the second half is proved: a row takes a unit only where
its guard has found one left.
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import asdict, frozen

from rungwise.fsm.engine.checker.branches import holds, ways
from rungwise.fsm.engine.machine.build import COUNT_ATTEMPT
from rungwise.fsm.engine.machine.table import Row, Table


@frozen
class RowProof:
    """Hold the argument for one row."""

    row: Row
    takes: str | None  # the counter of which it takes one unit
    refills: tuple[str, ...]  # the counters that it may set back to 0, the most significant first
    verdict: Literal["proved", "refused"]
    why: str  # the argument, or what is wrong

    @property
    def is_argued(self) -> bool:
        """Tell whether the row takes a unit or is refused; any other ends the run or sends
        something.
        """
        return self.takes is not None or self.verdict == "refused"

    @property
    def argument(self) -> str:
        """Return why the row is proved, or that it is refused."""
        return f"REFUSED, {self.why}" if self.verdict == "refused" else self.why

    def to_json(self) -> dict[str, Any]:
        """Return the argument as plain values."""
        return {**asdict(self, recurse=False), "row": str(self.row), "refills": list(self.refills)}


def prove(table: Table) -> tuple[RowProof, ...]:
    """Prove each row of a table, in its order."""
    return tuple(prove_row(table, row) for row in table.rows)


def prove_row(table: Table, row: Row) -> RowProof:
    """Decide whether every step through a row lowers the variant, whatever the limits."""
    guard = table.guard(row.guard)
    effect = table.effect(row.effect)
    ranks = {name: rank for rank, group in enumerate(table.ranks) for name in group}
    takes = effect.spends
    refills = tuple(sorted(effect.refills, key=list(ranks).index))
    touched = [name for name in (takes, *refills) if name]

    def refused(why: str) -> RowProof:
        return RowProof(row, None, (), "refused", why)

    if not any(held for _, held in ways(lambda ask: holds(table, guard, ask))):
        return refused(f"{row.guard!r} never holds")
    if table.kind == "ending" and (row.effect == COUNT_ATTEMPT.name) != (row.target == table.hub):
        is_sent = row.target == table.hub
        return refused(
            "counts no attempt"
            if is_sent
            else "changes the count of attempts, which only a send does"
        )
    if table.kind == "cyclic" and takes is None:
        return RowProof(row, None, refills, "proved", "takes nothing")
    if row.target in table.outcomes:
        if touched:
            return refused(
                f"changes {_list(touched)}, and a row that ends the {table.name} has nothing to "
                f"pay for"
            )
        return RowProof(row, None, (), "proved", f"the {table.name} ends")
    if row.target == table.hub and table.kind == "ending":
        if row.source not in table.rungs:
            return refused(
                f"leads to {table.hub!r} from {row.source!r}, which is no rung, so nothing falls"
            )
        if touched:
            return refused(f"changes {_list(touched)}, and a send changes no counter")
        return RowProof(
            row, None, (), "proved", "what waited to be sent is sent; no counter changes"
        )
    if takes is None:
        return refused("takes nothing, and a row to a rung takes one unit of exactly one counter")
    if guard.counter != takes:
        return refused(
            f"takes one of {takes!r}, but its guard did not find {takes} < limits.{takes}"
        )
    above = [name for name in refills if ranks[name] <= ranks[takes]]
    if above and table.kind == "ending":
        return refused(f"refills {_list(above)}, which does not rank below {takes!r}")
    below = f" and refills {', '.join(refills)}, which rank below" if refills else ""
    return RowProof(row, takes, refills, "proved", f"finds {takes} < limit, takes one{below}")


def _list(names: list[str]) -> str:
    return " and ".join(map(repr, names))
