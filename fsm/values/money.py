"""Money, counted exactly in whole units; it is a float only where people read or write it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

UNITS: Final = 10**24
"""Units of one of the currency: a token's price is whole units even if that of a million has 18
decimal places.
"""


@lru_cache(maxsize=256)  # prices and budgets are few
def units_of(money: float) -> int:
    """Return an amount in units, read in decimal as people write it; what is less than a unit is
    cut off.
    """
    from decimal import Decimal  # which nothing else of the core needs

    whole, parts = Decimal(repr(float(money))).as_integer_ratio()
    return whole * UNITS // parts


def as_money(units: int) -> float:
    """Return units as an amount that people read."""
    return units / UNITS
