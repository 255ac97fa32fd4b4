"""What a call keeps of its budget for the backends that are still to come."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rungwise.fsm.call.budget import Kept, Spending
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.pricing import dearest_prompt, price_of_output
from rungwise.fsm.call.request import Link


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
    return min(wanted, whole / backends, math.inf if total is None else total)


def kept_for(
    to_come: Sequence[Link], policy: Policy, spending: Spending, *, attempts: int, asked: int | None, prompt_tokens: int
) -> Kept:
    """Work out what is kept for the backends to come, on entering the one before them.

    Nothing is kept that would leave the current one without an attempt: who comes first is asked first.

    Arguments:
        to_come: the backends, one or more.
        policy: what it reserves.
        spending: what is left.
        attempts: how many were made.
        asked: the output cap that the caller asks for, in tokens.
        prompt_tokens: those of the prompt, where money is counted.
    """
    deadline, budget, share = spending.deadline, policy.budget, policy.reserve.share
    count = len(to_come)
    seconds, ends_by = 0.0, None
    if deadline is not None:
        left = max(0.0, deadline - spending.now)
        seconds = min(seconds_kept(policy, deadline - (spending.began or 0.0), count + 1), left / (count + 1))
        ends_by = deadline - count * seconds
    caps = [asked or link.max_tokens or policy.base_cap for link in to_come]
    tokens = 0
    if budget.output_tokens is not None:
        left_tokens = spending.tokens_left(budget.output_tokens)
        most = min(int(budget.output_tokens * share), left_tokens // (count + 1))
        tokens = sum(min(cap, max(0, most)) for cap in caps)
    money = 0.0
    if budget.money is not None:
        left_money = max(0.0, budget.money - (spending.cost or 0.0))
        most_money = min(budget.money * share, left_money / (count + 1))
        for link, cap in zip(to_come, caps, strict=True):
            if link.prices is not None:
                one = dearest_prompt(prompt_tokens, link.prices) + price_of_output(cap, link.prices)
                money += min(one, most_money)
    return Kept(
        attempts=max(0, min(count, budget.attempts - attempts - 1)),
        seconds=seconds,
        ends_by=ends_by,
        output_tokens=tokens,
        money=money,
    )
