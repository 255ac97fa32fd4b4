"""What Responses says at the end of a reply and of what went wrong."""

import json
from typing import Any

from rungwise import OpenAIResponses

BACKEND: Any = OpenAIResponses("m", base_url="http://localhost/v1", name="primary")
SAID = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [
        {
            "type": "output_text",
            "text": "In the reeds, mostly.",
            "annotations": [],
        }
    ],
}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_1",
    "name": "look",
    "arguments": "{}",
}
REFUSALS: list[Any] = []
ENDS = [
    ("completed", ("completed", SAID), "stop", "answered"),
    ("completed", ("completed", SAID, CALL), "tool_calls", "called_tools"),
    ("max_output_tokens", ("incomplete", SAID), "length", "truncated"),
    ("max_messages", ("incomplete", SAID), "length", "truncated"),
    ("steered", ("incomplete", SAID), "length", "truncated"),
    ("content_filter", ("incomplete", SAID), "content_filter", "refused"),
    ("gremlins", ("incomplete", SAID), "unknown", "ended_unclearly"),
    ("incomplete", ("incomplete", SAID), "length", "truncated"),
    ("queued", ("queued", SAID), "unknown", "ended_unclearly"),
    ("in_progress", ("in_progress", SAID), "unknown", "ended_unclearly"),
    ("gremlins", ("gremlins", SAID), "unknown", "ended_unclearly"),
    (None, (None, SAID), None, "answered"),
    *(
        (word, (word, SAID), "error", "interrupted", "server_error")
        for word in ("failed", "cancelled")
    ),
    *(
        (word, (word,), "error", "failed_transiently", "server_error")
        for word in ("failed", "queued", "in_progress")
    ),
    ("cancelled", ("cancelled",), "error", "rejected_fixably", "server_error"),
    ("moderation_blocked", ("incomplete",), "content_filter", "refused"),
]


def response(status: str | None, *output: Any, **members: Any) -> dict[str, Any]:
    return {
        "object": "response",
        "status": status,
        "incomplete_details": None,
        "output": [*output],
        **members,
    }


def whole(value: dict[str, Any], status: int = 200) -> Any:
    return BACKEND.decode(status, {}, json.dumps(value).encode())


def read(*events: dict[str, Any]) -> Any:
    decoder = BACKEND.decoder({})
    for event in events:
        decoder.feed(
            b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode())
        )
    return decoder.close()


def ended(word: str | None, said: Any) -> list[Any]:
    status, *output = said
    came = whole(
        response(status, *output, incomplete_details=None if word == status else {"reason": word})
    )
    assert getattr(came, "text", "") == ("In the reeds, mostly." if output else "")
    return [came]


ERRORS: dict[str, list[Any]] = {
    "server_error": ["server_error"],
    "rate_limit": [
        "rate_limit_exceeded",
        (429, "rate_limit_exceeded", "Rate limit reached.", None),
    ],
    "timeout": ["vector_store_timeout"],
    "content_policy": [
        "invalid_prompt",
        "bio_policy",
        "cyber_policy",
        "misalignment_policy_violation",
        "image_content_policy_violation",
    ],
    "context_overflow": [
        "context_length_exceeded",
        (400, "context_length_exceeded", "Your input exceeds the context window.", "input"),
    ],
    "billing": [
        "insufficient_quota",
        (429, "insufficient_quota", "You exceeded your current quota.", None),
    ],
    "overloaded": ["server_is_overloaded", (503, "server_is_overloaded", "Overloaded.", None)],
    "format": [
        "data_residency_mismatch",
        "invalid_image",
        "invalid_image_format",
        "invalid_base64_image",
        "invalid_image_url",
        "image_too_large",
        "image_too_small",
        "image_parse_error",
        "invalid_image_mode",
        "image_file_too_large",
        "unsupported_image_media_type",
        "empty_image_file",
        "failed_to_download_image",
        "image_file_not_found",
        (
            400,
            "integer_below_min_value",
            "Expected a value >= 16, but got 1 instead.",
            "max_output_tokens",
        ),
        (
            400,
            "previous_response_not_found",
            "Response 'resp_1' not found.",
            "previous_response_id",
        ),
    ],
    "reasoning_signature": [
        (
            400,
            None,
            "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
            "input",
        ),
        (
            400,
            None,
            "Item 'fc_1' was provided without its required 'reasoning' item: 'rs_1'.",
            "input",
        ),
        (404, None, "Item with id 'rs_1' not found. Items are not persisted.", "input"),
        (400, "invalid_encrypted_content", "The encrypted content could not be verified.", None),
    ],
    "parameter_unsupported": [
        (400, None, "Encrypted content is not supported with this model.", "include"),
        (400, "unsupported_parameter", "Unsupported parameter: 'temperature'.", "temperature"),
        (
            400,
            "unsupported_value",
            "Unsupported value: 'minimal' is not supported.",
            "reasoning.effort",
        ),
    ],
    "auth": [(401, "invalid_api_key", "Incorrect API key provided.", None)],
    "model_not_found": [(404, "model_not_found", "The model 'x' does not exist.", "model")],
}
ERRORS = {
    reason: [(row,) if isinstance(row, str) else row for row in rows]
    for reason, rows in ERRORS.items()
}
"""A code alone is that of a response which failed, wherever it stands."""


def failed(
    status: Any,
    code: str | None = None,
    message: str = "",
    parameter: str | None = None,
) -> list[Any]:
    if isinstance(status, str):
        error = {"code": status, "message": "It did not work."}
        response_failed = response("failed", error=error)
        came = (
            whole(response_failed),
            read(
                {"type": "response.created", "response": response("in_progress")},
                {"type": "error", **error},
            ),
            read({"type": "error", "error": error}),
            read({"type": "response.failed", "response": response_failed}),
        )
        said = {"type": "response.output_text.delta", "output_index": 0, "delta": "In the"}
        late = [
            read(said, {"type": "error", **error}, said),
            read(said, {"type": "response.failed", "response": response_failed}),
        ]
        return [
            *((each, {"code": status}) for each in came),
            *((each, {"code": status, "text": "In the"}) for each in late),
        ]
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": parameter,
        "code": code,
    }
    named = {"parameter": parameter} if "upported" in message and parameter else {}
    return [(whole({"error": error}, status), {"status": status, **named})]
