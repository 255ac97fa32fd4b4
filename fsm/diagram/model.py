"""The neutral model of a picture, which every renderer draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from textwrap import wrap
from typing import Final, Literal

from attrs import evolve, field, frozen

from rungwise.fsm.engine.checker.counterexample import PathStep
from rungwise.fsm.engine.machine.table import Row, Table

Kind = Literal["rung", "hub", "answer", "lesser", "error", "outcome"]
"""The kind of a state; `outcome` is an end of which the table does not say whether it is an answer
or an error.
"""

ENDS: Final[tuple[Kind, ...]] = ("answer", "lesser", "error", "outcome")
Change = Literal["added", "removed"]
SIGNS: Final[Mapping[Change, str]] = {"added": "+", "removed": "−"}
"""The sign of a row or state that only one of two tables has, for readers who cannot rely on
colours.
"""

CHANGE_KEY: Final = "+ new · − gone · struck: off, or what held before · was N.: the old rank"

Piece = tuple[str, bool]
"""A few words, and whether they are struck through."""


@frozen
class Marks:
    """Hold a path, to be shown on a picture."""

    # the steps that took each row
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
        return cls.along(
            rows.get((step.event, step.source, step.guard, step.target or "")) for step in steps
        )


@frozen(kw_only=True)
class Settings:
    """Hold the limits, waits and switched-off rows of a policy, to be shown on a picture."""

    # the limit and the waits of each rung: `×3 · 2→60 s`
    details: Mapping[str, str] = field(factory=dict, hash=False)
    says: Mapping[str, str] = field(factory=dict, hash=False)  # the same in words, for tooltips
    # the rows that can never be taken, each with the reason
    off: Mapping[Row, str] = field(factory=dict, hash=False)
    hides_off: bool = False  # otherwise they are greyed
    caption: str = ""  # what holds for the whole machine, such as the budget


@frozen
class Line:
    """Show one row."""

    row: Row
    steps: tuple[int, ...] = ()  # the numbers of the steps that took it
    tried: tuple[int, ...] = ()  # the numbers of the steps that tried it while its guard was false
    off: str | None = None  # why it can never be taken
    change: Change | None = None  # `added` or `removed`: only one of two tables has it
    was: int | None = None  # its rank in the old decision list, if the order has changed
    # whether a change of policy switches it, in both tables
    turned: Literal["off", "on"] | None = None

    @property
    def text(self) -> str:
        """Write the row as the label of an arc."""
        return f"{self.row.event} [{self.row.guard}]" if self.row.guard else self.row.event

    @property
    def sign(self) -> str:
        """Return `+` or `−` for a row that only one of two tables has."""
        return SIGNS[self.change] if self.change else ""

    @property
    def turn(self) -> str:
        """Return `now off` or `now on` if a change switches the row."""
        return f"now {self.turned}" if self.turned else ""

    @property
    def sign_html(self) -> str:
        """Return the sign of a change, to stand before the row in a label of Mermaid or DOT."""
        return f"<b>{self.sign}</b> " if self.sign else ""

    @property
    def turned_html(self) -> str:
        """Return the words for a row that a change turns off or on, to stand behind it."""
        return f" <b>{self.turn}</b>" if self.turn else ""

    @property
    def difference(self) -> str | None:
        """Name what a change does to the row: `added`, `removed`, `off`, `on` or `moved`; None if
        nothing.
        """
        return self.change or self.turned or ("moved" if self.was is not None else None)

    @property
    def is_struck(self) -> bool:
        """Tell whether the row is never taken: it is off, or gone."""
        return self.off is not None or self.change == "removed"

    @property
    def says(self) -> str:
        """Describe the row in full, for a tooltip."""
        why = {"added": "new", "removed": "no longer there"}[self.change] if self.change else ""
        off = (
            f"{'now ' if self.turned == 'off' else ''}off: {self.off}"
            if self.off is not None
            else ""
        )
        on = "now on" if self.turned == "on" else ""
        was = f"its rank was {self.was}" if self.was is not None else ""
        return "\n".join(filter(None, [str(self.row), why, off, on, was]))


@frozen
class Node:
    """Show one state."""

    name: str
    kind: Kind
    start: bool = False
    visited: bool = False
    detail: str = ""  # its limit and waits in short: `×3 · 2→60 s`
    says: str = ""  # the same in words
    was: str | None = None  # the detail under the old policy of two, if it differs
    is_off: bool = False  # whether every row that leads there is off
    change: Change | None = None  # `added` or `removed`: only one of two tables has it

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
        """Split the detail into pieces; after a change, the old words are struck and the new ones
        follow an arrow.
        """
        if self.was is None or self.was == self.detail:
            return ((self.detail, False),) if self.detail else ()
        old = self.was.split(" · ")
        new = self.detail.split(" · ")
        pairs = [*zip(old, new, strict=True)] if len(old) == len(new) else [(self.was, self.detail)]
        pieces: list[Piece] = []
        for place, (before, after) in enumerate(pairs):
            gap = " · " if place else ""
            if before == after:
                pieces.append((f"{gap}{after}", False))
            else:
                pieces += [(gap, False)] if gap else []
                pieces += [(before or "none", True), (f" → {after or 'none'}", False)]
        return tuple(pieces)


@frozen(kw_only=True)
class _Lines:
    lines: tuple[Line, ...]

    @property
    def is_struck(self) -> bool:
        """Tell whether none of its rows is ever taken."""
        return all(line.is_struck for line in self.lines)

    @property
    def change(self) -> Change | None:
        """Return the change that all of its rows share."""
        changes = {line.change for line in self.lines}
        return changes.pop() if len(changes) == 1 else None

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
    """Describe in words an event that does the same in nearly every state, instead of drawing an
    arc from each.
    """

    event: str
    guard: str | None
    target: str
    where: str

    @property
    def name(self) -> str:
        """Return a name that is unique within the picture."""
        return f"{self.event}_{self.guard}" if self.guard else self.event

    @property
    def line(self) -> Line:
        """Return one line that stands for all lines, with what they share."""
        first = self.lines[0]
        turns = {line.turned for line in self.lines}
        off = first.off if self.is_struck else None
        turned = turns.pop() if len(turns) == 1 else None
        return evolve(
            first, steps=self.steps, tried=(), off=off, change=self.change, was=None, turned=turned
        )


@frozen
class Decision:
    """Show the decision list of one event: its rows in the order in which they are tried."""

    event: str
    sources: tuple[str, ...]  # the states that share the list
    where: str  # the sources in words; empty for the hub alone
    lines: tuple[Line, ...]  # the lines of the first source
    rows: tuple[Row, ...]  # the rows of all sources

    @property
    def ranked(self) -> tuple[tuple[int | None, Line], ...]:
        """Number the lines from 1 in the order in which they are tried; a removed line has no
        number.
        """
        numbers = count(1)
        return tuple(
            (None if line.change == "removed" else next(numbers), line) for line in self.lines
        )

    def guard(self, line: Line) -> str:
        """Return the guard of a line, or `otherwise` or `always` for a line without one."""
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
    marked: bool  # whether it shows a path
    caption: str = ""  # what holds for the whole machine, such as the budget
    is_change: bool = False
    hidden: int = 0  # how many rows are off and hidden

    @property
    def rows(self) -> str:
        """Return the count of the rows: `76 rows, 4 of them off`."""
        lines = [line for drawn in (*self.arcs, *self.notes) for line in drawn.lines]
        present = [line for line in lines if line.change != "removed"]
        counts = {
            "of them off": sum(line.off is not None for line in present),
            "that are off left out": self.hidden,
            "new": sum(line.change == "added" for line in present),
            "gone": len(lines) - len(present),
        }
        others = [f"{number} {what}" for what, number in counts.items() if number]
        return ", ".join([_counted(len(present), "row"), *others])

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
        return any(line.is_struck for drawn in (*self.arcs, *self.notes) for line in drawn.lines)

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
        return next(
            (arc for arc in self.arcs if (arc.source, arc.target) == (source, target)), None
        )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def all_steps(lines: Iterable[Line]) -> tuple[int, ...]:
    """Return the numbers of the steps that took any of some lines, in order."""
    return tuple(sorted(number for line in lines for number in line.steps))


def wrapped(words: str, room: int) -> list[str]:
    """Break words into lines of at most `room` characters; a longer name gets a line of its own."""
    return wrap(words, room, break_long_words=False, break_on_hyphens=False)


def columns(
    decisions: tuple[Decision, ...], count: int, height: Callable[[Decision], float]
) -> list[list[Decision]]:
    """Distribute decision lists over columns of about equal height, in their order."""
    total = sum(height(decision) for decision in decisions)
    broken: list[list[Decision]] = [[] for _ in range(count)]
    above = 0.0
    for decision in decisions:
        middle = above + height(decision) / 2
        broken[int(middle / total * count)].append(decision)
        above += height(decision)
    return [column for column in broken if column]


def struck_html(text: str, is_struck: bool) -> str:
    """Strike a text through if it no longer holds."""
    return f"<s>{text}</s>" if is_struck else text
