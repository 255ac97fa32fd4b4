"""Manners of saying the text and the calls of a reply."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any

import orjson
from attrs import evolve

from rungwise.adapters.gateway.languages.language import Completion, input_of
from rungwise.adapters.provider.manners.events import Events, WireEvent
from rungwise.adapters.provider.manners.places import (
    ARGUMENTS,
    CALLS,
    CHUNK_CALL,
    Places,
    found,
    put,
)
from rungwise.adapters.provider.manners.speech import Change, Speech


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
        for call in _calls(events, speech):
            call["function"]["arguments"] = input_of(call["function"]["arguments"])
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
    for call in _calls(events, speech):
        arguments = call["function"]["arguments"]
        if isinstance(arguments, dict):
            call["function"]["arguments"] = orjson.dumps(arguments).decode()
    return events


def _calls(events: Events, speech: Speech) -> Iterator[Any]:
    """Yield the whole calls of a reply."""
    where = CALLS[speech.api]
    return chain.from_iterable(found(event.value, where) or () for event in events)


def without_arguments(answer: Completion) -> Completion:
    """Give a call that has no arguments an empty text instead of an empty object."""
    calls = []
    for call in answer.tool_calls:
        calls.append(evolve(call, arguments="") if call.arguments == "{}" else call)
    return evolve(answer, tool_calls=tuple(calls))


def with_null_arguments(events: Events, speech: Speech) -> Events:
    """Say null for arguments that are empty."""
    begun = [found(event.value, CHUNK_CALL) for event in events]
    for call in [*_calls(events, speech), *filter(None, begun)]:
        if call["function"]["arguments"] == "":
            call["function"]["arguments"] = None
    return events


def without_empty_args(events: Events, speech: Speech) -> Events:
    """Leave out arguments that are an empty object."""
    for event in events:
        for part in found(event.value, ("candidates", 0, "content", "parts")) or ():
            if found(part, ("functionCall", "args")) == {}:
                del part["functionCall"]["args"]
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
        function = found(event.value, (*CHUNK_CALL, "function"))
        name = found(function, ("name",))
        half = len(name or "") // 2
        if half:
            rest = event.copy()
            more = {"index": found(event.value, (*CHUNK_CALL, "index"))}
            put(
                rest.value, CHUNK_CALL, {**more, "function": {"name": name[half:], "arguments": ""}}
            )
            function["name"] = name[:half]
            said.append(rest)
    return said


def input_at_the_start(events: Events, speech: Speech) -> Events:
    """Send the whole input of a call with the start of its block, and one empty delta behind it."""
    place = ARGUMENTS[speech.api]
    wholes = place.wholes(events)
    said = []
    for event in events:
        block = found(event.value, ("content_block",))
        if found(block, ("type",)) == "tool_use":
            block["input"] = input_of(wholes.get(event.value["index"], ""))
        if not place.piece_in(event):
            said.append(event)
    return said


def without_blocks(events: Events, speech: Speech) -> Events:
    """Leave out how blocks of text and reasoning begin and end."""
    calls = ARGUMENTS[speech.api].wholes(events)
    said = []
    for event in events:
        is_edge = event.name in ("content_block_start", "content_block_stop")
        is_call = found(event.value, ("content_block", "type")) == "tool_use"
        if not is_edge or is_call or found(event.value, ("index",)) in calls:
            said.append(event)
    return said


def with_message_at_the_end(events: Events, speech: Speech) -> Events:
    """Send the whole message with the finish reason."""
    whole = found(speech.whole(), ("choices", 0, "message"))
    for event in events:
        choice = found(event.value, ("choices", 0))
        if whole and found(choice, ("finish_reason",)):
            choice["message"] = whole
    return events
