"""Make neutral parts of what callers wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rungwise.adapters.wires.json_text import as_json
from rungwise.fsm.call.conversation.parts import MediaPart, Message, Part, Role, TextPart, ToolCall, ToolResult


def split(role: Role, parts: Iterable[Part]) -> tuple[Message, ...]:
    """Return a message, with the results of tools among its parts as a message of their own before it."""
    parts = tuple(parts)
    results = tuple([part for part in parts if isinstance(part, ToolResult)])
    rest = tuple([part for part in parts if not isinstance(part, ToolResult)])
    if role != "assistant":
        rest = tuple([part for part in rest if not isinstance(part, ToolCall)])
    told = (Message("tool", results),) if results else ()
    return (*told, Message(role, rest)) if rest or not results else told


def result_of(id: str, name: str, parts: Iterable[Part], *, is_fault: bool = False, cache: Any = None) -> ToolResult:
    """Return the result of a tool call of what stands in it."""
    parts = tuple(parts)
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    media = tuple([part for part in parts if isinstance(part, MediaPart)])
    # A text within has no place of its own in a neutral result: what it marks the end of is the result.
    marks = [part.cache for part in parts if isinstance(part, TextPart | MediaPart) and part.cache]
    return ToolResult(id, name, "\n".join(texts), is_fault, media, cache or (marks[-1] if marks else None))


def json_of(arguments: Any) -> str:
    """Return the arguments of a call as JSON text: those that are text already, as they are."""
    if isinstance(arguments, str):
        return arguments
    return "{}" if arguments is None else as_json(arguments)


def text_in(value: Any, *names: str) -> str:
    """Return the first text that stands in a mapping under one of these names."""
    if isinstance(value, Mapping):
        for name in names:
            if isinstance(value.get(name), str) and value[name]:
                return str(value[name])
    return ""


def list_of(value: Any) -> list[Any]:
    """Return a list as it is given, and an empty one in the place of anything else."""
    return list(value) if isinstance(value, list | tuple) else []
