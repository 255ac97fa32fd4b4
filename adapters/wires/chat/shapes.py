"""The form of chat completions: what the core reads of it, and how a turn is written in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.fsm.call.parts import OpaquePart, TextPart, ToolCall, Turn
from rungwise.fsm.call.shapes import Shapes

Body = dict[str, Any]

_TOOL_RESULTS: Final = ("tool_result", "function_call_output")
_JSON_PARAMETERS: Final = ("guided_json", "json_schema")
"""What older vLLM and llama.cpp's server call a schema that the answer must fit."""


class ChatShapes(Shapes):
    """Read and write chat completions."""

    __slots__ = ()

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

    def message_of(self, turn: Turn, *, with_reasoning: bool = False) -> Body:
        """Return a turn as a message, without anything of a provider's own."""
        return self.sent_to("", turn) | (
            {"reasoning_content": turn.reasoning} if with_reasoning and turn.reasoning else {}
        )

    def sent_to(self, provider: str, turn: Turn) -> Body:
        """Return a turn as a message, with what this provider wants back and what any other would take.

        Readable reasoning is not among it: some servers reject it, and those that want it say so.
        """
        has_text = any(isinstance(part, TextPart) for part in turn.parts)
        message: Body = {"role": turn.role, "content": turn.text if has_text else None}
        if calls := turn.tool_calls:
            message["tool_calls"] = [_call(call, provider) for call in calls]
        elif not has_text:
            message["content"] = ""  # no server takes a message without either
        for part in turn.parts:
            if isinstance(part, OpaquePart) and part.provider == provider:
                message |= part.block
        return message


def _call(call: ToolCall, provider: str) -> Body:
    extras = call.extras if call.provider == provider else {}
    function = {"name": call.name, "arguments": call.arguments, **extras.get("function", {})}
    return {"id": call.id, "type": "function", **extras, "function": function}


CHAT: Final = ChatShapes()
