"""How often each rung may be taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from rungwise.fsm.call.table import CALL
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_whole
from rungwise.fsm.values.frozen_map import FrozenMap
from rungwise.fsm.values.label import short

LARGEST_LIMIT = 1_000
"""The largest limit and budget of attempts: a person can still check a policy of that size."""

BY_CHAIN = {"fallbacks": "backend", "rotations": "key"}
"""The counters that the chain bounds, each by what follows there."""


class Limits(Mapping[str, "int | None"]):
    """Limit how often each rung may be taken, by its counter: `Limits(retries=1, nudges=0)`.

    Other counters keep the limits that their rungs declare. None means as many `fallbacks` as the
    chain has, and as many `rotations` as a backend has other keys. Rungs of your own are limited in
    the same way; the policy checks that its table has the counter.

    Raises:
        ConfigurationError: a limit is no whole number from 0 to 1000.
    """

    __slots__ = ("_bounded", "_limits")
    _limits: FrozenMap
    _bounded: dict[tuple[int, int, int, bool], tuple[Mapping[str, int | None], Mapping[str, int]]]

    def __init__(self, /, *values: int, **limits: int | None) -> None:
        if values:
            raise ConfigurationError(
                f"Limits takes its limits by name, as in Limits(retries={short(values[0])})"
            )
        for name, limit in limits.items():
            is_open = limit is None and name in BY_CHAIN
            if not is_open and not is_whole(limit, 0, LARGEST_LIMIT):
                raise ConfigurationError(
                    f"Limits.{name} must be a whole number from 0 to {LARGEST_LIMIT}, not "
                    f"{short(limit)}"
                )
        object.__setattr__(self, "_limits", FrozenMap({**CALL.limits, **limits}))
        object.__setattr__(self, "_bounded", {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._limits:
            raise AttributeError(f"there is no limit {name!r}")
        return self._limits[name]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("limits cannot be changed")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __getitem__(self, name: str) -> int | None:
        limit: int | None = self._limits[name]
        return limit

    def __iter__(self) -> Iterator[str]:
        return iter(self._limits)

    def __len__(self) -> int:
        return len(self._limits)

    def __hash__(self) -> int:
        return hash(frozenset(self._limits.items()))

    def __repr__(self) -> str:
        limits = [f"{name}={limit}" for name, limit in self._limits.items()]
        return f"Limits({', '.join(limits)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Limits, **self._limits), ()

    def bounded(
        self,
        table_limits: Mapping[str, int | None],
        backends: int,
        keys: int = 1,
        background: bool = False,
    ) -> Mapping[str, int]:
        """Return the limit of each counter of a table, in their order, as far as the chain allows.

        Arguments:
            table_limits: the limits that the table declares, which hold where these name no other.
            backends: how many backends the chain has.
            keys: how many keys a backend of it has at most.
            background: whether a backend of it goes on with a reply that was cut.
        """
        key = id(table_limits), backends, keys, background
        if key not in self._bounded:  # every call asks
            by_chain = {"fallbacks": backends - 1, "rotations": keys - 1}
            if not background:
                by_chain["reattaches"] = 0
            bounded = {}
            for name, declared in table_limits.items():
                limit = self._limits.get(name, declared)
                if limit is None:
                    bounded[name] = by_chain.get(name, backends - 1)
                else:
                    bounded[name] = min(limit, by_chain.get(name, limit))
            # an id is of one object only as long as that lives, so the object is held as well
            self._bounded[key] = table_limits, FrozenMap(bounded)
        return self._bounded[key][1]
