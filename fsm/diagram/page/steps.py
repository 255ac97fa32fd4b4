"""The steps of a recorded run as plain data for the page, with what was used up after each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from attrs import asdict, frozen

from rungwise.fsm.journal.path import Path
from rungwise.fsm.journal.record import Step

Plain = dict[str, Any]


_SHOWN = (
    *("event", "source", "target", "at", "attempts", "facts", "backend", "wait", "cap", "stop_raw", "status", "reason"),
    *("code", "note", "asked_wait", "draw", "content"),
)


@frozen
class Used:
    """Hold what was used up after a step, of what the budget of a whole run limits.

    Arguments:
        attempts, seconds, output_tokens: as in the budget.
        money: in the currency of the prices; None where that is not known.
    """

    attempts: int
    seconds: float
    output_tokens: int
    money: float | None = None


def used_in(path: Path, money: Sequence[float | None] = ()) -> tuple[Used, ...]:
    """Return what a run had used up after each of its steps, as they tell it.

    Arguments:
        money: what was spent after each step; None where that is not known.
    """
    tokens = accumulate(step.usage.output_tokens for step in path.steps)
    spent = money or [None] * len(path.steps)
    together = zip(path.steps, tokens, spent, strict=True)
    return tuple(Used(step.attempts, step.at, count, paid) for step, count, paid in together)


def steps_data(path: Path, used: Sequence[Used], inner: Mapping[int, int]) -> Plain:
    """Return what a script needs to show each step of a run.

    Arguments:
        used: what was used up after each step.
        inner: the number of the inner page that a step leads to, by the number of the step.
    """
    return {
        "outcome": path.record.outcome,
        "rows": [None if row is None else path.table.rows.index(row) for row in path.rows],
        "steps": [_step(step, each) for step, each in zip(path.steps, used, strict=True)],
        "inner": [inner.get(step.number) for step in path.steps],
    }


def _step(step: Step, used: Used) -> Plain:
    return {
        **{name: getattr(step, name) for name in _SHOWN},
        "spent": dict(step.spent),
        "usage": {name: count for name, count in asdict(step.usage).items() if count},
        "used": asdict(used),
    }
