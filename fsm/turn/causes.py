"""Why a turn ended other than well, in a sentence."""

from __future__ import annotations

from rungwise.fsm.call.run.result import Result, error_of
from rungwise.fsm.machine.table import Row
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import TURN


def cause_of(
    row: Row, facts: tuple[str, ...], policy: TurnPolicy, result: Result | None, note: str | None
) -> str | None:
    """Return the sentence; None for a turn that has simply finished, or goes on.

    Arguments:
        row: the row that was taken.
        facts: the facts that held.
        policy: how often what may be done.
        result: the end of the call that it was taken for, if it was one.
        note: what is worth knowing besides.
    """
    if row.target in ("finished", "handed_off", "use_tools", "go_on", "compact"):
        return None
    if result is not None and not result.is_success:
        return f"its last call {error_of(result)}"
    if row.event == "tools_ran":
        return _limit(facts, policy)
    cause = TURN.says(row.event, at_last=True) + (f": {note}" if note else "")
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
