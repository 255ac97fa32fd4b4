"""Check a turn with its table, on top of the certificate of its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.certificate.checked import checked, clipped
from rungwise.fsm.certificate.turn_worst import worst_of_turn
from rungwise.fsm.machine.table import Table
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.rules import faults_of_turn
from rungwise.fsm.turn.table import TURN

HONEST_TURN = "only an answer is finished, and nothing follows the summary or a round that goes in circles"


def calls_of(policy: TurnPolicy) -> Policy:
    """Return the policy that the calls of a turn are checked by: the turn has the compactor, and they have none."""
    calls = policy.of_calls
    if "compactions" not in calls.table.counters:
        return calls
    return evolve(calls, limits=Limits(**{**calls.limits, "compactions": 0}))


def verify_turn(
    policy: TurnPolicy,
    call: Certificate,
    prices: Sequence[Prices | None],
    *,
    table: Table = TURN,
    exhaustive: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Certificate:
    """Check the policy of a turn, and find its worst cases.

    Arguments:
        policy: of the turn.
        call: the certificate of what `calls_of` returns for it.
        prices: of each backend.
        table: the machine of the turn.
        exhaustive: walk with the policy's own limits, however large.
        progress: is given the number of configurations looked at, every thousand of them.
    """
    limits = policy.limits
    blank = Certificate(
        table=table.name,
        limits=limits,
        budget=policy.budget,
        chain=call.chain,
        max_tokens=call.max_tokens,
        input_tokens=call.input_tokens,
        assistant_turns=call.assistant_turns,
        walked=limits if exhaustive else clipped(limits),
        call=call,
        tools={
            "calls_per_reply": policy.calls_per_reply,
            "tool_seconds": policy.tool_seconds,
            "result_tokens": policy.result_tokens,
        },
    )
    certificate = checked(blank, table, faults_of_turn, HONEST_TURN, progress)
    if not certificate.ok:
        return certificate
    return evolve(certificate, worst=worst_of_turn(policy, table, call, prices))
