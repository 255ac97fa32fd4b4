"""What every picture of a machine shows, before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from attrs import field, frozen

from rungwise.fsm.machine.table import Row, Table

if TYPE_CHECKING:
    from rungwise.fsm.checker.counterexample import PathStep

Kind = Literal["rung", "hub", "outcome"]


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


@frozen
class Line:
    """Show one row: with the steps that took it, and those that tried it and found its guard false."""

    row: Row
    steps: tuple[int, ...] = ()
    tried: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Write the row as the label of an arc."""
        return f"{self.row.event} [{self.row.guard}]" if self.row.guard else self.row.event


@frozen
class Node:
    """Show one state."""

    name: str
    kind: Kind
    start: bool = False
    visited: bool = False


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
    """Hold everything that a renderer needs; both views show every row."""

    name: str
    hub: str
    nodes: tuple[Node, ...]
    arcs: tuple[Arc, ...]
    notes: tuple[Note, ...]
    decisions: tuple[Decision, ...]
    marked: bool

    def node(self, name: str) -> Node:
        """Return the node of a state."""
        return next(node for node in self.nodes if node.name == name)

    def of_kind(self, kind: Kind) -> tuple[Node, ...]:
        """List the nodes of one kind, in the order of the table."""
        return tuple(node for node in self.nodes if node.kind == kind)

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
