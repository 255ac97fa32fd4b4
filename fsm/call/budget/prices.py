"""What tokens cost, and how many tokens money buys, in units of money."""

from __future__ import annotations

from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.values.money import units_of
from rungwise.fsm.values.usage import Usage

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
    return min(money // price, LARGEST_PRICED_CAP) if price else LARGEST_PRICED_CAP


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
    priced = ((plain, prices.input), (usage.cache_read_tokens, read), (usage.cache_creation_tokens, created))
    return output + sum([tokens * price_of_token(price) for tokens, price in priced])
