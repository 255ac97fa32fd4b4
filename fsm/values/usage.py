"""The tokens that one attempt took, or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import evolve, field, frozen

COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_creation_tokens",
    "cache_creation_long_tokens",
    "reasoning_tokens",
)
"""The fields that count tokens."""


def _units(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(counts)


def _shares(values: Iterable[Any]) -> tuple[Usage, ...]:
    return tuple([Usage(**each) if isinstance(each, Mapping) else each for each in values])


@frozen
class Usage:
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

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    lost: bool = False
    cache_creation_long_tokens: int = 0
    units: Mapping[str, int] = field(
        default={},
        converter=_units,
        hash=False,
    )
    cost: float | None = None
    model: str | None = None
    tier: str | None = None
    shares: tuple[Usage, ...] = field(
        default=(),
        converter=_shares,
    )

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
        counts = {name: getattr(self, name) + getattr(other, name) for name in COUNTS}
        units = Counter(self.units)
        units.update(other.units)
        costs = [each.cost for each in (self, other) if each.cost is not None]
        return Usage(
            **counts,
            units=units,
            cost=sum(costs) if costs else None,
            estimated=self.estimated or other.estimated,
            lost=self.lost or other.lost,
        )


NO_USAGE = Usage()
