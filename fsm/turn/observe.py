"""What the end of a call or of tools means for the turn: the event, the facts, and the cause of an
end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rungwise.fsm.call.conversation.observation import WRONG
from rungwise.fsm.call.run.result import Result, ending_of
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.engine.machine.table import Row
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import TURN

HOPELESS = frozenset({"repeats_itself", "asks_for_little", "overran"})
"""The facts of a call whose cut text is not worth resuming."""


def event_of(result: Result) -> str:
    """Return the event that a result means for the turn."""
    return event_after(result.outcome, result.journal.last.event)


def event_after(outcome: str, last: str) -> str:
    """Return the event that the outcome of a call and its last event mean for the turn."""
    if outcome == "done":
        return "called_tools" if last == "called_tools" else "answered"
    if last == "overflowed":
        return "overflowed"
    if outcome == "partial":
        return "truncated" if last == "truncated" else "interrupted"
    return _EVENTS[outcome]


_EVENTS = {
    "salvaged": "answered",
    "refused": "refused",
    "exhausted": "call_failed",
    "failed": "call_failed",
    "cancelled": "cancelled",
    "over_budget": "ran_out",
}


OF_TOOLS = ("tool_worked", "repeats_calls", "over_tool_limit", "was_handed_off", "awaits_approval")
"""The facts of a round of tools, besides what the counters have left."""

WITHOUT_CAUSE = frozenset(
    {"finished", "handed_off", "awaiting_approval", "use_tools", "go_on", "compact"}
)
"""The states that need no explanation: a good end, or the turn goes on."""


def facts_of_call(
    result: Result, position: Run, *, has_compactor: bool, has_text: bool
) -> tuple[str, ...]:
    """Return the names of the facts that hold when a call has ended.

    Arguments:
        result: the result of the call.
        position: where the turn is.
        has_compactor: whether the driver can shorten a conversation.
        has_text: whether the turn has shown any text so far.
    """
    is_summary = position.spent_of("summaries") > 0
    found = {
        "is_hopeless": not HOPELESS.isdisjoint(result.journal.last.facts),
        "has_compactor": has_compactor,
        "is_summary": is_summary,
        "has_no_text": is_summary and not has_text,
    }
    return facts_of(position, found)


def facts_of(position: Run, found: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the names of the facts that hold: those that were found to, and those that follow from
    the counters.
    """
    names = []
    for fact in TURN.facts:
        has_left = fact.lasts is not None and position.has_left(fact.lasts)
        if has_left or found.get(fact.name):
            names.append(fact.name)
    return tuple(names)


def counts_of(state: str, spent_of: Callable[[str], int], policy: TurnPolicy) -> str:
    """Write how many units of its counter a rung has used, of how many; "" for `use_tools` and for
    no rung.
    """
    rung = TURN.rung(state)
    if rung is None or rung.name == "use_tools":
        return ""
    unit = rung.unit.replace("_", "-")
    return f"{unit} {spent_of(rung.counter)}/{policy.limits[rung.counter]}"


def cause_of(
    row: Row, facts: tuple[str, ...], policy: TurnPolicy, result: Result | None, note: str | None
) -> str | None:
    """Say why a turn ended, in a sentence; None if it simply finished or goes on.

    Arguments:
        row: the last row.
        facts: the facts that held.
        policy: the limits of the turn.
        result: the result of the call that came back, if one did.
        note: what the journal says of the step.
    """
    if row.target in WITHOUT_CAUSE:
        return None
    is_wrong = result is not None and result.journal.last.event in WRONG.values()
    if result is not None and (is_wrong or not result.is_success):
        return f"its last call {ending_of(result)}"
    if row.event == "called_tools" and row.target == "failed":
        return "the model has shown no text, and when asked for a summary it called tools again"
    if row.event == "tools_ran":
        return _limit(facts, policy)
    cause = TURN.says(row.event, at_last=True)
    if note:
        cause += f": {note}"
    if result is not None and result.cause is not None:
        cause = result.cause
    if row.event == "truncated" and "is_hopeless" not in facts:
        cause += f"; {_ceiling(policy)}"
    return cause


def _limit(facts: tuple[str, ...], policy: TurnPolicy) -> str:
    if "over_tool_limit" in facts:
        return f"one reply called more than {policy.calls_per_reply} tools"
    if "repeats_calls" in facts:
        return f"the same call has brought the same result {policy.same_calls} times"
    if not {"tool_worked", "may_fail_again"}.intersection(facts):
        return f"{policy.faults} rounds of tools in a row brought nothing but faults"
    return _ceiling(policy)


def _ceiling(policy: TurnPolicy) -> str:
    return f"the turn has gone on by itself {policy.auto_continues} times, which is all that it may"
