"""What each finish value and error code of Responses means, with the raw word in the journal."""

import json
from typing import Any

import pytest

from rungwise import OpenAIResponses
from rungwise.core import PlainLink
from support.classified import settled

BACKEND: Any = OpenAIResponses("m", base_url="http://localhost/v1", name="primary")
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "In the reeds, mostly.", "annotations": []}],
}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
LINK = PlainLink("primary")


def response(status: str | None = "completed", *, reason: str | None = None, **members: Any) -> dict[str, Any]:
    details = None if reason is None else {"reason": reason}
    return {"object": "response", "status": status, "incomplete_details": details, "output": [MESSAGE], **members}


def whole(value: dict[str, Any]) -> Any:
    return BACKEND.decode(200, {}, json.dumps(value).encode())


def streamed(*events: dict[str, Any]) -> Any:
    decoder = BACKEND.decoder({})
    for event in events:
        decoder.feed(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode()))
    return decoder.close()


FINISHES = [
    ("completed", None, "stop", "answered", "completed"),
    ("incomplete", "max_output_tokens", "length", "truncated", "max_output_tokens"),
    ("incomplete", "max_messages", "length", "truncated", "max_messages"),
    ("incomplete", "steered", "length", "truncated", "steered"),
    ("incomplete", "content_filter", "content_filter", "refused", "content_filter"),
    ("incomplete", "gremlins", "unknown", "malformed", "gremlins"),
    ("incomplete", None, "length", "truncated", "incomplete"),
    ("queued", None, "unknown", "malformed", "queued"),
    ("in_progress", None, "unknown", "malformed", "in_progress"),
    ("gremlins", None, "unknown", "malformed", "gremlins"),
]


@pytest.mark.parametrize(("status", "reason", "stop", "event", "raw"), FINISHES)
def test_each_status_is_an_event_and_its_own_word_is_in_the_journal(
    status: str, reason: str | None, stop: str, event: str, raw: str
) -> None:
    reply = whole(response(status, reason=reason))
    assert (reply.stop_reason, reply.stop_raw, reply.text) == (stop, raw, "In the reeds, mostly.")
    step = settled(LINK, reply)
    assert (step.event, step.stop_raw) == (event, raw)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_response_that_was_given_up_is_an_error_even_where_nobody_says_which(status: str) -> None:
    reply = whole(response(status))
    assert (reply.failure.reason, settled(LINK, reply).event) == ("server_error", "interrupted")
    nothing = whole(response(status, output=[]))
    assert (nothing.code, settled(LINK, nothing).event) == (status, "failed_transiently")


def test_a_response_without_a_status_was_cut() -> None:
    reply = whole(response(None))
    assert (reply.interrupted, settled(LINK, reply).event) == (True, "interrupted")


def test_a_completed_response_with_calls_calls_tools() -> None:
    reply = whole(response(output=[MESSAGE, CALL]))
    assert (reply.stop_reason, reply.stop_raw, settled(LINK, reply).event) == (
        "tool_calls",
        "completed",
        "called_tools",
    )


ERRORS = [
    ("server_error", "failed_transiently", "server_error"),
    ("rate_limit_exceeded", "failed_transiently", "rate_limit"),
    ("vector_store_timeout", "failed_transiently", "timeout"),
    ("invalid_prompt", "refused", "content_policy"),
    ("bio_policy", "refused", "content_policy"),
    ("cyber_policy", "refused", "content_policy"),
    ("misalignment_policy_violation", "refused", "content_policy"),
    ("image_content_policy_violation", "refused", "content_policy"),
    ("context_length_exceeded", "overflowed", "context_overflow"),
    ("insufficient_quota", "failed_permanently", "billing"),
    ("server_is_overloaded", "failed_transiently", "overloaded"),
    *(
        (code, "failed_permanently", "format")
        for code in (
            *("data_residency_mismatch", "invalid_image", "invalid_image_format", "invalid_base64_image"),
            *("invalid_image_url", "image_too_large", "image_too_small", "image_parse_error", "invalid_image_mode"),
            *("image_file_too_large", "unsupported_image_media_type", "empty_image_file"),
            *("failed_to_download_image", "image_file_not_found"),
        )
    ),
]


@pytest.mark.parametrize(("code", "event", "reason"), ERRORS)
def test_each_error_code_is_a_reason_wherever_it_stands(code: str, event: str, reason: str) -> None:
    error = {"code": code, "message": "It did not work."}
    failed = response("failed", output=[], error=error)
    for came in (
        whole(failed),
        streamed(
            {"type": "response.created", "response": response("in_progress", output=[])}, {"type": "error", **error}
        ),
        streamed({"type": "error", "error": error}),
        streamed({"type": "response.failed", "response": failed}),
    ):
        assert (came.reason, came.code) == (reason, code)
        step = settled(LINK, came)
        assert (step.event, step.code) == (event, code)


SIGNED, UNSUPPORTED = "reasoning_signature", "parameter_unsupported"
BODIES = [
    (400, "integer_below_min_value", "Expected a value >= 16, but got 1 instead.", "max_output_tokens", "format"),
    (400, None, "Item 'rs_1' of type 'reasoning' was provided without its required following item.", "input", SIGNED),
    (400, None, "Item 'fc_1' was provided without its required 'reasoning' item: 'rs_1'.", "input", SIGNED),
    (404, None, "Item with id 'rs_1' not found. Items are not persisted.", "input", SIGNED),
    (400, "invalid_encrypted_content", "The encrypted content could not be verified.", None, SIGNED),
    (400, None, "Encrypted content is not supported with this model.", "include", UNSUPPORTED),
    (400, "unsupported_parameter", "Unsupported parameter: 'temperature'.", "temperature", UNSUPPORTED),
    (400, "unsupported_value", "Unsupported value: 'minimal' is not supported.", "reasoning.effort", UNSUPPORTED),
    (400, "context_length_exceeded", "Your input exceeds the context window.", "input", "context_overflow"),
    (400, "previous_response_not_found", "Response 'resp_1' not found.", "previous_response_id", "format"),
    (429, "rate_limit_exceeded", "Rate limit reached.", None, "rate_limit"),
    (429, "insufficient_quota", "You exceeded your current quota.", None, "billing"),
    (503, "server_is_overloaded", "Overloaded.", None, "overloaded"),
    (401, "invalid_api_key", "Incorrect API key provided.", None, "auth"),
    (404, "model_not_found", "The model 'x' does not exist.", "model", "model_not_found"),
]


@pytest.mark.parametrize(("status", "code", "message", "parameter", "reason"), BODIES)
def test_each_error_body_is_a_reason(
    status: int, code: str | None, message: str, parameter: str | None, reason: str
) -> None:
    error = {"message": message, "type": "invalid_request_error", "param": parameter, "code": code}
    came = BACKEND.decode(status, {}, json.dumps({"error": error}).encode())
    assert (came.reason, came.status) == (reason, status)
    if reason == "parameter_unsupported" and parameter:
        assert came.parameter == parameter.partition(".")[0]
    assert settled(LINK, came).status == status
