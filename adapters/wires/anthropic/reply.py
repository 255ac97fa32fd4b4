"""Read a message of Anthropic's: its stop reason and its tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rungwise.adapters.wires.anthropic.blocks import identified
from rungwise.adapters.wires.draft import Draft, count_of, stop_of, text_at
from rungwise.adapters.wires.json_text import mended
from rungwise.fsm.call.conversation.parts import Part
from rungwise.fsm.call.conversation.reply import StopReason
from rungwise.fsm.values.usage import Usage

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "pause_turn": "paused",
    "compaction": "paused",  # beta: the turn waits behind a summary, which goes back like a paused turn
    "refusal": "content_filter",
    "model_context_window_exceeded": "overflow",
}

Counts = Mapping[str, Any]


def draft_of(
    parts: Iterable[Part], *, stop: object, details: object, usage: Usage | None, message: Mapping[str, Any]
) -> Draft:
    """Return the draft of a reply."""
    reason = stop_of(stop, STOP_REASONS)
    refused = reason[0] == "content_filter"
    return Draft(
        parts=identified(parts, message.get("id")),
        stop=reason,
        usage=usage,
        model=message.get("model"),
        refusal=str(mended(text_at(details, "explanation") or text_at(details, "category"))) if refused else "",
    )


def usage_of(reports: Sequence[Counts]) -> Usage | None:
    """Return the tokens of a reply, or None if the provider counted none; of its reports, later ones win.

    Anthropic counts cached tokens separately from the input, and a compaction separately from everything; all of it is
    paid for, so it is added up here.
    """
    report_so_far: dict[str, Any] = {}
    for report in reports:
        report_so_far |= {name: value for name, value in report.items() if value is not None}
    made = report_so_far.get("iterations")
    passes = [each for each in made if isinstance(each, dict)] if isinstance(made, list) else []
    own = [each for each in passes if each.get("type") == "message"] or [report_so_far]
    counted = [*map(_counts, own), *[_counts(each) for each in passes if each.get("type") == "compaction"]]
    fresh, output, read, created = (sum(numbers) for numbers in zip(*counted, strict=True))
    details = report_so_far.get("output_tokens_details")
    reasoning = count_of(details.get("thinking_tokens")) if isinstance(details, dict) else 0
    if not fresh + read + created and not output:
        return None
    return Usage(
        input_tokens=fresh + read + created,
        output_tokens=output,
        cache_read_tokens=read,
        cache_creation_tokens=created,
        reasoning_tokens=min(reasoning, output),
    )


def _counts(usage: Counts) -> tuple[int, int, int, int]:
    created, by_lifetime = count_of(usage.get("cache_creation_input_tokens")), usage.get("cache_creation")
    if not created and isinstance(by_lifetime, dict):
        created = sum(map(count_of, by_lifetime.values()))
    read = count_of(usage.get("cache_read_input_tokens"))
    return count_of(usage.get("input_tokens")), count_of(usage.get("output_tokens")), read, created
