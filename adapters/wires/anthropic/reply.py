"""Read a message of Anthropic's: its blocks, why it stopped, and its tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rungwise.adapters.wires import composing
from rungwise.adapters.wires.anthropic.blocks import identified, parts_of
from rungwise.adapters.wires.composing import classified, composed, count_of, malformed, object_in, raw_of, text_at
from rungwise.adapters.wires.json_text import mended
from rungwise.fsm.call.conversation.parts import Part
from rungwise.fsm.call.conversation.reply import Reply, StopReason
from rungwise.fsm.failures.failure import Failure
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


def read_reply(headers: Mapping[str, str], body: bytes, *, provider: str = "") -> Reply | Failure:
    """Read the whole body of a response with a status of success.

    Arguments:
        headers: the response's headers, for the classification of an error that the body holds.
        body: the body.
        provider: whose reply it is.
    """
    value = object_in(body)
    if isinstance(value, Failure):
        return value
    error = classified(None, headers, body) if value.get("error") or value.get("type") == "error" else None
    content = value.get("content")
    if not isinstance(content, list):
        if not error and not value.get("stop_reason"):
            return malformed("the body has no content")
        content = []
    usage = value.get("usage")
    return compose(
        [part for block in content for part in parts_of(block, provider)],
        stop=value.get("stop_reason"),
        details=value.get("stop_details"),
        usage=usage_of([usage]) if isinstance(usage, dict) else None,
        message=value,
        error=error,
        cut=stop_of(value.get("stop_reason"))[0] is None,
        raw=raw_of(value, body),
    )


def compose(
    parts: Iterable[Part],
    *,
    stop: object,
    details: object,
    usage: Usage | None,
    message: Mapping[str, Any],
    error: Failure | None = None,
    cut: bool = False,
    cause: Failure | None = None,
    raw: object = None,
) -> Reply | Failure:
    """Make a reply of what was gathered, or a failure where an error left nothing of it.

    Arguments:
        parts: what has come, in order.
        stop: why it stopped, as the provider says.
        details: what the provider says of a refusal.
        usage: its tokens, where they were counted.
        message: the envelope of the message.
        error: the error that the provider itself sent.
        cut: whether the reply broke off before its end.
        cause: what cut it, where that is known.
        raw: the body, for diagnosis.
    """
    stop_reason, stop_raw = stop_of(stop)
    refused = stop_reason == "content_filter"
    return composed(
        parts=identified(parts, message.get("id")),
        stop_reason=stop_reason,
        stop_raw=stop_raw,
        usage=usage,
        model=message.get("model"),
        refusal=str(mended(text_at(details, "explanation") or text_at(details, "category"))) if refused else "",
        error=error,
        cut=cut,
        cause=cause,
        raw=raw,
    )


def stop_of(raw: object) -> tuple[StopReason | None, str | None]:
    """Return the normalised stop reason and the provider's own word for it, both None where there is none."""
    return composing.stop_of(raw, STOP_REASONS)


def usage_of(reports: Sequence[Counts]) -> Usage | None:
    """Return the tokens of a reply in this library's meaning, None where none were counted.

    Anthropic counts what went through the cache beside the input, and a compaction beside everything; all of that is
    paid for, so it is added up here.

    Arguments:
        reports: what the provider reported, from the first to the last; what a later one says counts.
    """
    said: dict[str, Any] = {}
    for report in reports:
        said |= {name: value for name, value in report.items() if value is not None}
    made = said.get("iterations")
    counted = [_counts(said)]
    if isinstance(made, list):
        counted += [_counts(each) for each in made if isinstance(each, dict) and each.get("type") == "compaction"]
    fresh, output, read, created = (sum(numbers) for numbers in zip(*counted, strict=True))
    details = said.get("output_tokens_details")
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


def _counts(said: Counts) -> tuple[int, int, int, int]:
    created, kept = count_of(said.get("cache_creation_input_tokens")), said.get("cache_creation")
    if not created and isinstance(kept, dict):
        created = sum(map(count_of, kept.values()))
    read = count_of(said.get("cache_read_input_tokens"))
    return count_of(said.get("input_tokens")), count_of(said.get("output_tokens")), read, created
