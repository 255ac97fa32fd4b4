"""What a response says went wrong: each wording, number and status that was seen, and the reason that it is."""

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from rungwise.fsm.failures.classify import classify_response
from rungwise.fsm.failures.failure import Reason
from support.error_bodies import anthropic, google, openai, quota

REASONS = frozenset(get_args(Reason))


WORDINGS = tomllib.loads(Path(__file__).with_name("response_wordings.toml").read_text(encoding="utf-8"))
SPENT = "You exceeded your current quota, please check your plan and billing details."
TPM = "on tokens per min (TPM): Limit 30000, Used 29000, Requested 3082. Please try again in 9.816s."

CASES: dict[Reason, list[Any]] = {
    "auth": [
        (401, openai("Incorrect API key provided: sk-1***9.", "invalid_request_error", "invalid_api_key")),
        (401, ""),
        (403, None),
        (403, anthropic("Your API key does not have permission", "permission_error")),
        (None, anthropic("invalid x-api-key", "authentication_error")),
        (401, {"error": {"code": "1000", "message": "Authentication Failed"}}),
        google(400, "INVALID_ARGUMENT", "API key not valid.", {"reason": "API_KEY_INVALID"}),
        "Invalid API key",
        (200, {"base_resp": {"status_code": 1004, "status_msg": "login fail: carry the API secret key"}}),
    ],
    "billing": [
        (402, ""),
        (402, {"error": {"code": 402, "message": "Insufficient credits. Add more using https://x.test"}}),
        (429, openai(SPENT, "insufficient_quota", "insufficient_quota")),
        (429, openai("Quota exceeded for this account")),
        (403, openai("Your quota is used up")),
        (403, {"error": {"code": 403, "message": "Key limit exceeded (total limit)."}}),
        (401, openai("Insufficient balance", "CreditsError")),
        openai("x", None, "billing_hard_limit_reached"),
        (None, openai("x", None, "credit_balance_exhausted")),
        (429, openai("x", None, "project_spend_limit_exceeded")),
        (429, openai("Your account is suspended", "exceeded_current_quota_error")),
        anthropic("Your credit balance is too low to access the Anthropic API."),
        anthropic("You have reached your specified API usage limits."),
        (429, anthropic("Extra usage is required for long context requests.", "rate_limit_error")),
        (429, {"error": {"code": "1113", "message": "x"}}),
        (429, {"error": {"code": "1308", "message": "Usage limit reached for 5 hour."}}),
        (429, {"error": {"code": 1321, "message": "x"}}),
        (429, google(429, "RESOURCE_EXHAUSTED", SPENT, quota("RequestsPerMinute", "GenerateRequestsPerDay-Free"))),
        (503, google(429, "RESOURCE_EXHAUSTED", "x", quota("InputTokensPerDay"))),
        (429, google(429, "RESOURCE_EXHAUSTED", "* Quota exceeded for metric: free_requests, limit: 0, model: m")),
    ],
    "rate_limit": [
        (429, ""),
        (429, openai(f"Rate limit reached for gpt-4o {TPM}", "tokens", "rate_limit_exceeded")),
        (429, openai(f"Rate limit reached {TPM} Upgrade at https://x.test/settings/billing", "tokens")),
        (429, google(429, "RESOURCE_EXHAUSTED", SPENT, quota("GenerateRequestsPerMinutePerProject"))),
        (429, openai("Tokens per minute limit exceeded", "too_many_tokens_error", "token_quota_exceeded", "quota")),
        (429, openai("You have exceeded token rate limit of your quota. Please retry after 6 seconds.")),
        (429, {"error": {"code": "1302", "message": "High concurrency usage of this API"}}),
        {"message": "Too many tokens per day, throttling", "__type": "a.b#ThrottlingException"},
        openai("Requests throttling triggered", None, "Throttling.RateQuota"),
        (None, anthropic("This request would exceed your rate limit", "rate_limit_error")),
        (402, openai("Usage limit reached; it resets soon")),
        (402, openai("Quota reached, try again in 5 minutes")),
        (200, openai("x", None, "rate_limit_exceeded")),
    ],
    "overloaded": [
        (503, "<html><title>503 Service Temporarily Unavailable</title></html>"),
        (529, anthropic("Overloaded", "overloaded_error")),
        (None, anthropic("Overloaded", "overloaded_error")),
        (429, openai("The engine is currently overloaded, please try again later", "engine_overloaded_error")),
        (429, openai("That model is currently overloaded with other requests.", None, "rate_limit_exceeded")),
        (429, {"error": {"code": "1305", "message": "x"}}),
        (429, {"object": "error", "message": "Service tier capacity exceeded for this model.", "code": "3505"}),
        (503, openai("Slow down", None, "server_is_overloaded")),
        (429, google(429, "RESOURCE_EXHAUSTED", "No capacity", {"reason": "MODEL_CAPACITY_EXHAUSTED"})),
        (None, google(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")),
    ],
    "server_error": [
        *((status, "") for status in (500, 501, 502, 504, 520, 524, 527, 599)),
        (500, openai("The server had an error processing your request", "server_error")),
        (None, anthropic("Internal server error", "api_error")),
        (None, google(500, "INTERNAL", "An internal error has occurred.")),
        (None, {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "x"}}}),
        (200, {"error": {"code": 502, "message": "Provider returned error"}}),
    ],
    "timeout": [
        (408, ""),
        (None, anthropic("Request timed out", "timeout_error")),
        (None, google(504, "DEADLINE_EXCEEDED", "The request timed out")),
    ],
    "connection": [(None, openai("x", None, "network_error"))],
    "context_overflow": [
        openai("x", "invalid_request_error", "context_length_exceeded", "messages"),
        anthropic("prompt is too long: 200049 tokens > 200000 maximum"),
        (None, openai("x", None, "model_context_window_exceeded")),
        "This model's maximum context length is 8192 tokens. Reduce the length.",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        anthropic("input length and `max_tokens` exceed context limit: 200001 + 21333 > 200000"),
        "Please reduce the length of the messages or completion.",
        openai("request exceeds the available context size", "exceed_context_size_error"),
        google(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
        {"message": "Input is too long for requested model.", "__type": "ValidationException"},
        (413, openai("Current length is 9000 while limit is 8192")),
        (500, openai("prompt is too long")),
        "The input (9 tokens) is longer than the model's context length (8 tokens).",
        "invalid params, context window exceeds limit (2013)",
        "prompt token count of 200000 exceeds the limit of 128000",
        "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.",
        (422, {"error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"}),
        "Input tokens exceed the configured limit of 272000 tokens.",
        "`inputs` tokens + `max_new_tokens` must be <= 32768. Given: 40000 `inputs` tokens",
        "Prompt contains 9 tokens, too large for model with 8 maximum context length",
    ],
    "payload_too_large": [
        (413, ""),
        (413, "<html><title>413 Request Entity Too Large</title></html>"),
        (None, anthropic("Request exceeds the maximum size", "request_too_large")),
        (
            413,
            openai(
                "Request too large for model `m` (TPM): Limit 6000, Requested 14368", "tokens", "rate_limit_exceeded"
            ),
        ),
        (429, openai("Request too large for gpt-4o (TPM): Limit 30000, Requested 342389. It must be reduced.")),
    ],
    "prefill_unsupported": [
        anthropic(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        ),
        google(400, "INVALID_ARGUMENT", "Requests ending with a model turn are not supported."),
        anthropic("When using output format, pre-filling the assistant is not supported"),
        {"message": "Expected last role User or Tool (or Assistant with prefix True) but got assistant"},
        anthropic("messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`."),
    ],
    "reasoning_signature": [
        anthropic("messages.1.content.0: Invalid `signature` in `thinking` block"),
        google(400, "INVALID_ARGUMENT", "Corrupted thought signature."),
        google(400, "INVALID_ARGUMENT", "Function call is missing a thought_signature in functionCall parts."),
        openai("x", None, "thinking_signature"),
        openai("The encrypted content gAAA could not be verified.", None, "invalid_encrypted_content"),
        openai("Item 'rs_1' of type 'reasoning' was provided without its required following item.", param="input"),
        (404, openai("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.")),
        "property 'reasoning_content' is unsupported",
        openai("Unknown parameter: 'messages[1].reasoning_content'.", param="messages[1].reasoning_content"),
        (
            422,
            {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "messages", 1, "assistant", "reasoning_content"],
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
        ),
    ],
    "reasoning_missing": [
        openai(
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            "invalid_request_error",
            "invalid_request_error",
        ),
        "The reasoning_content field must be fully passed back to the API.",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
        "Missing `reasoning_content` field in the assistant message at message index 1.",
    ],
    "failed_generation": [
        openai(
            "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
            "invalid_request_error",
            "tool_use_failed",
        ),
        openai("tool call validation failed: parameters for tool f did not match schema", None, "tool_use_failed"),
        openai("Failed to generate JSON. Please adjust your prompt.", None, "json_validate_failed"),
        (None, {"error": {"message": "Failed to call a function. Please adjust your prompt.", "status_code": 400}}),
    ],
    "model_not_found": [
        (404, openai("The model `gpt-4.1-x` does not exist or you do not have access to it.", None, "model_not_found")),
        openai("The requested model 'x' does not exist.", param="model"),
        (404, anthropic("model: claude-nope", "not_found_error")),
        (404, google(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta")),
        (404, {"error": 'model "llama9" not found, try pulling it first'}),
        {"error": {"code": 400, "message": "foo/bar is not a valid model ID"}},
        (404, {"error": {"code": 404, "message": "No endpoints found that support tool use."}}),
        {"message": "The provided model identifier is invalid."},
        (503, openai("No channel", None, "model_not_found")),
    ],
    "content_policy": [
        openai("The response was filtered due to Azure's content management policy.", None, "content_filter", "prompt"),
        {"error": {"code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
        openai("Invalid prompt: flagged as potentially violating our usage policy.", None, "invalid_prompt"),
        anthropic("Output blocked by content filtering policy"),
        openai("Content Exists Risk", "invalid_request_error", "invalid_request_error"),
        openai("Input data may contain inappropriate content.", None, "data_inspection_failed"),
        (403, {"error": {"code": 403, "message": "m requires moderation. Your input was flagged for violence."}}),
        (200, {"promptFeedback": {"blockReason": "SAFETY"}}),
        (200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
        (None, openai("x", None, "refusal")),
    ],
    "format": [
        *((status, "") for status in (301, 400, 405, 415, 422, 451)),
        (422, {"detail": [{"loc": ["body", "messages"], "msg": "Field required", "type": "missing"}]}),
        "messages.0.content.0: image exceeds 5 MB maximum",
        openai("Invalid 'temperature': decimal above maximum value. Expected a value <= 2.", param="temperature"),
        (None, anthropic("messages: at least one message is required")),
    ],
    "malformed": [(200, "<html>Sign in to the network</html>"), (200, b""), (200, {}), (204, None)],
    "unknown": [
        (404, ""),
        (404, {"detail": "Not Found"}),
        "unknown error, 999 (1000)",
        (200, {"error": {"code": 999, "message": "x"}}),
        (200, {"base_resp": {"status_code": 1000, "status_msg": "x"}}),
        (200, {"error": "boom"}),
        (None, {"error": {"message": "boom"}}),
        (None, None),
        (409, ""),
        (999, ""),
    ],
}
"""What comes with each reason: its status and body, or of an error 400 the body, or its message in OpenAI's shape."""


def response_of(case: Any) -> tuple[int | None, Any]:
    return case if isinstance(case, tuple) else (400, openai(case) if isinstance(case, str) else case)


FLAT = [(reason, *response_of(case)) for reason, cases in CASES.items() for case in cases]


@pytest.mark.parametrize(("reason", "status", "body"), FLAT)
def test_names_the_reason(reason: Reason, status: int | None, body: Any) -> None:
    failure = classify_response(status, {}, body)
    assert failure.reason == reason
    assert failure.status == status


def test_every_reason_of_a_response_is_covered() -> None:
    assert CASES.keys() | {"output_cap", "parameter_unsupported", "certificate", "silence"} == REASONS


def body_of(said: str) -> Any:
    return said if said.startswith("{") else openai(said)


@pytest.mark.parametrize(("available", "said"), WORDINGS["room"])
def test_reads_the_available_tokens(available: int, said: str) -> None:
    failure = classify_response(400, {}, body_of(said))
    assert (failure.reason, failure.available_tokens) == ("output_cap", available)


def test_what_is_left_of_the_credit_is_an_output_cap_too() -> None:
    message = (
        "This request requires more credits, or fewer max_tokens. You requested up to 32000, but can only afford 27342."
    )
    failure = classify_response(402, {}, {"error": {"code": 402, "message": message}})
    assert (failure.reason, failure.available_tokens) == ("output_cap", 27342)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (
            "context_overflow",
            (
                "maximum context length is 100 tokens. However, you requested 300 tokens (200 in the "
                "messages, 100 in the completion)"
            ),
        ),
        ("context_overflow", "exceed context limit: 200000 + 1 > 200000"),
        (
            "context_overflow",
            (
                "This model's maximum context length is 8192 tokens. However, you requested 4000 output "
                "tokens and your prompt contains at least 4193 input tokens"
            ),
        ),
        ("format", "max_tokens is wrong"),
        ("format", f"max_tokens must be <= {'9' * 6000}"),
        ("format", "max_tokens must be <= 0"),
    ],
)
def test_no_room_is_no_output_cap(reason: Reason, message: str) -> None:
    failure = classify_response(400, {}, openai(message))
    assert (failure.reason, failure.available_tokens) == (reason, None)


@pytest.mark.parametrize(("parameter", "said"), WORDINGS["parameters"])
def test_names_the_unsupported_parameter(parameter: str, said: str) -> None:
    failure = classify_response(400, {}, body_of(said))
    assert (failure.reason, failure.parameter) == ("parameter_unsupported", parameter)


def test_a_parameter_that_no_endpoint_supports() -> None:
    body = {"error": {"code": 404, "message": "No endpoints found that support the provided 'tool_choice' value."}}
    assert classify_response(404, {}, body).parameter == "tool_choice"


@pytest.mark.parametrize(
    "body",
    [
        openai(
            "Unsupported value: 'messages[0].role' does not support 'system'",
            None,
            "unsupported_value",
            "messages[0].role",
        ),
        openai("Unknown parameter: 'input[2].foo'.", None, "unknown_parameter", "input[2].foo"),
        openai("Unsupported parameter: 'tools'.", None, "unsupported_parameter", "tools"),
        anthropic(f"messages.65.content.1.tool_use.{'x' * 90}.text: Extra inputs are not permitted"),
        openai("This model does not support image input"),
        openai("role 'developer' is not supported"),
        openai("tool_choice 'required' is not supported when thinking is enabled"),
        openai("Unsupported parameter", None, "unsupported_parameter"),
    ],
)
def test_what_the_request_is_about_is_never_dropped(body: Any) -> None:
    failure = classify_response(400, {}, body)
    assert (failure.reason, failure.parameter) == ("format", None)


@pytest.mark.parametrize(
    "name",
    [
        *("response_format", "response_format.json_schema", "output_format", "format", "guided_json"),
        *("responseMimeType", "generationConfig.responseSchema", "generation_config.response_json_schema"),
        *("text.format", "text.format.type", "output_config.format", "outputConfig.textFormat"),
    ],
)
def test_what_asks_for_json_is_one_parameter_by_whatever_name(name: str) -> None:
    failure = classify_response(400, {}, openai(f"'{name}' is not supported", None, "unsupported_parameter", name))
    assert (failure.reason, failure.parameter) == ("parameter_unsupported", "response_format")


def test_a_kind_of_json_that_is_not_supported_is_the_parameter_for_it() -> None:
    told = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
    failure = classify_response(400, {}, openai(told))
    assert (failure.reason, failure.parameter) == ("parameter_unsupported", "response_format")


# how servers say that a prompt does not fit, and what sounds like it: each wording with its source is in a table


OVERFLOWS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("overflow_wordings.toml").read_text(encoding="utf-8")
)["wording"]


def overflow_of(wording: dict[str, Any]) -> bytes:
    if "body" in wording:
        return str(wording["body"]).encode()
    error = {"message": wording["message"], "type": "invalid_request_error", "param": None, "code": None}
    return json.dumps({"error": error}).encode()


@pytest.mark.parametrize(
    "wording", OVERFLOWS, ids=[f"{wording['provider']}-{wording['status']}" for wording in OVERFLOWS]
)
def test_each_wording_is_what_it_is(wording: dict[str, Any]) -> None:
    status = wording["status"]
    assert classify_response(status, {}, overflow_of(wording)).reason == wording["reason"]
    if status == 200:  # the same inside a stream
        assert classify_response(None, {}, overflow_of(wording)).reason == wording["reason"]


def test_the_table_says_where_each_wording_was_seen() -> None:
    for wording in OVERFLOWS:
        assert wording.keys() <= {"provider", "status", "message", "body", "reason", "source"}
        assert ("message" in wording) != ("body" in wording)
        assert wording["reason"] in get_args(Reason)
        assert wording["source"].strip()
        json.loads(overflow_of(wording))


@pytest.mark.parametrize("wording", [w for w in OVERFLOWS if w["reason"] == "context_overflow" and "message" in w])
@pytest.mark.parametrize("status", [401, 402, 404, 429, 503])
def test_no_wording_is_an_overflow_on_a_status_that_says_something_else(wording: dict[str, Any], status: int) -> None:
    assert classify_response(status, {}, overflow_of(wording)).reason not in ("context_overflow", "payload_too_large")
