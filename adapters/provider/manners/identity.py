"""Manners of naming the items of a reply: their indexes and their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rungwise.adapters.provider.manners.events import Events
from rungwise.adapters.provider.manners.places import ARGUMENTS, CHUNK_CALL, Path, found, put
from rungwise.adapters.provider.manners.speech import Speech

_NAMES: Final[Mapping[str, tuple[Path, str, tuple[str, ...]]]] = {
    "openai": (CHUNK_CALL, "id", ("index",)),
    "responses": (
        (),
        "item_id",
        ("output_index", "content_index", "summary_index"),
    ),
}
"""What names an item: where it is named, the member with its id, and those with its place."""


def _named(events: Events, speech: Speech) -> Iterator[Any]:
    """Yield the objects that name an item."""
    where, _, _ = _NAMES[speech.api]
    for event in events:
        value = found(event.value, where)
        if isinstance(value, dict):
            yield value


def without_indexes(events: Events, speech: Speech) -> Events:
    """Leave the indexes out."""
    for value in _named(events, speech):
        for name in _NAMES[speech.api][2]:
            value.pop(name, None)
    return events


def with_one_index(events: Events, speech: Speech) -> Events:
    """Give every item the index 0."""
    name, *_ = _NAMES[speech.api][2]
    for value in _named(events, speech):
        if name in value:
            value[name] = 0
    return events


def with_other_index(events: Events, speech: Speech) -> Events:
    """Count the pieces of arguments otherwise than the calls that they belong to."""
    for number, _, _ in ARGUMENTS[speech.api].pieces(events):
        events[number].value["index"] += 1
    return events


def with_new_ids(events: Events, speech: Speech) -> Events:
    """Give each piece of arguments an id of its own."""
    where, name, _ = _NAMES[speech.api]
    for number, _, _ in ARGUMENTS[speech.api].pieces(events):
        put(events[number].value, (*where, name), f"piece_{number}")
    return events


def with_repeated_ids(events: Events, speech: Speech) -> Events:
    """Repeat the id of a call with each piece of its arguments."""
    ids: dict[Any, Any] = {}
    for value in _named(events, speech):
        value["id"] = ids.setdefault(value["index"], value.get("id"))
    return events


def with_other_ids_at_the_end(events: Events, speech: Speech) -> Events:
    """Give the items of the final response other ids than they had."""
    for item in found(events[-1].value, ("response", "output")) or ():
        item["id"] = f"final_{item['id']}"
    return events


def with_no_output_at_the_end(events: Events, speech: Speech) -> Events:
    """Leave the output of the final response empty."""
    if found(events[-1].value, ("response", "output")):
        events[-1].value["response"]["output"] = []
    return events
