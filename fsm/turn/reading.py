"""Reading a message in any form: its role, its tool calls and their results.

Tool calls have three forms, and a result answers only a call of its own form:

* `call`: `tool_calls` answered by messages of role `tool`, also as a `Message`;
* `function`: the older `function_call` answered by role `function`, matched by the name of the tool;
* `block`: blocks in the content, `tool_use` answered by `tool_result` in a user message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from attrs import field, frozen

from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.plain import read_stored
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.text.contents import is_blank

Form = Literal["call", "function", "block"]
Key = tuple[Form, str]
"""Identifies a call and its result: the form, and the id or the name."""

USE_BLOCK: Final = "tool_use"
RESULT_BLOCK: Final = "tool_result"
_TEXT_BLOCKS: Final = (None, "text", "input_text", "output_text")
_ROLES: Final[Mapping[str, str]] = {
    **{role: role for role in ("system", "user", "assistant", "tool")},
    "developer": "system",
    "function": "tool",
}


@frozen(kw_only=True)
class ReadCall:
    """Hold a tool call."""

    key: Key = field(repr=False)
    name: str = field(repr=False)
    arguments: Any = field(repr=False)


@frozen(kw_only=True)
class ReadMessage:
    """Hold what the turn needs to know of a message."""

    role: str  # "system" (also for a developer), "user", "assistant", "tool" for results, or "" for none
    has_text: bool = False
    calls: tuple[ReadCall, ...] = ()
    results: tuple[Key, ...] = ()  # the calls whose results it has
    speaks_first: bool = False


def read(message: PlainMessage | Message) -> ReadMessage:
    """Read a message; parts in no known form are ignored, and nothing raises."""
    message = read_stored(message, "a message")
    if isinstance(message, Message):
        own = [ReadCall(key=("call", each.id), name=each.name, arguments=each.arguments) for each in message.tool_calls]
        results: tuple[Key, ...] = tuple([("call", each.id) for each in message.tool_results])
        return ReadMessage(role=message.role, has_text=not is_blank(message.text), calls=tuple(own), results=results)
    if not isinstance(message, Mapping):
        return ReadMessage(role="")
    stated, has_text = message.get("role"), _has_text(message.get("content"))
    role = _ROLES.get(stated, "") if isinstance(stated, str) else ""
    if stated == "function":
        return ReadMessage(role=role, has_text=has_text, results=(("function", _text(message.get("name"))),))
    if role == "tool":
        answered = _text(message.get("tool_call_id", message.get("id")))
        return ReadMessage(role=role, has_text=has_text, results=(("call", answered),))
    blocks = blocks_of(message)
    results = tuple([("block", _text(each.get("tool_use_id"))) for each in blocks if is_result(each)])
    if role == "assistant":
        return ReadMessage(role=role, has_text=has_text, calls=tuple(_calls_in(message)), results=results)
    speaks_first = not all(is_result(each) for each in blocks[: len(results)])
    return ReadMessage(role="tool" if results else role, has_text=has_text, results=results, speaks_first=speaks_first)


def blocks_of(message: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the parts of a plain message's content; none if it is a text."""
    content = message.get("content")
    return tuple(content) if isinstance(content, list | tuple) else ()


def is_result(block: Any) -> bool:
    """Tell whether a part of the content is the result of a tool call."""
    return isinstance(block, Mapping) and block.get("type") == RESULT_BLOCK


def answers_behind(messages: Sequence[ReadMessage], index: int) -> int:
    """Return the place after the results that directly follow a message."""
    stop = index + 1
    while stop < len(messages) and messages[stop].role == "tool":
        stop += 1
    return stop


def _calls_in(message: Mapping[str, Any]) -> Iterator[ReadCall]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list | tuple) else ():
        call = call if isinstance(call, Mapping) else {}
        inner = next((call[name] for name in ("function", "custom") if isinstance(call.get(name), Mapping)), call)
        arguments = inner.get("arguments", inner.get("input"))
        yield ReadCall(key=("call", _text(call.get("id"))), name=_text(inner.get("name")), arguments=arguments)
    older = message.get("function_call")
    if isinstance(older, Mapping):
        name = _text(older.get("name"))
        yield ReadCall(key=("function", name), name=name, arguments=older.get("arguments"))
    for block in blocks_of(message):
        if isinstance(block, Mapping) and block.get("type") == USE_BLOCK:
            key: Key = ("block", _text(block.get("id")))
            yield ReadCall(key=key, name=_text(block.get("name")), arguments=block.get("input"))


def _has_text(content: Any) -> bool:
    if isinstance(content, str):
        return not is_blank(content)
    return any(map(_shows_text, content)) if isinstance(content, list | tuple) else False


def _shows_text(part: Any) -> bool:
    if isinstance(part, str):
        return not is_blank(part)
    if not isinstance(part, Mapping) or part.get("type") not in _TEXT_BLOCKS:
        return False
    return not is_blank(_text(part.get("text")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
