"""Gather the members of messages and tool calls that only their provider can read, and wants
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.chat.dialects import FOREIGN_FIELDS, REASONING_FIELDS
from rungwise.adapters.wires.json_text import HeldText, as_json, weight_of
from rungwise.adapters.wires.provider_data import copy_if_sendable
from rungwise.fsm.values.frozen_map import FrozenMap

# LiteLLM says there again what has a member of its own
_MEMBERS: Final = FOREIGN_FIELDS - {"provider_specific_fields"}
_GROWING: Final = ("text", "thinking", "summary")
"""The members of a block that arrive in pieces."""

NOTHING: Final[Mapping[str, Any]] = FrozenMap()
_WEIGHT: Final = 1_000
"""The bytes that a block counts for, without its text."""


@define(eq=False)
class _OwnBlock:
    """Hold a block while it arrives: the texts that grow, and the rest."""

    rest: dict[str, Any] = field(factory=dict)
    texts: dict[str, HeldText] = field(factory=dict)

    def goes_on_with(self, fragment: Mapping[str, Any]) -> bool:
        """Tell whether a fragment belongs to this block; a signature ends a block."""
        same = all(self.rest.get(name) == fragment.get(name) for name in ("type", "index"))
        return same and not self.rest.get("signature") and "data" not in fragment

    def add(self, fragment: Mapping[str, Any]) -> None:
        for name, value in fragment.items():
            if name in _GROWING and isinstance(value, str):
                self.texts.setdefault(name, HeldText()).write(value)
            elif value is not None or name not in self.rest:
                self.rest[name] = value

    @property
    def whole(self) -> dict[str, Any]:
        return {**self.rest, **{name: text.getvalue() for name, text in self.texts.items()}}


@define(eq=False)
class OwnMembers:
    """Gather the provider's own members of a message, from deltas or whole messages."""

    size: int = 0
    _members: dict[str, Any] = field(factory=dict, init=False)
    _lists: dict[str, list[Any]] = field(factory=dict, init=False)

    def take(self, message: Mapping[str, Any]) -> None:
        """Take such members from a delta or a message."""
        for name in message.keys() & _MEMBERS:
            value = message[name]
            # which is read as reasoning
            if not value or (name in REASONING_FIELDS and isinstance(value, str)):
                continue
            self.size += weight_of(as_json(value).encode())
            if not isinstance(value, list):
                self._members[name] = value
                continue
            blocks = self._lists.setdefault(name, [])
            for fragment in value:
                if not isinstance(fragment, dict):
                    blocks.append(fragment)
                    continue
                if not (
                    blocks
                    and isinstance(blocks[-1], _OwnBlock)
                    and blocks[-1].goes_on_with(fragment)
                ):
                    blocks.append(_OwnBlock())
                    self.size += _WEIGHT
                blocks[-1].add(fragment)

    def gathered(self) -> Mapping[str, Any]:
        """Return the members in the form in which they are sent back."""
        lists = {
            name: [block.whole if isinstance(block, _OwnBlock) else block for block in blocks]
            for name, blocks in self._lists.items()
        }
        own = {**self._members, **lists}
        return (own and copy_if_sendable(own)) or NOTHING


def extras_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provider's own members of a tool call and of its function."""
    extras = {name: call[name] for name in call.keys() & FOREIGN_FIELDS if call[name]}
    function = call.get("function")
    if isinstance(function, dict) and not FOREIGN_FIELDS.isdisjoint(function):
        extras["function"] = {
            name: function[name] for name in function.keys() & FOREIGN_FIELDS if function[name]
        }
    return extras


def own_in(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the provider's own members of a whole message."""
    if _MEMBERS.isdisjoint(message):
        return NOTHING
    own = OwnMembers()
    own.take(message)
    return own.gathered()
