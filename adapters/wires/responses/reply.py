"""Read a response: its items, why it ended, and its usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rungwise.adapters.wires import composing
from rungwise.adapters.wires.chat.reply import usage_of
from rungwise.adapters.wires.composing import classified, composed, malformed, object_in, raw_of, text_at
from rungwise.adapters.wires.json_text import as_json
from rungwise.adapters.wires.responses.items import CUSTOM, parts_of_items
from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.call.conversation.reply import Reply, StopReason
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
"""The words of `status`, and of `incomplete_details.reason` where that says more.

`queued` and `in_progress` are no end: such a response is none yet.
"""


def read_response(headers: Mapping[str, str], body: bytes, provider: str) -> Reply | Failure:
    """Read the whole body of a response with a status of success.

    Arguments:
        headers: the response's headers, for the classification of an error that the body holds.
        body: the body.
        provider: whose response it is.
    """
    value = object_in(body)
    if isinstance(value, Failure):
        return value
    if not (isinstance(value.get("output"), list) or value.get("error") or text_at(value, "status")):
        return malformed("the body is no response")
    output = value.get("output")
    return compose(
        value,
        output if isinstance(output, list) else (),
        headers,
        provider,
        cut=not text_at(value, "status"),
        raw=raw_of(value, body),
    )


def compose(
    response: Mapping[str, Any],
    items: Sequence[Any],
    headers: Mapping[str, str],
    provider: str,
    *,
    cut: bool,
    error: Failure | None = None,
    cause: Failure | None = None,
    raw: object = None,
) -> Reply | Failure:
    """Make a reply of a response, or a failure where an error left nothing of it.

    Arguments:
        response: it, but for its items.
        items: they.
        headers: the response's headers.
        provider: whose response it is.
        cut: whether it broke off before its end.
        error: the error that the provider sent beside it.
        cause: what cut it, where that is known.
        raw: the body, for diagnosis.
    """
    usage = response.get("usage")
    parts, refusal = parts_of_items(items, provider, [response.get("id"), response.get("created_at")])
    stop_reason, stop_raw = stop_of(response)
    if stop_reason == "stop" and any(is_cut_item(item) for item in items):
        stop_reason = "length"
    if stop_reason == "stop" and any(isinstance(part, ToolCall) for part in parts):
        stop_reason = "tool_calls"
    return composed(
        parts=parts,
        stop_reason=stop_reason,
        stop_raw=stop_raw,
        usage=usage_of(usage) if isinstance(usage, dict) else None,
        model=response.get("model"),
        refusal=refusal,
        error=error or error_of(response, headers),
        cut=cut,
        cause=cause,
        raw=raw,
    )


def stop_of(response: Mapping[str, Any]) -> tuple[StopReason | None, str | None]:
    """Return the normalised finish reason and the provider's own word for it, both None where there is none."""
    status = response.get("status")
    if status in ("incomplete", "completed"):
        details = response.get("incomplete_details")
        status = (details.get("reason") if isinstance(details, dict) else None) or status
    return composing.stop_of(status, STOP_REASONS)


def is_cut_item(item: Any) -> bool:
    """Tell whether an item is the answer, or a call, of which the provider itself says that it lacks its end."""
    kind = item.get("type") if isinstance(item, dict) else None
    return kind in ("message", "function_call", CUSTOM) and item.get("status") == "incomplete"


def error_of(response: Mapping[str, Any], headers: Mapping[str, str]) -> Failure | None:
    """Return the error that a response holds, or None."""
    error = response.get("error")
    return classified(None, headers, as_json({"error": error}).encode()) if error else None
