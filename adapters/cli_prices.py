"""The option `--prices`, which two commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fsm.request import Prices


def _prices(context: click.Context, parameter: click.Parameter, value: str | None) -> Prices | None:
    from fsm.errors import ConfigurationError
    from fsm.request import Prices

    if value is None:
        return None
    try:
        price_in, price_out = map(float, value.split("/"))
        return Prices(price_in, price_out)
    except (ValueError, ConfigurationError):
        shape = "IN/OUT, two prices of a million tokens, as in 2.5/10"
        raise click.BadParameter(f"{value!r} is not of the form {shape}") from None


def prices_option(whose: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the option."""
    return click.option(
        "--prices",
        callback=_prices,
        metavar="IN/OUT",
        help=f"What a million tokens cost, in and out, {whose}; a budget of money needs it.",
    )
