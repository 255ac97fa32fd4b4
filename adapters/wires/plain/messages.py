"""Read messages in any form.

The common form is that of chat completions, whose types of parts each wire declares (`Wire.parts`).
Wires with messages of another shape declare readers for them (`Wire.messages`). Each message shows
its form by itself, and a conversation may mix forms. Nothing raises: an unknown form becomes a part
that is sent to no provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

from rungwise.adapters.wires.plain.parts import (
    inner_of,
    json_of,
    list_of,
    media,
    result_of,
    text_in,
)
from rungwise.adapters.wires.registry import WIRES
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import (
    MediaPart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
)

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
    """Yield the messages that belong together, as they are and in neutral parts.

    Nearly always that is one message. Only Responses write one answer as several items in a row: a
    message without a role is such an item.
    """
    together: list[PlainMessage | Message] = []
    row: list[Message] = []  # the same in neutral parts, to be joined into one answer
    was_item = False  # whether the message before was an item
    for message in messages:
        if isinstance(message, Message):
            is_item = False
            neutral: tuple[Message, ...] = (message,)
            # A neutral message is a turn of its own. After calls it is the next one, as their
            # results come between.
            begins_turn = bool(row) and bool(row[-1].tool_calls)
        else:
            is_item = "role" not in message
            neutral = read_message(message)
            begins_turn = False
        is_one_answer = (is_item or was_item) and _is_answer(row[-1:]) and _is_answer(neutral)
        if begins_turn or not is_one_answer:
            if together:
                yield together, _joined(row)
            together = []
            row = []
        together.append(message)
        row += neutral
        was_item = is_item
    if together:
        yield together, _joined(row)


def ids_in(message: PlainMessage | Message) -> tuple[list[str], list[str]]:
    """Return the ids of the tool calls and of the tool results in a message of any form."""
    if not isinstance(message, Message) and isinstance(message.get("content"), str):
        # The two forms that most messages have are not worth reading for this.
        role = message.get("role")
        if message.keys() == {"role", "content"} and role not in ("tool", "function"):
            return [], []
        answered = text_in(message, "tool_call_id")
        if len(message) == 3 and role == "tool" and answered:
            return [], [answered]
    called: list[str] = []
    answers: list[str] = []
    for read in read_messages((message,)):
        called += [call.id for call in read.tool_calls]
        answers += [result.id for result in read.tool_results]
    return called, answers


def role_of_item(message: PlainMessage) -> Role | None:
    """Return the role of a message without one; None if no wire declares items of its type."""
    if str(message.get("type")) not in _readers("items"):
        return None
    return read_message(message)[-1].role


def _is_answer(messages: Sequence[Message]) -> bool:
    return len(messages) == 1 and messages[0].role == "assistant"


def _joined(row: Sequence[Message]) -> tuple[Message, ...]:
    if len(row) < 2 or not all(each.role == "assistant" for each in row):
        return tuple(row)
    return (Message("assistant", [part for each in row for part in each.parts]),)


def read_message(message: PlainMessage) -> tuple[Message, ...]:
    """Return one plain message in neutral parts."""
    readers = _readers("messages")
    if "role" not in message:
        kind = str(message.get("type"))
        return tuple(_readers("items").get(kind, readers[""])(message))
    for member in readers.keys() & message.keys():
        return tuple(readers[member](message))
    role = _ROLES.get(message["role"], "user")
    if role == "tool":
        tool = text_in(message, "name", "tool_name")
        id = text_in(message, "tool_call_id", "id")
        if not id and message["role"] == "function":
            id = tool  # calls of functions, OpenAI's older form of tools, have no other id
        result = result_of(id, tool, parts_of(message.get("content")))
        return (Message("tool", (result,)),)
    return split(role, _parts(role, message))


def split(role: Role, parts: Iterable[Part]) -> tuple[Message, ...]:
    """Return a message, and before it a message with the tool results among its parts.

    Only an assistant calls tools: calls in a message of any other role are dropped.
    """
    results: list[ToolResult] = []
    rest: list[Part] = []
    for part in parts:
        if isinstance(part, ToolResult):
            results.append(part)
        elif role == "assistant" or not isinstance(part, ToolCall):
            rest.append(part)
    messages: list[Message] = []
    if results:
        messages.append(Message("tool", tuple(results)))
    if rest or not results:
        messages.append(Message(role, tuple(rest)))
    return tuple(messages)


def _parts(role: Role, message: PlainMessage) -> Iterator[Part]:
    """Yield the parts of a message in the common form, in the order that a model writes them."""
    if role == "assistant":
        yield from _thoughts(message)
    yield from parts_of(message.get("content"))
    for image in list_of(message.get("images")):  # base64, without a type
        if isinstance(image, str) and (media_part := media("image", data=image)):
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
    """Yield the reasoning of an answer: one text, or else LiteLLM's or OpenRouter's blocks."""
    for name in _REASONING:
        text = message.get(name)
        if isinstance(text, str) and text:
            yield ReasoningPart(text)
            return
    blocks = list_of(message.get("thinking_blocks")) or list_of(message.get("reasoning_details"))
    for block in blocks:
        text = text_in(block, "thinking", "text", "summary")
        if text:
            yield ReasoningPart(text)


def _call(call: Mapping[str, Any]) -> ToolCall:
    """Read a call of a tool that takes an object or free text."""
    inner = inner_of(call, "function", "custom")
    arguments = inner.get("arguments")
    if arguments is None and isinstance(inner.get("input"), str):  # a tool that takes free text
        arguments = {"input": inner["input"]}
    return ToolCall(text_in(call, "id"), text_in(inner, "name"), json_of(arguments))


def parts_of(content: Any) -> Iterator[Part]:
    """Yield the parts of a content, which may be a text, one part, or a list of parts."""
    if isinstance(content, str):
        if content:
            yield TextPart(content)
    elif isinstance(content, Mapping):
        yield from _read(content)
    elif isinstance(content, list | tuple):
        for block in content:
            if isinstance(block, str):
                yield TextPart(block)
            elif isinstance(block, Mapping):
                yield from _read(block)


def _read(block: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts in one part.

    What no wire reads stays unchanged, and goes to no other provider.
    """
    part: Part | tuple[Part, ...] | None = None
    if "text" not in block and is_untyped(block):
        ((name, inner),) = block.items()
        if isinstance(inner, Mapping):
            part = _readers("untyped_parts")[name](inner)
    else:
        read = _readers("parts").get(str(block.get("type", "text")))
        if read:
            part = read(block)
    part = part or OpaquePart("", block)
    return part if isinstance(part, tuple) else (part,)


def read_passage(block: Mapping[str, Any]) -> Part:
    """Read a passage that the caller has found: its title, where it stands, and its text."""
    lines = [text_in(block, "title"), text_in(block, "source")]
    for part in parts_of(block.get("content")):
        if isinstance(part, TextPart):
            lines.append(part.text)
    return TextPart("\n".join(filter(None, lines)))


def readable(block: Any) -> list[Part]:
    """Return the texts and media in a provider's own part that any other provider can read.

    The part does not say in which protocol it was written. So it is read as content of each form,
    and as a message of its own, as Responses have them; only the right one has anything to show.
    """
    if not isinstance(block, Mapping):
        return []
    tries: list[PlainMessage] = []
    for member in ("content", *_readers("messages")):
        if member:
            tries.append({"role": "assistant", member: [block]})
    if "role" not in block:
        tries.append(block)
    parts: list[Part] = []
    for message in read_messages(tries):
        parts += [part for part in message.parts if isinstance(part, TextPart | MediaPart)]
    return parts


def is_untyped(block: Mapping[str, Any]) -> bool:
    """Tell whether a part has no type, but one member that says what it is."""
    return len(block) == 1 and not _readers("untyped_parts").keys().isdisjoint(block)


@cache
def _readers(
    field: Literal["messages", "items", "parts", "untyped_parts"],
) -> Mapping[str, Callable[..., Any]]:
    """Return the readers that all wires declare in a field, by member or type."""
    readers: dict[str, Callable[..., Any]] = {}
    for wire in WIRES.values():
        readers.update(getattr(wire, field))
    return readers
