"""Whom a policy runs against, as its file says: `[prices]`, `[health]`, and `[[chain.NAME]]` for
each backend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from attrs import field, frozen

from rungwise.adapters.cli.output import bad_input
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.health.health import Health
from rungwise.fsm.values.files import read_toml
from rungwise.fsm.values.label import short

if TYPE_CHECKING:
    from rungwise.fsm.call.policy import Policy
    from rungwise.fsm.turn.policy import TurnPolicy

HIGHEST_PRICE: Final = 1e9
ANY: Final = "*"  # the key of the prices of every model that has none of its own
FILES: Final = "rungwise.files"
"""The key under which the context of a command holds the files of its policies, each with its text.
"""


@frozen
class PriceList:
    """Hold the prices of models, and the models of a chain, if they are known."""

    by_model: Mapping[str, Prices] = field(factory=dict)
    models: tuple[str, ...] = ()

    def of(self, model: str) -> Prices | None:
        """Return the prices of a model."""
        return self.by_model.get(model, self.by_model.get(ANY))

    @property
    def dearest(self) -> Prices | None:
        """Return prices that no backend exceeds; None if those of a backend are missing."""
        known = [self.of(model) for model in self.models] or [*self.by_model.values()]
        priced = [each for each in known if each is not None]
        if not priced or len(priced) < len(known):
            return None
        return _dearest(priced)


def prices_of(price_in: object, price_out: object) -> Prices:
    """Return the prices of a million tokens, each from 0 to `HIGHEST_PRICE`, or raise a
    ConfigurationError.
    """
    for price in (price_in, price_out):
        if (
            isinstance(price, bool)
            or not isinstance(price, int | float)
            or not 0 <= price <= HIGHEST_PRICE
        ):
            raise ConfigurationError(
                f"a price must be a number from 0 to {HIGHEST_PRICE:.0f}, not {short(price)}"
            )
    return Prices(float(price_in), float(price_out))  # type: ignore[arg-type]


def read_price_list(text: str) -> PriceList:
    """Read the prices in a policy's file, or raise a ConfigurationError; those in `[[chain.NAME]]`
    come first.
    """
    document = read_toml(text)
    prices = document.get("prices", {})
    chains = document.get("chain", {})
    if not isinstance(prices, Mapping) or not isinstance(chains, Mapping):
        raise ConfigurationError(
            f"{'chain' if isinstance(prices, Mapping) else 'prices'} must be a table"
        )
    by_model = {model: pair_of(pair, f"prices.{short(model)}") for model, pair in prices.items()}
    of_chains: dict[str, list[Prices]] = {}
    for where, backend in _backends(chains):
        priced = of_chains.setdefault(backend["model"], [])
        if "prices" in backend:
            priced.append(pair_of(backend["prices"], where))
    # two hosts may sell one
    by_model |= {model: _dearest(priced) for model, priced in of_chains.items() if priced}
    return PriceList(by_model, tuple(of_chains))


def read_health(text: str) -> Health | None:
    """Read `[health]` in a policy's file, or raise a ConfigurationError; None for `health =
    false`.
    """
    health = read_toml(text).get("health", {})
    if health is False:
        return None
    if not isinstance(health, Mapping):
        raise ConfigurationError(
            f"health must be a table such as [health], or false, not {short(health)}"
        )
    return Health(**health)


def _backends(chains: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the backends of all chains, each with where its prices stand."""
    for name, backends in chains.items():
        if not isinstance(backends, list) or not all(
            isinstance(each, Mapping) for each in backends
        ):
            raise ConfigurationError(
                f"chain.{name} must be tables, one for each backend, as in [[chain.{name}]]"
            )
        for number, backend in enumerate(backends, 1):
            if not isinstance(backend.get("model"), str):
                raise ConfigurationError(
                    f"chain.{name}: backend {number} needs the name of its model"
                )
            yield f"chain.{name}: the prices of backend {number}", backend


def pair_of(value: object, where: str) -> Prices:
    """Read a pair of prices, in and out."""
    if not isinstance(value, list) or len(value) != 2:
        raise ConfigurationError(
            f"{where} must be the prices of a million tokens in and out, as in [1.25, 10]"
        )
    try:
        return prices_of(*value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _dearest(prices: Sequence[Prices]) -> Prices:
    return Prices(max(each.input for each in prices), max(each.output for each in prices))


def price_list(option: Prices | None) -> PriceList:
    """Return the prices of `--prices`, or those in the files of the command's policies, the last
    one first.
    """
    if option is not None:
        return PriceList({ANY: option})
    for path, text in reversed(click.get_current_context().meta.get(FILES, ())):
        try:
            prices = read_price_list(text)
        except ConfigurationError as error:
            bad_input(f"{path}: {error}")
        if prices.by_model:
            return prices
    return PriceList()


def check_prices(policy: Policy | TurnPolicy, prices: Prices | None, model: str = ANY) -> None:
    """Refuse a policy that sets a budget of money where the prices of a model's tokens are
    missing.
    """
    budgets = [policy.budget, getattr(getattr(policy, "of_calls", None), "budget", policy.budget)]
    if any(budget.money is not None for budget in budgets) and prices is None:
        give = (
            f'give --prices IN/OUT, as in --prices 2.5/10, or put "{model}" = [2.5, 10] '
            f"under [prices] in its file"
        )
        bad_input(f"the policy has a budget of money, which needs prices: {give}")
