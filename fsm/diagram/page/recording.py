"""A recorded call as plain data for the page: its steps, and what was left of the budget after each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict

from rungwise.fsm.call.budget import Spending
from rungwise.fsm.call.request import Prices
from rungwise.fsm.journal.path import Trail
from rungwise.fsm.journal.record import Step

Plain = dict[str, Any]


def call_data(trail: Trail) -> Plain:
    """Return what a script needs to show each step of a call."""
    journal = trail.journal
    prices = {link.name: link.prices for link in reversed(journal.setting.chain)}
    spending = Spending(journal.setting.policy.budget)
    return {
        "outcome": journal.outcome,
        "rows": [None if row is None else trail.table.rows.index(row) for row in trail.rows],
        "steps": [_step(step, spending, prices) for step in trail.steps],
    }


def _step(step: Step, spending: Spending, prices: Mapping[str, Prices | None]) -> Plain:
    spending.pay(step.usage, prices.get(step.backend))
    return {
        **{name: getattr(step, name) for name in ("event", "source", "target", "at", "attempts", "facts", "backend")},
        **{name: getattr(step, name) for name in ("wait", "cap", "stop_raw", "status", "reason", "code", "note")},
        **{name: getattr(step, name) for name in ("asked_wait", "draw", "content")},
        "spent": dict(step.spent),
        "usage": {name: count for name, count in asdict(step.usage).items() if count},
        "used": {
            "attempts": step.attempts,
            "seconds": step.at,
            "output_tokens": spending.usage.output_tokens,
            "money": None if prices.get(step.backend) is None else spending.cost,
        },
    }
