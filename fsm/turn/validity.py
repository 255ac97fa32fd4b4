"""Whether a conversation is one that any provider takes, and the results that make it one again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from rungwise.fsm.call.parts import Message, ToolResult
from rungwise.fsm.call.request import PlainMessage
from rungwise.fsm.turn.reading import (
    RESULT_BLOCK,
    Key,
    ReadCall,
    ReadMessage,
    answers_behind,
    blocks_of,
    is_result,
    read,
)

Messages = Sequence[PlainMessage | Message]
Problem = tuple[int, str]
"""The place of a message, and what is wrong with it."""

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The names of tools that every provider takes."""


def problems_of(messages: Messages, *, given: Messages = ()) -> tuple[str, ...]:
    """Say what is wrong with a conversation, each with its place and never with a text of it.

    The strictest provider counts: what one of them refuses is wrong.

    Arguments:
        messages: the conversation.
        given: the caller's own messages, whose system messages may stand anywhere.
    """
    reads = [read(message) for message in messages]
    problems: list[Problem] = []
    for index, said in enumerate(reads):
        problems += [(index, each) for each in _faults_of(said)]
    problems += _unpaired(reads)
    problems += _misplaced(messages, reads, given)
    return tuple([f"messages[{index}]: {told}" for index, told in sorted(problems, key=lambda each: each[0])])


def paired(messages: Messages, text: str) -> tuple[PlainMessage | Message, ...]:
    """Return a conversation in which each tool call of the last assistant message has its result, in their order.

    A result that was missing is marked as a fault, and written in the form that its call has.

    Arguments:
        messages: the conversation.
        text: what the results say that were missing.
    """
    reads = [read(message) for message in messages]
    index = max((place for place, said in enumerate(reads) if said.role == "assistant"), default=-1)
    if index < 0:
        return tuple(messages)
    stop = answers_behind(reads, index)
    answered = {key for said in reads[index + 1 : stop] for key in said.results}
    calls = reads[index].calls
    if all(call.key in answered for call in calls):
        return tuple(messages)
    results = _in_order(calls, messages[index + 1 : stop], text)
    return (*messages[: index + 1], *results, *messages[stop:])


# what is wrong within one message


def _faults_of(said: ReadMessage) -> Iterator[str]:
    if not said.role:
        yield "is no message of a known role"
    if said.role == "assistant" and not said.has_text and not said.calls:
        yield "an assistant's message has neither text nor tool calls"
    if said.role == "tool" and not said.results:
        yield "a tool's message holds no result"
    if said.role == "assistant" and said.results:
        yield "an assistant's message holds the result of a tool"
    elif said.speaks_first:
        yield "something else stands before the results of tools"
    seen: set[Key] = set()
    for number, call in enumerate(said.calls):
        for told in _faults_of_call(call, seen):
            yield f"tool call {number} {told}"
        seen.add(call.key)


def _faults_of_call(call: ReadCall, seen: set[Key]) -> Iterator[str]:
    if not call.key[1]:
        yield "has no id"
    elif call.key in seen:
        yield "has the id of another one of this message"
    if not _NAME.fullmatch(call.name):
        yield "has a name that is not made of 1 to 64 letters, digits, '_' and '-'"
    if not _is_object(call.arguments):
        yield "has arguments that are no JSON object"


def _is_object(arguments: Any) -> bool:
    if not isinstance(arguments, str):
        return isinstance(arguments, Mapping)
    try:
        return isinstance(orjson.loads(arguments), dict)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return False


# what is wrong between messages


def _unpaired(reads: Sequence[ReadMessage]) -> Iterator[Problem]:
    index = 0
    while index < len(reads):
        stop = answers_behind(reads, index)
        start = index if reads[index].role == "tool" else index + 1
        places = {key: number for number, key in reversed([*enumerate(call.key for call in reads[index].calls)])}
        answered: set[Key] = set()
        for place in range(start, stop):
            yield from _misfits(place, reads[place].results, places, answered)
        for number, call in enumerate(reads[index].calls):
            if call.key not in answered:
                yield index, f"tool call {number} has no result right after it"
        index = stop


def _misfits(index: int, results: Iterable[Key], places: Mapping[Key, int], answered: set[Key]) -> Iterator[Problem]:
    for number, key in enumerate(results):
        if key not in places:
            yield index, f"tool result {number} has no call right before it"
            continue
        if key in answered:
            yield index, f"tool result {number} is not the first one of its call"
        elif any(places[other] > places[key] for other in answered):
            yield index, f"tool result {number} stands in another order than the calls"
        answered.add(key)


def _misplaced(messages: Messages, reads: Sequence[ReadMessage], given: Messages) -> Iterator[Problem]:
    allowed = [message for message in given if read(message).role == "system"]
    last = ""
    for index, said in enumerate(reads):
        if said.role != "system":
            if said.role == last == "assistant":
                yield index, "a second assistant's message in a row"
            last = said.role
        elif last and messages[index] not in allowed:
            yield index, "a system message in the middle that is not the caller's"


# the results that were missing


def _in_order(calls: Iterable[ReadCall], behind: Messages, text: str) -> list[PlainMessage | Message]:
    """Return one result for each call, in their order, made of those that are there, and what else stands there."""
    found: dict[Key, PlainMessage | Message] = {}
    rest: list[PlainMessage | Message] = []
    for single in [each for message in behind for each in _singles(message)]:
        keys = read(single).results
        if len(keys) == 1 and keys[0] not in found:
            found[keys[0]] = single
        else:
            rest.append(single)
    asked = {call.key: call for call in calls}
    ordered = [found.pop(key) if key in found else _missing(call, text) for key, call in asked.items()]
    return _joined([*ordered, *found.values(), *rest])


def _singles(message: PlainMessage | Message) -> list[PlainMessage | Message]:
    """Return a message of results as messages of one result each; other blocks beside them are the last one."""
    if isinstance(message, Message):
        return [Message("tool", (part,)) for part in message.parts]
    blocks = blocks_of(message)
    if message.get("role") != "user":
        return [message]
    results = [{**message, "content": [block]} for block in blocks if is_result(block)]
    others = [block for block in blocks if not is_result(block)]
    return [*results, {**message, "content": others}] if others else [*results]


def _missing(call: ReadCall, text: str) -> PlainMessage | Message:
    form, identifier = call.key
    if form == "function":
        return {"role": "function", "name": call.name, "content": text}
    if form == "block":
        block = {"type": RESULT_BLOCK, "tool_use_id": identifier, "content": text, "is_error": True}
        return {"role": "user", "content": [block]}
    return Message("tool", (ToolResult(identifier, call.name, text, is_fault=True),))


def _joined(messages: Iterable[PlainMessage | Message]) -> list[PlainMessage | Message]:
    """Join results that stand side by side where one message may hold several, as providers of blocks demand."""
    joined: list[PlainMessage | Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if isinstance(message, Message) and isinstance(last, Message):
            joined[-1] = Message("tool", (*last.parts, *message.parts))
        elif isinstance(message, Mapping) and isinstance(last, Mapping) and message["role"] == last["role"] == "user":
            joined[-1] = {**last, "content": [*last["content"], *message["content"]]}
        else:
            joined.append(message)
    return joined
