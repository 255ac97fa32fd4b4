"""The neutral model of a picture, which every renderer draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Final, Literal

from attrs import field, frozen

from rungwise.fsm.diagram.line import SIGNS, Change, Line, all_steps
from rungwise.fsm.engine.checker.counterexample import PathStep
from rungwise.fsm.engine.machine.table import Row, Table

Kind = Literal["rung", "hub", "answer", "lesser", "error", "outcome"]
"""The kind of a state. `outcome` is an end that the table calls neither an answer nor an error."""

ENDS: Final[tuple[Kind, ...]] = ("answer", "lesser", "error", "outcome")
CHANGE_KEY: Final = "+ new · − gone · struck: off, or what held before · was N.: the old rank"

Piece = tuple[str, bool]
"""A few words, and whether they are struck through."""


@frozen
class Marks:
    """Hold a path, to be shown on a picture.

    Arguments:
        taken: the numbers of the steps that took each row, from 1.
    """

    taken: Mapping[Row, tuple[int, ...]] = field(factory=dict, hash=False)

    @classmethod
    def along(cls, path: Iterable[Row | None]) -> Marks:
        """Number the rows of a path from 1; None counts as a step and marks nothing."""
        numbers: dict[Row, tuple[int, ...]] = {}
        for number, row in enumerate(path, start=1):
            if row is not None:
                numbers[row] = (*numbers.get(row, ()), number)
        return cls(numbers)

    @classmethod
    def of_path(cls, table: Table, steps: Iterable[PathStep]) -> Marks:
        """Number the steps of a path from the checker, such as that of a `TableError`."""
        rows = {(row.event, row.source, row.guard, row.target): row for row in table.rows}
        path = []
        for step in steps:
            path.append(rows.get((step.event, step.source, step.guard, step.target or "")))
        return cls.along(path)


@frozen(kw_only=True)
class Settings:
    """Hold what a policy makes of a machine, to be shown on a picture.

    Arguments:
        details: the limit and the waits of each rung: `×3 · 2→60 s`.
        says: the same in words, for tooltips.
        off: the rows that can never be taken, each with the reason.
        hides_off: whether these rows are left out; otherwise they are greyed.
        caption: what holds for the whole machine, such as the budget.
    """

    details: Mapping[str, str] = field(factory=dict, hash=False)
    says: Mapping[str, str] = field(factory=dict, hash=False)
    off: Mapping[Row, str] = field(factory=dict, hash=False)
    hides_off: bool = False
    caption: str = ""


@frozen
class Node:
    """Show one state.

    Arguments:
        name: its name.
        kind: its kind.
        start: whether the machine begins there.
        visited: whether a path leads through it.
        detail: its limit and waits in short: `×3 · 2→60 s`.
        says: the same in words.
        was: the detail under the old policy of two, if it differs.
        is_off: whether every row that leads there is off.
        change: `added` or `removed` if only one of two tables has it.
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

    @property
    def label(self) -> str:
        """Return the name, with a sign if only one of two tables has the state."""
        return f"{SIGNS[self.change]} {self.name}" if self.change else self.name

    @property
    def is_struck(self) -> bool:
        """Tell whether no run reaches the state: every row to it is off, or it is gone."""
        return self.is_off or self.change == "removed"

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Split the detail into pieces.

        After a change, the old words are struck and the new ones follow an arrow. Limit and waits
        are compared one by one, unless one of the two policies has only one of them.
        """
        if self.was is None or self.was == self.detail:
            return ((self.detail, False),) if self.detail else ()
        old = self.was.split(" · ")
        new = self.detail.split(" · ")
        if len(old) != len(new):
            old = [self.was]
            new = [self.detail]
        pieces: list[Piece] = []
        for place, (before, after) in enumerate(zip(old, new, strict=True)):
            gap = " · " if place else ""
            if before == after:
                pieces.append((f"{gap}{after}", False))
                continue
            if gap:
                pieces.append((gap, False))
            pieces.append((before or "none", True))
            pieces.append((f" → {after or 'none'}", False))
        return tuple(pieces)


@frozen(kw_only=True)
class _Lines:
    """Hold lines that are drawn together."""

    lines: tuple[Line, ...]

    @property
    def is_struck(self) -> bool:
        """Tell whether none of its rows is ever taken."""
        return all(line.is_struck for line in self.lines)

    @property
    def change(self) -> Change | None:
        """Return the change that all of its rows share."""
        first = self.lines[0].change
        is_shared = all(line.change == first for line in self.lines)
        return first if is_shared else None

    @property
    def steps(self) -> tuple[int, ...]:
        """Return the numbers of the steps that took it."""
        return all_steps(self.lines)


@frozen(kw_only=True)
class Arc(_Lines):
    """Show all rows that lead from one state to another."""

    source: str
    target: str


@frozen(kw_only=True)
class Note(_Lines):
    """Describe in words an event that does the same in nearly every state.

    It stands for an arc from each of these states.
    """

    event: str
    guard: str | None
    target: str
    where: str  # the states, in words: `from every rung`

    @property
    def name(self) -> str:
        """Return a name that is unique within the picture."""
        return f"{self.event}_{self.guard}" if self.guard else self.event

    @property
    def line(self) -> Line:
        """Return one line that stands for all lines, with what they share."""
        first = self.lines[0]
        turns_alike = all(line.turned == first.turned for line in self.lines)
        return Line(
            first.row,
            steps=self.steps,
            off=first.off if self.is_struck else None,
            change=self.change,
            turned=first.turned if turns_alike else None,
        )


@frozen
class DecisionList:
    """Show the decision list of one event: its rows in the order in which they are tried.

    Arguments:
        event: the event.
        sources: the states that share the list.
        where: the sources in words; empty for the hub alone.
        lines: the lines of the first source, which stand for those of all.
        rows: the rows of all sources.
    """

    event: str
    sources: tuple[str, ...]
    where: str
    lines: tuple[Line, ...]
    rows: tuple[Row, ...]

    @property
    def ranked(self) -> tuple[tuple[int | None, Line], ...]:
        """Number the lines from 1 in the order in which they are tried.

        A removed line has no number.
        """
        numbers = count(1)
        ranked: list[tuple[int | None, Line]] = []
        for line in self.lines:
            rank = None if line.change == "removed" else next(numbers)
            ranked.append((rank, line))
        return tuple(ranked)

    def guard(self, line: Line) -> str:
        """Return the guard of a line, or `otherwise` or `always` for a line without one."""
        if line.row.guard:
            return line.row.guard
        return "otherwise" if len(self.lines) > 1 else "always"


@frozen
class Picture:
    """Hold everything that a renderer needs.

    Both views show every row: the hub view by arcs and notes, the ladder view by decisions.

    Arguments:
        name: the name of the machine.
        hub: the name of its hub.
        nodes, arcs, notes, decisions: what is drawn.
        marked: whether it shows a path.
        caption: what holds for the whole machine, such as the budget.
        is_change: whether it shows two machines as one.
        hidden: how many rows are off and left out.
    """

    name: str
    hub: str
    nodes: tuple[Node, ...]
    arcs: tuple[Arc, ...]
    notes: tuple[Note, ...]
    decisions: tuple[DecisionList, ...]
    marked: bool
    caption: str = ""
    is_change: bool = False
    hidden: int = 0

    @property
    def rows(self) -> str:
        """Return the count of the rows: `76 rows, 4 of them off`."""
        lines = self._drawn_lines
        present = [line for line in lines if line.change != "removed"]
        off = [line for line in present if line.off is not None]
        new = [line for line in present if line.change == "added"]
        counts = {
            "of them off": len(off),
            "that are off left out": self.hidden,
            "new": len(new),
            "gone": len(lines) - len(present),
        }
        words = [_counted(len(present), "row")]
        words += [f"{number} {what}" for what, number in counts.items() if number]
        return ", ".join(words)

    @property
    def hub_title(self) -> str:
        """Return the title of the hub view."""
        return f"{self.name}: {_counted(len(self.nodes), 'state')}, {self.rows}"

    @property
    def ladder_title(self) -> str:
        """Return the title of the ladder view."""
        return f"{self.name}: {_counted(len(self.decisions), 'decision list')}, {self.rows}"

    @property
    def is_struck(self) -> bool:
        """Tell whether it shows a row that is never taken."""
        return any(line.is_struck for line in self._drawn_lines)

    @property
    def _drawn_lines(self) -> list[Line]:
        """Return the lines of the hub view."""
        return [line for drawn in (*self.arcs, *self.notes) for line in drawn.lines]

    @property
    def key(self) -> str:
        """Return the explanation of the signs of a change; empty if it shows none."""
        return CHANGE_KEY if self.is_change else ""

    def node(self, name: str) -> Node:
        """Return the node of a state."""
        return next(node for node in self.nodes if node.name == name)

    def of_kind(self, *kinds: Kind) -> tuple[Node, ...]:
        """Return the nodes of some kinds, in the order of the table."""
        return tuple(node for node in self.nodes if node.kind in kinds)

    def arc(self, source: str, target: str) -> Arc | None:
        """Return the arc between two states; None if there is none."""
        for arc in self.arcs:
            if arc.source == source and arc.target == target:
                return arc
        return None


def _counted(number: int, what: str) -> str:
    plural = "" if number == 1 else "s"
    return f"{number} {what}{plural}"
