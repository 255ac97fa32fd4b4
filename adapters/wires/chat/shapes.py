"""The form of chat completions: how messages and tools are written in it.

Servers of this protocol differ in the parts and tools that they take besides OpenAI's; a `Dialect`
says which.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from rungwise.adapters.wires.chat.dialect import Dialect
from rungwise.adapters.wires.chat.dialects import FOREIGN_FIELDS, FOREIGN_PARTS
from rungwise.adapters.wires.form import Body, Form
from rungwise.adapters.wires.plain.messages import is_untyped
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.adapters.wires.registry import is_foreign
from rungwise.fsm.call.conversation.plain import chat_messages
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import Message, ToolResult

_TOOL_RESULTS: Final = ("tool_result", "function_call_output")
_MEMBERS: Final = frozenset(
    {"role", "content", "name", "refusal", "tool_calls", "tool_call_id", "function_call"}
)
_PORTABLE: Final = frozenset({"text", "refusal", "image_url", "video_url", "input_audio", "file"})
"""The members and the parts of messages that any server may take.

A dialect names parts that its own takes besides.
"""
_FOREIGN_MEMBERS: Final = frozenset({"parts", "images", "thinking", "tool_name", "type"})
"""Message members of Gemini, of Ollama's own chat, and of Responses."""
_CACHE_MARK: Final = "cache_control"
_DATED: Final = re.compile(r"_\d{8}$")
"""The suffix of the types of tools that Anthropic runs, such as `web_search_20250305`."""
_JSON_PARAMETERS: Final = ("guided_json", "json_schema")
"""The schema parameters of older vLLM and of llama.cpp's server."""
FORMATS: Final = ("response_format", "structured_outputs", *_JSON_PARAMETERS)
"""The parameters that ask for JSON."""

_TOOLS: Final = ("function", "custom")
"""The types of tools in the protocol, each with a member of that name."""


class ChatShapes(Form):
    """Read and write chat completions."""

    __slots__ = ("_dialect",)

    def __init__(self, dialect: Dialect = Dialect()) -> None:  # noqa: B008 (frozen)
        self._dialect = dialect

    def _role_of(self, message: Mapping[str, Any]) -> str:
        if message.get("role") == "function":
            return "tool"
        content = message.get("content")
        for part in content if isinstance(content, list | tuple) else ():
            if not isinstance(part, dict):
                continue
            if part.get("type") in _TOOL_RESULTS or "toolResult" in part:  # of other protocols
                return "tool"
        return super()._role_of(message)

    def _own_format(self, parameters: Mapping[str, Any]) -> Any:
        if isinstance(parameters.get("response_format"), Mapping):  # which wins
            return None
        structured = mapping_of(parameters.get("structured_outputs"))  # vLLM's
        if structured.get("json"):
            return structured["json"]
        for name in _JSON_PARAMETERS:
            if parameters.get(name):
                return parameters[name]
        return structured.get("json_object") or None

    def _definition_of(self, tool: Mapping[str, Any]) -> Mapping[str, Any]:
        return mapping_of(tool.get("function", tool))

    def tool_of(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
    ) -> Body:
        """Return the definition of a tool."""
        return {"type": "function", "function": super().tool_of(name, description, parameters)}

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        """Tell whether the definition of a tool can be sent unchanged."""
        kind = tool.get("type")
        if kind in _TOOLS:
            return isinstance(tool.get(kind), Mapping)
        if self._runs(kind):
            return True
        # a tool that this server may run, although nobody told
        is_named = isinstance(kind, str) and not _DATED.search(kind)
        has_schema = "input_schema" in tool or "parameters" in tool
        return is_named and not has_schema and self._dialect.takes_other_tools

    def knows_tool(self, tool: Mapping[str, Any]) -> bool:
        """Tell whether it is known that a tool is sent here, unchanged or translated."""
        kind = tool.get("type")
        return kind in _TOOLS or self._runs(kind) or not self.is_own_tool(tool)

    def _runs(self, kind: Any) -> bool:
        """Tell whether the dialect names a type of tools as one that the server runs."""
        if not isinstance(kind, str):
            return False
        return any(fnmatchcase(kind, each) for each in self._dialect.tool_types.split())

    def _translated(self, tool: Mapping[str, Any]) -> list[Body]:
        is_named = isinstance(tool.get("name"), str)
        if tool.get("type") != "custom" or "input_schema" in tool or not is_named:
            return super()._translated(tool)
        # One that takes free text, as Responses have it: a grammar stands one level deeper here.
        custom = _without(tool, "type")
        format = mapping_of(custom.get("format"))
        if format.get("type") == "grammar" and "grammar" not in format:
            custom["format"] = {"type": "grammar", "grammar": _without(format, "type")}
        return [{"type": "custom", "custom": custom}]

    def is_own(self, message: PlainMessage) -> bool:
        """Tell whether a plain message can be sent unchanged."""
        content = message.get("content")
        if isinstance(content, list | tuple) and any(map(_is_foreign, content)):
            return False
        if any(map(_is_foreign_call, list_of(message.get("tool_calls")))):
            return False
        if "role" not in message or message["role"] == "model":
            return False
        return _FOREIGN_MEMBERS.isdisjoint(message)

    def is_common(self, message: PlainMessage) -> bool:
        """Tell whether all servers of this dialect take the members and parts of a message."""
        # `unsigned` removes the last ones
        taken = _PORTABLE.union(self._dialect.part_types.split(), FOREIGN_PARTS)
        for each in list_of(message.get("content")):
            if isinstance(each, Mapping) and str(each.get("type", "text")) not in taken:
                return False
        return not any(message[name] for name in message.keys() - _MEMBERS - FOREIGN_FIELDS)

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return a message without signatures, reasoning and cache marks of other providers."""
        if message.get("role") != "assistant":
            parts = list_of(message.get("content"))
            if not any(isinstance(part, Mapping) and _CACHE_MARK in part for part in parts):
                return message
            return {**message, "content": [_unsigned(part) for part in parts]}
        portable = {key: value for key, value in message.items() if key not in FOREIGN_FIELDS}
        if isinstance(portable.get("content"), list | tuple):
            content: list[Any] = []
            for part in portable["content"]:
                if mapping_of(part).get("type") not in FOREIGN_PARTS:
                    content.append(_unsigned(part))
            portable["content"] = content or ""
        if isinstance(portable.get("tool_calls"), list | tuple):
            portable["tool_calls"] = [_unsigned(call) for call in portable["tool_calls"]]
        return portable

    def results_of(
        self, calling: PlainMessage | Message, results: Sequence[ToolResult]
    ) -> PlainMessage | Message:
        """Return a message of results; the older form of calls has a role of its own for them."""
        if isinstance(calling, Message) or calling.get("tool_calls") or not results:
            return super().results_of(calling, results)
        return {
            "role": "function",
            "name": results[0].name,
            "content": results[0].text,
        }

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        """Return a message as plain messages.

        Readable reasoning is left out, as some servers reject it.
        """
        return chat_messages(message, provider)


def _is_foreign(part: Any) -> bool:
    """Tell whether a part of a message is another protocol's."""
    if not isinstance(part, Mapping):
        return False
    kind = str(part.get("type"))
    if is_foreign(kind, "openai") or kind == "redacted_thinking":
        return True
    if "source" in part or "citations" in part or is_untyped(part):
        return True
    # Mistral's thinking is a list; Anthropic signs a text.
    return kind == "thinking" and isinstance(part.get("thinking"), str) and "signature" in part


def _is_foreign_call(call: Any) -> bool:
    """Tell whether the arguments of a call are an object and not JSON text.

    They are one in Ollama's chat.
    """
    function = mapping_of(call).get("function")
    return isinstance(mapping_of(function).get("arguments"), Mapping)


def _without(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {each: inner for each, inner in value.items() if each != name}


def _unsigned(value: Any) -> Any:
    """Return a part, or a call and its function, without other providers' own members.

    Cache marks go too.
    """
    if not isinstance(value, Mapping):
        return value
    own: dict[str, Any] = {}
    for name, inner in value.items():
        if name == "function":
            own[name] = _unsigned(inner)
        elif name not in FOREIGN_FIELDS and name != _CACHE_MARK:
            own[name] = inner
    return own


CHAT: Final = ChatShapes()
