"""One row as a picture shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from attrs import frozen

from rungwise.fsm.engine.machine.table import Row

Change = Literal["added", "removed"]
SIGNS: Final[Mapping[Change, str]] = {"added": "+", "removed": "−"}
"""The sign of what only one of two tables has, for readers who cannot rely on colours."""


@frozen
class Line:
    """Show one row.

    Arguments:
        row: the row.
        steps: the numbers of the steps that took it.
        tried: the numbers of the steps that tried it while its guard was false.
        off: why it can never be taken; None if it can be.
        change: `added` or `removed` if only one of two tables has it.
        was: its rank in the old decision list, if the order has changed.
        turned: whether a change of policy turns it off or on, if both tables have it.
    """

    row: Row
    steps: tuple[int, ...] = ()
    tried: tuple[int, ...] = ()
    off: str | None = None
    change: Change | None = None
    was: int | None = None
    turned: Literal["off", "on"] | None = None

    @property
    def meaning(self) -> tuple[object, ...]:
        """Return what the row does, whatever its state: two lines that do the same may be one."""
        return self.row.guard, self.row.target, self.row.effect

    @property
    def text(self) -> str:
        """Write the row as the label of an arc."""
        if self.row.guard is None:
            return self.row.event
        return f"{self.row.event} [{self.row.guard}]"

    @property
    def sign(self) -> str:
        """Return `+` or `−` for a row that only one of two tables has."""
        return SIGNS[self.change] if self.change else ""

    @property
    def turn(self) -> str:
        """Return `now off` or `now on` if a change turns the row off or on."""
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
        if self.change or self.turned:
            return self.change or self.turned
        return None if self.was is None else "moved"

    @property
    def is_struck(self) -> bool:
        """Tell whether the row is never taken: it is off, or gone."""
        return self.off is not None or self.change == "removed"

    @property
    def says(self) -> str:
        """Describe the row in full, for a tooltip."""
        sentences = [str(self.row)]
        if self.change == "added":
            sentences.append("new")
        elif self.change == "removed":
            sentences.append("no longer there")
        if self.off is not None:
            now = "now " if self.turned == "off" else ""
            sentences.append(f"{now}off: {self.off}")
        if self.turned == "on":
            sentences.append("now on")
        if self.was is not None:
            sentences.append(f"its rank was {self.was}")
        return "\n".join(sentences)


def all_steps(lines: Iterable[Line]) -> tuple[int, ...]:
    """Return the numbers of the steps that took any of some lines, in order."""
    return tuple(sorted(number for line in lines for number in line.steps))
