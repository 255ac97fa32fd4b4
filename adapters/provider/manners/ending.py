"""Manners of ending a reply, of counting its tokens, and of saying what else there is."""

from __future__ import annotations

from typing import Any, Final

from attrs import evolve

from rungwise.adapters.gateway.languages.language import Completion
from rungwise.adapters.provider.manners.events import Events, WireEvent
from rungwise.adapters.provider.manners.places import CHOICE, found, holders, path, put
from rungwise.adapters.provider.manners.speech import Change, Speech

FINAL: Final = ("message_stop", "messageStop")
FINISH: Final = {
    "openai": path("choices.0.finish_reason"),
    "gemini": path("candidates.0.finishReason"),
}
OF_OUTPUT: Final = (
    "completion_tokens",
    "completion_tokens_details",
    "candidatesTokenCount",
    "thoughtsTokenCount",
)
"""The members of a usage that count the output."""
OTHERS: Final[dict[str, Any]] = {
    "openai": [
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        {"choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {}}]},
    ],
    "responses": [{"type": "codex.rate_limits", "rate_limits": {"limit_reached": True}}],
}
"""The events that Azure and Codex add."""


def without_terminal(events: Events, speech: Speech) -> Events:
    """Leave out the event that says nothing but that the stream is over."""
    return [event for event in events if event.value != b"[DONE]" and event.name not in FINAL]


def with_response_done(events: Events, speech: Speech) -> Events:
    """Call the last event `response.done`."""
    last = events[-1]
    if last.name == "response.completed":
        last.name = last.value["type"] = "response.done"
    return events


def without_finish(answer: Completion) -> Completion:
    """Say no finish reason."""
    return evolve(answer, finish="")


def with_empty_finish(events: Events, speech: Speech) -> Events:
    """Say "" for a finish reason that is not there yet."""
    return _with_finish(events, speech, "")


def with_finish_everywhere(events: Events, speech: Speech) -> Events:
    """Say the finish reason with every piece."""
    words = [found(event.value, FINISH[speech.api]) for event in events]
    return _with_finish(events, speech, next(filter(None, reversed(words)), None))


def _with_finish(events: Events, speech: Speech, word: str | None) -> Events:
    """Say a finish reason where there is none."""
    where = FINISH[speech.api]
    for event in events:
        if found(event.value, where[:-1]) and not found(event.value, where):
            put(event.value, where, word)
    return events


def without_usage(answer: Completion) -> Completion:
    """Count no tokens."""
    return evolve(answer, usage={})


def with_usage_at(place: str) -> Change:
    """Return the manner of counting the tokens at a place in the last object with a choice."""
    where = path(place)

    def change(events: Events, speech: Speech) -> Events:
        counted = [event for event in events if found(event.value, ("usage",))]
        chosen = [event for event in events if found(event.value, CHOICE)]
        if counted and chosen:
            put(chosen[-1].value, where, counted[-1].value.pop("usage"))
        return events

    return change


def with_total_alone(events: Events, speech: Speech) -> Events:
    """Count the output in nothing but the total."""
    for event in events:
        for name in OF_OUTPUT:
            for usage in holders(event.value, name):
                del usage[name]
    return events


def with_usage_in_stages(events: Events, speech: Speech) -> Events:
    """Count the tokens so far in every chunk: one of the output, until all are counted."""
    counts = [found(event.value, ("usage",)) for event in events]
    last: Any = next(filter(None, reversed(counts)), {})
    for event in events:
        if last and found(event.value, CHOICE):
            event.value["usage"] = {
                "prompt_tokens": last.get("prompt_tokens"),
                "completion_tokens": 1,
            }
    return events


def with_null_usage_behind(events: Events, speech: Speech) -> Events:
    """Send a chunk behind the counts whose usage is null."""
    return [*events[:-1], WireEvent({"choices": [], "usage": None}), *events[-1:]]


def with_other_events(events: Events, speech: Speech) -> Events:
    """Send events of the server's own."""
    for value in OTHERS[speech.api]:
        events.insert(1, WireEvent(value, value.get("type", "")).copy())
    return events


def with_empty_members(events: Events, speech: Speech) -> Events:
    """Send members that say nothing with each piece."""
    for event in events:
        for name in ("delta", "message"):
            said = found(event.value, (*CHOICE, name))
            if said is not None:
                nothing: dict[str, Any] = {
                    "tool_calls": [],
                    "function_call": None,
                    "refusal": None,
                }
                event.value["choices"][0][name] = {"role": "assistant", **nothing, **said}
    return events
