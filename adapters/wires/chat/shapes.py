"""The form of chat completions: what the core reads of it, and how a message is written in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.fsm.call.parts import Message, OpaquePart, TextPart, ToolCall
from rungwise.fsm.call.shapes import Shapes

Body = dict[str, Any]

_TOOL_RESULTS: Final = ("tool_result", "function_call_output")
_JSON_PARAMETERS: Final = ("guided_json", "json_schema")
"""What older vLLM and llama.cpp's server call a schema that the answer must fit."""


class ChatShapes(Shapes):
    """Read and write chat completions."""

    __slots__ = ()

    @property
    def tool_parameters(self) -> frozenset[str]:
        """Return the parameters of a request that servers reject without tools."""
        return frozenset({"tool_choice", "parallel_tool_calls"})

    def _role_of(self, message: Mapping[str, Any]) -> str:
        role, content = message.get("role"), message.get("content")
        holds_result = isinstance(content, list | tuple) and any(
            isinstance(part, dict) and part.get("type") in _TOOL_RESULTS for part in content
        )
        return "tool" if holds_result or role == "function" else str(role)

    def asks_for_json(self, parameters: Mapping[str, Any]) -> bool | None:
        """Tell whether parameters of a request ask for JSON; None where they do not speak of it."""
        found = parameters.get("response_format")
        if isinstance(found, Mapping):
            return str(found.get("type", "")).startswith("json")
        structured = parameters.get("structured_outputs")
        if isinstance(structured, Mapping) and any(structured.get(name) for name in ("json", "json_object")):
            return True
        return True if any(parameters.get(name) for name in _JSON_PARAMETERS) else None

    def _definition_of(self, tool: Mapping[str, Any]) -> Mapping[str, Any]:
        function = tool.get("function", tool)
        return function if isinstance(function, Mapping) else {}

    def tool_of(self, name: str, description: str, parameters: Mapping[str, Any]) -> Body:
        """Return the definition of a tool."""
        return {"type": "function", "function": super().tool_of(name, description, parameters)}

    def plain_of(self, message: Message, *, with_reasoning: bool = False) -> list[Body]:
        """Return a message as the plain messages that it is sent as, without anything of a provider's own."""
        plain = self.sent_to("", message)
        if with_reasoning and message.reasoning:
            plain[0]["reasoning_content"] = message.reasoning
        return plain

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        """Return a message as plain messages, with what this provider wants back and what any other would take.

        Readable reasoning is not among it: some servers reject it, and those that want it say so.
        """
        if message.role == "tool":
            return [{"role": "tool", "tool_call_id": each.id, "content": each.text} for each in message.tool_results]
        has_text = any(isinstance(part, TextPart) for part in message.parts)
        plain: Body = {"role": message.role, "content": message.text if has_text else None}
        if calls := message.tool_calls:
            plain["tool_calls"] = [_call(call, provider) for call in calls]
        elif not has_text:
            plain["content"] = ""  # no server takes a message without either
        for part in message.parts:
            if isinstance(part, OpaquePart) and part.provider == provider:
                plain |= part.block
        return [plain]


def _call(call: ToolCall, provider: str) -> Body:
    extras = call.extras if call.provider == provider else {}
    function = {"name": call.name, "arguments": call.arguments, **extras.get("function", {})}
    return {"id": call.id, "type": "function", **extras, "function": function}


CHAT: Final = ChatShapes()
