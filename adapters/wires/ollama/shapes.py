"""The form of Ollama's chat: how the core reads it, and how messages and tools are written in
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rungwise.adapters.wires.form import Body, Form, Rules
from rungwise.adapters.wires.json_text import object_of
from rungwise.fsm.call.conversation.plain import in_words
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import (
    MediaPart,
    Message,
    ReasoningPart,
    TextPart,
    ToolResult,
    reasoning_of,
)

_ROLES: Final = ("system", "user", "assistant", "tool")
_MEMBERS: Final = frozenset(
    {"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"}
)
_CALL_MEMBERS: Final = frozenset({"id", "function"})
_FUNCTION_MEMBERS: Final = frozenset({"index", "name", "arguments"})
_TOOL_MEMBERS: Final = frozenset({"name", "description", "parameters"})


class _OllamaForm(Form):
    __slots__ = ()

    SAYS = frozenset()

    def _own_format(self, parameters: Mapping[str, Any]) -> Any:
        return (parameters["format"] or False) if "format" in parameters else None

    def tool_of(self, name: str, description: str, parameters: Mapping[str, Any]) -> Body:
        return {"type": "function", "function": super().tool_of(name, description, parameters)}

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        function = tool.get("function")
        if not isinstance(function, Mapping) or tool.get("type", "function") != "function":
            return False
        return tool.keys() <= {"type", "function"} and function.keys() <= _TOOL_MEMBERS

    def is_own(self, message: PlainMessage) -> bool:
        """Tell whether a plain message can be sent unchanged; results in other forms do not name
        their tool.
        """
        role = message.get("role")
        content = message.get("content")
        calls = message.get("tool_calls") or ()
        if (
            role not in _ROLES
            or not message.keys() <= _MEMBERS
            or not isinstance(content, str | None)
        ):
            return False
        if role == "tool" and not message.get("tool_name"):
            return False
        return isinstance(calls, list | tuple) and all(map(_is_own_call, calls))

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return a plain message without reasoning that another model may have written."""
        if (
            self.rules.keeps_reasoning
            or message.get("role") != "assistant"
            or "thinking" not in message
        ):
            return message
        return {name: value for name, value in message.items() if name != "thinking"}

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        """Return a message as plain messages, with its reasoning if this model wrote it or wants
        any.
        """
        if message.role == "tool":
            return [*_results(message.tool_results)]
        plain = _message_of(message)
        thoughts = [part for part in message.parts if isinstance(part, ReasoningPart)]
        own = [
            part
            for part in thoughts
            if self.rules.keeps_reasoning or part.provider == provider != ""
        ]
        if text := reasoning_of(own):
            plain["thinking"] = text
        if calls := message.tool_calls:
            # No ids: servers of earlier versions make none, and pair results with calls by name and
            # order.
            plain["tool_calls"] = [
                {"function": {"name": call.name, "arguments": object_of(call.arguments)}}
                for call in calls
            ]
        return [plain]


class _ReasonedOllama(_OllamaForm):
    """Write for a model that wants the reasoning of earlier turns back, from any model."""

    __slots__ = ()

    rules = Rules(keeps_reasoning=True)


def _is_own_call(call: Any) -> bool:
    function = (
        call.get("function") if isinstance(call, Mapping) and call.keys() <= _CALL_MEMBERS else None
    )
    return (
        isinstance(function, Mapping)
        and function.keys() <= _FUNCTION_MEMBERS
        and isinstance(function.get("arguments"), Mapping)
    )


def _message_of(message: Message) -> Body:
    """Return text and pictures; other media are named, so that the model can say that it did not
    get them.
    """
    texts: list[str] = []
    images: list[str] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            texts.append(part.text)
        elif isinstance(part, MediaPart) and part.kind == "image" and part.data:
            images.append(part.data)
        elif isinstance(part, MediaPart):
            texts.append(in_words(part))
    # The blocks of an answer are pieces of one text; the parts of a caller's message are not.
    content = ("" if message.role == "assistant" else "\n\n").join(texts)
    return {"role": message.role, "content": content, **({"images": images} if images else {})}


def _results(results: Iterable[ToolResult]) -> Iterator[Body]:
    """Yield tool results; pictures, which templates have no place for there, follow as a user
    message.
    """
    media: list[MediaPart] = []
    for each in results:
        tool_name = {"tool_name": each.name} if each.name else {}
        yield {"role": "tool", **tool_name, "content": each.text}
        media += each.media
    if media:
        yield _message_of(Message("user", media))


OLLAMA: Final = _OllamaForm()
REASONED: Final = _ReasonedOllama()
