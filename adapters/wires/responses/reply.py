"""Read a response: its items, why it ended, and its usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rungwise.adapters.wires.chat.reply import usage_of
from rungwise.adapters.wires.draft import Draft, classified, stop_of
from rungwise.adapters.wires.json_text import as_json
from rungwise.adapters.wires.responses.items import CUSTOM, parts_of_items
from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.call.conversation.reply import StopReason
from rungwise.fsm.failures.failure import Failure

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "completed": "stop",
    "incomplete": "length",  # where nobody says why
    "max_output_tokens": "length",
    "max_messages": "length",
    "steered": "length",
    "content_filter": "content_filter",
    "failed": "error",
    "cancelled": "error",
}
"""The values of `status`, and of `incomplete_details.reason`, which says more.

`queued` and `in_progress` are missing: such a response has not ended.
"""


def draft_of(response: Mapping[str, Any], items: Sequence[Any], provider: str) -> Draft:
    """Return the draft of a reply."""
    usage = response.get("usage")
    parts, refusal = parts_of_items(items, provider, [response.get("id"), response.get("created_at")])
    reason, word = stop_in(response)
    if reason == "stop" and any(is_cut_item(item) for item in items):
        reason = "length"
    if reason == "stop" and any(isinstance(part, ToolCall) for part in parts):
        reason = "tool_calls"
    return Draft(
        parts=parts,
        stop=(reason, word),
        usage=usage_of(usage) if isinstance(usage, dict) else None,
        model=response.get("model"),
        refusal=refusal,
    )


def stop_in(response: Mapping[str, Any]) -> tuple[StopReason | None, str | None]:
    """Return the normalised finish reason and the provider's own word for it; both are None if there is none."""
    status = response.get("status")
    if status in ("incomplete", "completed"):
        details = response.get("incomplete_details")
        status = (details.get("reason") if isinstance(details, dict) else None) or status
    return stop_of(status, STOP_REASONS)


def is_cut_item(item: Any) -> bool:
    """Tell whether an item is a message or a call that the provider marks as incomplete."""
    kind = item.get("type") if isinstance(item, dict) else None
    return kind in ("message", "function_call", CUSTOM) and item.get("status") == "incomplete"


def error_of(response: Mapping[str, Any], headers: Mapping[str, str]) -> Failure | None:
    """Return the error that a response holds, or None."""
    error = response.get("error")
    return classified(None, headers, as_json({"error": error}).encode()) if error else None
