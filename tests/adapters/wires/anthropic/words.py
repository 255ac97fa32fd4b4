"""What Anthropic says at the end of a reply and of what went wrong."""

import json
from typing import Any

from rungwise import Anthropic

BACKEND: Any = Anthropic("claude-opus-5-5", base_url="http://localhost/v1")
TEXT = {"type": "text", "text": "In the reeds."}
USE = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "look",
    "input": {"bird": "heron"},
}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
USAGE = {"input_tokens": 9, "output_tokens": 7}


def event(kind: str, **members: Any) -> bytes:
    value = json.dumps({"type": kind, **members})
    return f"event: {kind}\ndata: {value}\n\n".encode()


def read(stream: bytes) -> Any:
    decoder = BACKEND.decoder({})
    decoder.feed(stream)
    return decoder.close()


START = event(
    "message_start",
    message={
        "id": "msg_1",
        "model": "m",
        "content": [],
        "usage": USAGE,
    },
)
ENDS = [
    ("end_turn", [TEXT], "stop", "answered"),
    ("end_turn", [], "stop", "came_empty"),
    ("stop_sequence", [TEXT], "stop", "answered"),
    ("max_tokens", [TEXT], "length", "truncated"),
    ("max_tokens", [USE], "length", "tools_truncated"),
    ("max_tokens", [THOUGHT], "length", "reasoning_truncated"),
    ("tool_use", [TEXT, USE], "tool_calls", "called_tools"),
    ("tool_use", [TEXT], "tool_calls", "malformed"),
    ("pause_turn", [TEXT], "paused", "paused"),
    ("compaction", [{"type": "compaction", "content": "They met a heron."}], "paused", "paused"),
    ("refusal", [], "content_filter", "refused"),
    ("refusal", [TEXT], "content_filter", "refused"),
    ("model_context_window_exceeded", [TEXT], "overflow", "overflowed"),
    ("gremlins", [TEXT], "unknown", "ended_unclearly"),
    (7, [TEXT], "unknown", "ended_unclearly"),
    (None, [TEXT], None, "answered"),
]


def ended(stop: Any, content: list[Any]) -> list[Any]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "usage": USAGE,
    }
    body = json.dumps(
        {
            **message,
            "content": content,
            "stop_reason": stop,
        }
    ).encode()
    blocks = [
        event("content_block_start", index=index, content_block=block)
        + event("content_block_stop", index=index)
        for index, block in enumerate(content)
    ]
    last = event("message_delta", delta={"stop_reason": stop}, usage=USAGE) + event("message_stop")
    stream = b"".join([START, *blocks, last])
    return [BACKEND.decode(200, {}, body), BACKEND.decode(200, {}, stream), read(stream)]


WHY = {"type": "refusal", "category": "cyber", "explanation": "Not this."}


def refused(details: Any) -> tuple[bytes, bytes]:
    """Return a refusal as a whole body, and as the end of a stream."""
    stop = {"stop_reason": "refusal", "stop_details": details}
    body = json.dumps({"content": [], "usage": USAGE, **stop}).encode()
    return body, event("message_delta", delta=stop, usage=USAGE) + event("message_stop")


REFUSALS = [
    ("Not this.", *refused(WHY)),
    ("cyber", *refused({**WHY, "explanation": None})),
    (None, *refused(None)),
    (None, *refused("cyber")),
    (None, *refused([])),
]

INVALID = "invalid_request_error"
ERRORS = {
    "format": [(400, INVALID, "messages: at least one message is required")],
    "context_overflow": [
        (400, INVALID, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, INVALID, "input is too long for requested model"),
    ],
    "output_cap": [
        (
            400,
            INVALID,
            "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000, decrease "
            "input",
        ),
        (
            400,
            INVALID,
            "max_tokens: 70000 > 64000, which is the maximum allowed number of output tokens for "
            "claude-5",
        ),
    ],
    "prefill_unsupported": [
        (
            400,
            INVALID,
            "This model does not support assistant message prefill. The conversation must end "
            "with a user",
        ),
        (
            400,
            INVALID,
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            "`text`.",
        ),
        (400, INVALID, "messages: final assistant content cannot end with trailing whitespace"),
        (
            400,
            INVALID,
            "When using output format, pre-filling the assistant response is not supported.",
        ),
    ],
    "reasoning_signature": [
        (400, INVALID, "messages.1.content.0: Invalid `signature` in `thinking` block")
    ],
    "parameter_unsupported": [
        (400, INVALID, "`temperature` is deprecated for this model."),
        (400, INVALID, "top_k: Extra inputs are not permitted"),
        (400, INVALID, "This model does not support the effort parameter."),
    ],
    "billing": [
        (400, INVALID, "Your credit balance is too low to access the Anthropic API."),
        (
            400,
            INVALID,
            "You have reached your specified API usage limits. You will regain access on "
            "2026-12-01.",
        ),
        (402, "billing_error", "There is an issue with your organization's billing."),
        *[
            (status, kind, "x", {"details": {"error_code": f"{whose}_spend_limit_reached"}})
            for whose in ("enforced", "contract", "linked_organization", "some_new")
            for status, kind in ((429, "rate_limit_error"), (400, INVALID))
        ],
        (400, INVALID, "x", {"details": {"error_code": "linked_organization_billing_unavailable"}}),
    ],
    "content_policy": [(400, INVALID, "Output blocked by content filtering policy")],
    "auth": [
        *[
            (400, INVALID, "x", {"details": {"error_code": code}})
            for code in ("organization_on_hold", "cmek_key_disabled", "cmek_key_network_blocked")
        ],
        (401, "authentication_error", "invalid x-api-key"),
        (
            403,
            "permission_error",
            "Your API key does not have permission to use the specified resource.",
        ),
    ],
    "model_not_found": [(404, "not_found_error", "model: claude-opus-9")],
    "not_found": [(404, "not_found_error", "Not found")],
    "payload_too_large": [
        (
            400,
            INVALID,
            "x",
            {"details": {"error_code": "request_body_too_large_after_decoding"}},
        ),
        (413, "request_too_large", "Request exceeds the maximum allowed number of bytes."),
    ],
    "rate_limit": [
        (400, INVALID, "x", {"details": {"error_code": "ramp_limit_exceeded"}}),
        (
            429,
            "rate_limit_error",
            "This request would exceed your organization's rate limit of 50.",
        ),
    ],
    "server_error": [(500, "api_error", "Internal server error")],
    "timeout": [(504, "timeout_error", "The request timed out.")],
    "overloaded": [(529, "overloaded_error", "Overloaded")],
}


def failed(
    status: int,
    kind: str,
    message: str,
    more: Any = (),
) -> list[Any]:
    error = {
        "type": "error",
        "error": {"type": kind, "message": message, **dict(more)},
        "request_id": "req_1",
    }
    body = json.dumps(error).encode()
    inside = event("error", **error)
    said = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "In the"})
    rejected = BACKEND.decode(status, {}, body)
    late = BACKEND.decode(200, {}, body)
    return [
        (rejected, {"code": kind, "status": status}),
        (late, {"code": kind}),
        (read(START + inside), {"code": kind, "text": ""}),
        (read(START + said + inside), {"code": kind, "text": "In the"}),
    ]
