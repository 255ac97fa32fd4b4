"""What tokens cost, and how many of them money buys."""

from __future__ import annotations

from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.values.usage import Usage

TOKENS_PRICED = 1_000_000
"""Prices are given for a million tokens."""

LARGEST_PRICED_CAP = 10**12
"""Output tokens that money may buy at most: keeps a price near zero from overflowing."""


def dearest_input(prices: Prices) -> float:
    """Return the most that an input token can cost: who reserves money does not know what will be cached."""
    return max(prices.input, prices.cache_read or 0.0, prices.cache_creation or 0.0)


def dearest_prompt(tokens: int, prices: Prices) -> float:
    """Return the most that a prompt of so many tokens can cost."""
    return tokens * dearest_input(prices) / TOKENS_PRICED


def bought(money: float, prices: Prices) -> int:
    """Return the output tokens that money buys, in whole ones."""
    return int(min(money * TOKENS_PRICED / prices.output, LARGEST_PRICED_CAP)) if prices.output else LARGEST_PRICED_CAP


def price_of_output(tokens: int, prices: Prices) -> float:
    """Return what so many output tokens cost."""
    return tokens * prices.output / TOKENS_PRICED


def price_of(usage: Usage, prices: Prices) -> float:
    """Return what an attempt costs, in the currency of the prices; input that nobody reported, at its dearest."""
    if usage.estimated:
        input_cost = usage.input_tokens * dearest_input(prices)
        return (input_cost + usage.output_tokens * prices.output) / TOKENS_PRICED
    plain = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_creation_tokens)
    read = prices.input if prices.cache_read is None else prices.cache_read
    created = prices.input if prices.cache_creation is None else prices.cache_creation
    total = plain * prices.input + usage.cache_read_tokens * read + usage.cache_creation_tokens * created
    return (total + usage.output_tokens * prices.output) / TOKENS_PRICED
