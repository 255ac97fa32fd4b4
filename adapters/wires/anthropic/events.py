"""The events of a streamed message: how they are called, and what their deltas hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.wires.reading.events import Events
from rungwise.fsm.replies.reply import Reasoning, Text

EVENTS: Final = Events(
    names=frozenset(
        {
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
            "ping",
            "error",
        }
    ),
    shapes=(
        ("content_block_delta", frozenset({"index", "delta"})),
        ("content_block_start", frozenset({"content_block"})),
        ("message_delta", frozenset({"delta"})),
        ("message_start", frozenset({"message"})),
    ),
)
EVENT: Final = frozenset({"type", "index", "delta"})
"""All members of an event with a piece of text."""
DELTAS: Final[Mapping[str, tuple[str, type[Text] | type[Reasoning]]]] = {
    "text_delta": ("text", Text),
    "thinking_delta": ("thinking", Reasoning),
}
"""The types of deltas with text: the member that holds it, and whether it is visible."""
INPUT: Final = "partial_json"
"""The member of a delta that holds a piece of the input of a tool."""


def type_of(delta: Mapping[str, Any]) -> str | None:
    """Return the type of a delta that does not say it, by the member that it has."""
    if INPUT in delta:
        return "input_json_delta"
    return next((kind for kind, (name, _) in DELTAS.items() if name in delta), None)
