"""Read messages in any form: chat completions, Anthropic's blocks, Ollama's, Gemini's contents, items.

Each message shows its form by itself, and a conversation may mix forms. Nothing raises: an unknown form
becomes a part that is sent to no provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rungwise.adapters.wires.plain.blocks import parts_of
from rungwise.adapters.wires.plain.contents import read_content
from rungwise.adapters.wires.plain.parts import json_of, list_of, picture, result_of, split, text_in
from rungwise.fsm.call.conversation.parts import (
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
)
from rungwise.fsm.call.conversation.request import PlainMessage


def read_item(item: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return an item in neutral parts; an item that only its provider can read goes to no other."""
    kind = item.get("type")
    if kind in ("function_call", "custom_tool_call"):
        arguments = item.get("arguments") if kind == "function_call" else {"input": item.get("input")}
        id = text_in(item, "call_id", "id")
        return (Message("assistant", (ToolCall(id, text_in(item, "name"), json_of(arguments)),)),)
    if kind in ("function_call_output", "custom_tool_call_output"):
        result = result_of(text_in(item, "call_id"), text_in(item, "name"), parts_of(item.get("output")))
        return (Message("tool", (result,)),)
    if kind == "reasoning":
        texts = [text_in(part, "text") for part in (*list_of(item.get("summary")), *list_of(item.get("content")))]
        return (Message("assistant", (ReasoningPart("\n\n".join(filter(None, texts))),)),)
    return (Message("assistant", (OpaquePart("", item),)),)


_ROLES: Final[Mapping[object, Role]] = {
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_REASONING: Final = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
"""The members of a message that may hold readable reasoning; the first that has any counts."""


def read_messages(messages: Iterable[PlainMessage | Message]) -> tuple[Message, ...]:
    """Return a conversation in neutral parts; tool results become messages of their own."""
    return tuple([message for _, read in read_together(messages) for message in read])


def read_together(
    messages: Iterable[PlainMessage | Message],
) -> Iterator[tuple[list[PlainMessage | Message], tuple[Message, ...]]]:
    """Yield the messages that belong together in both forms: consecutive items of Responses are one answer."""
    together: list[PlainMessage | Message] = []
    row: list[Message] = []  # what is to be one
    goes_on = False  # the last one is an item
    for message in messages:
        is_item = not isinstance(message, Message) and "role" not in message
        neutral = (message,) if isinstance(message, Message) else read_message(message)
        # A neutral message is its own turn; after calls it is the next one, as their results come between.
        is_next = isinstance(message, Message) and bool(row) and bool(row[-1].tool_calls)
        if is_next or not (is_item or goes_on) or not _is_answer(row[-1:]) or not _is_answer(neutral):
            if together:
                yield together, _joined(row)
            together, row = [], []
        together.append(message)
        row += neutral
        goes_on = is_item
    if together:
        yield together, _joined(row)


def ids_in(message: PlainMessage | Message) -> tuple[list[str], list[str]]:
    """Return the ids of the tool calls and of the tool results in a message of any form."""
    if not isinstance(message, Message) and isinstance(message.get("content"), str):
        # Most messages are not worth reading for this.
        answered = message.get("tool_call_id")
        if message.keys() == {"role", "content"} and message["role"] not in ("tool", "function"):
            return [], []
        if len(message) == 3 and message.get("role") == "tool" and isinstance(answered, str) and answered:
            return [], [answered]
    read = read_messages((message,))
    called = [call.id for each in read for call in each.tool_calls]
    return called, [result.id for each in read for result in each.tool_results]


def _is_answer(messages: Sequence[Message]) -> bool:
    return len(messages) == 1 and messages[0].role == "assistant"


def _joined(row: Sequence[Message]) -> tuple[Message, ...]:
    if len(row) < 2 or not all(each.role == "assistant" for each in row):
        return tuple(row)
    return (Message("assistant", [part for each in row for part in each.parts]),)


def read_message(message: PlainMessage) -> tuple[Message, ...]:
    """Return one plain message in neutral parts."""
    if "role" not in message:
        return read_item(message)
    if "parts" in message:
        return read_content(message)
    role = _ROLES.get(message["role"], "user")
    if role == "tool":
        return (Message("tool", (_result(message),)),)
    return split(role, _parts(role, message))


def _parts(role: Role, message: PlainMessage) -> Iterator[Part]:
    if role == "assistant":
        yield from _thoughts(message)
    yield from parts_of(message.get("content"))
    for image in list_of(message.get("images")):  # Ollama's: base64, without a type
        if isinstance(image, str) and (media_part := picture(image)):
            yield media_part
    if role != "assistant":
        return
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        yield TextPart(refusal)
    for call in list_of(message.get("tool_calls")):
        if isinstance(call, Mapping):
            yield _call(call)
    older = message.get("function_call")
    if isinstance(older, Mapping):
        yield _call({"id": older.get("name"), "function": older})


def _thoughts(message: PlainMessage) -> Iterator[Part]:
    for name in _REASONING:
        text = message.get(name)
        if isinstance(text, str) and text:
            yield ReasoningPart(text)
            return
    for block in list_of(message.get("thinking_blocks")) or list_of(message.get("reasoning_details")):
        text = text_in(block, "thinking", "text", "summary")
        if text:
            yield ReasoningPart(text)


def _call(call: Mapping[str, Any]) -> ToolCall:
    inner = next((call[name] for name in ("function", "custom") if isinstance(call.get(name), Mapping)), call)
    arguments = inner.get("arguments")
    if arguments is None and isinstance(inner.get("input"), str):  # a tool that takes free text
        arguments = {"input": inner["input"]}
    return ToolCall(text_in(call, "id"), text_in(inner, "name"), json_of(arguments))


def _result(message: PlainMessage) -> ToolResult:
    named = text_in(message, "name", "tool_name")
    id = text_in(message, "tool_call_id", "id") or (named if message["role"] == "function" else "")
    parts = tuple(parts_of(message.get("content")))
    return result_of(id, named, parts)
