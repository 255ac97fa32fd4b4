"""What tokens cost, how many tokens money buys, and what attempts have used, with money in
units.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from attrs import define, field

from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.values.money import units_of
from rungwise.fsm.values.usage import NO_USAGE, Usage

TOKENS_PRICED = 1_000_000
"""Prices are given for a million tokens."""

LARGEST_PRICED_CAP = 10**12
"""The most output tokens that money buys: what is free has no other limit."""


def price_of_token(price: float) -> int:
    """Return what one token costs at the price of a million."""
    return units_of(price) // TOKENS_PRICED


def dearest_input(prices: Prices) -> int:
    """Return the most that an input token can cost; what will be cached is not known beforehand."""
    return price_of_token(max(prices.input, prices.cache_read or 0.0, prices.cache_creation or 0.0))


def dearest_prompt(tokens: int, prices: Prices) -> int:
    """Return the most that a prompt of this many tokens can cost."""
    return tokens * dearest_input(prices)


def bought(money: int, prices: Prices) -> int:
    """Return how many output tokens money buys."""
    price = price_of_token(prices.output)
    if price == 0:
        return LARGEST_PRICED_CAP
    return min(money // price, LARGEST_PRICED_CAP)


def price_of_output(tokens: int, prices: Prices) -> int:
    """Return the cost of output tokens."""
    return tokens * price_of_token(prices.output)


def price_of(usage: Usage, prices: Prices) -> int:
    """Return the cost of an attempt; estimated input counts at its dearest price."""
    output = price_of_output(usage.output_tokens, prices)
    if usage.estimated:
        return dearest_prompt(usage.input_tokens, prices) + output
    plain = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_creation_tokens)
    read = prices.input if prices.cache_read is None else prices.cache_read
    created = prices.input if prices.cache_creation is None else prices.cache_creation
    cost = output + plain * price_of_token(prices.input)
    cost += usage.cache_read_tokens * price_of_token(read)
    cost += usage.cache_creation_tokens * price_of_token(created)
    return cost


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

    @property
    def note(self) -> str:
        """Say, behind what is spent, that something is charged beyond what was used; "" if nothing
        is.
        """
        if self.charged_tokens > self.usage.output_tokens:
            return "; what broke off unreported keeps what was reserved for it"
        return ""

    def add(self, usage: Usage, charged: Usage, prices: Prices | None) -> None:
        """Add an attempt: what it used, and what is charged for it."""
        if usage == NO_USAGE:
            return
        self.usage += usage
        self.charged_tokens += charged.output_tokens
        if prices is None:
            self.cost = None
            return
        cost = price_of(usage, prices)
        if self.cost is not None:
            self.cost += cost
        if charged is not usage:
            cost = price_of(charged, prices)
        self.charged_money += cost
