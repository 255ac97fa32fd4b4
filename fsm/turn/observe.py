"""What the end of a call means for its turn: the event, and the facts."""

from __future__ import annotations

from rungwise.fsm.call.result import Result
from rungwise.fsm.machine.run import Run

HOPELESS = frozenset({"repeats_itself", "asks_for_little", "overran"})
"""The facts of a call on which its cut text is not gone on from."""


def event_of(result: Result) -> str:
    """Return the event that a result is for the turn."""
    last = result.journal.last.event
    if result.outcome == "done":
        return "called_tools" if result.tool_calls else "answered"
    if last == "overflowed":
        return "overflowed"
    if result.outcome == "partial":
        return "truncated" if last == "truncated" else "interrupted"
    return _EVENTS[result.outcome]


_EVENTS = {
    "salvaged": "answered",
    "refused": "refused",
    "exhausted": "call_failed",
    "failed": "call_failed",
    "cancelled": "cancelled",
    "over_budget": "ran_out",
}


def facts_of(result: Result, position: Run, *, has_compactor: bool, is_summary: bool) -> tuple[str, ...]:
    """Return the names of the facts that hold when a call has ended.

    Arguments:
        result: its end.
        position: where the turn stands.
        has_compactor: whether the conversation can be shortened.
        is_summary: whether the call asked for the summary.
    """
    limits = dict(zip(position.table.counters, position.limits, strict=True))
    facts = {
        "may_fail_again": position.spent_of("faults") < limits["faults"],
        "may_go_on_later": position.spent_of("auto_continues") < limits["auto_continues"],
        "is_hopeless": not HOPELESS.isdisjoint(result.journal.last.facts),
        "has_compactor": has_compactor,
        "is_summary": is_summary,
    }
    return tuple(name for name, holds in facts.items() if holds)
