"""What tokens cost, and how many tokens money buys."""

from __future__ import annotations

from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.values.usage import Usage

TOKENS_PRICED = 1_000_000
"""Prices are given for a million tokens."""

LARGEST_PRICED_CAP = 10**12
"""The most output tokens that money buys: a price near zero must not overflow."""


def dearest_input(prices: Prices) -> float:
    """Return the most that an input token can cost; what will be cached is not known beforehand."""
    return max(prices.input, prices.cache_read or 0.0, prices.cache_creation or 0.0)


def dearest_prompt(tokens: int, prices: Prices) -> float:
    """Return the most that a prompt of this many tokens can cost."""
    return tokens * dearest_input(prices) / TOKENS_PRICED


def bought(money: float, prices: Prices) -> int:
    """Return how many output tokens money buys."""
    return int(min(money * TOKENS_PRICED / prices.output, LARGEST_PRICED_CAP)) if prices.output else LARGEST_PRICED_CAP


def price_of_output(tokens: int, prices: Prices) -> float:
    """Return the cost of output tokens."""
    return tokens * prices.output / TOKENS_PRICED


def price_of(usage: Usage, prices: Prices) -> float:
    """Return the cost of an attempt; estimated input counts at its dearest price."""
    if usage.estimated:
        input_cost = usage.input_tokens * dearest_input(prices)
        return (input_cost + usage.output_tokens * prices.output) / TOKENS_PRICED
    plain = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_creation_tokens)
    read = prices.input if prices.cache_read is None else prices.cache_read
    created = prices.input if prices.cache_creation is None else prices.cache_creation
    total = plain * prices.input + usage.cache_read_tokens * read + usage.cache_creation_tokens * created
    return (total + usage.output_tokens * prices.output) / TOKENS_PRICED
