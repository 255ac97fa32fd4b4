"""The events of a streamed response: how they are called, and what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.wires.plain.parts import text_in
from rungwise.adapters.wires.reading.events import Events
from rungwise.adapters.wires.responses.items import CUSTOM, ResponseItem
from rungwise.fsm.replies.assembly.items import Items

ENDS: Final = {
    "response.completed": "completed",
    "response.done": "completed",  # a gateway's name for it [jlcodes99/cockpit-tools#2328]
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""The events that end a stream, with the status that each means."""

_PLACES: Final = {
    "response.output_text": ("text", "content_index"),
    "response.reasoning_summary_text": ("summary", "summary_index"),
    "response.reasoning_text": ("content", "content_index"),
}
"""The events of texts: the key of the text in its item, and the member of the event that holds its
index there."""
DELTAS: Final = {f"{name}.delta": place for name, place in _PLACES.items()}
WHOLES: Final = {f"{name}.done": place for name, place in _PLACES.items()}
ARGUMENTS: Final = {
    "response.function_call_arguments.delta": ("function_call", "delta"),
    "response.custom_tool_call_input.delta": (CUSTOM, "delta"),
    "response.function_call_arguments.done": ("function_call", "arguments"),
    "response.custom_tool_call_input.done": (CUSTOM, "input"),
}
"""The events of arguments: what calls they belong to, and the member that holds them."""

_SHAPES: Final = {
    "message": (("delta", "response.output_text.delta"), ("text", "response.output_text.done")),
    "summary": (
        ("delta", "response.reasoning_summary_text.delta"),
        ("text", "response.reasoning_summary_text.done"),
    ),
    "reasoning": (
        ("delta", "response.reasoning_text.delta"),
        ("text", "response.reasoning_text.done"),
    ),
    "function_call": (
        ("delta", "response.function_call_arguments.delta"),
        ("arguments", "response.function_call_arguments.done"),
    ),
    CUSTOM: (
        ("delta", "response.custom_tool_call_input.delta"),
        ("input", "response.custom_tool_call_input.done"),
    ),
}
"""What the events of each kind of item hold, with their names."""
EVENTS: Final = Events(
    names=frozenset(
        {
            *ENDS,
            *DELTAS,
            *WHOLES,
            *ARGUMENTS,
            "response.created",
            "response.queued",
            "response.in_progress",
            "response.refusal.delta",
            "response.refusal.done",
            "response.output_item.added",
            "response.output_item.done",
            "response.content_part.added",
            "response.content_part.done",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_part.done",
            "response.output_text.annotation.added",
            "error",
        }
    ),
    own="response.",
)


def name_by_shape(value: Mapping[str, Any], items: Items[ResponseItem]) -> str:
    """Return the name of an event whose own is not known, by its members and its item, or ""."""
    item = value.get("item")
    response = value.get("response")
    if isinstance(item, Mapping):
        begins = item.get("status") == "in_progress"
        return "response.output_item.added" if begins else "response.output_item.done"
    if isinstance(response, Mapping):
        ends = [name for name, status in ENDS.items() if status == response.get("status")]
        return next(iter(ends), "")
    try:
        kind = items.known(value.get("item_id"), value["output_index"]).kind
    except (KeyError, TypeError):
        return ""
    if kind == "reasoning" and "summary_index" in value:
        kind = "summary"
    names = [name for member, name in _SHAPES.get(kind, ()) if text_in(value, member)]
    return next(iter(names), "")


def output_index(value: Mapping[str, Any]) -> int | None:
    """Return the index of the item of an event; None for anything that is not an index."""
    index = value.get("output_index")
    return index if type(index) is int else None
