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
class Clocks:
    """Hold the limits of one attempt, as set by the policy, the backend, and what is left of the
    budget.

    Silence ends an attempt only if the table then asks again, and there is time and budget for
    that.

    Arguments:
        first_token: seconds from the beginning of the attempt to the first content; None for no
        limit. thinking: seconds from the head of the response to the first content, which replace
        `first_token` when the head
            comes; None leaves it.
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


def clocks_of(
    context: CallContext, proposal: Proposal, facts: FactFinder, *, streams: bool
) -> Clocks:
    """Return the clocks of an attempt that goes out now; `facts` finds what would hold if nothing
    came of it.
    """
    timeouts = context.policy.timeouts
    link = context.chain.link
    spending = context.spending
    own = link.first_token
    is_default = own is None and isinstance(timeouts.first_token, DefaultSeconds)
    thinking = link.thinks_for if is_default else None
    first_token = own or timeouts.first_token
    patience = max(first_token or 0.0, thinking or 0.0)
    before, after = _latest_silence(context, proposal, facts, patience) if streams else (None, None)
    ends_after = (
        spending.limit if context.reserved.ends_after is None else context.reserved.ends_after
    )
    return Clocks(
        first_token=first_token,
        thinking=thinking,
        stall=link.stall or timeouts.stall,
        ends_by=None if ends_after is None else (spending.began or 0.0) + ends_after,
        before_text=before,
        after_text=after,
    )


def _latest_silence(
    context: CallContext, proposal: Proposal, facts: FactFinder, first_token: float
) -> Iterable[float | None]:
    """Return the latest moments at which silence may end an attempt: without visible text, and with
    some.
    """
    has_next = context.chain.next_usable() is not None
    found = facts.of_silence(proposal, has_next_backend=has_next)
    rows = [context.position.would_take(SILENCE, each) for each in found]
    # None if the call ends
    rungs = [None if row is None else context.policy.table.rung(row.target) for row in rows]
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
    """
    if rung is None:
        return None
    if limit is None:
        return math.inf
    wait = longest_wait(
        context.policy.waits, rung, context.position.spent_of(rung.counter) + 1, SILENCE
    )
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
    affordable = spending.lowered(
        None, 2 * (proposal.prompt_tokens or 0) + cap, prices, NOTHING_RESERVED
    )
    return affordable is None or affordable > most_counted(cap)
