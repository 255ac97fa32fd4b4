"""Read Anthropic's blocks, as callers write them, into neutral parts.

Reasoning is read as text alone: a signature goes back to Anthropic only in a message that is sent
unchanged. What has no reader here is opaque, and goes to no other provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.wires.plain.messages import parts_of, read_passage
from rungwise.adapters.wires.plain.parts import json_of, media, result_of, text_in
from rungwise.adapters.wires.registry import PartReader
from rungwise.fsm.replies.parts import (
    MediaKind,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
)

Block = Mapping[str, Any]


def _read_document(block: Block) -> Part | tuple[Part, ...] | None:
    """Read a document.

    Its context comes before it as text. So does the title of a text; that of a file is its name.
    """
    source = block.get("source")
    if not isinstance(source, Mapping):
        return None
    texts = []
    if source.get("type") == "text":
        texts.append(text_in(block, "title"))
    texts.append(text_in(block, "context"))
    introduction = "\n".join(filter(None, texts))
    part = _read_source("file", source, block) or OpaquePart("", block)
    if not introduction:
        return part
    return TextPart(introduction), part


def _read_image(block: Block) -> Part | None:
    return _read_source("image", block.get("source"), block)


def _read_source(kind: MediaKind, source: Any, block: Block) -> Part | None:
    """Read a picture or a document: its data, its URL or its text."""
    if not isinstance(source, Mapping):
        return None
    cache = block.get("cache_control")
    if source.get("type") == "text":
        return TextPart(text_in(source, "data"), cache)
    return media(
        kind,
        data=source.get("data"),
        url=source.get("url"),
        media_type=source.get("media_type"),
        name=block.get("title"),
        cache=cache,
    )


def _read_result(block: Block) -> Part:
    parts = parts_of(block.get("content"))
    return result_of(
        text_in(block, "tool_use_id"),
        "",
        parts,
        is_fault=block.get("is_error") is True,
        cache=block.get("cache_control"),
    )


def _read_call(block: Block) -> Part:
    return ToolCall(text_in(block, "id"), text_in(block, "name"), json_of(block.get("input")))


def _read_compaction(block: Block) -> Part | None:
    """Read what stands for the conversation so far, which the caller may have dropped."""
    text = text_in(block, "content")
    return TextPart(f"{text}\n\n") if text else None


def _read_reasoning(block: Block) -> Part:
    return ReasoningPart(text_in(block, "thinking", "text", "reasoning"))


READERS: Final[Mapping[str, PartReader]] = {
    "image": _read_image,
    "document": _read_document,
    "tool_use": _read_call,
    "tool_result": _read_result,
    "search_result": read_passage,
    "compaction": _read_compaction,
    "thinking": _read_reasoning,
    "reasoning": _read_reasoning,
}
"""What reads each type of block."""
