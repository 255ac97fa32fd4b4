"""What tokens cost, how many tokens money buys, and what attempts have used, with money in
units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from attrs import define, field

from rungwise.fsm.call.budget.metering import COUNTED_BESIDE
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.values.checks import LARGEST, is_number
from rungwise.fsm.values.money import as_money, units_of
from rungwise.fsm.values.usage import NO_USAGE, Usage

TOKENS_PRICED = 1_000_000
"""Prices are given for a million tokens."""

MOST_NAMED: Final = 20
"""How many things without a price are named: their names come from outside."""

LARGEST_PRICED_CAP = 10**12
"""The most output tokens that money buys: what is free has no other limit."""


def price_of_token(price: float) -> int:
    """Return what one token costs at the price of a million."""
    return units_of(price) // TOKENS_PRICED


def dearest_input(prices: Prices) -> int:
    """Return the most that an input token can cost.

    Nobody knows beforehand what will be cached, which model will serve, and in which tier.
    """
    return price_of_token(max([each.highest_input for each in prices.every()]))


def dearest_output(prices: Prices) -> int:
    """Return the most that an output token can cost, likewise."""
    return price_of_token(max([each.output for each in prices.every()]))


def dearest_prompt(tokens: int, prices: Prices) -> int:
    """Return the most that a prompt of this many tokens can cost."""
    return tokens * dearest_input(prices)


def bought(money: int, prices: Prices) -> int:
    """Return how many output tokens money buys at least."""
    price = dearest_output(prices)
    if price == 0:
        return LARGEST_PRICED_CAP
    return min(money // price, LARGEST_PRICED_CAP)


def price_of_output(tokens: int, prices: Prices) -> int:
    """Return the most that output tokens can cost."""
    return tokens * dearest_output(prices)


def price_of(
    usage: Usage,
    prices: Prices,
) -> int:
    """Return the price of an attempt, each part of it at that of the model and the tier that
    served; what is estimated counts at its dearest.
    """
    return sum([_price_of_part(part, prices) for part in usage.by_model])


def _price_of_part(
    usage: Usage,
    prices: Prices,
) -> int:
    own = prices.of(usage.model, usage.tier)
    cost = 0
    for name, count in usage.units.items():
        cost += count * units_of(own.units.get(name, prices.units.get(name, 0.0)))
    if usage.estimated:
        cost += price_of_output(usage.output_tokens, prices)
        return cost + dearest_prompt(usage.input_tokens, prices)
    long_tokens = min(usage.cache_creation_long_tokens, usage.cache_creation_tokens)
    plain = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_creation_tokens)
    cost += usage.output_tokens * price_of_token(own.output)
    cost += plain * price_of_token(own.input)
    cost += usage.cache_read_tokens * price_of_token(own.read)
    cost += (usage.cache_creation_tokens - long_tokens) * price_of_token(own.created)
    return cost + long_tokens * price_of_token(own.created_long)


# A provider may say what it bills. That is the cost of the attempt, whatever the prices come to.
# But it is a number from outside, and a budget must hold whatever comes: only a finite number of 0
# or more counts, and it never lowers what a budget is charged. One that is higher than the prices
# is charged in full, as tokens beyond a cap are: it may be true, and then nothing more may be
# spent.


def cost_of(
    usage: Usage,
    prices: Prices | None,
) -> int | None:
    """Return the cost of an attempt, in units: what its provider reports, or else the price; None
    without either.
    """
    if usage.cost is not None and is_number(usage.cost, 0, LARGEST):
        return units_of(usage.cost)
    return None if prices is None else price_of(usage, prices)


def unpriced_in(
    usage: Usage,
    prices: Prices,
) -> Iterator[str]:
    """Name what occurred and has no price of its own; it counts at the usual price, or at the one
    that follows from it, a unit as nothing.
    """
    for part in usage.by_model:
        own = prices.of(part.model, None)
        if part.model is not None and own is prices:
            yield f"model {part.model}"
        if part.tier is not None and own.tier_named(part.tier) is None:
            yield f"tier {part.tier}"
        own = own.of(None, part.tier)
        if part.cache_creation_long_tokens and own.cache_creation_long is None:
            yield "cache_creation_long"
        for name in part.units:
            if name not in own.units and name not in prices.units:
                yield f"unit {name}"


class Paid(NamedTuple):
    """Hold what attempts have paid: their number, the output tokens, and the units of money."""

    attempts: int = 0
    tokens: int = 0
    money: int = 0


NOTHING_PAID: Final = Paid()


@define(eq=False, repr=False, weakref_slot=False)
class Charges:
    """Add up what attempts have used, with money in units, and what is charged to a budget, which
    may be more.
    """

    # as the providers reported it, or as it is estimated
    usage: Usage = field(default=NO_USAGE, init=False)
    cost: int | None = field(default=0, init=False)  # None once a backend without prices was paid
    charged_tokens: int = field(default=0, init=False)  # of the output
    charged_money: int = field(default=0, init=False)
    cost_reported: bool = field(default=False, init=False)  # whether providers said a part of it
    unpriced: tuple[str, ...] = field(default=(), init=False)  # what occurred without a price

    @property
    def stated(self) -> dict[str, Any]:
        """Return the fields of a result that say how its cost is known."""
        return {
            "cost_reported": self.cost_reported,
            "unpriced": self.unpriced,
        }

    @property
    def note(self) -> str:
        """Say, behind what is spent, that something is charged beyond what was used; "" if nothing
        is.
        """
        if self.charged_tokens > self.usage.output_tokens:
            return "; what broke off unreported keeps what was reserved for it"
        return ""

    def money_note(self, most: int | None, tokens: int, prices: Prices | None) -> str:
        """Say how much is left of so many units of money, and how much allows an attempt.

        Arguments:
            most: the units; None where no money is counted.
            tokens: those of the prompt.
            prices: those of the backend.
        """
        from rungwise.fsm.engine.journal.amounts import money_text  # for errors alone

        if most is None or prices is None:
            return ""
        needed = dearest_prompt(tokens, prices) + price_of_output(1 + COUNTED_BESIDE, prices)
        left = max(0, most - self.charged_money)
        return (
            f": {money_text(as_money(left))} is left, and it needs {money_text(as_money(needed))}"
        )

    def add(self, usage: Usage, charged: Usage, prices: Prices | None) -> None:
        """Add an attempt: what it used, and what is charged for it."""
        if usage == NO_USAGE:
            return
        self.usage += usage
        self.charged_tokens += charged.output_tokens
        cost = cost_of(usage, prices)
        if cost is None or self.cost is None:
            self.cost = None
        else:
            self.cost += cost
        self.charged_money += max(cost or 0, price_of(charged, prices) if prices else 0)
        if usage.cost is not None:
            self.cost_reported = True
        elif prices is not None:
            names = dict.fromkeys([*self.unpriced, *unpriced_in(usage, prices)])
            self.unpriced = tuple(names)[:MOST_NAMED]
