"""The worst case of one thing that is spent, with the path to it, and how both are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from rungwise.fsm.certificate.enactment import Enacted
from rungwise.fsm.checker.best_values import Number

NEVER_ALL = "each ends before the budget of seconds does, by as little as one likes"
"""What is to be known of waits that such a budget ends: they come as near to it as a number can, and never reach it."""


@frozen
class WorstCase:
    """Hold the worst case of one thing that a call spends.

    Arguments:
        name: what is spent.
        value: the most that can be spent; None if nothing bounds it or too little is known.
        ladder: what the ladder could spend without any budget; None if it is unbounded, unknown or too hard to find.
        ended_by: what ends the worst path: `ladder`, or the field of the budget.
        enacted: the costliest path found, as a call took it when its events were played to it.
        note: what is counted and what is not.
        within: the most that can be spent in 1 attempt, in 2, and so on up to the budget; empty where that is unknown.
    """

    name: str
    value: Number | None
    ladder: Number | None
    ended_by: str
    enacted: Enacted
    note: str
    within: tuple[Number, ...] = field(default=(), repr=False)

    @property
    def attained(self) -> Number | None:
        """Return what a call spent on the path; None where there is no path."""
        return self.enacted.spent.get(self.name)

    @property
    def is_exact(self) -> bool:
        """Tell whether the path attains the value, or all but what no number tells; otherwise it is an upper bound."""
        return self.value is not None and self.attained is not None and math.isclose(self.value, self.attained)

    @property
    def rungs(self) -> tuple[str, ...]:
        """List the rungs of the path."""
        return self.enacted.rungs

    @property
    def path(self) -> str:
        """Write the rungs of the path, those that repeat only once: `ask, retry x3, continuation`."""
        return compressed(self.rungs)

    def to_json(self) -> dict[str, Any]:
        """Return the worst case as plain values."""
        return {
            "name": self.name,
            "value": self.value,
            "ladder": self.ladder,
            "ended_by": self.ended_by,
            "path": self.path,
            "events": [step.event for step in self.enacted.steps],
            "guards": [step.guard for step in self.enacted.steps],
            "attained": self.attained,
            "exact": self.is_exact,
            "note": self.note,
        }


def number_text(value: int | float) -> str:
    """Write a figure: thousands apart, and no more than six places."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0").rstrip(".")


def compressed(names: Sequence[str]) -> str:
    """Write a list of names, each run of equal ones, or of equal pairs, once with its length."""
    runs: list[str] = []
    place = 0
    while place < len(names):
        size, times = _run(names, place)
        block = ", ".join(names[place : place + size])
        runs.append(block if times == 1 else f"{block if size == 1 else f'({block})'} x{times}")
        place += size * times
    return ", ".join(runs)


LEAST_PAIRS = 3
"""Equal pairs in a row that are written as one."""


def _run(names: Sequence[str], start: int) -> tuple[int, int]:
    """Return how long the block is that is repeated from a place on, and how often it stands there."""
    single, pairs = _times(names, start, 1), _times(names, start, 2)
    return (2, pairs) if single == 1 and pairs >= LEAST_PAIRS else (1, single)


def _times(names: Sequence[str], start: int, size: int) -> int:
    block, times = names[start : start + size], 1
    while len(block) == size and names[start + size * times : start + size * (times + 1)] == block:
        times += 1
    return times
