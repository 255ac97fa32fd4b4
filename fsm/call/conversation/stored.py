"""Messages as plain mappings that lose nothing: to be stored as JSON, and sent to any provider later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import NOTHING, fields

from rungwise.fsm.call.conversation.parts import (
    CitationPart,
    MediaPart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.frozen_map import thawed

MARK: Final = "rungwise"
"""The member that tells such a message from one in a provider's form; its value is the version of this form."""

VERSION: Final = 1

_KINDS: Final[Mapping[str, type[Any]]] = {
    "text": TextPart,
    "media": MediaPart,
    "reasoning": ReasoningPart,
    "citation": CitationPart,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "opaque": OpaquePart,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def stored(message: Mapping[str, Any] | Message) -> dict[str, Any]:
    """Return a message as a plain mapping; one that is plain already keeps its form."""
    if not isinstance(message, Message):
        plain: dict[str, Any] = thawed(message)
        return plain
    return {MARK: VERSION, "role": message.role, "parts": [_stored_part(part) for part in message.parts]}


def _stored_part(part: Part) -> dict[str, Any]:
    plain: dict[str, Any] = {"type": _NAMES[type(part)]}
    for each in fields(type(part)):
        value = getattr(part, each.name)
        if each.default is NOTHING or value != each.default:
            is_media = each.name == "media"
            plain[each.name] = [_stored_part(one) for one in value] if is_media else thawed(value)
    return plain


def read_stored(message: Any, where: str) -> Any:
    """Return the message that a stored mapping holds; anything else unchanged.

    Raises:
        ConfigurationError: it is no message as `stored` writes them.
    """
    if not isinstance(message, Mapping) or MARK not in message:
        return message
    parts = message.get("parts")
    if message[MARK] != VERSION or not isinstance(parts, list | tuple) or message.keys() != {MARK, "role", "parts"}:
        raise ConfigurationError(f"{where} is not a stored message of version {VERSION}")
    return Message(message["role"], tuple(_read_part(part, f"{where}['parts'][{n}]") for n, part in enumerate(parts)))


def _read_part(part: Any, where: str) -> Any:
    kind = _KINDS.get(str(part.get("type"))) if isinstance(part, Mapping) else None
    if kind is None:
        raise ConfigurationError(f"{where} is no part of a stored message")
    values = {name: value for name, value in part.items() if name != "type"}
    if isinstance(values.get("position"), list | tuple):
        values["position"] = tuple(values["position"])
    if isinstance(media := values.get("media"), list | tuple):
        values["media"] = tuple(_read_part(each, where) for each in media)
    try:
        return kind(**values)
    except TypeError:
        raise ConfigurationError(f"{where} has members that no part of type {part['type']!r} has") from None
