"""Whom a policy runs against, as its file says: `[prices]`, `[health]`, and `[[chain.NAME]]` for
each backend.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
from attrs import field, frozen

from rungwise.adapters.cli.output import bad_input
from rungwise.fsm.call.chain.prices import Prices, prices_of
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.health.health import Health
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.values.files import read_toml
from rungwise.fsm.values.label import short

if TYPE_CHECKING:
    from rungwise.fsm.call.policy import Policy

ANY: Final = "*"  # the key of the prices of every model that has none of its own
FILES: Final = "rungwise.files"
"""The key under which the context of a command holds the files of its policies, with their texts.
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


def prices_in(text: str) -> Prices:
    """Return the prices of `--prices`: `2.5/10`, or a table as under `[prices]`.

    Raises:
        ConfigurationError: they are malformed.
    """
    if "=" not in text:
        text = text.replace("/", ",", 1)
        return read_prices(read_toml(f"prices = [{text}]")["prices"], "they")
    table = text.strip().removeprefix("{").removesuffix("}")
    return prices_of(read_toml(f"prices = {{{table}}}")["prices"])


def text_of(value: Any) -> str:
    """Write prices as `--prices` takes them."""
    if isinstance(value, Prices):
        plain = attrs.asdict(value, filter=lambda _, each: each not in (None, {}))
        if len(plain) > 2:
            return text_of(plain)
        return "/".join(map(text_of, plain.values()))
    if not isinstance(value, Mapping):
        return repr(value).removesuffix(".0")
    members = [f"{json.dumps(name)} = {text_of(each)}" for name, each in value.items()]
    return f"{{{', '.join(members)}}}"


def read_price_list(text: str) -> PriceList:
    """Read the prices in a policy's file. Those in `[[chain.NAME]]` come first.

    Raises:
        ConfigurationError: they are malformed.
    """
    document = read_toml(text)
    prices = document.get("prices", {})
    chains = document.get("chain", {})
    if not isinstance(prices, Mapping):
        raise ConfigurationError("prices must be a table")
    if not isinstance(chains, Mapping):
        raise ConfigurationError("chain must be a table")
    by_model = {
        model: read_prices(pair, f"prices.{short(model)}") for model, pair in prices.items()
    }
    of_chains: dict[str, list[Prices]] = {}
    for where, backend in _backends(chains):
        priced = of_chains.setdefault(backend["model"], [])
        if "prices" in backend:
            priced.append(read_prices(backend["prices"], where))
    for model, priced in of_chains.items():
        if priced:
            by_model[model] = _dearest(priced)  # two hosts may sell one model
    return PriceList(by_model, tuple(of_chains))


def read_health(text: str) -> Health | None:
    """Read `[health]` in a policy's file; None for `health = false`.

    Raises:
        ConfigurationError: it is malformed.
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
        is_list = isinstance(backends, list)
        if not is_list or not all(isinstance(each, Mapping) for each in backends):
            raise ConfigurationError(
                f"chain.{name} must be tables, one for each backend, as in [[chain.{name}]]"
            )
        for number, backend in enumerate(backends, 1):
            if not isinstance(backend.get("model"), str):
                raise ConfigurationError(
                    f"chain.{name}: backend {number} needs the name of its model"
                )
            yield f"chain.{name}: the prices of backend {number}", backend


def read_prices(value: object, where: str) -> Prices:
    """Read the prices of a backend: a pair, in and out, or a table."""
    if not isinstance(value, Mapping) and not (isinstance(value, list) and len(value) == 2):
        raise ConfigurationError(
            f"{where} must be the prices of a million tokens in and out, as in [1.25, 10], or a "
            "table, as in {input = 1.25, output = 10, cache_read = 0.2}"
        )
    try:
        return prices_of(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _dearest(prices: Sequence[Prices]) -> Prices:
    """Return the only prices, or of several the highest, which may be those of several models."""
    if len(prices) == 1:
        return prices[0]
    every = [each for own in prices for each in own.every()]
    dearest = max([each.highest_input for each in every])
    return Prices(dearest, max([each.output for each in every]))


def price_list(option: Prices | None) -> PriceList:
    """Return the prices of `--prices`, or those in the last policy's file that has some."""
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
    """Refuse a budget of money for a model without prices."""
    budgets = [policy.budget]
    if isinstance(policy, TurnPolicy):
        budgets.append(policy.of_calls.budget)
    if prices is None and any(budget.money is not None for budget in budgets):
        bad_input(
            "the policy has a budget of money, which needs prices: give --prices IN/OUT, as in "
            f'--prices 2.5/10, or put "{model}" = [2.5, 10] under [prices] in its file'
        )
