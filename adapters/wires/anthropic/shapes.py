"""The form of Anthropic's Messages: how the core reads it, and how messages and tools are written
in it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rungwise.adapters.wires.anthropic.stream import CITATIONS
from rungwise.adapters.wires.form import MEMBERS, ROLES, BlockForm, Body, among
from rungwise.adapters.wires.json_text import object_of
from rungwise.adapters.wires.losses import MARK
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.plain.tools import ToolDefinition
from rungwise.adapters.wires.registry import is_foreign
from rungwise.fsm.call.conversation.plain import in_words
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import (
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
from rungwise.fsm.replies.text.contents import is_blank

_PICTURES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF: Final = "application/pdf"


def media_block(part: MediaPart) -> Body:
    """Return the block of a picture or a document; other media are only named, in words."""
    source = _source(part)
    if source is None:
        return {"type": "text", "text": in_words(part)}
    if part.kind == "image":
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, **({"title": part.name} if part.name else {})}


def _source(part: MediaPart) -> Body | None:
    if part.kind not in ("image", "file"):
        return None
    if part.url:
        return {"type": "url", "url": part.url}
    kind = part.media_type.partition(";")[0].strip().lower() or _PDF
    kind = {"image/jpg": "image/jpeg"}.get(kind, kind)
    if kind in (_PICTURES if part.kind == "image" else (_PDF,)):
        return {"type": "base64", "media_type": kind, "data": part.data}
    if part.kind == "image" or not (kind.startswith("text/") or kind == "application/json"):
        return None
    try:
        text = base64.b64decode(part.data, validate=True).decode()
    except ValueError:
        return None
    return {"type": "text", "media_type": "text/plain", "data": text} if text.strip() else None


_NEEDED: Final[Mapping[str, tuple[str, type]]] = {
    "text": ("text", str),
    "image": ("source", Mapping),
    "document": ("source", Mapping),
    "tool_use": ("input", Mapping),
    "tool_result": ("tool_use_id", str),
    "thinking": ("signature", str),
    "redacted_thinking": ("data", str),
}
"""What distinguishes Anthropic's blocks from blocks of other protocols with the same name."""
_PORTABLE: Final = ("text", "image", "document", "tool_use", "tool_result", "search_result")
_THINKING: Final = ("thinking", "redacted_thinking")
_SERVER_TOOL: Final = re.compile(r".+_20\d{6}|mcp_toolset")
"""The types of tools that Anthropic runs or defines: all but one end in a date."""

NO_REPORT: Final = "(the tool failed and said nothing)"
"""The text of a failed tool that reported nothing, which the API refuses."""


class _AnthropicShapes(BlockForm):
    """Read and write Anthropic's Messages; the request separates system messages from the
    others.
    """

    __slots__ = ()

    MARKS = frozenset({MARK})

    def _is_result(self, block: Mapping[str, Any]) -> bool:
        return block.get("type") == "tool_result"

    def _is_portable(self, block: Mapping[str, Any]) -> bool:
        return block.get("type") in _PORTABLE

    def is_common(self, message: PlainMessage) -> bool:
        """Tell whether a message has no types of blocks but those that all servers of the protocol
        take.
        """
        blocks = message["content"] if not isinstance(message["content"], str) else ()
        return all(each["type"] in (*_PORTABLE, *_THINKING) for each in blocks)

    def _own_format(self, parameters: Mapping[str, Any]) -> Any:
        format = mapping_of(parameters.get("output_config")).get("format") or parameters.get(
            "output_format"
        )
        return mapping_of(format).get("schema", True) if format else None

    def tool_of(self, name: str, description: str, parameters: Mapping[str, Any]) -> Body:
        described = {"description": description} if description else {}
        return {"name": name, **described, "input_schema": parameters}

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        kind = tool.get("type")
        return "input_schema" in tool or (
            isinstance(kind, str) and _SERVER_TOOL.fullmatch(kind) is not None
        )

    def written_tool(self, tool: ToolDefinition) -> Body:
        return {**super().written_tool(tool), **_cache(tool.cache)}

    def is_own(self, message: PlainMessage) -> bool:
        if (
            message.keys() == MEMBERS
            and message["role"] in ROLES
            and isinstance(message["content"], str)
        ):
            return not is_blank(message["content"])
        return super().is_own(message)

    def _is_own_block(self, block: Any) -> bool:
        kind = mapping_of(block).get("type")
        if not isinstance(kind, str) or is_foreign(kind, "anthropic"):
            return False
        name, value_kind = _NEEDED.get(kind, ("type", str))
        return isinstance(block.get(name), value_kind)

    def with_results(
        self, message: PlainMessage, results: Sequence[ToolResult]
    ) -> PlainMessage | None:
        """Add tool results to a user message: all results of a turn stand in one message, before
        any text.
        """
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return {**message, "content": among(blocks, [*map(_result, results)], self._is_result)}

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        if message.role == "tool":
            return [{"role": "user", "content": [_result(each) for each in message.tool_results]}]
        blocks = _blocks(message.parts, provider)
        only_text = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
        return [{"role": message.role, "content": blocks[0]["text"] if only_text else blocks}]


def _blocks(parts: Iterable[Part], provider: str) -> list[Body]:
    blocks: list[Body] = []
    for part in parts:
        if isinstance(part, TextPart):
            if not is_blank(part.text):  # no block may be blank
                blocks.append({"type": "text", "text": part.text, **_cache(part.cache)})
        elif isinstance(part, MediaPart):
            blocks.append({**media_block(part), **_cache(part.cache)})
        elif isinstance(part, ToolCall):
            call = {
                "type": "tool_use",
                "id": part.id,
                "name": part.name,
                "input": object_of(part.arguments),
            }
            blocks.append(
                {**call, **(part.extras if provider and part.provider == provider else {})}
            )
        elif not isinstance(part, ToolResult) and provider and part.provider == provider:
            if isinstance(part, ReasoningPart):
                if part.signature:
                    blocks.append(
                        {"type": "thinking", "thinking": part.text, "signature": part.signature}
                    )
            elif isinstance(part, CitationPart) and blocks and "text" in blocks[-1]:
                blocks[-1].setdefault(CITATIONS, []).append(part.block)
            elif isinstance(part, OpaquePart) and isinstance(part.block, Mapping):
                blocks.append(dict(part.block))
    return blocks


def _result(result: ToolResult) -> Body:
    text = result.text or (NO_REPORT if result.is_fault and not result.media else "")
    content: Any = text
    if result.media:
        texts = [{"type": "text", "text": text}] if not is_blank(text) else []
        content = [*texts, *map(media_block, result.media)]
    return {
        "type": "tool_result",
        "tool_use_id": result.id,
        **({"content": content} if content else {}),
        **({"is_error": True} if result.is_fault else {}),
        **_cache(result.cache),
    }


def _cache(cache: Any) -> Body:
    return {"cache_control": cache} if cache else {}


ANTHROPIC: Final = _AnthropicShapes()
