"""Read messages in any form: the common one, whose parts each wire declares, and the forms that
wires declare.

Each message shows its form by itself, and a conversation may mix forms. Nothing raises: an unknown
form becomes a part that is sent to no provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

from rungwise.adapters.wires.plain.parts import json_of, list_of, media, result_of, text_in
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
    """Yield the messages that belong together in both forms: consecutive items of Responses are one
    answer.
    """
    together: list[PlainMessage | Message] = []
    row: list[Message] = []  # what is to be one
    goes_on = False  # the last one is an item
    for message in messages:
        is_item = not isinstance(message, Message) and "role" not in message
        neutral = (message,) if isinstance(message, Message) else read_message(message)
        # A neutral message is its own turn; after calls it is the next one, as their results come
        # between.
        is_next = isinstance(message, Message) and bool(row) and bool(row[-1].tool_calls)
        if (
            is_next
            or not (is_item or goes_on)
            or not _is_answer(row[-1:])
            or not _is_answer(neutral)
        ):
            if together:
                yield together, _joined(row)
            together = []
            row = []
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
        if (
            len(message) == 3
            and message.get("role") == "tool"
            and isinstance(answered, str)
            and answered
        ):
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
    readers = _readers("messages")
    if "role" not in message:
        return tuple(readers[""](message))
    for member in readers.keys() & message.keys():
        return tuple(readers[member](message))
    role = _ROLES.get(message["role"], "user")
    if role == "tool":
        named = text_in(message, "name", "tool_name")
        id = text_in(message, "tool_call_id", "id") or (
            named if message["role"] == "function" else ""
        )
        return (Message("tool", (result_of(id, named, tuple(parts_of(message.get("content")))),)),)
    return split(role, _parts(role, message))


def split(role: Role, parts: Iterable[Part]) -> tuple[Message, ...]:
    """Return a message, and before it a message with the tool results among its parts."""
    parts = tuple(parts)
    results = tuple([part for part in parts if isinstance(part, ToolResult)])
    rest = tuple([part for part in parts if not isinstance(part, ToolResult)])
    if role != "assistant":
        rest = tuple([part for part in rest if not isinstance(part, ToolCall)])
    first = (Message("tool", results),) if results else ()
    return (*first, Message(role, rest)) if rest or not results else first


def _parts(role: Role, message: PlainMessage) -> Iterator[Part]:
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
    yield from (
        _call(call) for call in list_of(message.get("tool_calls")) if isinstance(call, Mapping)
    )
    older = message.get("function_call")
    if isinstance(older, Mapping):
        yield _call({"id": older.get("name"), "function": older})


def _thoughts(message: PlainMessage) -> Iterator[Part]:
    for name in _REASONING:
        text = message.get(name)
        if isinstance(text, str) and text:
            yield ReasoningPart(text)
            return
    for block in list_of(message.get("thinking_blocks")) or list_of(
        message.get("reasoning_details")
    ):
        text = text_in(block, "thinking", "text", "summary")
        if text:
            yield ReasoningPart(text)


def _call(call: Mapping[str, Any]) -> ToolCall:
    inner = next(
        (call[name] for name in ("function", "custom") if isinstance(call.get(name), Mapping)), call
    )
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
    """Return the parts in one part; what no wire reads stays unchanged, and goes to no other
    provider.
    """
    if "text" not in block and is_untyped(block):
        ((name, inner),) = block.items()
        part = _readers("untyped_parts")[name](inner) if isinstance(inner, Mapping) else None
    else:
        read = _readers("parts").get(str(block.get("type", "text")))
        part = read(block) if read else None
    part = part or OpaquePart("", block)
    return part if isinstance(part, tuple) else (part,)


def read_passage(block: Mapping[str, Any]) -> Part:
    """Read a passage that the caller has found: its title, where it stands, and its text."""
    texts = [part.text for part in parts_of(block.get("content")) if isinstance(part, TextPart)]
    return TextPart(
        "\n".join(filter(None, (text_in(block, "title"), text_in(block, "source"), *texts)))
    )


def readable(block: Any) -> list[Part]:
    """Return the texts and media in a provider's own part, in whichever form, that any other can
    read as well.
    """
    if not isinstance(block, Mapping):
        return []
    places = [
        {"role": "assistant", name: [block]} for name in ("content", *_readers("messages")) if name
    ]
    read = read_messages([*places, *([] if "role" in block else [block])])
    return [
        part for message in read for part in message.parts if isinstance(part, TextPart | MediaPart)
    ]


def is_untyped(block: Mapping[str, Any]) -> bool:
    """Tell whether a part has no type, but one member that says what it is."""
    return len(block) == 1 and not _readers("untyped_parts").keys().isdisjoint(block)


@cache
def _readers(
    field: Literal["messages", "parts", "untyped_parts"],
) -> Mapping[str, Callable[..., Any]]:
    return {name: read for wire in WIRES.values() for name, read in getattr(wire, field).items()}
