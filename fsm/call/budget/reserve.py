"""Work out what a call keeps for the backends that are still to come, and what would eat it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from attrs import evolve

from rungwise.fsm.call.budget.budget import NOTHING_RESERVED, Reserved
from rungwise.fsm.call.budget.prices import dearest_prompt, price_of_output
from rungwise.fsm.call.conversation.link import Link
from rungwise.fsm.call.policy import MOST_ATTEMPTS, Policy
from rungwise.fsm.call.run.context import CallContext


def seconds_kept(policy: Policy, whole: float, backends: int) -> float:
    """Return the seconds that each backend has at least, but for the first one.

    Arguments:
        policy: what it reserves, and how long an attempt takes at most.
        whole: the seconds of the budget.
        backends: how many there are; together they are never given more than there is.
    """
    reserve = policy.reserve
    wanted = whole * reserve.share if reserve.seconds is None else reserve.seconds
    total = policy.timeouts.total
    return max(0.0, min(wanted, whole / backends, math.inf if total is None else total))


def enter(context: CallContext, wanted: int, prompt_tokens: int) -> None:
    """Work out what is kept while the current backend is asked; who comes first is asked first, so it gets its part.

    Arguments:
        context: the budgets, and the backends.
        wanted: the output cap of an attempt at the current backend before anything lowers it, in tokens.
        prompt_tokens: those of the prompt, where money is counted.
    """
    to_come = () if context.chain.is_at_end else _to_come(context)
    if not to_come:
        context.reserved = NOTHING_RESERVED
        return
    policy, spending, count = context.policy, context.spending, len(to_come)
    limit, seconds, ends_after = spending.limit, 0.0, None
    if limit is not None:
        left = max(0.0, limit - spending.elapsed)
        seconds = min(seconds_kept(policy, limit, count + 1), left / (count + 1))
        ends_after = limit - count * seconds
    # By place: a call that falls back does this for each backend.
    shared_attempts = max(0, min(count, _shared_attempts_left(context) - 1))
    amounts = _amounts(context, to_come, wanted + prompt_tokens) if spending.needs_cap else ()
    context.reserved = Reserved(count, shared_attempts, seconds, ends_after, *amounts)


def _amounts(
    context: CallContext, to_come: Sequence[Link], prompt_tokens: int
) -> tuple[int, int, float, float, float, float]:
    """Return the tokens and the money that are kept, in the order of `Reserved`.

    Arguments:
        context: the budgets.
        to_come: the backends that they are kept for.
        prompt_tokens: those of the prompt that each of them would be sent.
    """
    policy, spending, count = context.policy, context.spending, len(to_come)
    budget, share = policy.budget, policy.reserve.share
    caps = [context.request.max_tokens or link.max_tokens or policy.base_cap for link in to_come]
    tokens = money_each = shared_tokens = shared_money_each = 0.0
    if budget.output_tokens is not None:
        tokens = _tokens(budget.output_tokens, spending.tokens_left(budget.output_tokens), share, caps)
    if budget.money is not None:
        money_each = _even(budget.money, budget.money - (spending.cost or 0.0), share, count)
    for shared, tokens_left, money_left in () if spending.share is None else spending.share.left():
        if shared.output_tokens is not None:
            shared_tokens = max(shared_tokens, _tokens(shared.output_tokens, tokens_left, share, caps))
        if shared.money is not None:
            shared_money_each = max(shared_money_each, _even(shared.money, money_left, share, count))
    money, shared_money = _money_kept(context, to_come, prompt_tokens, money_each, shared_money_each)
    return int(tokens), int(shared_tokens), money, shared_money, money_each, shared_money_each


def count_money(context: CallContext, wanted: int, prompt_tokens: int) -> None:
    """Work out the money that is kept: whoever comes next is sent the prompt, and what this attempt adds to it.

    Arguments:
        context: the budgets, and the backends.
        wanted: the output cap of this attempt, in tokens.
        prompt_tokens: those of its prompt.
    """
    each, shared_each = context.reserved.money_each, context.reserved.shared_money_each
    if each or shared_each:
        money, shared_money = _money_kept(context, _to_come(context), wanted + prompt_tokens, each, shared_each)
        context.reserved = evolve(context.reserved, money=money, shared_money=shared_money)


def _money_kept(
    context: CallContext, to_come: Sequence[Link], tokens: int, most: float, shared_most: float
) -> tuple[float, float]:
    """Return the money that is kept for all backends to come, in the call's own budget and in those that it shares.

    Arguments:
        context: what is asked of each of them.
        to_come: they.
        tokens: those of the prompt that each would be sent.
        most, shared_most: what is kept for one of them at most.
    """
    if not (most or shared_most):
        return 0.0, 0.0
    needed = []
    for link in to_come:
        if link.prices is not None:
            cap = context.request.max_tokens or link.max_tokens or context.policy.base_cap
            needed.append(dearest_prompt(tokens, link.prices) + price_of_output(cap, link.prices))
    return sum([min(each, most) for each in needed]), sum([min(each, shared_most) for each in needed])


def eaten_by(context: CallContext, cap: int | None, wait: float) -> str | None:
    """Say what one more attempt at the current backend would use of what is kept for others, if it would.

    Arguments:
        context: the budgets, and what is kept, which must be something.
        cap: its output cap in tokens, lowered to what is not kept.
        wait: seconds until it goes out.
    """
    kept, spending = context.reserved, context.spending
    if _attempts_left(context) <= kept.attempts:
        return "what is left of the attempts is kept for the backends to come"
    if kept.seconds > 0 and kept.ends_after is not None and spending.elapsed + wait >= kept.ends_after:
        return f"{kept.seconds:g} s of the budget are kept for each backend to come"
    keeps = kept.output_tokens or kept.money or kept.shared_tokens or kept.shared_money
    if keeps and cap is not None and cap < 1:
        return "what is left of the budget is kept for the backends to come"
    return None


def shared_eaten_by(context: CallContext) -> str | None:
    """Say that one more attempt at the current backend would use what is kept of a shared budget, if it would."""
    if 0 < _shared_attempts_left(context) <= context.reserved.shared_attempts:
        return "what is left of the shared attempts is kept for the backends to come"
    return None


def may_fall_back(context: CallContext) -> bool:
    """Tell whether another backend can follow: there is one, a fallback is left, and an attempt for it."""
    attempts = min(_attempts_left(context), _shared_attempts_left(context))
    return attempts > 0 and _fallbacks_left(context) > 0 and context.chain.next_usable() is not None


def has_left(context: CallContext) -> bool:
    """Tell whether the budgets allow the next backend an attempt, at once, of what none here may use."""
    spending, following = context.spending, context.chain.next_usable()
    if following is None:
        return False
    cap = spending.lowered(None, 0, context.chain.links[following].prices, NOTHING_RESERVED)
    if (spending.spent(context.position.attempts) or spending.shortfall(0.0, cap)) is not None:
        return False
    return spending.share is None or spending.share.has_left(spending.now)


def _to_come(context: CallContext) -> Sequence[Link]:
    """List the backends for which something is kept: those that can still be asked, each with an attempt."""
    if not context.policy.reserve.is_on:
        return ()
    return context.chain.to_come(min(_fallbacks_left(context), _attempts_left(context) - 1))


def _fallbacks_left(context: CallContext) -> int:
    position, table = context.position, context.policy.table
    place = table.places.get("fallbacks")
    return 0 if place is None or "fallback" not in table.rungs else position.limits[place] - position.spent[place]


def _attempts_left(context: CallContext) -> int:
    return context.policy.budget.attempts - context.position.attempts


def _shared_attempts_left(context: CallContext) -> int:
    share = context.spending.share
    return MOST_ATTEMPTS if share is None else share.attempts_left


def _even(whole: float, left: float, share: float, count: int) -> float:
    return max(0.0, min(whole * share, left / (count + 1)))


def _tokens(whole: int, left: int, share: float, caps: Iterable[int]) -> int:
    caps = list(caps)
    most = int(_even(whole, left, share, len(caps)))
    return sum(min(cap, most) for cap in caps)
