"""The form of Anthropic's Messages: how messages and tools are written in it.

A turn is a list of blocks, each with a type. Tool results are blocks of the user's, before any text
of the same turn. Signatures and encrypted reasoning are blocks of their own and must go back
unchanged.
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
    document: Body = {"type": "document", "source": source}
    if part.name:
        document["title"] = part.name
    return document


def _source(part: MediaPart) -> Body | None:
    """Return where a picture or a document is, or what is in it; None if the API takes neither.

    A document that is not a PDF must be text.
    """
    if part.kind not in ("image", "file"):
        return None
    if part.url:
        return {"type": "url", "url": part.url}
    kind = part.media_type.partition(";")[0].strip().lower() or _PDF
    if kind == "image/jpg":
        kind = "image/jpeg"
    if kind in (_PICTURES if part.kind == "image" else (_PDF,)):
        return {
            "type": "base64",
            "media_type": kind,
            "data": part.data,
        }
    if part.kind == "image" or not (kind.startswith("text/") or kind == "application/json"):
        return None
    try:
        text = base64.b64decode(part.data, validate=True).decode()
    except ValueError:
        return None
    if not text.strip():
        return None
    return {"type": "text", "media_type": "text/plain", "data": text}


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
    """Read and write Anthropic's Messages.

    The backend separates system messages from the others.
    """

    __slots__ = ()

    MARKS = frozenset({MARK})

    def _is_result(self, block: Mapping[str, Any]) -> bool:
        return block.get("type") == "tool_result"

    def _is_portable(self, block: Mapping[str, Any]) -> bool:
        return block.get("type") in _PORTABLE

    def is_common(self, message: PlainMessage) -> bool:
        """Tell whether all servers of the protocol take the blocks of a message."""
        if isinstance(message["content"], str):
            return True
        return all(each["type"] in (*_PORTABLE, *_THINKING) for each in message["content"])

    def _own_format(self, parameters: Mapping[str, Any]) -> Any:
        format = mapping_of(parameters.get("output_config")).get("format")
        format = format or parameters.get("output_format")  # its name in the beta
        if not format:
            return None
        return mapping_of(format).get("schema", True)

    def tool_of(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
    ) -> Body:
        tool: Body = {"name": name}
        if description:
            tool["description"] = description
        tool["input_schema"] = parameters
        return tool

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        if "input_schema" in tool:
            return True
        kind = tool.get("type")
        return isinstance(kind, str) and _SERVER_TOOL.fullmatch(kind) is not None

    def written_tool(self, tool: ToolDefinition) -> Body:
        return _marked(super().written_tool(tool), tool.cache)

    def is_own(self, message: PlainMessage) -> bool:
        has_text = message.keys() == MEMBERS and isinstance(message["content"], str)
        if has_text and message["role"] in ROLES:
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
        """Add tool results to a user message.

        All results of a turn stand in one message, before any text.
        """
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        written = [_result(each) for each in results]
        return {**message, "content": among(blocks, written, self._is_result)}

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        if message.role == "tool":
            return [{"role": "user", "content": [_result(each) for each in message.tool_results]}]
        blocks = _blocks(message.parts, provider)
        only_text = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
        return [{"role": message.role, "content": blocks[0]["text"] if only_text else blocks}]


def _blocks(parts: Iterable[Part], provider: str) -> list[Body]:
    """Return parts as blocks, those that only this provider can read included."""
    blocks: list[Body] = []
    for part in parts:
        if isinstance(part, TextPart):
            if not is_blank(part.text):  # no block may be blank
                blocks.append(_marked({"type": "text", "text": part.text}, part.cache))
        elif isinstance(part, MediaPart):
            blocks.append(_marked(media_block(part), part.cache))
        elif isinstance(part, ToolCall):
            blocks.append(_call(part, provider))
        elif not isinstance(part, ToolResult) and provider and part.provider == provider:
            _add_own(blocks, part)
    return blocks


def _call(call: ToolCall, provider: str) -> Body:
    block: Body = {
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
    }
    block["input"] = object_of(call.arguments)
    if provider and call.provider == provider:
        block |= call.extras
    return block


def _add_own(blocks: list[Body], part: ReasoningPart | CitationPart | OpaquePart) -> None:
    """Append what goes back to its provider; the sources of a text are a member of its block."""
    if isinstance(part, ReasoningPart):
        if part.signature:
            block = {
                "type": "thinking",
                "thinking": part.text,
                "signature": part.signature,
            }
            blocks.append(block)
    elif isinstance(part, OpaquePart):
        if isinstance(part.block, Mapping):
            blocks.append(dict(part.block))
    elif blocks and "text" in blocks[-1]:
        blocks[-1].setdefault(CITATIONS, []).append(part.block)


def _result(result: ToolResult) -> Body:
    """Return the block of a result."""
    text = result.text
    if not text and result.is_fault and not result.media:
        text = NO_REPORT
    content: Any = text
    if result.media:
        content = [media_block(each) for each in result.media]
        if not is_blank(text):
            content.insert(0, {"type": "text", "text": text})
    block: Body = {"type": "tool_result", "tool_use_id": result.id}
    if content:
        block["content"] = content
    if result.is_fault:
        block["is_error"] = True
    return _marked(block, result.cache)


def _marked(block: Body, cache: Any) -> Body:
    """Return a block or a tool with a cache mark, if it has one."""
    if not cache:
        return block
    return {**block, "cache_control": cache}


ANTHROPIC: Final = _AnthropicShapes()
