"""Read a whole response: its parts, why it ended, its usage, and the error in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rungwise.adapters.wires.chat.reply import BILLED, usage_of
from rungwise.adapters.wires.draft import NATIVE, Draft, classified, decisive, stop_of
from rungwise.adapters.wires.json_text import as_json
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.responses.items import CUSTOM, parts_of_items
from rungwise.fsm.replies.assembly.origin import FOREIGN_ROLES
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import ToolCall, text_of
from rungwise.fsm.replies.reply import StopReason

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
CUT: Final = "incomplete_details"
"""The member that says why a response is incomplete."""
UNFINISHED: Final = ("queued", "in_progress")
"""The values of `status` of a response that is not there yet."""
ABOUT: Final = (
    "id",
    "created_at",
    "model",
    "status",
    CUT,
    NATIVE,
    "usage",
    *BILLED,
)
"""The members of a response that count, besides its items and its error."""


def about_of(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that count, besides the items and the error, as far as they are said.

    That there is nothing to say of a cut is said by null.
    """
    said = {key: response[key] for key in ABOUT if response.get(key) is not None}
    if CUT in response:
        said.setdefault(CUT, None)
    return said


def draft_of(response: Mapping[str, Any], items: Sequence[Any], provider: str) -> Draft:
    """Return the draft of a reply.

    Arguments:
        response: the response, whole or as far as it came.
        items: its items.
        provider: the owner of its own parts.
    """
    own = [item for item in items if not _is_foreign(item)]
    parts, refusal = parts_of_items(own, provider)
    status = response.get("status")
    if status in ("incomplete", "completed"):
        status = mapping_of(response.get(CUT)).get("reason") or status
    end = decisive(status, response.get(NATIVE), STOP_REASONS)
    reason, word = stop_of(end, STOP_REASONS)
    # Some servers say `completed` all the same, or no status; only the item says that it was cut.
    if reason in (None, "stop") and any(map(_is_cut, items)):
        reason = "length"
    if reason == "stop" and any(isinstance(part, ToolCall) for part in parts):
        reason = "tool_calls"
    # A server that has no member for why a response is incomplete cannot say that the cap cut it:
    # llama.cpp is `completed` then, too [tools/server/server-task.cpp, to_json_oaicompat_resp].
    if reason == "stop" and CUT not in response:
        reason = None
    usage = None
    if isinstance(response.get("usage"), dict):
        usage = usage_of(response["usage"], response)
    about = [response.get("id"), response.get("created_at")]
    return Draft(
        parts=parts,
        stop=(reason, word),
        usage=usage,
        model=response.get("model"),
        refusal=refusal,
        about=about,
    )


def _is_foreign(item: Mapping[str, Any]) -> bool:
    """Tell whether an item is a message of another role than the model's; see `Origin`."""
    return item.get("type") == "message" and item.get("role") in FOREIGN_ROLES


def _is_cut(item: Any) -> bool:
    """Tell whether an item that the model writes is incomplete."""
    item = mapping_of(item)
    is_written = item.get("type") in ("message", "function_call", CUSTOM)
    return is_written and item.get("status") == "incomplete"


def error_of(response: Mapping[str, Any], headers: Mapping[str, str]) -> Failure | None:
    """Return the error that a response holds, or None."""
    error = response.get("error")
    if not error:
        return None
    return classified(None, headers, as_json({"error": error}).encode())


def unfinished(response: Mapping[str, Any], draft: Draft) -> Failure | None:
    """Return that a whole response without a text has not ended, which may pass; else None."""
    status = response.get("status")
    if status not in UNFINISHED or text_of(draft.parts):
        return None
    return Failure(
        "server_error",
        status=200,
        code=status,
        message="the response has not ended",
    )
