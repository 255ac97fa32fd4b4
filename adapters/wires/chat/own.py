"""Gather the members of messages and tool calls that only their provider can read.

It wants them back with the next request: signatures, encrypted reasoning, pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.chat.dialects import FOREIGN_FIELDS, REASONING_FIELDS
from rungwise.adapters.wires.json_text import as_json, weight_of
from rungwise.adapters.wires.provider_data import copy_if_sendable
from rungwise.fsm.replies.text.held import HeldText
from rungwise.fsm.values.frozen_map import FrozenMap

# LiteLLM says there again what has a member of its own
_MEMBERS: Final = FOREIGN_FIELDS - {"provider_specific_fields"}
_GROWING: Final = ("text", "thinking", "summary")
"""The members of a block that arrive in pieces."""

NOTHING: Final[Mapping[str, Any]] = FrozenMap()
"""No such members."""
_WEIGHT: Final = 1_000
"""The bytes that a block counts for, without its text."""


@define(eq=False)
class _OwnBlock:
    """Hold a block while it arrives: the texts that grow, and the rest."""

    rest: dict[str, Any] = field(factory=dict)
    texts: dict[str, HeldText] = field(factory=dict)

    def goes_on_with(self, fragment: Mapping[str, Any]) -> bool:
        """Tell whether a fragment belongs to this block; a signature ends a block."""
        if self.rest.get("signature") or "data" in fragment:
            return False
        return all(self.rest.get(name) == fragment.get(name) for name in ("type", "index"))

    def add(self, fragment: Mapping[str, Any]) -> None:
        """Take a fragment: its texts are appended, and of the rest the last value counts."""
        for name, value in fragment.items():
            if name in _GROWING and isinstance(value, str):
                self.texts.setdefault(name, HeldText()).write(value)
            elif value is not None or name not in self.rest:
                self.rest[name] = value

    @property
    def whole(self) -> dict[str, Any]:
        """Return the block so far."""
        whole = dict(self.rest)
        for name, text in self.texts.items():
            whole[name] = text.getvalue()
        return whole


@define(eq=False)
class OwnMembers:
    """Gather the provider's own members of a message, from deltas or whole messages."""

    size: int = 0  # bytes of memory, roughly
    _members: dict[str, Any] = field(factory=dict, init=False)
    _lists: dict[str, list[Any]] = field(factory=dict, init=False)  # blocks, by the member

    def take(self, message: Mapping[str, Any]) -> None:
        """Take such members from a delta or a message."""
        for name in message.keys() & _MEMBERS:
            value = message[name]
            # Text in such a field is read as reasoning.
            if not value or (name in REASONING_FIELDS and isinstance(value, str)):
                continue
            self.size += weight_of(as_json(value).encode())
            if isinstance(value, list):
                self._take_list(self._lists.setdefault(name, []), value)
            else:
                self._members[name] = value

    def _take_list(self, blocks: list[Any], fragments: list[Any]) -> None:
        """Take the fragments of blocks; each goes on with the last block, or begins another."""
        for fragment in fragments:
            if not isinstance(fragment, dict):
                blocks.append(fragment)
                continue
            last = blocks[-1] if blocks else None
            if not isinstance(last, _OwnBlock) or not last.goes_on_with(fragment):
                last = _OwnBlock()
                blocks.append(last)
                self.size += _WEIGHT
            last.add(fragment)

    def gathered(self) -> Mapping[str, Any]:
        """Return the members in the form in which they are sent back."""
        own = dict(self._members)
        for name, blocks in self._lists.items():
            own[name] = [each.whole if isinstance(each, _OwnBlock) else each for each in blocks]
        if not own:
            return NOTHING
        return copy_if_sendable(own) or NOTHING


def extras_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provider's own members of a tool call and of its function."""
    extras = _foreign_in(call)
    function = call.get("function")
    if isinstance(function, dict) and not FOREIGN_FIELDS.isdisjoint(function):
        extras["function"] = _foreign_in(function)
    return extras


def _foreign_in(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: members[name] for name in members.keys() & FOREIGN_FIELDS if members[name]}


def own_in(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the provider's own members of a whole message."""
    if _MEMBERS.isdisjoint(message):
        return NOTHING
    own = OwnMembers()
    own.take(message)
    return own.gathered()
