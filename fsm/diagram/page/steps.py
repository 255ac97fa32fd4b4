"""The steps of a recorded run as plain data for the page, with what was used up after each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from attrs import asdict

from rungwise.fsm.journal.path import Path
from rungwise.fsm.journal.record import Step

Plain = dict[str, Any]


_SHOWN = (
    *("event", "source", "target", "at", "attempts", "facts", "backend", "wait", "cap", "stop_raw", "status", "reason"),
    *("code", "note", "asked_wait", "draw", "content"),
)


def steps_data(path: Path, money: Sequence[float | None] = ()) -> Plain:
    """Return what a script needs to show each step of a run.

    Arguments:
        money: what was spent after each step, in the currency of the prices; None where that is not known.
    """
    tokens = accumulate(step.usage.output_tokens for step in path.steps)
    spent = money or [None] * len(path.steps)
    return {
        "outcome": path.record.outcome,
        "rows": [None if row is None else path.table.rows.index(row) for row in path.rows],
        "steps": [_step(*each) for each in zip(path.steps, tokens, spent, strict=True)],
    }


def _step(step: Step, tokens: int, money: float | None) -> Plain:
    return {
        **{name: getattr(step, name) for name in _SHOWN},
        "spent": dict(step.spent),
        "usage": {name: count for name, count in asdict(step.usage).items() if count},
        "used": {"attempts": step.attempts, "seconds": step.at, "output_tokens": tokens, "money": money},
    }
