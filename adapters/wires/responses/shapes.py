"""The form of Responses: how a message is written as items, and a tool as a definition.

One answer is several items in a row: messages, calls, reasoning. The provider's own items go back
unchanged, in the order in which the model wrote them; an item of reasoning must be followed by what
it led to. A text that the provider sent with citations or an id goes back inside its envelope
(`items.envelope_of`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rungwise.adapters.wires.form import Body, Form, Rules
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.plain.tools import ToolDefinition
from rungwise.adapters.wires.registry import items_elsewhere
from rungwise.adapters.wires.responses.items import CUSTOM, as_item, item_of_call, item_of_message
from rungwise.fsm.call.conversation.plain import in_words
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import (
    CitationPart,
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)

_MEMBERS: Final = frozenset({"role", "content", "type", "id", "status", "phase"})
"""The members of a message."""
_CONTENTS: Final = (
    "input_text",
    "input_image",
    "input_file",
    "input_audio",
    "output_text",
    "refusal",
)
"""The types of its parts."""
_ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
_SIGNED: Final = frozenset({"id", "status", "encrypted_content", "namespace", "caller"})
"""Members of an item that only its provider understands."""
_ELSEWHERE: Final = frozenset(
    {"function", "input_schema", "toolSpec", "functionDeclarations", "function_declarations"}
)
"""Members of tools in other protocols' forms."""
_DOCUMENTED: Final = re.compile(
    r"function|custom"
    r"|web_search(_preview)?(_\d{4}_\d\d_\d\d)?|file_search|tool_search"
    r"|code_interpreter|programmatic_tool_calling|(local_)?shell|apply_patch"
    r"|computer(_use_preview)?|image_generation|mcp|namespace"
)
"""The types of OpenAI's own tools, as its client has them."""
_ANTHROPIC: Final = re.compile(r"_20\d{6}$")
"""The suffix of the types of tools that Anthropic runs."""


class _ResponsesForm(Form):
    """Read and write items.

    A system message goes out in its place: a continued response forgets its `instructions`.
    """

    __slots__ = ()

    rules = Rules(call_id=re.compile(r"[!-~]{1,64}"))

    def _own_format(self, parameters: Mapping[str, Any]) -> Any:
        format = mapping_of(parameters.get("text")).get("format")
        if not isinstance(format, Mapping):
            return None
        return str(format.get("type", "")).startswith("json") and format.get("schema", True)

    def is_own(self, message: PlainMessage) -> bool:
        kind = message.get("type", "message")
        if kind == "function_call" and "call_id" not in message:
            return False
        if kind != "message":
            is_known = isinstance(kind, str) and kind not in items_elsewhere("responses")
            return is_known and "tool_calls" not in message
        if message.get("role") not in _ROLES or not _MEMBERS.issuperset(message):
            return False
        content = message.get("content")
        if isinstance(content, list | tuple):
            return all(mapping_of(part).get("type") in _CONTENTS for part in content)
        return isinstance(content, str)

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return an item without members that only its provider can read.

        Items of reasoning were removed before.
        """
        content = message.get("content")
        is_answer = message.get("role") == "assistant" and "id" in message
        if is_answer and isinstance(content, list | tuple):
            texts = [part.get("text", part.get("refusal")) for part in content]
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
        """Return a message as plain messages that are items here.

        Every other protocol can read them too.
        """
        plain = super().plain_of(message, with_reasoning=with_reasoning)
        return [{"type": "message", **each} if each["role"] in _ROLES else each for each in plain]

    def tool_of(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
    ) -> Body:
        """Return the definition of a tool.

        Its `strict` is explicit: chat completions have another default.
        """
        definition = super().tool_of(name, description, parameters)
        return {"type": "function", **definition, "strict": False}

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        kind = tool.get("type")
        if not isinstance(kind, str) or not _ELSEWHERE.isdisjoint(tool) or _ANTHROPIC.search(kind):
            return False
        if kind in ("function", "custom"):
            return "name" in tool
        return True

    def knows_tool(self, tool: Mapping[str, Any]) -> bool:
        kind = tool.get("type")
        if isinstance(kind, str) and _DOCUMENTED.fullmatch(kind):
            is_nested = isinstance(tool.get(kind), Mapping)  # as in chat completions
            if not is_nested:
                return True
        return not self.is_own_tool(tool)

    def written_tool(self, tool: ToolDefinition) -> Body:
        definition = self.tool_of(tool.name, tool.description, tool.parameters)
        return self.strictly(definition, tool.strict or False)

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
        if isinstance(part, ToolResult):
            continue  # an item of its own
        is_own = provider != "" and part.provider == provider
        if isinstance(part, ToolCall):
            yield item_of_call(part, part.extras if is_own else {})
        elif isinstance(part, ReasoningPart):
            if is_own and mapping_of(part.signature).get("type") in ("reasoning", "message"):
                yield dict(part.signature)
        elif is_own and isinstance(part.block, Mapping):
            if part.block.get("type") == "message":  # without its texts, which follow
                envelope = part.block
            else:
                yield dict(part.block)
    yield from item_of_message(envelope, texts)


def _content(parts: Sequence[Part]) -> str | list[Body]:
    """Return text as a string, and as parts if there is anything besides text."""
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if len(texts) == len(parts):
        return "".join(texts)
    return [_part(part) for part in parts if isinstance(part, TextPart | MediaPart)]


def _part(part: TextPart | MediaPart) -> Body:
    """Return a text, a picture or a file as part of a message; anything else in words."""
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    if part.kind == "image":
        return {
            "type": "input_image",
            "image_url": _url(part),
            "detail": part.detail or "auto",
        }
    if part.kind == "file" and part.url:
        return {"type": "input_file", "file_url": part.url}
    if part.kind == "file":
        return {
            "type": "input_file",
            "filename": part.name or "file",
            "file_data": _url(part),
        }
    return {"type": "input_text", "text": in_words(part)}


def _url(part: MediaPart) -> str:
    return part.url or f"data:{part.media_type or 'application/octet-stream'};base64,{part.data}"


def _output_of(result: ToolResult) -> Body:
    """Return the item of a result."""
    shown: list[Part] = [*result.media]
    if result.text or not result.media:
        shown.insert(0, TextPart(result.text))
    return {
        "type": "function_call_output",
        "call_id": result.id,
        "output": _content(shown),
    }


def with_custom_outputs(items: Iterable[PlainMessage]) -> list[PlainMessage]:
    """Return items in which the result of a free-text tool has a type of its own.

    It belongs to the type of the call.
    """
    items = list(items)
    free = {item.get("call_id") for item in items if item.get("type") == CUSTOM}
    if not free:
        return items
    fitting: list[PlainMessage] = []
    for item in items:
        if item.get("type") == "function_call_output" and item.get("call_id") in free:
            item = {**item, "type": f"{CUSTOM}_output"}
        fitting.append(item)
    return fitting


RESPONSES: Final = _ResponsesForm()
