"""What the tokens of a backend cost."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen, validators

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import (
    is_number,
)

HIGHEST_PRICE = 1e12
"""No price may exceed this."""


def _price(instance: object, attribute: Any, value: Any) -> None:
    if not is_number(value, 0, HIGHEST_PRICE):
        form = f"a finite number of 0 or more, at most {HIGHEST_PRICE:,.0f}"
        raise ConfigurationError(f"Prices.{attribute.name} must be {form}")


@frozen
class Prices:
    """Price a backend's tokens, in one currency, for a million tokens each.

    A cache price of None means the input price.
    """

    input: float = field(validator=_price)
    output: float = field(validator=_price)
    cache_read: float | None = field(default=None, validator=validators.optional(_price))
    cache_creation: float | None = field(default=None, validator=validators.optional(_price))
