"""The clocks of one attempt: when silence may end it, and when it must have ended."""

from __future__ import annotations

import math
from collections.abc import Iterable

from attrs import frozen

from rungwise.fsm.call.budget.budget import NOTHING_RESERVED
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.call.budget.reserve import may_fall_back
from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.clocks.waiting import longest_wait
from rungwise.fsm.call.policy import DefaultSeconds
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.facts import FactFinder
from rungwise.fsm.engine.machine.declare import Rung

# Theory
#
# A backend that sends nothing may be dead, or may be thinking. Ending the attempt is right only if
# something better follows: another attempt that the table, the time and the budgets allow.
# Otherwise waiting costs nothing. So the core does not say "after so many seconds of silence". It
# says until which moment silence may end the attempt:
#
#   another backend follows    at any moment: the reserve pays for it, and keeps the time for it
#   only the same backend      until the longest wait before the next attempt, and a first token
#   after it, no longer
#                              fit into the time that is left; and only if the budgets pay for an
#                              attempt after one that uses up its cap
#   the table would end        never
#
# Text can be continued, so there are two moments: with visible text and without. A `TextWatch`
# tells which one counts.

CLOSING = 1.0
"""Seconds that a driver may take beyond the end of an attempt, to let go of its connection."""


@frozen(kw_only=True)
class AttemptClocks:
    """Hold the limits of one attempt, as set by the policy, the backend, and what is left of the
    budget.

    Silence ends an attempt only if the table then asks again, and there is time and budget for
    that.

    Arguments:
        first_token: seconds from the beginning of the attempt to the first content; None for no
            limit.
        thinking: seconds from the head of the response to the first content, which replace
            `first_token` when the head comes; None leaves it.
        stall: seconds between two pieces of content; None for no limit.
        ends_by: when the attempt must have ended, on the driver's clock, so that the reserve of the
            backends to come stays; None for no limit.
        before_text: the latest moment, on the driver's clock, at which silence may end the attempt
            while it has brought no visible text; None for never, infinity for any moment.
        after_text: the same once it has brought some.
    """

    first_token: float | None
    thinking: float | None = None
    stall: float | None
    ends_by: float | None
    before_text: float | None
    after_text: float | None


SILENCE = "fell_silent"
"""The event of an attempt that silence has ended."""


def clocks_of(
    context: CallContext, proposal: Proposal, facts: FactFinder, *, streams: bool
) -> AttemptClocks:
    """Return the clocks of an attempt that goes out now.

    Arguments:
        context: the call.
        proposal: what goes out.
        facts: finds the facts that would hold if nothing came of it.
        streams: whether the reply is streamed; silence ends nothing else.
    """
    timeouts = context.policy.timeouts
    link = context.chain.link
    spending = context.spending
    first_token = link.first_token
    thinking = None
    if first_token is None:
        first_token = timeouts.first_token
        if isinstance(first_token, DefaultSeconds):
            thinking = link.thinks_for
    before = after = None
    if streams:
        patience = max(first_token or 0.0, thinking or 0.0)
        before, after = _latest_silence(context, proposal, facts, patience)
    ends_after = context.reserved.ends_after
    if ends_after is None:
        ends_after = spending.limit
    ends_by = None
    if ends_after is not None:
        ends_by = (spending.began or 0.0) + ends_after
    return AttemptClocks(
        first_token=first_token,
        thinking=thinking,
        stall=link.stall or timeouts.stall,
        ends_by=ends_by,
        before_text=before,
        after_text=after,
    )


def _latest_silence(
    context: CallContext, proposal: Proposal, facts: FactFinder, first_token: float
) -> Iterable[float | None]:
    """Return the latest moments at which silence may end an attempt: without visible text, and with
    some.

    Arguments:
        context: the call.
        proposal: what goes out.
        facts: finds the facts that would hold if nothing came of it.
        first_token: seconds that the next attempt must have for its first content.
    """
    has_next = context.chain.next_usable() is not None
    rungs = []  # None where the call would end
    for held in facts.of_silence(proposal, has_next_backend=has_next):
        row = context.position.would_take(SILENCE, held)
        rungs.append(None if row is None else context.policy.table.rung(row.target))
    if has_next and any(rungs) and may_fall_back(context):
        return [None if rung is None else math.inf for rung in rungs]
    if any(rungs) and _pays_for_another(context, proposal):
        return [_latest(context, rung, context.spending.limit, first_token) for rung in rungs]
    return None, None


def _latest(
    context: CallContext, rung: Rung | None, limit: float | None, first_token: float
) -> float | None:
    """Return the latest moment at which silence may end an attempt, if the same backend is asked
    again.

    Arguments:
        context: the call.
        rung: what follows; None if the call ends, and then silence never ends the attempt.
        limit: seconds that the call may take; None for no limit.
        first_token: seconds that the next attempt must have for its first content.
    """
    if rung is None:
        return None
    if limit is None:
        return math.inf
    number = context.position.spent_of(rung.counter) + 1
    wait = longest_wait(context.policy.waits, rung, number, SILENCE)
    return (context.spending.began or 0.0) + limit - wait - first_token


def _pays_for_another(context: CallContext, proposal: Proposal) -> bool:
    """Tell whether the budgets last for an attempt after one that uses all of its cap and adds it
    to the prompt.
    """
    spending = context.spending
    prices = context.chain.link.prices
    cap = proposal.send.max_tokens
    if context.position.attempts >= context.policy.budget.attempts:
        return False
    if spending.share is not None and not spending.share.has_left(spending.now):
        return False
    if cap is None or not spending.needs_cap:
        return True
    # both prompts, and the answer of the first, which is a part of the second prompt
    prompts = 2 * (proposal.prompt_tokens or 0) + cap
    affordable = spending.lowered(None, prompts, prices, NOTHING_RESERVED)
    return affordable is None or affordable > most_counted(cap)
