"""Whether a conversation is one that any provider takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.turn.reading import Key, ReadCall, ReadMessage, answers_behind, read

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
    own = [(index, fault) for index, message in enumerate(reads) for fault in _faults_of(message)]
    problems = [*own, *_unpaired(reads), *_misplaced(messages, reads, callers)]
    return tuple([f"messages[{index}]: {fault}" for index, fault in sorted(problems, key=lambda each: each[0])])


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
        places = {key: number for number, key in reversed([*enumerate(call.key for call in reads[index].calls)])}
        answered: set[Key] = set()
        for place in range(index if reads[index].role == "tool" else index + 1, stop):
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


def _misplaced(messages: Messages, reads: Sequence[ReadMessage], callers: Messages) -> Iterator[Problem]:
    allowed = [message for message in callers if read(message).role == "system"]
    last = ""
    for index, current in enumerate(reads):
        if current.role != "system":
            if current.role == last == "assistant":
                yield index, "a second assistant's message in a row"
            last = current.role
        elif last and messages[index] not in allowed:
            yield index, "a system message in the middle that is not the caller's"
