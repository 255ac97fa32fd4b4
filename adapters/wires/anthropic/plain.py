"""Read Anthropic's blocks, as callers write them, into neutral parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.wires.plain.messages import parts_of, read_passage
from rungwise.adapters.wires.plain.parts import json_of, media, result_of, text_in
from rungwise.adapters.wires.registry import PartReader
from rungwise.fsm.replies.parts import OpaquePart, Part, ReasoningPart, TextPart, ToolCall

Block = Mapping[str, Any]


def _read_document(block: Block) -> Part | tuple[Part, ...] | None:
    """Read a document; its title and context come before it as text, but a file's title is its
    name.
    """
    source = block.get("source")
    if not isinstance(source, Mapping):
        return None
    title = text_in(block, "title") if source.get("type") == "text" else ""
    texts = [each for each in (title, text_in(block, "context")) if each]
    part = _read_source("file", source, block) or OpaquePart("", block)
    return (TextPart("\n".join(texts)), part) if texts else part


def _read_source(kind: Any, source: Any, block: Block) -> Part | None:
    if not isinstance(source, Mapping):
        return None
    if source.get("type") == "text":
        return TextPart(text_in(source, "data"), block.get("cache_control"))
    members = {name: source.get(name) for name in ("data", "url", "media_type")}
    return media(kind, **members, name=block.get("title"), cache=block.get("cache_control"))


def _read_result(block: Block) -> Part:
    parts = parts_of(block.get("content"))
    is_fault = block.get("is_error") is True
    return result_of(
        text_in(block, "tool_use_id"),
        "",
        parts,
        is_fault=is_fault,
        cache=block.get("cache_control"),
    )


READERS: Final[Mapping[str, PartReader]] = {
    "image": lambda block: _read_source("image", block.get("source"), block),
    "document": _read_document,
    "tool_use": lambda block: ToolCall(
        text_in(block, "id"), text_in(block, "name"), json_of(block.get("input"))
    ),
    "tool_result": _read_result,
    "search_result": read_passage,
    # It stands for the conversation so far, which the caller may have dropped.
    "compaction": lambda block: (
        TextPart(f"{text_in(block, 'content')}\n\n") if text_in(block, "content") else None
    ),
    **dict.fromkeys(
        ("thinking", "reasoning"),
        lambda block: ReasoningPart(text_in(block, "thinking", "text", "reasoning")),
    ),
}
"""What reads each type of block."""
