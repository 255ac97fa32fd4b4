"""Keep the provider's own data, and what comes with a reply: citations, sources, log probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.json_text import as_json, mended, weight_of
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.frozen_map import sendable_copy

_MOST: Final = 2**18  # the most bytes of memory for data besides a reply, which are for diagnosis


def copy_if_sendable(value: Any) -> Any:
    """Return a read-only copy, or None if no server would accept the value: too deep, or with `NaN` in it."""
    try:
        return sendable_copy(mended(value), "the provider's own")
    except (ConfigurationError, RecursionError):
        return None


def size_of(value: Any) -> int:
    """Return roughly how many bytes of memory a value takes up."""
    return weight_of(as_json(value).encode())


@define(eq=False)
class Aside:
    """Gather what a stream brings besides the reply, in the places that a whole body has for it."""

    size: int = field(default=0, init=False)
    said: dict[str, Any] = field(factory=dict, init=False)

    def take(self, new: Mapping[str, Any], *, grows: frozenset[str] = frozenset()) -> None:
        """Take more data, up to a limit of memory.

        Lists inside of a member grow, and so do the members in `grows`; of anything else the last version counts.
        """
        if not new:
            return
        size = size_of(new)
        if self.size + size > _MOST:
            return
        self.size += size
        for name, value in new.items():
            old = self.said.get(name)
            if isinstance(old, dict) and isinstance(value, dict):
                for key, inner in value.items():
                    _extend(old, key, inner)
            elif name in grows:
                _extend(self.said, name, value)
            else:
                self.said[name] = {**value} if isinstance(value, dict) else value


def _extend(members: dict[str, Any], name: str, value: Any) -> None:
    old = members.get(name)
    if isinstance(old, list) and isinstance(value, list):
        old.extend(value)
    else:
        members[name] = [*value] if isinstance(value, list) else value
