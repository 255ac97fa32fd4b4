"""The form of Responses: how the core reads it, and how a message is written as items."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rungwise.adapters.wires.form import Body, Form, Rules
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.plain.tools import ToolDefinition
from rungwise.adapters.wires.responses.items import CUSTOM, as_item, item_of_call, item_of_message
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

_MEMBERS: Final = frozenset({"role", "content", "type", "id", "status", "phase"})
_CONTENTS: Final = (
    "input_text",
    "input_image",
    "input_file",
    "input_audio",
    "output_text",
    "refusal",
)
_ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
_SIGNED: Final = frozenset({"id", "status", "encrypted_content", "namespace", "caller"})
"""Members of an item that only its provider understands."""
_ELSEWHERE: Final = frozenset(
    {"function", "input_schema", "toolSpec", "functionDeclarations", "function_declarations"}
)
"""Members of tools in other protocols' forms."""
_DOCUMENTED: Final = re.compile(
    r"function|custom|web_search(_preview)?(_\d{4}_\d\d_\d\d)?|file_search|code_interpreter|"
    r"computer(_use_preview)?"
    r"|image_generation|mcp|(local_)?shell|apply_patch|tool_search|namespace|"
    r"programmatic_tool_calling"
)
"""The types of OpenAI's own tools, as its client has them."""
_ANTHROPIC: Final = re.compile(r"_20\d{6}$")
"""The suffix of the types of tools that Anthropic runs."""


class _ResponsesForm(Form):
    """Read and write items. A system message goes out in its place: a continued response forgets
    its `instructions`.
    """

    __slots__ = ()

    rules = Rules(call_id=re.compile(r"[!-~]{1,64}"))

    def _own_format(self, parameters: Mapping[str, Any]) -> Any:
        format = mapping_of(parameters.get("text")).get("format")
        if not isinstance(format, Mapping):
            return None
        return str(format.get("type", "")).startswith("json") and format.get("schema", True)

    def is_own(self, message: PlainMessage) -> bool:
        if message.get("type", "message") != "message":
            return isinstance(message["type"], str) and "tool_calls" not in message
        content = message.get("content")
        is_content = isinstance(content, str) or (
            isinstance(content, list | tuple)
            and all(mapping_of(part).get("type") in _CONTENTS for part in content)
        )
        return is_content and message.get("role") in _ROLES and _MEMBERS.issuperset(message)

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return an item without members that only its provider can read; reasoning was removed
        before.
        """
        if (
            message.get("role") == "assistant"
            and "id" in message
            and isinstance(message.get("content"), list | tuple)
        ):
            texts = [part.get("text", part.get("refusal")) for part in message["content"]]
            return as_item("assistant", "".join([text for text in texts if isinstance(text, str)]))
        return {name: value for name, value in message.items() if name not in _SIGNED}

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        if message.role == "tool":
            return [_output_of(result) for result in message.tool_results]
        if message.role == "assistant":
            items = [*_items(message.parts, provider)]
            # a 400 without the item that must follow
            while items and items[-1].get("type") == "reasoning":
                items.pop()
            return items
        return [as_item(message.role, _content(message.parts))]

    def plain_of(self, message: Message, *, with_reasoning: bool = False) -> list[Body]:
        """Return a message as plain messages that are items here, and are read by every other
        protocol too.
        """
        plain = super().plain_of(message, with_reasoning=with_reasoning)
        return [{"type": "message", **each} if each["role"] in _ROLES else each for each in plain]

    def tool_of(self, name: str, description: str, parameters: Mapping[str, Any]) -> Body:
        """Return the definition of a tool; `strict` is explicit, as chat completions have another
        default.
        """
        return {
            "type": "function",
            **super().tool_of(name, description, parameters),
            "strict": False,
        }

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        kind = tool.get("type")
        if not isinstance(kind, str) or not _ELSEWHERE.isdisjoint(tool) or _ANTHROPIC.search(kind):
            return False
        return "name" in tool if kind in ("function", "custom") else True

    def knows_tool(self, tool: Mapping[str, Any]) -> bool:
        kind = tool.get("type")
        is_openais = (
            isinstance(kind, str)
            and _DOCUMENTED.fullmatch(kind)
            and not isinstance(tool.get(kind), Mapping)
        )
        return bool(is_openais) or not self.is_own_tool(tool)

    def written_tool(self, tool: ToolDefinition) -> Body:
        return self.strictly(
            self.tool_of(tool.name, tool.description, tool.parameters), tool.strict or False
        )

    def _translated(self, tool: Mapping[str, Any]) -> list[Body]:
        custom = tool.get("custom")
        if tool.get("type") != "custom" or not isinstance(custom, Mapping):
            return super()._translated(tool)
        # One that takes free text: chat completions put a grammar one level deeper.
        written: Body = {"type": "custom", **custom}
        format = custom.get("format")
        if isinstance(format, Mapping) and isinstance(format.get("grammar"), Mapping):
            written["format"] = {"type": "grammar", **format["grammar"]}
        return [written]


def _items(parts: Sequence[Part], provider: str) -> Iterator[Body]:
    """Yield the items of an assistant turn, in order."""
    texts: list[str] = []
    envelope: Mapping[str, Any] | None = None
    for part in parts:
        if isinstance(part, CitationPart):
            continue  # the envelope holds it
        if isinstance(part, TextPart):
            texts.append(part.text)
            continue
        if isinstance(part, MediaPart):
            texts.append(in_words(part))
            continue
        yield from item_of_message(envelope, texts)
        envelope = None
        texts = []
        is_own = not isinstance(part, ToolResult) and part.provider == provider != ""
        if isinstance(part, ToolCall):
            yield item_of_call(part, part.extras if is_own else {})
        elif isinstance(part, OpaquePart) and is_own:
            if mapping_of(part.block).get("type") == "message":  # without its texts, which follow
                envelope = part.block
            elif isinstance(part.block, Mapping):
                yield dict(part.block)
        elif (
            isinstance(part, ReasoningPart)
            and is_own
            and mapping_of(part.signature).get("type") == "reasoning"
        ):
            yield dict(part.signature)
    yield from item_of_message(envelope, texts)


def _content(parts: Sequence[Part]) -> str | list[Body]:
    """Return text as a string, and as parts if there is anything besides text."""
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if len(texts) == len(parts):
        return "".join(texts)
    return [_part(part) for part in parts if isinstance(part, TextPart | MediaPart)]


def _part(part: TextPart | MediaPart) -> Body:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    if part.kind == "image":
        return {"type": "input_image", "image_url": _url(part), "detail": part.detail or "auto"}
    if part.kind == "file" and part.url:
        return {"type": "input_file", "file_url": part.url}
    if part.kind == "file":
        return {"type": "input_file", "filename": part.name or "file", "file_data": _url(part)}
    return {"type": "input_text", "text": in_words(part)}


def _url(part: MediaPart) -> str:
    return part.url or f"data:{part.media_type or 'application/octet-stream'};base64,{part.data}"


def _output_of(result: ToolResult) -> Body:
    shown: Iterable[Part] = (
        *((TextPart(result.text),) if result.text or not result.media else ()),
        *result.media,
    )
    return {"type": "function_call_output", "call_id": result.id, "output": _content([*shown])}


def with_custom_outputs(items: Iterable[PlainMessage]) -> list[PlainMessage]:
    """Return items in which the result of a free-text tool has the type that belongs to its
    call.
    """
    items = list(items)
    free = {item.get("call_id") for item in items if item.get("type") == CUSTOM}
    if not free:
        return items
    return [
        {**item, "type": f"{CUSTOM}_output"}
        if item.get("type") == "function_call_output" and item.get("call_id") in free
        else item
        for item in items
    ]


RESPONSES: Final = _ResponsesForm()
