"""The form of Converse: what the core reads of it, and how a message is written in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import evolve

from rungwise.adapters.wires.anthropic.shapes import NO_REPORT
from rungwise.adapters.wires.bedrock.media import media_block
from rungwise.adapters.wires.form import Body, Form, Rules, among
from rungwise.adapters.wires.json_text import object_of
from rungwise.adapters.wires.plain.converse import KINDS
from rungwise.adapters.wires.plain.tools import ToolDefinition, read_tools
from rungwise.adapters.wires.unread import MARK, MARKED_CALL
from rungwise.fsm.call.conversation.parts import (
    MediaPart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.text.contents import is_blank

_MEMBERS: Final = frozenset({"role", "content"})
_PORTABLE: Final = frozenset(
    {"text", "image", "document", "video", "audio", "toolUse", "toolResult", "cachePoint", "guardContent"}
)
_TOOL_KINDS: Final = frozenset({"toolSpec", "systemTool", "cachePoint"})
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_RULES: Final = Rules(call_id=_CALL_ID, alternates=True, begins_with_user=True)


class ConverseShapes(Form):
    """Read and write Converse; system messages stand among the others until the request sets them apart."""

    __slots__ = ()

    SAYS = frozenset({"name", "strict"})
    MARKS = frozenset({MARK, MARKED_CALL})

    @property
    def rules(self) -> Rules:
        """Return what the protocol demands of a conversation."""
        return _RULES

    def _role_of(self, message: Mapping[str, Any]) -> str:
        content = message.get("content")
        holds_result = isinstance(content, list | tuple) and any(
            isinstance(block, Mapping) and "toolResult" in block for block in content
        )
        return "tool" if holds_result else super()._role_of(message)

    def asks_for_json(self, parameters: Mapping[str, Any]) -> bool | None:
        """Tell whether parameters of a request ask for JSON; None where they do not speak of it."""
        config = parameters.get("outputConfig")
        if isinstance(config, Mapping) and config.get("textFormat"):
            return True
        return super().asks_for_json(parameters)

    def _own_schema(self, parameters: Mapping[str, Any]) -> Any:
        held: Any = parameters.get("outputConfig")
        for name in ("textFormat", "structure", "jsonSchema", "schema"):
            held = held.get(name) if isinstance(held, Mapping) else None
        return object_of(held) if isinstance(held, str) else held

    # tools

    def tool_of(self, name: str, description: str, parameters: Mapping[str, Any]) -> Body:
        """Return the definition of a tool."""
        told = {"description": description} if description else {}
        return {"toolSpec": {"name": name, **told, "inputSchema": {"json": parameters}}}

    def strictly(self, definition: Body, strict: bool) -> Body:
        """Return the definition of a tool that says whether the provider must hold the model to the schema."""
        definition["toolSpec"]["strict"] = strict
        return definition

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        """Tell whether the definition of a tool can go out as it is."""
        return len(tool) == 1 and not _TOOL_KINDS.isdisjoint(tool)

    def written_tool(self, tool: ToolDefinition) -> Body:
        """Return the definition of a tool in this form."""
        definition = self.tool_of(tool.name, tool.description, {"type": "object", **tool.parameters})
        return definition if tool.strict is None else self.strictly(definition, tool.strict)

    def _translated(self, tool: Mapping[str, Any]) -> list[Body]:
        read = [each for each in read_tools((tool,)) if isinstance(each, ToolDefinition)]
        return [block for each in read for block in (self.written_tool(each), *_cache(each.cache))]

    # messages

    def is_own(self, message: PlainMessage) -> bool:
        """Tell whether a plain message can go out as it is."""
        if message.keys() != _MEMBERS or message["role"] not in ("system", "user", "assistant"):
            return False
        content = message["content"]
        return isinstance(content, list | tuple) and bool(content) and all(map(_is_own_block, content))

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return a plain message of this form without what may be signed or encrypted by another provider."""
        content = message.get("content")
        if message.get("role") != "assistant" or not isinstance(content, list | tuple):
            return message
        kept = [block for block in content if isinstance(block, Mapping) and not _PORTABLE.isdisjoint(block)]
        return message if len(kept) == len(content) else {**message, "content": kept}

    def with_results(self, message: PlainMessage, results: Sequence[ToolResult]) -> PlainMessage | None:
        """Return a message of the user's with more results in it: all of a turn stand in one."""
        more = [block for each in results for block in _result(each)]
        return {**message, "content": among(message["content"], more, lambda block: "toolResult" in block)}

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        """Return a message in this form, with what this provider wants back of its own and nothing of any other's."""
        if message.role == "tool":
            blocks = [each for result in message.tool_results for each in _result(result)]
            return [{"role": "user", "content": blocks}]
        return [{"role": message.role, "content": [*_blocks(message.parts, provider)]}]


def _is_own_block(block: Any) -> bool:
    return isinstance(block, Mapping) and len(block) == 1 and not KINDS.isdisjoint(block)


def _blocks(parts: Iterable[Part], provider: str) -> Iterator[Body]:
    for part in parts:
        if isinstance(part, TextPart):
            if not is_blank(part.text):  # which no block may be
                yield {"text": part.text}
                yield from _cache(part.cache)
        elif isinstance(part, MediaPart):
            yield media_block(part)
            yield from _cache(part.cache)
        elif isinstance(part, ToolCall):
            yield {"toolUse": {"toolUseId": part.id, "name": part.name, "input": object_of(part.arguments)}}
        elif not isinstance(part, ToolResult) and provider and part.provider == provider:
            if isinstance(part, ReasoningPart):
                if part.signature:
                    yield {"reasoningContent": {"reasoningText": {"text": part.text, "signature": part.signature}}}
            elif isinstance(part, OpaquePart) and isinstance(part.block, Mapping) and "citations" not in part.block:
                yield dict(part.block)


def _result(result: ToolResult) -> Iterator[Body]:
    text = result.text or (NO_REPORT if result.is_fault and not result.media else "")
    shown = [media_block(evolve(each, cache=None)) for each in result.media]
    content = [*([] if is_blank(text) else [{"text": text}]), *shown]
    told: Body = {"toolUseId": result.id, "content": content}
    yield {"toolResult": {**told, "status": "error"} if result.is_fault else told}
    yield from _cache(result.cache)


def _cache(cache: Any) -> Iterator[Body]:
    if cache:
        ttl = cache.get("ttl") if isinstance(cache, Mapping) else None
        yield {"cachePoint": {"type": "default", **({"ttl": ttl} if ttl else {})}}


CONVERSE: Final = ConverseShapes()
