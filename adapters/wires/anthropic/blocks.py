"""Read the blocks of a reply into neutral parts; blocks that only Anthropic can read stay unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rungwise.adapters.wires.citations import citations_of
from rungwise.adapters.wires.draft import arguments_of, text_at
from rungwise.adapters.wires.json_text import mended
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
        extras = {name: block[name] for name in _CALL_EXTRAS if block.get(name)}
        id, name, arguments = mended([text_at(block, "id"), text_at(block, "name"), arguments_of(block.get("input"))])
        yield ToolCall(id, name, arguments, copy_if_sendable(extras) or {}, provider)
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


def opaque_parts(block: Mapping[str, Any], provider: str) -> Iterator[Part]:
    """Yield a block that only its provider can read."""
    copied = copy_if_sendable(block)
    if copied is not None:
        yield OpaquePart(provider, copied)
