"""Read the blocks of a reply into neutral parts; blocks that only Anthropic can read stay unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import evolve

from rungwise.adapters.wires.citations import citations_of
from rungwise.adapters.wires.draft import arguments_of, text_at
from rungwise.adapters.wires.json_text import as_json, digest_of, mended
from rungwise.adapters.wires.provider_data import copy_if_sendable
from rungwise.fsm.call.conversation.parts import OpaquePart, Part, ReasoningPart, TextPart, ToolCall

CITATIONS: Final = "citations"
"""The member of a text that holds its sources."""

_CALL_EXTRAS: Final = ("caller", "toolset_name")
"""Members of a tool call that only Anthropic has."""


def parts_of(block: Any, provider: str) -> Iterator[Part]:
    """Yield the parts of one whole block; nothing if it is not a block."""
    if not isinstance(block, dict):
        return
    kind = block.get("type")
    if kind == "text":
        yield from text_parts(text_at(block, "text"), block.get(CITATIONS), provider)
    elif kind == "thinking":
        yield from thinking_parts(text_at(block, "thinking"), block.get("signature"), provider)
    elif kind == "tool_use":
        yield tool_call(block, arguments_of(block.get("input")), provider)
    elif isinstance(kind, str):
        yield from opaque_parts(block, provider)


def text_parts(text: str, citations: Any, provider: str) -> Iterator[Part]:
    """Yield a text, then its sources."""
    if text:
        yield TextPart(str(mended(text)))
        yield from citations_of(citations, provider)


def thinking_parts(text: str, signature: Any, provider: str) -> Iterator[Part]:
    """Yield reasoning; signed reasoning is yielded even without text."""
    signature = mended(signature) if isinstance(signature, str) and signature else None
    if text or signature:
        yield ReasoningPart(str(mended(text)), signature, provider if signature else "")


def tool_call(block: Mapping[str, Any], arguments: str, provider: str) -> ToolCall:
    """Return the tool call of a block; the arguments are JSON text."""
    extras = {name: block[name] for name in _CALL_EXTRAS if block.get(name)}
    id, name = str(mended(text_at(block, "id"))), str(mended(text_at(block, "name")))
    return ToolCall(id, name, str(mended(arguments)), copy_if_sendable(extras) or {}, provider)


def opaque_parts(block: Mapping[str, Any], provider: str) -> Iterator[Part]:
    """Yield a block that only its provider can read."""
    copied = copy_if_sendable(block)
    if copied is not None:
        yield OpaquePart(provider, copied)


def identified(parts: Iterable[Part], about: object) -> tuple[Part, ...]:
    """Return the parts with a unique id for each tool call; `about` distinguishes this reply from others."""
    taken: set[str] = set()
    unique: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCall):
            if not part.id.strip() or part.id in taken:
                digest = digest_of([as_json(about), len(taken), part.name, part.arguments])
                part = evolve(part, id=f"toolu_{digest[:24]}")
            taken.add(part.id)
        unique.append(part)
    return tuple(unique)
