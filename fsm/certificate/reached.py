"""Whether every failure leads to the next backend as long as one follows, row by row and for all limits at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rungwise.fsm.call.conversation.observation import ANSWERS
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.running import LAST_RESORTS
from rungwise.fsm.call.table import CALL
from rungwise.fsm.checker.branches import Branch, branches
from rungwise.fsm.checker.counterexample import Property
from rungwise.fsm.machine.table import Table

REACHED = "the next backend is reached"

NO_FAILURES = ANSWERS | {"sent", "cancelled", "ran_out", "truncated"}
"""The events that are no failure: an answer, what the driver does, and a reply that ends early but in good order."""


def reached(policy: Policy) -> Property:
    """Find out whether a failure can end a call while a usable backend follows and a fallback is left.

    A table of one's own may do without: then it is said, and nothing is refused.
    """
    table = policy.table
    lost = list(dict.fromkeys(_lost(table)))
    if lost:
        told = f"a backend may follow and not be asked after {', '.join(lost)}"
        return Property(REACHED, False, told, is_required=False)
    looked_at = sum(len(branches(table, event, table.hub)) for event in _failures(table))
    refusals = "; a refusal ends the call, as the policy says" if policy.after_refusal == "end" else ""
    told = f"no failure ends a call before it: in {looked_at} ways through {len(_failures(table))} events{refusals}"
    return Property(REACHED, True, f"{told}; what is kept for it is used for nothing else", is_required=False)


def _lost(table: Table) -> Iterator[str]:
    """Name the events that can end a call though another backend could be asked."""
    for event in _failures(table):
        if any(_is_lost(table, each, LAST_RESORTS) for each in branches(table, event, table.hub)):
            yield event
    for rung in table.rungs:
        # Nothing is kept from the first attempt at a backend, so that it runs out of nothing that is kept.
        if rung != "fallback" and any(
            _is_lost(table, each, table.outcomes) and each.facts.get("reserve_left", True)
            for each in branches(table, "ran_out", rung)
        ):
            yield f"ran_out in {rung}"


def _is_lost(table: Table, branch: Branch, ends: Iterable[str]) -> bool:
    if branch.row is None or branch.row.target not in ends or branch.facts.get("refusal_ends"):
        return False
    return branch.facts.get("has_next_backend", True) and "fallbacks" not in branch.spent


def _failures(table: Table) -> list[str]:
    return [event for event in CALL.events if event not in NO_FAILURES and table.ladder(event, table.hub)]
