"""The tokens that one attempt took, or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve, field, frozen

from rungwise.fsm.values.checks import Called, by_name

COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_creation_tokens",
    "cache_creation_long_tokens",
    "reasoning_tokens",
)
"""The fields that count tokens."""


@frozen
class Usage(Called):
    """Count the tokens of one attempt, or of several added up.

    `input_tokens` includes the cached ones, `cache_creation_tokens` those that were put into a
    cache for an hour or more (`cache_creation_long_tokens`), and `output_tokens` the reasoning.
    `units` counts what is billed beside tokens, by name, such as `web_search`.

    `estimated` marks counts that no provider reported: an aborted stream is counted from the text
    that had arrived. `lost` marks those of a stream that broke off before its end could report
    them; a budget counts all that was reserved for it.

    `cost` is what the provider says that it bills, in its currency. `model` is the model that
    served, if it has a price of its own or is another than the one asked for; `tier` is the service
    tier that the reply states. `shares` are the parts of the counts that other models took. A sum
    of several attempts has none of these three.
    """

    _INSTEAD = by_name(
        {
            "it is called input_tokens here": "prompt_tokens",
            "it is called output_tokens here": "completion_tokens",
        }
    )

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    lost: bool = False
    cache_creation_long_tokens: int = 0
    units: Mapping[str, int] = field(factory=dict, hash=False)
    cost: float | None = None
    model: str | None = None
    tier: str | None = None
    shares: tuple[Usage, ...] = ()

    @property
    def total_tokens(self) -> int:
        """Add input and output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def by_model(self) -> tuple[Usage, ...]:
        """Return what each model took: first what is in no share, then the shares."""
        if not self.shares:
            return (self,)
        rest = {}
        for name in COUNTS:
            shared = sum([getattr(share, name) for share in self.shares])
            rest[name] = max(0, getattr(self, name) - shared)
        return evolve(self, shares=(), **rest), *self.shares

    def __add__(self, other: Usage) -> Usage:
        units = self.units
        if other.units:
            units = dict(Counter(units) + Counter(other.units))
        cost = self.cost
        if other.cost is not None:
            cost = (cost or 0.0) + other.cost
        long_tokens = self.cache_creation_long_tokens + other.cache_creation_long_tokens
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_creation_tokens=self.cache_creation_tokens + other.cache_creation_tokens,
            cache_creation_long_tokens=long_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            units=units,
            cost=cost,
            estimated=self.estimated or other.estimated,
            lost=self.lost or other.lost,
        )

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Usage:
        """Return a usage from the plain values of its fields."""
        shares = [cls.from_plain(share) for share in values.get("shares", ())]
        return cls(**{**values, "shares": tuple(shares)})


NO_USAGE = Usage()
