"""Properties that only the table of a call has: which failures end it, and what it reserves.

None of them is required: a table of your own may do without, and the certificate then says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from rungwise.fsm.call.budget.reserve import reserved_seconds
from rungwise.fsm.call.conversation.observation import ANSWERS, RAISED
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.outcome import LAST_RESORTS
from rungwise.fsm.call.table import CALL, UNSENT
from rungwise.fsm.engine.checker.branches import Branch, branches
from rungwise.fsm.engine.checker.counterexample import Property
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.replies.failures.failure import Failure, event_of_failure

REACHED = "the next backend is reached"
UNASKED = "the figures hold with health and without"
CRASHES = "the figures hold over any number of crashes"

NO_FAILURES = ANSWERS | {RAISED, "sent", "cancelled", *UNSENT, "truncated"}
"""The events that no other backend need mend: an answer, what the driver or a verdict does, text
cut at the cap.
"""


def reached(policy: Policy) -> Property:
    """Check row by row that no failure ends a call before the next backend is asked.

    A table of your own may do without: the certificate then says so, and still holds.
    """
    table = policy.table
    early = list(dict.fromkeys(_early_ends(table)))
    if early:
        detail = f"a backend may follow and not be asked after {', '.join(early)}"
        return Property(REACHED, False, detail, is_required=False)
    failures = _failures(table)
    paths = sum(len(branches(table, event, table.hub)) for event in failures)
    detail = f"no failure ends a call before it: {paths} paths through {len(failures)} events"
    if policy.after_refusal == "end":
        detail += "; a refusal ends the call, as the policy says"
    return Property(REACHED, True, f"{detail}; nothing else uses its reserve", is_required=False)


def _early_ends(table: Table) -> Iterator[str]:
    """Name the events that can end a call though another backend could be asked."""
    for event in _failures(table):
        if any(_ends_early(each, LAST_RESORTS) for each in branches(table, event, table.hub)):
            yield event
    for rung in table.rungs:
        if any(_ends_early(each, table.outcomes) for each in branches(table, "found_open", rung)):
            yield f"found_open in {rung}"
        # Nothing is reserved from the first attempt at a backend, so it never runs out because of a
        # reserve.
        ends = [
            each for each in branches(table, "ran_out", rung) if _ends_early(each, table.outcomes)
        ]
        if rung != "fallback" and any(each.facts.get("reserve_left", True) for each in ends):
            yield f"ran_out in {rung}"


def unasked(table: Table) -> Property:
    """Check that a backend may be passed over in every rung that can arrive at one."""
    missing = [
        rung for rung in table.rungs if rung != "fallback" and not table.ladder("found_open", rung)
    ]
    detail = (
        "any backend may be passed over when a call arrives there; then its attempts go to the next"
    )
    wrong = f"found_open is not counted in {', '.join(missing)}"
    return Property(UNASKED, not missing, wrong if missing else detail, is_required=False)


def crashes(table: Table) -> Property:
    """Check that an attempt that a crash cuts off is an event that the table handles."""
    event = event_of_failure(Failure("crashed"))
    detail = (
        f"an attempt of a durable call that a crash cuts off is {event}, counted and "
        f"charged before it was sent"
    )
    return Property(CRASHES, bool(table.ladder(event, table.hub)), detail, is_required=False)


def _ends_early(branch: Branch, ends: Collection[str]) -> bool:
    """Tell whether a branch ends a call though a backend follows and a fallback is left."""
    if branch.row is None or branch.row.target not in ends or branch.facts.get("refusal_ends"):
        return False
    return branch.facts.get("has_next_backend", True) and "fallbacks" not in branch.spent


def _failures(table: Table) -> list[str]:
    """List the events of a table after which another backend may help."""
    events = [event for event in CALL.events if event not in NO_FAILURES]
    return [event for event in events if table.ladder(event, table.hub)]


def reserved(
    policy: Policy, limits: Mapping[str, int], backends: int
) -> Mapping[str, float] | None:
    """Return what the last of several backends has at least, whatever those before it do."""
    is_reached = "fallback" in policy.table.rungs and limits["fallbacks"] == backends - 1
    if backends == 1 or not policy.reserve.is_on or not is_reached:
        return None
    kept: dict[str, float] = {"attempts": int(policy.budget.attempts >= backends)}
    seconds = policy.budget.seconds
    if seconds is not None:
        kept["seconds"] = reserved_seconds(policy, seconds, backends)
    return kept
