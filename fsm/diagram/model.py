"""What every picture of a machine shows, before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from textwrap import wrap
from typing import Final, Literal

from attrs import evolve, field, frozen

from rungwise.fsm.checker.counterexample import PathStep
from rungwise.fsm.machine.table import Row, Table

Kind = Literal["rung", "hub", "answer", "lesser", "error", "outcome"]
"""What a state is. An outcome is an answer, a lesser answer or an error, as far as the table says which."""

ENDS: Final[tuple[Kind, ...]] = ("answer", "lesser", "error", "outcome")
Change = Literal["added", "removed"]
SIGNS: Final[Mapping[Change, str]] = {"added": "+", "removed": "−"}
"""What tells a row or a state of one of two tables alone from those of both, where colours do not."""

CHANGE_KEY: Final = "+ new · − gone · struck: off, or what held before · was N.: the old rank"

Piece = tuple[str, bool]
"""A few words, and whether they are struck because they hold no more."""


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

    @property
    def sign(self) -> str:
        """Return `+` or `−` for a row of one of two tables alone."""
        return SIGNS[self.change] if self.change else ""

    @property
    def turn(self) -> str:
        """Say whether a change switches the row off or on."""
        return f"now {self.turned}" if self.turned else ""

    @property
    def difference(self) -> str | None:
        """Name what a change does to the row: `added`, `removed`, `off`, `on` or `moved`; None if nothing."""
        return self.change or self.turned or ("moved" if self.was is not None else None)

    @property
    def is_struck(self) -> bool:
        """Tell whether the row is never taken: it is off, or gone."""
        return self.off is not None or self.change == "removed"

    @property
    def says(self) -> str:
        """Tell the row in full, for who points at it."""
        why = {"added": "new", "removed": "no longer there"}[self.change] if self.change else ""
        off = f"{'now ' if self.turned == 'off' else ''}off: {self.off}" if self.off is not None else ""
        on = "now on" if self.turned == "on" else ""
        was = f"its rank was {self.was}" if self.was is not None else ""
        return "\n".join(filter(None, [str(self.row), why, off, on, was]))


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

    @property
    def label(self) -> str:
        """Write the name, with the sign of a state of one of two tables alone."""
        return f"{SIGNS[self.change]} {self.name}" if self.change else self.name

    @property
    def is_struck(self) -> bool:
        """Tell whether no run reaches the state: nothing that is on leads there, or it is gone."""
        return self.is_off or self.change == "removed"

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Write the detail; of what a change makes of it, the old words are struck and the new ones follow an arrow."""
        if self.was is None or self.was == self.detail:
            return ((self.detail, False),) if self.detail else ()
        old, new = self.was.split(" · "), self.detail.split(" · ")
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

    @property
    def detail_text(self) -> str:
        """Write the detail as plain text, the old words before an arrow."""
        return "".join(words for words, _ in self.pieces)


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

    @property
    def line(self) -> Line:
        """Return a line that stands for all its lines, with what they share."""
        first, turns = self.lines[0], {line.turned for line in self.lines}
        off = first.off if self.is_struck else None
        turned = turns.pop() if len(turns) == 1 else None
        return evolve(first, steps=self.steps, tried=(), off=off, change=self.change, was=None, turned=turned)


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

    @property
    def ranked(self) -> tuple[tuple[int | None, Line], ...]:
        """Number the lines from 1, in the order in which they are tried; one that is gone has no number."""
        numbers = count(1)
        return tuple((None if line.change == "removed" else next(numbers), line) for line in self.lines)

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
        left_out: how many rows are off and therefore not in it.
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
    left_out: int = 0

    @property
    def rows(self) -> str:
        """Count the rows: `76 rows, 4 of them off`."""
        lines = [line for drawn in (*self.arcs, *self.notes) for line in drawn.lines]
        kept = [line for line in lines if line.change != "removed"]
        told = {
            "of them off": sum(line.off is not None for line in kept),
            "that are off left out": self.left_out,
            "new": sum(line.change == "added" for line in kept),
            "gone": len(lines) - len(kept),
        }
        return ", ".join([_counted(len(kept), "row"), *(f"{number} {what}" for what, number in told.items() if number)])

    @property
    def hub_title(self) -> str:
        """Name the machine, and count what the hub view shows."""
        return f"{self.name}: {_counted(len(self.nodes), 'state')}, {self.rows}"

    @property
    def ladder_title(self) -> str:
        """Name the machine, and count what the ladder view shows."""
        return f"{self.name}: {_counted(len(self.decisions), 'decision list')}, {self.rows}"

    @property
    def is_struck(self) -> bool:
        """Tell whether any row is shown that is never taken."""
        return any(line.is_struck for drawn in (*self.arcs, *self.notes) for line in drawn.lines)

    @property
    def key(self) -> str:
        """Explain the signs of a change; empty where the picture shows none."""
        return CHANGE_KEY if self.is_change else ""

    def node(self, name: str) -> Node:
        """Return the node of a state."""
        return next(node for node in self.nodes if node.name == name)

    def of_kind(self, *kinds: Kind) -> tuple[Node, ...]:
        """List the nodes of some kinds, in the order of the table."""
        return tuple(node for node in self.nodes if node.kind in kinds)

    def arc(self, source: str, target: str) -> Arc | None:
        """Return the arc between two states, if there is one."""
        return next((arc for arc in self.arcs if (arc.source, arc.target) == (source, target)), None)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def all_steps(lines: Iterable[Line]) -> tuple[int, ...]:
    """List the steps that took any of some lines, in order."""
    return tuple(sorted(number for line in lines for number in line.steps))


def wrapped(words: str, room: int) -> list[str]:
    """Break words into lines of so many characters; a name that is longer has a line of its own."""
    return wrap(words, room, break_long_words=False, break_on_hyphens=False)


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


def sign_html(line: Line) -> str:
    """Return the sign of a change, to stand before the row in a label of Mermaid or DOT."""
    return f"<b>{line.sign}</b> " if line.sign else ""


def turned_html(line: Line) -> str:
    """Return the words for a row that a change turns off or on, to stand behind it."""
    return f" <b>{line.turn}</b>" if line.turn else ""


def struck_html(text: str, is_struck: bool) -> str:
    """Strike a text through if it no longer holds."""
    return f"<s>{text}</s>" if is_struck else text
