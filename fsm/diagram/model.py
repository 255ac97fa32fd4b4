"""What every picture of a machine shows, before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from attrs import field, frozen

from rungwise.fsm.machine.table import Row, Table

if TYPE_CHECKING:
    from rungwise.fsm.checker.counterexample import PathStep

Kind = Literal["rung", "hub", "answer", "lesser", "error", "outcome"]
"""What a state is. An outcome is an answer, a lesser answer or an error, as far as the table says which."""

ENDS: Final[tuple[Kind, ...]] = ("answer", "lesser", "error", "outcome")
Change = Literal["added", "removed"]


@frozen
class Marks:
    """Say which rows a call took, so that a picture can show its path.

    Arguments:
        taken: for each row that was taken, the numbers of the steps that took it.
    """

    taken: Mapping[Row, tuple[int, ...]] = field(factory=dict, hash=False)

    @classmethod
    def along(cls, path: Iterable[Row | None]) -> Marks:
        """Number the rows of a path from 1; None counts as a step but marks nothing."""
        taken: dict[Row, tuple[int, ...]] = {}
        for number, row in enumerate(path, start=1):
            if row is not None:
                taken[row] = (*taken.get(row, ()), number)
        return cls(taken)

    @classmethod
    def of_path(cls, table: Table, steps: Iterable[PathStep]) -> Marks:
        """Number the steps of a path that the checker found, such as that of a `TableError`."""
        rows = {(row.event, row.source, row.guard, row.target): row for row in table.rows}
        return cls.along(rows.get((step.event, step.source, step.guard, step.target or "")) for step in steps)


@frozen(kw_only=True)
class Settings:
    """Say what a policy makes of a table, so that a picture can show it.

    Arguments:
        details: for each rung, its limit and its waits: `×3 · 2→60 s`.
        says: the same in words, for who points at it.
        off: the rows that can never be taken, each with the reason.
        hides_off: whether these are left out of the picture; otherwise they are greyed.
        caption: what holds for the whole, such as the budget.
    """

    details: Mapping[str, str] = field(factory=dict, hash=False)
    says: Mapping[str, str] = field(factory=dict, hash=False)
    off: Mapping[Row, str] = field(factory=dict, hash=False)
    hides_off: bool = False
    caption: str = ""


@frozen
class Line:
    """Show one row.

    Arguments:
        row: the row.
        steps: those that took it.
        tried: those that tried it and found its guard false.
        off: why it can never be taken; None where it can.
        change: whether only the new table of two has it, or only the old one.
        was: its rank in the old decision list, where the rows that both have stand in another order.
        turned: what a change of policy does to a row of both: it is switched `off`, or `on` again.
    """

    row: Row
    steps: tuple[int, ...] = ()
    tried: tuple[int, ...] = ()
    off: str | None = None
    change: Change | None = None
    was: int | None = None
    turned: Literal["off", "on"] | None = None

    @property
    def text(self) -> str:
        """Write the row as the label of an arc."""
        return f"{self.row.event} [{self.row.guard}]" if self.row.guard else self.row.event


@frozen
class Node:
    """Show one state.

    Arguments:
        name, kind: of the state.
        start: whether the machine starts there.
        visited: whether a path led through it.
        detail: what a policy says of it in short: `×3 · 2→60 s`.
        says: the same in words.
        was: what the old policy of two said of it in short, where that is not the same.
        is_off: whether every row that leads there is off.
        change: whether only the new table of two has it, or only the old one.
    """

    name: str
    kind: Kind
    start: bool = False
    visited: bool = False
    detail: str = ""
    says: str = ""
    was: str | None = None
    is_off: bool = False
    change: Change | None = None


@frozen(kw_only=True)
class _Lines:
    lines: tuple[Line, ...]

    @property
    def steps(self) -> tuple[int, ...]:
        """List the steps that went this way."""
        return all_steps(self.lines)


@frozen(kw_only=True)
class Arc(_Lines):
    """Show every row that leads from one state to another."""

    source: str
    target: str


@frozen(kw_only=True)
class Note(_Lines):
    """Say in words what would be one arc from nearly every state: what an event does wherever the call stands."""

    event: str
    guard: str | None
    target: str
    where: str

    @property
    def name(self) -> str:
        """Name the note by what it is about; no two of a picture are about the same."""
        return f"{self.event}_{self.guard}" if self.guard else self.event


@frozen
class Decision:
    """Show what one event leads to: its rows in the order in which they are tried, and the states that share them.

    `lines` are those of the first source; `rows` are those of all sources. `where` names the sources in words, unless
    the event comes at the hub alone.
    """

    event: str
    sources: tuple[str, ...]
    where: str
    lines: tuple[Line, ...]
    rows: tuple[Row, ...]

    def guard(self, line: Line) -> str:
        """Name what must hold for a line of this list to be taken."""
        return line.row.guard or ("otherwise" if len(self.lines) > 1 else "always")


@frozen
class Picture:
    """Hold everything that a renderer needs; both views show every row.

    Arguments:
        name: the table's.
        hub: the name of its hub.
        nodes, arcs, notes, decisions: what is drawn.
        marked: whether it shows a path.
        caption: what holds for the whole, such as the budget.
        is_change: whether it shows what a change of policy or table does.
    """

    name: str
    hub: str
    nodes: tuple[Node, ...]
    arcs: tuple[Arc, ...]
    notes: tuple[Note, ...]
    decisions: tuple[Decision, ...]
    marked: bool
    caption: str = ""
    is_change: bool = False

    def node(self, name: str) -> Node:
        """Return the node of a state."""
        return next(node for node in self.nodes if node.name == name)

    def of_kind(self, *kinds: Kind) -> tuple[Node, ...]:
        """List the nodes of some kinds, in the order of the table."""
        return tuple(node for node in self.nodes if node.kind in kinds)

    def arc(self, source: str, target: str) -> Arc | None:
        """Return the arc between two states, if there is one."""
        return next((arc for arc in self.arcs if (arc.source, arc.target) == (source, target)), None)


def all_steps(lines: Iterable[Line]) -> tuple[int, ...]:
    """List the steps that took any of some lines, in order."""
    return tuple(sorted(number for line in lines for number in line.steps))


def columns(decisions: tuple[Decision, ...], count: int, height: Callable[[Decision], float]) -> list[list[Decision]]:
    """Break decision lists into columns of about the same height, in their order."""
    total = sum(height(decision) for decision in decisions)
    broken: list[list[Decision]] = [[] for _ in range(count)]
    above = 0.0
    for decision in decisions:
        middle = above + height(decision) / 2
        broken[int(middle / total * count)].append(decision)
        above += height(decision)
    return [column for column in broken if column]
