"""Manners of saying the text and the calls of a reply."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

import orjson
from attrs import evolve

from rungwise.adapters.gateway.languages.language import Completion, input_of
from rungwise.adapters.provider.manners.events import Events, WireEvent
from rungwise.adapters.provider.manners.places import (
    ARGUMENTS,
    CHOICE,
    CHUNK_CALL,
    TEXT,
    Places,
    found,
    holders,
    put,
)
from rungwise.adapters.provider.manners.speech import Change, Speech

EDGES: Final = ("content_block_start", "content_block_stop")


def snapshots_of(places: Places) -> Change:
    """Return the manner of sending all so far with each piece."""

    def change(events: Events, speech: Speech) -> Events:
        place = places[speech.api]
        so_far: dict[Any, str] = defaultdict(str)
        for number, item, piece in list(place.pieces(events)):
            so_far[item] += piece
            put(events[number].value, place.where, so_far[item])
        return events

    return change


def again_of(places: Places) -> Change:
    """Return the manner of sending all once more behind the pieces."""

    def change(events: Events, speech: Speech) -> Events:
        place = places[speech.api]
        last = {item: number for number, item, _ in place.pieces(events)}
        for item, whole in reversed(place.wholes(events).items()):
            copy = events[last[item]].copy()
            put(copy.value, place.where, whole)
            events.insert(last[item] + 1, copy)
        return events

    return change


def arguments_in_objects(events: Events, speech: Speech) -> Events:
    """Send arguments as objects: in a stream, one for each member."""
    if not speech.request.streams:
        for call in _holders(events, "arguments"):
            call["arguments"] = input_of(call["arguments"])
        return events
    place = ARGUMENTS[speech.api]
    objects = {item: input_of(whole) for item, whole in place.wholes(events).items()}
    said: list[WireEvent] = []
    for event in events:
        members = objects.get(place.item_of(event))
        if not place.piece_in(event) or not isinstance(members, dict):
            said.append(event)
            continue
        while members:  # which the first piece takes
            name = next(iter(members))
            said.append(event.copy())
            put(said[-1].value, place.where, {name: members.pop(name)})
    return said


def arguments_in_text(events: Events, speech: Speech) -> Events:
    """Send arguments as text where the protocol has an object."""
    for call in _holders(events, "arguments"):
        if isinstance(call["arguments"], dict):
            call["arguments"] = orjson.dumps(call["arguments"]).decode()
    return events


def _holders(events: Events, name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a reply with a member of this name."""
    return chain.from_iterable(holders(event.value, name) for event in events)


def without_arguments(answer: Completion) -> Completion:
    """Give a call that has no arguments an empty text instead of an empty object."""
    calls = []
    for call in answer.tool_calls:
        calls.append(evolve(call, arguments="") if call.arguments == "{}" else call)
    return evolve(answer, tool_calls=tuple(calls))


def with_null_arguments(events: Events, speech: Speech) -> Events:
    """Say null for arguments that are empty."""
    for call in _holders(events, "arguments"):
        call["arguments"] = call["arguments"] or None
    return events


def without_empty_args(events: Events, speech: Speech) -> Events:
    """Leave out arguments that are an empty object."""
    for call in _holders(events, "args"):
        if not call["args"]:
            del call["args"]
    return events


def calls_twice(answer: Completion) -> Completion:
    """Deliver each call twice."""
    twice = [(call, call) for call in answer.tool_calls]
    return evolve(answer, tool_calls=tuple(chain.from_iterable(twice)))


def names_in_fragments(events: Events, speech: Speech) -> Events:
    """Send the name of a call in two pieces."""
    said: list[WireEvent] = []
    for event in events:
        said.append(event)
        call = found(event.value, CHUNK_CALL)
        name = found(call, ("function", "name")) or ""
        half = len(name) // 2
        if half:
            call["function"]["name"] = name[:half]
            rest = {"index": call["index"], "function": {"name": name[half:]}}
            said.append(event.copy())
            put(said[-1].value, CHUNK_CALL, rest)
    return said


def input_at_the_start(events: Events, speech: Speech) -> Events:
    """Send the whole input of a call with the start of its block, and one empty delta behind it."""
    place = ARGUMENTS[speech.api]
    wholes = place.wholes(events)
    for event in events:
        whole = wholes.get(place.item_of(event))
        if whole and event.name == "content_block_start":
            event.value["content_block"]["input"] = input_of(whole)
    return [event for event in events if not place.piece_in(event)]


def without_blocks(events: Events, speech: Speech) -> Events:
    """Leave out how blocks of text and reasoning begin and end."""
    place = ARGUMENTS[speech.api]
    calls = place.wholes(events)
    return [event for event in events if event.name not in EDGES or place.item_of(event) in calls]


def with_message_at_the_end(events: Events, speech: Speech) -> Events:
    """Send the whole message with the finish reason."""
    whole = orjson.loads(speech.language.whole(speech.answer, speech.request))
    message = found(whole, (*CHOICE, "message"))
    for event in events:
        choice = found(event.value, CHOICE)
        if message and found(choice, ("finish_reason",)):
            choice["message"] = message
    return events


def with_announced_text(events: Events, speech: Speech) -> Events:
    """Say a text in the announcement of its block or item, too."""
    wholes = TEXT[speech.api].wholes(events)
    for event in events:
        text = wholes.get(TEXT[speech.api].item_of(event))
        for part in _announced_in(event.value) if text else ():
            part["text"] = text
    return events


def _announced_in(value: Any) -> list[dict[str, Any]]:
    """Return the parts with a text in an announcement, none of which has any yet."""
    kind = found(value, ("type",))
    if kind == "response.output_item.added" and value["item"]["type"] == "message":
        value["item"]["content"] = [{"type": "output_text"}]
        return list(value["item"]["content"])
    names = {"response.content_part.added": "part", "content_block_start": "content_block"}
    part = found(value, (names.get(kind, ""),)) or {}
    return [part] if part.get("type") in ("text", "output_text") else []


def with_calls_in_another_choice(events: Events, speech: Speech) -> Events:
    """Say the calls of a message in a choice of their own."""
    for event in events:
        if found(event.value, CHUNK_CALL):
            event.value["choices"][0]["index"] = 1
        message = found(event.value, (*CHOICE, "message"))
        if found(message, ("tool_calls",)):
            choice = {**event.value["choices"][0], "index": 1}
            choice["message"] = {"role": "assistant", "tool_calls": message.pop("tool_calls")}
            event.value["choices"].append(choice)
    return events
