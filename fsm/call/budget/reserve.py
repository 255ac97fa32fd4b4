"""What a call reserves for the backends that are still to come."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from attrs import evolve

from rungwise.fsm.call.budget.budget import NOTHING_RESERVED, Reserved
from rungwise.fsm.call.budget.costs import dearest_prompt, price_of_output
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.policy import MOST_ATTEMPTS, Policy
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.values.money import units_of

# Theory
#
# A chain is worth nothing if its first backend can spend the whole budget. So while a backend is
# asked, a part of every ceiling is out of its reach: an attempt, some seconds, some output tokens
# and some money for each backend to come.
#
# The reserve is worked out when a backend is entered (`enter`), from what is left then. Each
# backend to come gets `share` of the whole budget, but never more than an even part of what is
# left, with one for the current backend. Money grows with the conversation, so it is worked out
# anew before each attempt (`count_money`), and never above the share that was fixed on entry.
#
# * The first attempt at a backend ignores the reserve if it could not be paid for otherwise. Only
#   what follows there stops at the reserve (`shortfall_of_reserve`). The seconds are different: an
#   attempt that waited for other calls until only the reserve is left would end at once, so it is
#   not sent.
# * An attempt that would break into the reserve is not sent. The event `ran_out` then leads to the
#   next backend (`reserve_left`), and the reserve is worked out anew there, for the backends behind
#   it.
# * The clocks of an attempt end at `ends_after`, not at the end of the call, so that silence cannot
#   use up the seconds.
#
# Nothing is reserved where no fallback is left, where no other backend can be used, or where the
# policy says so.


def reserved_seconds(policy: Policy, whole: float, backends: int) -> float:
    """Return the seconds that each backend but the first has at least, of a budget of `whole`
    seconds.
    """
    seconds = policy.reserve.seconds
    if seconds is None:
        seconds = whole * policy.reserve.share
    if policy.timeouts.total is not None:  # no attempt takes longer
        seconds = min(seconds, policy.timeouts.total)
    return max(0.0, min(seconds, whole / backends))


def enter(context: CallContext, cap: int, prompt_tokens: int) -> None:
    """Work out the reserve while the current backend is asked, with an output cap that nothing has
    lowered yet.
    """
    to_come: Sequence[Link] = ()
    if not context.chain.is_at_end:
        to_come = _to_come(context)
    if not to_come:
        context.reserved = NOTHING_RESERVED
        return
    policy = context.policy
    spending = context.spending
    count = len(to_come)
    limit = spending.limit
    seconds = 0.0
    ends_after = None
    if limit is not None:
        even = max(0.0, limit - spending.elapsed) / (count + 1)
        seconds = min(reserved_seconds(policy, limit, count + 1), even)
        ends_after = limit - count * seconds
    reserved = Reserved(
        attempts=count,
        shared_attempts=max(0, min(count, _shared_attempts_left(context) - 1)),
        seconds=seconds,
        ends_after=ends_after,
    )
    if spending.needs_cap:
        reserved = _with_amounts(reserved, context, to_come, cap + prompt_tokens)
    context.reserved = reserved


def _with_amounts(
    reserved: Reserved, context: CallContext, to_come: Sequence[Link], prompt_tokens: int
) -> Reserved:
    """Return a reserve with the tokens and the money for the backends to come.

    Arguments:
        reserved: the attempts and the seconds.
        context: the call.
        to_come: the backends to reserve for.
        prompt_tokens: those of the prompt that the next of them would be sent.
    """
    policy = context.policy
    spending = context.spending
    count = len(to_come)
    budget = policy.budget
    share = policy.reserve.share
    caps = [context.request.max_tokens or link.max_tokens or policy.base_cap for link in to_come]
    tokens = money_each = shared_tokens = shared_money_each = 0
    if budget.output_tokens is not None:
        tokens_left = spending.tokens_left(budget.output_tokens)
        tokens = _tokens(budget.output_tokens, tokens_left, share, caps)
    if spending.most_money is not None:
        money_left = spending.most_money - spending.charged_money
        money_each = _even(spending.most_money, money_left, share, count)
    levels = [] if spending.share is None else spending.share.remaining()
    for shared, tokens_left, money_left in levels:
        if shared.output_tokens is not None:
            of_level = _tokens(shared.output_tokens, tokens_left, share, caps)
            shared_tokens = max(shared_tokens, of_level)
        if shared.money is not None:
            of_level = _even(units_of(shared.money), money_left, share, count)
            shared_money_each = max(shared_money_each, of_level)
    money, shared_money = _money(context, to_come, prompt_tokens, money_each, shared_money_each)
    return evolve(
        reserved,
        output_tokens=tokens,
        shared_tokens=shared_tokens,
        money=money,
        shared_money=shared_money,
        money_each=money_each,
        shared_money_each=shared_money_each,
    )


def count_money(context: CallContext, cap: int, prompt_tokens: int) -> None:
    """Work out the reserved money anew: the next backend is sent the prompt, and what this attempt
    adds to it.
    """
    each = context.reserved.money_each
    shared_each = context.reserved.shared_money_each
    if each or shared_each:
        money, shared_money = _money(
            context, _to_come(context), cap + prompt_tokens, each, shared_each
        )
        context.reserved = evolve(context.reserved, money=money, shared_money=shared_money)


def _money(
    context: CallContext, to_come: Sequence[Link], tokens: int, most: int, shared_most: int
) -> tuple[int, int]:
    """Return the money to reserve in the call's own budget and in the shared ones.

    Arguments:
        context: the call.
        to_come: the backends to reserve for.
        tokens: those of the prompt that the next of them would be sent.
        most, shared_most: units of money for one backend at most, in the call's own budget and in
            the shared ones.
    """
    if not (most or shared_most):
        return 0, 0
    money = shared_money = 0
    for link in to_come:
        if link.prices is not None:
            cap = context.request.max_tokens or link.max_tokens or context.policy.base_cap
            needed = dearest_prompt(tokens, link.prices) + price_of_output(cap, link.prices)
            money += min(needed, most)
            shared_money += min(needed, shared_most)
    return money, shared_money


def shortfall_of_reserve(
    context: CallContext, cap: int | None, wait: float, *, is_first: bool
) -> str | None:
    """Name the part of the reserve that one more attempt at the current backend would use, if any.

    The first attempt there respects the seconds only.

    Arguments:
        context: the call.
        cap: the output cap in tokens, lowered to what is not reserved; None for none.
        wait: seconds until the attempt would go out.
        is_first: whether it is the first one at the current backend.
    """
    reserved = context.reserved
    if not is_first and _attempts_left(context) <= reserved.attempts:
        return "what is left of the attempts is kept for the backends to come"
    ends_after = reserved.ends_after if reserved.seconds > 0 else None
    if ends_after is not None and context.spending.elapsed + wait >= ends_after:
        return f"{reserved.seconds:g} s of the budget are kept for each backend to come"
    if is_first:
        return None
    amounts = (
        reserved.output_tokens or reserved.money or reserved.shared_tokens or reserved.shared_money
    )
    if amounts and cap is not None and cap < 1:
        return "what is left of the budget is kept for the backends to come"
    return None


def shortfall_of_shared_reserve(context: CallContext) -> str | None:
    """Name the part of the reserve in shared budgets that one more attempt here would use, if
    any.
    """
    if 0 < _shared_attempts_left(context) <= context.reserved.shared_attempts:
        return "what is left of the shared attempts is kept for the backends to come"
    return None


def may_fall_back(context: CallContext) -> bool:
    """Tell whether another backend can follow: there is one, a fallback is left, and an attempt for
    it.
    """
    attempts = min(_attempts_left(context), _shared_attempts_left(context))
    return attempts > 0 and fallbacks_left(context) > 0 and context.chain.next_usable() is not None


def can_pay_another(context: CallContext) -> bool:
    """Tell whether the budgets allow some backend to come an attempt at once, the reserve
    included.
    """
    spending = context.spending
    if spending.spent(context.position.attempts) is not None:
        return False
    for _, link in context.chain.to_come():
        cap = spending.lowered(None, 0, link.prices, NOTHING_RESERVED)
        if spending.shortfall(0.0, cap, 0, link.prices) is None:
            return spending.share is None or spending.share.has_left(spending.now)
    return False


def _to_come(context: CallContext) -> Sequence[Link]:
    """List the backends to reserve for: those that can still be asked, each with an attempt."""
    if not context.policy.reserve.is_on:
        return ()
    most = max(0, min(fallbacks_left(context), _attempts_left(context) - 1))
    return [link for _, link in islice(context.chain.to_come(), most)]


def fallbacks_left(context: CallContext) -> int:
    """Return how often the call may still turn to another backend, if there is one."""
    position = context.position
    table = context.policy.table
    place = table.places.get("fallbacks")
    if place is None or "fallback" not in table.rungs:
        return 0
    return position.limits[place] - position.spent[place]


def _attempts_left(context: CallContext) -> int:
    return context.policy.budget.attempts - context.position.attempts


def _shared_attempts_left(context: CallContext) -> int:
    share = context.spending.share
    return MOST_ATTEMPTS if share is None else share.attempts_left


def _even(whole: int, remaining: int, share: float, count: int) -> int:
    """Return what each backend to come gets of a budget.

    Arguments:
        whole: the whole budget.
        remaining: what is left of it.
        share: the share of the whole budget that one of them gets at most, from 0 to 1.
        count: how many backends are to come.
    """
    return max(0, min(int(whole * share), remaining // (count + 1)))


def _tokens(whole: int, remaining: int, share: float, caps: Sequence[int]) -> int:
    """Return the output tokens of all backends to come together.

    Arguments:
        whole, remaining, share: see `_even`.
        caps: the output cap of each of them.
    """
    most = _even(whole, remaining, share, len(caps))
    return sum(min(cap, most) for cap in caps)
