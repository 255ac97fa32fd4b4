"""The form of Ollama's chat: how messages and tools are written in it.

It resembles chat completions, but pictures are a member of the message, the arguments of a call are
an object, and results name their tool instead of an id.
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
    Part,
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
    """Read and write Ollama's chat."""

    __slots__ = ()

    SAYS = frozenset()

    def _own_format(self, parameters: Mapping[str, Any]) -> Any:
        if "format" not in parameters:
            return None
        return parameters["format"] or False

    def tool_of(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
    ) -> Body:
        return {"type": "function", "function": super().tool_of(name, description, parameters)}

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        function = tool.get("function")
        if not isinstance(function, Mapping) or tool.get("type", "function") != "function":
            return False
        return tool.keys() <= {"type", "function"} and function.keys() <= _TOOL_MEMBERS

    def is_own(self, message: PlainMessage) -> bool:
        """Tell whether a plain message can be sent unchanged.

        Results in other forms do not name their tool.
        """
        role = message.get("role")
        if role not in _ROLES or not message.keys() <= _MEMBERS:
            return False
        if not isinstance(message.get("content"), str | None):
            return False
        if role == "tool" and not message.get("tool_name"):
            return False
        calls = message.get("tool_calls") or ()
        return isinstance(calls, list | tuple) and all(map(_is_own_call, calls))

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return a plain message without reasoning that another model may have written."""
        if self.rules.keeps_reasoning or message.get("role") != "assistant":
            return message
        if "thinking" not in message:
            return message
        return {name: value for name, value in message.items() if name != "thinking"}

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        """Return a message as plain messages.

        Its reasoning goes along if this model wrote it, or wants any.
        """
        if message.role == "tool":
            return [*_results(message.tool_results)]
        plain = _message_of(message)
        own: list[Part] = []
        for part in message.parts:
            if isinstance(part, ReasoningPart):
                is_own = provider != "" and part.provider == provider
                if is_own or self.rules.keeps_reasoning:
                    own.append(part)
        if text := reasoning_of(own):
            plain["thinking"] = text
        # No ids: servers of earlier versions make none, and pair results with calls by name and
        # order.
        calls: list[Body] = []
        for call in message.tool_calls:
            function = {"name": call.name, "arguments": object_of(call.arguments)}
            calls.append({"function": function})
        if calls:
            plain["tool_calls"] = calls
        return [plain]


class _ReasonedOllama(_OllamaForm):
    """Write for a model that wants the reasoning of earlier turns back, from any model."""

    __slots__ = ()

    rules = Rules(keeps_reasoning=True)


def _is_own_call(call: Any) -> bool:
    """Tell whether a call has this form: no other members, and an object of arguments."""
    if not isinstance(call, Mapping) or not call.keys() <= _CALL_MEMBERS:
        return False
    function = call.get("function")
    if not isinstance(function, Mapping) or not function.keys() <= _FUNCTION_MEMBERS:
        return False
    return isinstance(function.get("arguments"), Mapping)


def _message_of(message: Message) -> Body:
    """Return text and pictures.

    Other media are named, so that the model can say that it did not get them.
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
    between = "" if message.role == "assistant" else "\n\n"
    plain: Body = {"role": message.role, "content": between.join(texts)}
    if images:
        plain["images"] = images
    return plain


def _results(results: Iterable[ToolResult]) -> Iterator[Body]:
    """Yield tool results.

    Their pictures, which templates have no place for there, follow as a user message.
    """
    media: list[MediaPart] = []
    for each in results:
        plain: Body = {"role": "tool"}
        if each.name:
            plain["tool_name"] = each.name
        plain["content"] = each.text
        yield plain
        media += each.media
    if media:
        yield _message_of(Message("user", media))


OLLAMA: Final = _OllamaForm()
REASONED: Final = _ReasonedOllama()
