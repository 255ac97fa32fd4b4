"""What the tokens of a backend cost."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs
from attrs import field, frozen, validators

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import by_name, explains_names, is_number
from rungwise.fsm.values.label import short

HIGHEST_PRICE = 1e12
"""No price may exceed this."""

_LEAST: Final = 1e-4  # a million tokens of the cheapest models cost a hundred times as much

LONG_TO_SHORT: Final = 1.6
"""What a token that a cache holds for an hour costs, of what one costs that it holds for minutes.

Anthropic asks 2 and 1.25 times the price of input for them (its page on prompt caching, November
2026); nobody else was seen to ask more.
"""

_SAME_MODEL: Final = re.compile(r"(?:[-@:](?:latest|\d{3}[\d-]{0,20}|v\d{1,3}(?::\d{1,3})?)){0,3}")
"""What may follow the name of a model and leaves it the same: a date, or a number of a build."""


def is_same_model(
    one: str,
    other: str,
) -> bool:
    """Tell whether two names are of one model: with and without a vendor in front, or a date
    behind.
    """
    shorter, longer = sorted([each.lower().rpartition("/")[2] for each in (one, other)], key=len)
    return longer.startswith(shorter) and bool(_SAME_MODEL.fullmatch(longer[len(shorter) :]))


def _price(
    instance: object,
    attribute: Any,
    value: Any,
) -> None:
    _check(attribute.name, value)


def _check(name: str, value: Any) -> None:
    if not is_number(value, 0, HIGHEST_PRICE):
        form = f"a finite number of 0 or more, at most {HIGHEST_PRICE:,.0f}"
        raise ConfigurationError(f"Prices.{name} must be {form}")


_MAY_LACK: Final = validators.optional(_price)


def _units(
    instance: object,
    attribute: Any,
    value: Mapping[str, Any],
) -> None:
    for name, price in value.items():
        _check(f"units[{short(name)}]", price)


def _by_name(
    instance: object,
    attribute: Any,
    value: Mapping[str, Prices],
) -> None:
    for prices in value.values():
        if prices.models or (prices.tiers and attribute.name == "tiers"):
            raise ConfigurationError(
                f"Prices.{attribute.name} must hold plain prices; only a model may have tiers"
            )


def prices_of(value: Any) -> Prices:
    """Return prices that may be plain values, as TOML and journals hold them: a table with the
    names of the fields, or a list of the first ones.
    """
    if isinstance(value, Prices):
        return value
    with suppress(TypeError):
        return Prices(**value) if isinstance(value, Mapping) else Prices(*value)
    raise ConfigurationError(
        f"they must be input and output, and may be {', '.join(_OTHERS)}, not {short(value)}"
    )


def _table(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise ConfigurationError(f"prices by name must be a table, not {type(value).__name__}")


def _tables(value: Any) -> Mapping[str, Prices]:
    tables = {}
    for name, prices in _table(value).items():
        try:
            tables[name] = prices_of(prices)
        except ConfigurationError as error:
            raise ConfigurationError(f"prices of {short(name)}: {error}") from None
    return tables


@explains_names(
    by_name(
        {
            "it is called input here, for a million tokens": "input_cost_per_token prompt",
            "it is called output here, for a million tokens": "completion output_cost_per_token",
            "it is called cache_read here": "cached cached_input",
            "it is called cache_creation here": "cache_write",
        }
    )
)
@frozen
class Prices:
    """Price a backend's tokens, in one currency, for a million tokens each.

    A cache price of None means the input price; one of `cache_creation_long` means 1.6 times that
    of `cache_creation`, as Anthropic asks, if that is given.

    Arguments:
        input, output: of a million tokens.
        cache_read: of input tokens that were read from a cache.
        cache_creation: of those that were put into one.
        cache_creation_long: of those that were put into one for an hour or more.
        models: the prices of other models that may serve, by name; each may have tiers of its own.
        tiers: the prices of service tiers, by name.
        units: the price of one unit beside tokens, by name, such as `{"web_search": 0.01}`.

    Raises:
        ConfigurationError: a price is no number of 0 or more.
    """

    input: float = field(validator=_price)
    output: float = field(validator=_price)
    cache_read: float | None = field(default=None, validator=_MAY_LACK)
    cache_creation: float | None = field(default=None, validator=_MAY_LACK)
    cache_creation_long: float | None = field(
        default=None,
        validator=_MAY_LACK,
    )
    models: Mapping[str, Prices] = field(
        default={},
        converter=_tables,
        validator=_by_name,
        hash=False,
    )
    tiers: Mapping[str, Prices] = field(
        default={},
        converter=_tables,
        validator=_by_name,
        hash=False,
    )
    units: Mapping[str, float] = field(
        default={},
        converter=_table,
        validator=_units,
        hash=False,
    )

    def __attrs_post_init__(self) -> None:
        if 0 < self.input < _LEAST:
            warnings.warn(
                f"Prices.input is the price of a million tokens: {self.input:g} may be that of one",
                stacklevel=4,
            )

    @property
    def highest_input(self) -> float:
        """Return the highest price of an input token, cached or not."""
        return max(self.input, self.read, self.created, self.created_long)

    @property
    def read(self) -> float:
        """Return the price of a token that was read from a cache."""
        return self.input if self.cache_read is None else self.cache_read

    @property
    def created(self) -> float:
        """Return the price of a token that was put into a cache."""
        return self.input if self.cache_creation is None else self.cache_creation

    @property
    def created_long(self) -> float:
        """Return the price of a token that was put into a cache for an hour or more."""
        if self.cache_creation_long is not None:
            return self.cache_creation_long
        if self.cache_creation is None:
            return self.input
        return min(LONG_TO_SHORT * self.cache_creation, HIGHEST_PRICE)

    def every(self) -> Iterator[Prices]:
        """Yield all prices that may apply: the usual ones, and those of models and tiers."""
        for own in (self, *self.models.values()):
            yield own
            yield from own.tiers.values()

    def model_named(self, model: str | None) -> str | None:
        """Return the name under which a model has prices of its own, if it has."""
        if model is None or model in self.models:
            return model
        return next((each for each in self.models if is_same_model(each, model)), None)

    def tier_named(self, tier: str | None) -> str | None:
        """Return the name under which a service tier has prices of its own, if it has."""
        tier = (tier or "").lower()
        return next((each for each in self.tiers if each.lower() == tier), None)

    def of(
        self,
        model: str | None,
        tier: str | None,
    ) -> Prices:
        """Return the prices of a model in a tier: the usual ones where it has none of its own."""
        own = self.models.get(self.model_named(model) or "", self)
        return own.tiers.get(own.tier_named(tier) or "", own)


_OTHERS: Final = [each.name for each in attrs.fields(Prices)][2:]
