"""Each stop reason and each error of Anthropic's, and what a call makes of it."""

import json
from typing import Any

import pytest

from rungwise import Anthropic
from rungwise.core import Failure
from rungwise.fsm.failures.failure import event_of_failure
from support.classified import settled

BACKEND: Any = Anthropic("claude-opus-5-5", base_url="http://localhost/v1")
TEXT = {"type": "text", "text": "In the reeds."}
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"bird": "heron"}}
USAGE = {"input_tokens": 9, "output_tokens": 7}


def whole(stop: Any, *content: Any) -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "usage": USAGE}
    return json.dumps({**message, "content": [*content], "stop_reason": stop}).encode()


def event(kind: str, **members: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json.dumps({"type": kind, **members}).encode())


def streamed(stop: Any, *content: Any) -> bytes:
    pieces = [event("message_start", message={"id": "msg_1", "model": "m", "content": [], "usage": USAGE})]
    for index, block in enumerate(content):
        pieces.append(event("content_block_start", index=index, content_block=block))
        pieces.append(event("content_block_stop", index=index))
    pieces.append(event("message_delta", delta={"stop_reason": stop}, usage=USAGE))
    return b"".join([*pieces, event("message_stop")])


@pytest.mark.parametrize("write", [whole, streamed])
@pytest.mark.parametrize(
    ("stop", "content", "meaning", "event"),
    [
        ("end_turn", [TEXT], "stop", "answered"),
        ("end_turn", [], "stop", "came_empty"),
        ("stop_sequence", [TEXT], "stop", "answered"),
        ("max_tokens", [TEXT], "length", "truncated"),
        ("max_tokens", [USE], "length", "tools_truncated"),
        ("max_tokens", [{"type": "thinking", "thinking": "Hm.", "signature": "s"}], "length", "reasoning_truncated"),
        ("tool_use", [TEXT, USE], "tool_calls", "called_tools"),
        ("tool_use", [TEXT], "tool_calls", "malformed"),
        ("pause_turn", [TEXT], "paused", "paused"),
        ("compaction", [{"type": "compaction", "content": "They met a heron."}], "paused", "paused"),
        ("refusal", [], "content_filter", "refused"),
        ("refusal", [TEXT], "content_filter", "refused"),
        ("model_context_window_exceeded", [TEXT], "overflow", "overflowed"),
        ("gremlins", [TEXT], "unknown", "malformed"),
        (7, [TEXT], "unknown", "malformed"),
        (None, [TEXT], None, "interrupted"),
    ],
)
def test_each_stop_reason_is_an_event_and_stands_in_the_journal(
    write: Any, stop: Any, content: list[Any], meaning: Any, event: str
) -> None:
    reply = BACKEND.decode(200, {}, write(stop, *content))
    assert reply.stop_reason == meaning
    step = settled(BACKEND, reply)
    assert step.event == event
    assert step.stop_raw == (None if stop is None else str(stop))


REFUSAL = {"type": "refusal", "category": "cyber", "explanation": "Not this."}


@pytest.mark.parametrize(
    ("details", "words"),
    [(REFUSAL, "Not this."), ({**REFUSAL, "explanation": None}, "cyber"), (None, None), ("cyber", None), ([], None)],
)
def test_a_refusal_says_why(details: Any, words: str | None) -> None:
    body = json.dumps({"content": [], "stop_reason": "refusal", "stop_details": details, "usage": USAGE}).encode()
    in_pieces = event("message_delta", delta={"stop_reason": "refusal", "stop_details": details}, usage=USAGE)
    for came in (BACKEND.decode(200, {}, body), BACKEND.decode(200, {}, in_pieces + event("message_stop"))):
        assert came.refusal == words
        assert settled(BACKEND, came).event == "refused"


INVALID, NO_PREFILL, OVERFLOW = "invalid_request_error", "prefill_unsupported", "context_overflow"
ERRORS = [
    (400, INVALID, "messages: at least one message is required", "format"),
    (400, INVALID, "prompt is too long: 210000 tokens > 200000 maximum", OVERFLOW),
    (400, INVALID, "input is too long for requested model", OVERFLOW),
    (
        400,
        INVALID,
        "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000, decrease input length or "
        "`max_tokens` and try again",
        "output_cap",
    ),
    (
        400,
        INVALID,
        "max_tokens: 70000 > 64000, which is the maximum allowed number of output tokens for claude-opus-5",
        "output_cap",
    ),
    (
        400,
        INVALID,
        "This model does not support assistant message prefill. The conversation must end with a user message.",
        NO_PREFILL,
    ),
    (
        400,
        INVALID,
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`.",
        NO_PREFILL,
    ),
    (400, INVALID, "messages: final assistant content cannot end with trailing whitespace", NO_PREFILL),
    (400, INVALID, "When using output format, pre-filling the assistant response is not supported.", NO_PREFILL),
    (400, INVALID, "messages.1.content.0: Invalid `signature` in `thinking` block", "reasoning_signature"),
    (400, INVALID, "`temperature` is deprecated for this model.", "parameter_unsupported"),
    (400, INVALID, "top_k: Extra inputs are not permitted", "parameter_unsupported"),
    (400, INVALID, "This model does not support the effort parameter.", "parameter_unsupported"),
    (400, INVALID, "Your credit balance is too low to access the Anthropic API.", "billing"),
    (
        400,
        INVALID,
        "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
        "billing",
    ),
    (400, INVALID, "Output blocked by content filtering policy", "content_policy"),
    (401, "authentication_error", "invalid x-api-key", "auth"),
    (402, "billing_error", "There is an issue with your organization's billing.", "billing"),
    (403, "permission_error", "Your API key does not have permission to use the specified resource.", "auth"),
    (404, "not_found_error", "model: claude-opus-9", "model_not_found"),
    (404, "not_found_error", "Not found", "unknown"),
    (413, "request_too_large", "Request exceeds the maximum allowed number of bytes.", "payload_too_large"),
    (429, "rate_limit_error", "This request would exceed your organization's rate limit of 50 requests.", "rate_limit"),
    (500, "api_error", "Internal server error", "server_error"),
    (504, "timeout_error", "The request timed out.", "timeout"),
    (529, "overloaded_error", "Overloaded", "overloaded"),
]


@pytest.mark.parametrize("where", ["status", "body", "stream", "after text"])
@pytest.mark.parametrize(("status", "kind", "message", "reason"), ERRORS)
def test_each_error_has_its_reason(status: int, kind: str, message: str, reason: str, where: str) -> None:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    error: dict[str, Any] = dict(body)
    start = event("message_start", message={"usage": USAGE})
    if where == "after text":
        start += event("content_block_delta", index=0, delta={"type": "text_delta", "text": "In the"})
    raw = b"event: error\ndata: %s\n\n" % json.dumps(error).encode()
    came: Any
    if where == "status":
        came = BACKEND.decode(status, {}, json.dumps(error).encode())
    elif where == "body":
        came = BACKEND.decode(200, {}, json.dumps(error).encode())
    else:
        came = BACKEND.decode(200, {}, start + raw)
    failure = came if isinstance(came, Failure) else came.failure
    if (status, message) == (404, "Not found") and where != "status":
        reason = "unknown"
    assert (failure.reason, failure.code) == (reason, kind)
    step = settled(BACKEND, came)
    assert (step.reason, step.code) == (reason, kind)
    if where == "status":
        assert (step.status, step.event) == (status, event_of_failure(failure))
    if where == "after text":
        assert came.text == "In the"
        assert step.event == ("refused" if reason == "content_policy" else "interrupted")


def test_details_of_an_error_and_the_word_on_retrying_count() -> None:
    error = {"type": "rate_limit_error", "message": "x", "details": {"error_code": "enforced_spend_limit_reached"}}
    body = json.dumps({"type": "error", "error": error}).encode()
    failure = BACKEND.decode(429, {"x-should-retry": "false", "retry-after": "3"}, body)
    assert (failure.reason, failure.should_retry, failure.asked_wait) == ("billing", False, 3.0)
    assert settled(BACKEND, failure).event == "failed_permanently"
