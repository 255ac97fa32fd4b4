"""Reading messages in any form, and whether a conversation is one that any provider takes.

Tool calls have three forms, and a result answers only a call of its own form:

* `call`: `tool_calls` answered by messages of role `tool`, also as a `Message`;
* `function`: the older `function_call` answered by role `function`, matched by the name of the
  tool;
* `block`: blocks in the content, `tool_use` answered by `tool_result` in a user message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import orjson
from attrs import field, frozen

from rungwise.fsm.call.conversation.plain import read_stored
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.replies.text.contents import is_blank

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

    # "system" (also for a developer), "user", "assistant", "tool" for results, or "" for none
    role: str
    has_text: bool = False
    calls: tuple[ReadCall, ...] = ()
    results: tuple[Key, ...] = ()  # the calls whose results it has
    speaks_first: bool = False


def read(message: PlainMessage | Message) -> ReadMessage:
    """Read a message; parts in no known form are ignored, and nothing raises."""
    message = read_stored(message, "a message")
    if isinstance(message, Message):
        calls = []
        for call in message.tool_calls:
            calls.append(ReadCall(key=("call", call.id), name=call.name, arguments=call.arguments))
        answered: list[Key] = [("call", each.id) for each in message.tool_results]
        return ReadMessage(
            role=message.role,
            has_text=not is_blank(message.text),
            calls=tuple(calls),
            results=tuple(answered),
        )
    if not isinstance(message, Mapping):
        return ReadMessage(role="")
    stated = message.get("role")
    has_text = _has_text(message.get("content"))
    role = ""
    if isinstance(stated, str):
        role = _ROLES.get(stated, "")
    if stated == "function":
        key: Key = ("function", _text(message.get("name")))
        return ReadMessage(role=role, has_text=has_text, results=(key,))
    if role == "tool":
        key = ("call", _text(message.get("tool_call_id", message.get("id"))))
        return ReadMessage(role=role, has_text=has_text, results=(key,))
    blocks = blocks_of(message)
    results: list[Key] = []
    for block in blocks:
        if is_result(block):
            results.append(("block", _text(block.get("tool_use_id"))))
    if role == "assistant":
        return ReadMessage(
            role=role, has_text=has_text, calls=tuple(_calls_in(message)), results=tuple(results)
        )
    if results:
        role = "tool"
    leading = blocks[: len(results)]
    return ReadMessage(
        role=role,
        has_text=has_text,
        results=tuple(results),
        speaks_first=not all(map(is_result, leading)),
    )


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
    if not isinstance(calls, list | tuple):
        calls = ()
    for call in calls:
        if not isinstance(call, Mapping):
            call = {}
        inner = call
        for name in ("custom", "function"):
            if isinstance(call.get(name), Mapping):
                inner = call[name]
        arguments = inner.get("arguments", inner.get("input"))
        id = _text(call.get("id"))
        yield ReadCall(key=("call", id), name=_text(inner.get("name")), arguments=arguments)
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
    return isinstance(content, list | tuple) and any(map(_shows_text, content))


def _shows_text(part: Any) -> bool:
    if isinstance(part, str):
        return not is_blank(part)
    if not isinstance(part, Mapping) or part.get("type") not in _TEXT_BLOCKS:
        return False
    return not is_blank(_text(part.get("text")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


LONGEST_NAME: Final = 64
NAME_FORM: Final = f"1 to {LONGEST_NAME} letters, digits, '_' or '-'"

_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{LONGEST_NAME}}}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")


def is_name(value: object) -> bool:
    """Tell whether every provider accepts a value as the name of a tool."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def as_name(text: str) -> str:
    """Return the valid name closest to a text, which may be anything that a model invented."""
    return _NOT_IN_NAMES.sub("_", text)[:LONGEST_NAME] or "_"


Messages = Sequence[PlainMessage | Message]
Problem = tuple[int, str]
"""The place of a message, and what is wrong with it."""


def problems_of(messages: Messages, *, callers: Messages = ()) -> tuple[str, ...]:
    """List what any provider would refuse in a conversation, by place and without quoting it.

    The system messages of the callers' own may stand anywhere.
    """
    reads = [read(message) for message in messages]
    problems: list[Problem] = []
    for index, message in enumerate(reads):
        problems += [(index, fault) for fault in _faults_of(message)]
    problems += _unpaired(reads)
    problems += _misplaced(messages, reads, callers)
    problems.sort(key=lambda problem: problem[0])
    return tuple([f"messages[{index}]: {fault}" for index, fault in problems])


def _faults_of(message: ReadMessage) -> Iterator[str]:
    if not message.role:
        yield "is no message of a known role"
    if message.role == "assistant" and not message.has_text and not message.calls:
        yield "an assistant's message has neither text nor tool calls"
    if message.role == "tool" and not message.results:
        yield "a tool's message holds no result"
    if message.role == "assistant" and message.results:
        yield "an assistant's message holds the result of a tool"
    elif message.speaks_first:
        yield "something else stands before the results of tools"
    seen: set[Key] = set()
    for number, call in enumerate(message.calls):
        yield from (f"tool call {number} {fault}" for fault in _faults_of_call(call, seen))
        seen.add(call.key)


def _faults_of_call(call: ReadCall, seen: set[Key]) -> Iterator[str]:
    if not call.key[1]:
        yield "has no id"
    elif call.key in seen:
        yield "has the id of another one of this message"
    if not is_name(call.name):
        yield f"has a name that is not made of 1 to {LONGEST_NAME} letters, digits, '_' and '-'"
    if not _is_object(call.arguments):
        yield "has arguments that are no JSON object"


def _is_object(arguments: Any) -> bool:
    if not isinstance(arguments, str):
        return isinstance(arguments, Mapping)
    try:
        return isinstance(orjson.loads(arguments), dict)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return False


def _unpaired(reads: Sequence[ReadMessage]) -> Iterator[Problem]:
    index = 0
    while index < len(reads):
        stop = answers_behind(reads, index)
        places: dict[Key, int] = {}
        for number, call in enumerate(reads[index].calls):
            places.setdefault(call.key, number)
        first = index if reads[index].role == "tool" else index + 1
        answered: set[Key] = set()
        for place in range(first, stop):
            yield from _misfits(place, reads[place].results, places, answered)
        for number, call in enumerate(reads[index].calls):
            if call.key not in answered:
                yield index, f"tool call {number} has no result right after it"
        index = stop


def _misfits(
    index: int, results: Iterable[Key], places: Mapping[Key, int], answered: set[Key]
) -> Iterator[Problem]:
    """Yield the results of a message that do not fit the calls before them.

    Arguments:
        index: the place of the message.
        results: the calls that its results answer.
        places: the calls before it, each with its number.
        answered: those that have a result already; this adds to them.
    """
    for number, key in enumerate(results):
        if key not in places:
            yield index, f"tool result {number} has no call right before it"
            continue
        if key in answered:
            yield index, f"tool result {number} is not the first one of its call"
        elif any(places[other] > places[key] for other in answered):
            yield index, f"tool result {number} stands in another order than the calls"
        answered.add(key)


def _misplaced(
    messages: Messages, reads: Sequence[ReadMessage], callers: Messages
) -> Iterator[Problem]:
    allowed = [message for message in callers if read(message).role == "system"]
    last = ""
    for index, current in enumerate(reads):
        if current.role != "system":
            if current.role == last == "assistant":
                yield index, "a second assistant's message in a row"
            last = current.role
        elif last and messages[index] not in allowed:
            yield index, "a system message in the middle that is not the caller's"
