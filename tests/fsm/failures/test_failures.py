from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from typing import Any, get_args

import httpcore
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.failures.classify import KEY_HINT_REASONS, classify_response, event_of_failure
from rungwise.fsm.failures.failure import Failure, Reason
from rungwise.fsm.failures.transport import classify_exception, is_local_bug

REASONS = frozenset(get_args(Reason))


def openai(message: str, kind: str | None = None, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def google(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "status": status, "message": message, "details": list(details)}}


def quota(*ids: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": name} for name in ids]}


SPENT = "You exceeded your current quota, please check your plan and billing details."
TPM = "on tokens per min (TPM): Limit 30000, Used 29000, Requested 3082. Please try again in 9.816s."

CASES: dict[Reason, list[tuple[int | None, Any]]] = {
    "auth": [
        (401, openai("Incorrect API key provided: sk-1***9.", "invalid_request_error", "invalid_api_key")),
        (401, ""),
        (403, None),
        (403, anthropic("Your API key does not have permission", "permission_error")),
        (None, anthropic("invalid x-api-key", "authentication_error")),
        (401, {"error": {"code": "1000", "message": "Authentication Failed"}}),
        (400, google(400, "INVALID_ARGUMENT", "API key not valid.", {"reason": "API_KEY_INVALID"})),
        (400, openai("Invalid API key")),
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
        (400, openai("x", None, "billing_hard_limit_reached")),
        (None, openai("x", None, "credit_balance_exhausted")),
        (429, openai("x", None, "project_spend_limit_exceeded")),
        (429, openai("Your account is suspended", "exceeded_current_quota_error")),
        (400, anthropic("Your credit balance is too low to access the Anthropic API.")),
        (400, anthropic("You have reached your specified API usage limits.")),
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
        (400, {"message": "Too many tokens per day, throttling", "__type": "a.b#ThrottlingException"}),
        (400, openai("Requests throttling triggered", None, "Throttling.RateQuota")),
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
    "connection": [
        (None, openai("x", None, "network_error")),
    ],
    "context_overflow": [
        (400, openai("x", "invalid_request_error", "context_length_exceeded", "messages")),
        (400, anthropic("prompt is too long: 200049 tokens > 200000 maximum")),
        (None, openai("x", None, "model_context_window_exceeded")),
        (400, openai("This model's maximum context length is 8192 tokens. Reduce the length.")),
        (400, openai("This model's maximum prompt length is 131072 but the request contains 537812 tokens.")),
        (400, anthropic("input length and `max_tokens` exceed context limit: 200001 + 21333 > 200000")),
        (400, openai("Please reduce the length of the messages or completion.")),
        (400, openai("request exceeds the available context size", "exceed_context_size_error")),
        (
            400,
            google(
                400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."
            ),
        ),
        (400, {"message": "Input is too long for requested model.", "__type": "ValidationException"}),
        (413, openai("Current length is 9000 while limit is 8192")),
        (500, openai("prompt is too long")),
        (400, openai("The input (9 tokens) is longer than the model's context length (8 tokens).")),
        (400, openai("invalid params, context window exceeds limit (2013)")),
        (400, openai("prompt token count of 200000 exceeds the limit of 128000")),
        (400, openai("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.")),
        (422, {"error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"}),
        (400, openai("Input tokens exceed the configured limit of 272000 tokens.")),
        (400, openai("`inputs` tokens + `max_new_tokens` must be <= 32768. Given: 40000 `inputs` tokens")),
        (400, openai("Prompt contains 9 tokens, too large for model with 8 maximum context length")),
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
        (
            400,
            anthropic(
                "This model does not support assistant message prefill. The conversation must end with a user message."
            ),
        ),
        (400, google(400, "INVALID_ARGUMENT", "Requests ending with a model turn are not supported.")),
        (400, anthropic("When using output format, pre-filling the assistant is not supported")),
        (
            400,
            {"message": "Expected last role User or Tool (or Assistant with prefix True) but got assistant"},
        ),
        (400, anthropic("messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`.")),
    ],
    "reasoning_signature": [
        (400, anthropic("messages.1.content.0: Invalid `signature` in `thinking` block")),
        (400, google(400, "INVALID_ARGUMENT", "Corrupted thought signature.")),
        (400, google(400, "INVALID_ARGUMENT", "Function call is missing a thought_signature in functionCall parts.")),
        (400, openai("x", None, "thinking_signature")),
        (400, openai("The encrypted content gAAA could not be verified.", None, "invalid_encrypted_content")),
        (
            400,
            openai("Item 'rs_1' of type 'reasoning' was provided without its required following item.", param="input"),
        ),
        (404, openai("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.")),
        (400, openai("property 'reasoning_content' is unsupported")),
        (400, openai("Unknown parameter: 'messages[1].reasoning_content'.", param="messages[1].reasoning_content")),
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
        (
            400,
            openai(
                "The `reasoning_content` in the thinking mode must be passed back to the API.",
                "invalid_request_error",
                "invalid_request_error",
            ),
        ),
        (400, openai("The reasoning_content field must be fully passed back to the API.")),
        (400, openai("thinking is enabled but reasoning_content is missing in assistant tool call message at index 2")),
        (400, openai("Missing `reasoning_content` field in the assistant message at message index 1.")),
    ],
    "failed_generation": [
        (
            400,
            openai(
                "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
                "invalid_request_error",
                "tool_use_failed",
            ),
        ),
        (
            400,
            openai("tool call validation failed: parameters for tool f did not match schema", None, "tool_use_failed"),
        ),
        (400, openai("Failed to generate JSON. Please adjust your prompt.", None, "json_validate_failed")),
        (
            None,
            {"error": {"message": "Failed to call a function. Please adjust your prompt.", "status_code": 400}},
        ),
    ],
    "model_not_found": [
        (404, openai("The model `gpt-4.1-x` does not exist or you do not have access to it.", None, "model_not_found")),
        (400, openai("The requested model 'x' does not exist.", param="model")),
        (404, anthropic("model: claude-nope", "not_found_error")),
        (404, google(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta")),
        (404, {"error": 'model "llama9" not found, try pulling it first'}),
        (400, {"error": {"code": 400, "message": "foo/bar is not a valid model ID"}}),
        (404, {"error": {"code": 404, "message": "No endpoints found that support tool use."}}),
        (400, {"message": "The provided model identifier is invalid."}),
        (503, openai("No channel", None, "model_not_found")),
    ],
    "content_policy": [
        (
            400,
            openai(
                "The response was filtered due to Azure's content management policy.", None, "content_filter", "prompt"
            ),
        ),
        (400, {"error": {"code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
        (400, openai("Invalid prompt: flagged as potentially violating our usage policy.", None, "invalid_prompt")),
        (400, anthropic("Output blocked by content filtering policy")),
        (400, openai("Content Exists Risk", "invalid_request_error", "invalid_request_error")),
        (400, openai("Input data may contain inappropriate content.", None, "data_inspection_failed")),
        (403, {"error": {"code": 403, "message": "m requires moderation. Your input was flagged for violence."}}),
        (200, {"promptFeedback": {"blockReason": "SAFETY"}}),
        (200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
        (None, openai("x", None, "refusal")),
    ],
    "format": [
        *((status, "") for status in (301, 400, 405, 415, 422, 451)),
        (422, {"detail": [{"loc": ["body", "messages"], "msg": "Field required", "type": "missing"}]}),
        (400, openai("messages.0.content.0: image exceeds 5 MB maximum")),
        (
            400,
            openai("Invalid 'temperature': decimal above maximum value. Expected a value <= 2.", param="temperature"),
        ),
        (None, anthropic("messages: at least one message is required")),
    ],
    "malformed": [
        (200, "<html>Sign in to the network</html>"),
        (200, b""),
        (200, {}),
        (204, None),
    ],
    "unknown": [
        (404, ""),
        (404, {"detail": "Not Found"}),
        (400, openai("unknown error, 999 (1000)")),
        (200, {"error": {"code": 999, "message": "x"}}),
        (200, {"base_resp": {"status_code": 1000, "status_msg": "x"}}),
        (200, {"error": "boom"}),
        (None, {"error": {"message": "boom"}}),
        (None, None),
        (409, ""),
        (999, ""),
    ],
}
FLAT = [(reason, status, body) for reason, cases in CASES.items() for status, body in cases]


@pytest.mark.parametrize(("reason", "status", "body"), FLAT)
def test_names_the_reason(reason: Reason, status: int | None, body: Any) -> None:
    failure = classify_response(status, {}, body)
    assert failure.reason == reason
    assert failure.status == status


@pytest.mark.parametrize(("reason", "status", "body"), FLAT)
def test_bytes_and_text_are_decoded(reason: Reason, status: int | None, body: Any) -> None:
    if isinstance(body, dict):
        assert classify_response(status, {}, json.dumps(body)) == classify_response(status, {}, body)
        assert classify_response(status, {}, json.dumps(body, indent=1).encode()).reason == reason


def test_every_reason_of_a_response_is_covered() -> None:
    assert CASES.keys() | {"output_cap", "parameter_unsupported", "certificate"} == REASONS


ROOM: list[tuple[int, Any]] = [
    (
        3192,
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens "
        "(5000 in the messages, 4000 in the completion).",
    ),
    (
        8078,
        "This model's maximum context length is 8192 tokens. However, you requested 8306 tokens "
        "(64 in the messages, 50 in the functions, and 8192 in the completion).",
    ),
    (
        9840,
        "This endpoint's maximum context length is 163840 tokens. However, you requested about "
        "170000 tokens (150000 of text input, 4000 of tool input, 16000 in the output).",
    ),
    (
        39766,
        "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum "
        "context length is 64001 tokens and your request has 24235 input tokens (64000 > 64001 - "
        "24235).",
    ),
    (
        12768,
        "Requested token count exceeds the model's maximum context length of 32768 tokens. You "
        "requested a total of 40000 tokens: 20000 tokens from the input messages and 20000 "
        "tokens for the completion.",
    ),
    (1048576, "max_tokens: 2,000,000 > 1,048,576, which is the maximum allowed number of output tokens"),
    (
        2768,
        "`inputs` tokens + `max_new_tokens` must be <= 32768. Given: 30000 `inputs` tokens and 5000 `max_new_tokens`",
    ),
    (8192, "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less"),
    (8000, "max_tokens for `llama-3.1-8b-instant` must be less than or equal to 8000"),
    (8192, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
    (8192, "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]"),
    (
        8128,
        openai(
            (
                "This model's maximum context length is 8192 tokens. However, you requested 8256 tokens "
                "(64 in the messages, 8192 in the completion). Please reduce the length of the messages "
                "or completion."
            ),
            None,
            "context_length_exceeded",
            "messages",
        ),
    ),
    (
        16000,
        openai(
            (
                "This model's maximum context length is 32768 tokens. However, you requested 32000 "
                "output tokens and your prompt contains at least 769 input tokens, for a total of at "
                "least 32769 tokens."
            ),
            param="input_tokens",
        ),
    ),
    (
        8192,
        anthropic(
            "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet"
        ),
    ),
    (
        10000,
        anthropic("input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length"),
    ),
    (
        16384,
        openai(
            (
                "max_tokens is too large: 99999. This model supports at most 16384 completion tokens, "
                "whereas you provided 99999."
            ),
            param="max_tokens",
        ),
    ),
    (
        131072,
        openai(
            "Param Incorrect",
            None,
            "400",
            "max_tokens is too large: 1048576. This model supports at most 131072 completion tokens",
        ),
    ),
    (
        32768,
        openai("integer above maximum value, expected a value <= 32768, but got 64000 instead.", param="max_tokens"),
    ),
    (8192, {"detail": [{"loc": ["body", "max_tokens"], "msg": "Input should be less than or equal to 8192"}]}),
    (
        8192,
        google(
            400,
            "INVALID_ARGUMENT",
            (
                "it has a maxOutputTokens value of 655360 but the supported range is from 1 (inclusive) "
                "to 8193 (exclusive)."
            ),
        ),
    ),
    (
        4096,
        {
            "message": (
                "The maximum tokens you requested exceeds the model limit of 4096. Try again with a "
                "maximum tokens value that is lower than 4096."
            )
        },
    ),
    (
        27342,
        {
            "error": {
                "code": 402,
                "message": (
                    "This request requires more credits, or fewer max_tokens. You requested up to 32000 "
                    "tokens, but can only afford 27342."
                ),
            }
        },
    ),
]


@pytest.mark.parametrize(("available", "said"), ROOM)
def test_reads_the_available_tokens(available: int, said: Any) -> None:
    failure = classify_response(400, {}, openai(said) if isinstance(said, str) else said)
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


PARAMETERS: list[tuple[str, Any]] = [
    (
        "max_tokens",
        openai(
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                "'max_completion_tokens' instead."
            ),
            None,
            "unsupported_parameter",
            "max_tokens",
        ),
    ),
    (
        "max_tokens",
        openai(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        ),
    ),
    (
        "temperature",
        openai(
            (
                "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default "
                "(1) value is supported."
            ),
            None,
            "unsupported_value",
            "temperature",
        ),
    ),
    ("temperature", openai("Unsupported value: 'temperature' does not support 0.2")),
    (
        "reasoning",
        openai(
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
            None,
            "unsupported_parameter",
            "reasoning.effort",
        ),
    ),
    ("thinking", openai("Unrecognized request argument supplied: thinking")),
    (
        "reasoning_effort",
        openai("The model returned the following errors: reasoning_effort: Extra inputs are not permitted"),
    ),
    (
        "prompt_cache_key",
        {
            "error": (
                "[{'type': 'extra_forbidden', 'loc': ('body', 'prompt_cache_key'), 'msg': 'Extra inputs "
                "are not permitted', 'input': 'main'}]"
            )
        },
    ),
    (
        "top_k",
        {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "top_k"],
                    "msg": "Extra inputs are not permitted",
                    "input": 3,
                }
            ]
        },
    ),
    (
        "top_k",
        {
            "object": "error",
            "message": {
                "detail": [
                    {"type": "extra_forbidden", "loc": ["body", "top_k"], "msg": "Extra inputs are not permitted"}
                ]
            },
            "type": "invalid_request_error",
        },
    ),
    ("temperature", anthropic("`temperature` is deprecated for this model")),
    ("top_p", anthropic("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")),
    ("presencePenalty", openai("Model grok-4 does not support parameter presencePenalty.")),
    ("stop", openai("Argument not supported on this model: stop")),
    ("seed", openai("property 'seed' is unsupported")),
    ("logprobs", openai("This model does not support the `logprobs` parameter")),
    (
        "topKay",
        google(
            400,
            "INVALID_ARGUMENT",
            ("Invalid JSON payload received. Unknown name \"topKay\" at 'generation_config': Cannot find field."),
        ),
    ),
    (
        "parallel_tool_calls",
        openai("Unknown parameter: 'parallel_tool_calls'.", None, "unknown_parameter", "parallel_tool_calls"),
    ),
]


@pytest.mark.parametrize(("parameter", "body"), PARAMETERS)
def test_names_the_unsupported_parameter(parameter: str, body: Any) -> None:
    failure = classify_response(400, {}, body)
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
        openai("'response_format' is not supported", None, "unsupported_parameter", "response_format"),
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


# ---- shapes and fields


def test_what_an_aggregator_passes_on_is_read() -> None:
    raw = json.dumps(anthropic("prompt is too long: 2 tokens > 1 maximum"))
    body = {
        "error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "x"}}
    }
    failure = classify_response(200, {}, body)
    assert (failure.reason, failure.code) == ("context_overflow", "invalid_request_error")
    assert failure.message == "Provider returned error"


def test_json_of_an_unknown_shape_within_the_message_is_prose() -> None:
    wrapped = {"external_model_provider": "x", "external_model_error": {"error": {"message": "prompt is too long: 3"}}}
    failure = classify_response(400, {}, {"error_code": "BAD_REQUEST", "message": json.dumps(wrapped)})
    assert (failure.reason, failure.code) == ("context_overflow", "BAD_REQUEST")
    assert failure.message == json.dumps(wrapped)
    for empty in ("{}", "[]", '{"a": 1}'):
        assert classify_response(400, {}, openai(empty)).message == empty


def test_json_within_the_message_is_read() -> None:
    inner = json.dumps(google(503, "UNAVAILABLE", "The model is overloaded."))
    assert classify_response(None, {}, openai(inner)).reason == "overloaded"


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (openai("m", "invalid_request_error", "context_length_exceeded"), "context_length_exceeded", "m"),
        (openai("m", "server_error"), "server_error", "m"),
        (anthropic("m", "overloaded_error"), "overloaded_error", "m"),
        (google(429, "RESOURCE_EXHAUSTED", "m"), "RESOURCE_EXHAUSTED", "m"),
        ({"object": "error", "message": "m", "type": "invalid_model", "code": "1500"}, "1500", "m"),
        ({"error": {"code": 502, "message": "m"}}, "502", "m"),
        ({"detail": [{"loc": ["body", "x"], "msg": "m", "type": "missing"}]}, "missing", "m"),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "m", "param": None}, "rate_limit_exceeded", "m"),
        ({"error": "m"}, None, "m"),
        ("m", None, "m"),
        (b"m\xff", None, "m\ufffd"),
        ({"error": {"code": "sorry, sk-secret is wrong", "message": "m"}}, None, "m"),
    ],
)
def test_keeps_the_raw_code_and_message(body: Any, code: str | None, message: str) -> None:
    failure = classify_response(None, {}, body)
    assert (failure.code, failure.message) == (code, message)


def test_bedrock_names_its_error_in_a_header() -> None:
    headers = {"x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/coral/"}
    assert classify_response(400, headers, {"message": "x"}).reason == "rate_limit"


def test_prose_in_a_page_is_not_believed() -> None:
    page = "<!doctype html><p>Rate limit. The model does not exist. Invalid API key.</p>"
    assert classify_response(502, {}, page).reason == "server_error"
    assert classify_response(400, {}, page).reason == "format"


def test_a_prompt_quoted_by_the_provider_decides_nothing_on_another_status() -> None:
    quoted = openai("Bad image. You sent: 'the prompt is too long, overloaded, rate limit'")
    assert classify_response(500, {}, openai("You sent: 'no such model, invalid api key'")).reason == "server_error"
    assert classify_response(401, {}, quoted).reason == "auth"


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("FALSE", False), ("maybe", None), ("", None)])
def test_reads_the_word_of_the_service(value: str, expected: bool | None) -> None:
    assert classify_response(500, {"X-Should-Retry": value}, "").should_retry is expected


def test_reads_the_wait() -> None:
    assert classify_response(429, {"Retry-After": "3"}, "").asked_wait == 3
    assert classify_response(429, {}, openai("Please try again in 6m0s")).asked_wait == 360
    assert classify_response(429, {}, json.dumps({"error": {"details": [{"retryDelay": "14s"}]}})).asked_wait == 14


def test_nothing_private_is_in_the_repr() -> None:
    failure = classify_response(401, {"authorization": "sk-secret"}, openai("Incorrect API key provided: sk-secret"))
    assert "sk-secret" in failure.message
    assert "sk-secret" not in repr(failure)
    assert "sk-secret" not in repr(classify_exception(httpx.ConnectError("sk-secret")))


# ---- events

EVENTS = {
    "failed_permanently": ("auth", "billing", "certificate", "model_not_found", "format"),
    "failed_transiently": (
        *("rate_limit", "overloaded", "server_error", "timeout", "connection", "unknown", "failed_generation"),
    ),
    "overflowed": ("context_overflow", "payload_too_large"),
    "rejected_fixably": (
        *("output_cap", "prefill_unsupported", "parameter_unsupported", "reasoning_signature", "reasoning_missing"),
    ),
    "refused": ("content_policy",),
    "malformed": ("malformed",),
}
OF_REASON: dict[Any, str] = {reason: event for event, reasons in EVENTS.items() for reason in reasons}


def test_every_reason_has_an_event() -> None:
    assert OF_REASON.keys() == REASONS
    assert {reason: event_of_failure(Failure(reason)) for reason in OF_REASON} == OF_REASON
    assert KEY_HINT_REASONS <= REASONS


@pytest.mark.parametrize("word", [True, False])
@pytest.mark.parametrize("reason", sorted(REASONS))
def test_the_service_overrides_only_whether_to_retry(reason: Reason, word: bool) -> None:
    event = event_of_failure(Failure(reason, should_retry=word))
    if OF_REASON[reason].startswith("failed"):
        assert event == ("failed_transiently" if word else "failed_permanently")
    else:
        assert event == OF_REASON[reason]


# ---- exceptions


def raised(exception: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise exception from cause
    except BaseException as caught:
        return caught


CERTIFICATE = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")


class WrappedByAnSdk(Exception):
    pass


@pytest.mark.parametrize(
    ("reason", "exception"),
    [
        *[
            ("timeout", kind("x"))
            for kind in (httpx.ConnectTimeout, httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout)
        ],
        *[
            ("timeout", kind("x"))
            for kind in (httpcore.ReadTimeout, httpcore.PoolTimeout, TimeoutError, asyncio.TimeoutError)
        ],
        *[
            ("connection", kind("x"))
            for kind in (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.CloseError)
        ],
        *[
            ("connection", kind("x"))
            for kind in (httpx.RemoteProtocolError, httpx.LocalProtocolError, httpx.ProxyError)
        ],
        *[("connection", kind("x")) for kind in (httpcore.ConnectError, httpcore.RemoteProtocolError)],
        *[
            ("connection", kind("x"))
            for kind in (ConnectionResetError, BrokenPipeError, socket.gaierror, OSError, ssl.SSLError)
        ],
        ("format", httpx.UnsupportedProtocol("no scheme")),
        ("format", httpx.InvalidURL("x")),
        ("malformed", httpx.DecodingError("x")),
        ("certificate", CERTIFICATE),
        ("certificate", raised(httpx.ConnectError("x"), raised(httpcore.ConnectError("x"), CERTIFICATE))),
        ("certificate", httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")),
        ("auth", httpx.LocalProtocolError("Illegal header value b'Bearer sk-1\\n'")),
        ("connection", raised(WrappedByAnSdk("x"), httpx.ConnectError("x"))),
        ("certificate", raised(WrappedByAnSdk("x"), raised(httpx.ConnectError("x"), CERTIFICATE))),
    ],
)
def test_names_what_the_transport_raised(reason: Reason, exception: BaseException) -> None:
    failure = classify_exception(exception)
    assert (failure.reason, failure.status) == (reason, None)
    assert failure.exception is exception
    assert failure.message == str(exception)
    assert not is_local_bug(exception)


def test_a_client_unknown_here_is_recognised_by_its_names() -> None:
    class TransportError(Exception): ...

    class ReadTimeout(Exception): ...

    assert classify_exception(TransportError()).reason == "connection"
    assert classify_exception(ReadTimeout()).reason == "timeout"


def test_the_chain_is_walked_to_a_depth_of_five() -> None:
    def wrapped(times: int) -> BaseException:
        exception: BaseException = CERTIFICATE
        for _ in range(times):
            exception = raised(httpx.ConnectError("x"), exception)
        return exception

    assert classify_exception(wrapped(5)).reason == "certificate"
    assert classify_exception(wrapped(6)).reason == "connection"


def test_a_chain_without_end_is_left() -> None:
    first, second = WrappedByAnSdk("a"), WrappedByAnSdk("b")
    first.__cause__, second.__cause__ = second, first
    assert is_local_bug(first)


def test_an_earlier_certificate_does_not_colour_a_timeout() -> None:
    assert classify_exception(raised(httpx.ReadTimeout("x"), CERTIFICATE)).reason == "timeout"


@pytest.mark.parametrize(
    "exception",
    [
        *[
            kind("x")
            for kind in (TypeError, AttributeError, ValueError, KeyError, IndexError, NameError, AssertionError)
        ],
        *[kind("x") for kind in (RuntimeError, RecursionError, ZeroDivisionError, ImportError, FileNotFoundError)],
        *[ConfigurationError("x"), WrappedByAnSdk("x"), UnicodeDecodeError("utf-8", b"x", 0, 1, "x")],
        raised(TypeError("x"), httpx.ConnectError("handled before")),
        raised(FileNotFoundError("x"), httpx.ConnectError("handled before")),
        httpx.StreamConsumed(),
    ],
)
def test_bugs_are_raised_again(exception: Exception) -> None:
    assert is_local_bug(exception)
    with pytest.raises(type(exception)) as caught:
        classify_exception(exception)
    assert caught.value is exception


@pytest.mark.parametrize("exception", [KeyboardInterrupt(), asyncio.CancelledError(), SystemExit(), GeneratorExit()])
def test_what_is_no_error_is_raised_again(exception: BaseException) -> None:
    assert not is_local_bug(exception)
    with pytest.raises(type(exception)):
        classify_exception(exception)


# ---- whatever it is given

KEYS = st.sampled_from(
    ["error", "message", "code", "type", "status", "details", "detail", "metadata", "raw", "param", "loc", "msg"]
)
TEXTS = st.text(max_size=40) | st.sampled_from(
    ["max_tokens <= 1", "Unsupported parameter: 'x'", "{", "[1", '{"error":{"code":500}}', "try again in 5s", "quota"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)
HEADERS = st.dictionaries(st.sampled_from(["x-should-retry", "Retry-After", "Date", "x-amzn-errortype"]) | TEXTS, TEXTS)


@given(
    st.none() | st.integers(100, 599) | st.integers(), HEADERS, JSON | st.binary() | JSON.map(lambda v: json.dumps(v))
)
def test_never_raises_and_always_names_a_reason(status: int | None, headers: dict[str, str], body: Any) -> None:
    failure = classify_response(status, headers, body)
    assert failure.reason in REASONS
    assert event_of_failure(failure) in EVENTS
    assert failure.asked_wait is None or failure.asked_wait > 0
    assert (failure.available_tokens is not None) == (failure.reason == "output_cap")
    assert (failure.parameter is not None) == (failure.reason == "parameter_unsupported")


@given(st.text(min_size=8).filter(lambda text: not text.isascii()))
def test_no_message_is_in_the_repr(secret: str) -> None:
    body = {"error": {"message": secret, "code": secret, "param": secret, "type": secret}}
    assert secret not in repr(classify_response(400, {}, body))


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        b"\xff\xfe" * 1000,
        {"error": {"message": "1s " * 50_000}},
        {"error": {"message": "retry " * 50_000}},
        {"error": {"message": "model " * 50_000}},
        {"error": {"message": "max_tokens " * 50_000}},
        {"error": {"message": "wait" + " " * 100_000}},
        {"error": {"message": "1s" + " " * 100_000}},
        {"error": {"message": "quota" * 50_000}},
        {"error": {"message": "a" * 100_000, "code": 10**5000}},
        {"errors": [{"message": "x"}] * 100_000},
        [[[[[[[[[[[{"error": "x"}]]]]]]]]]]],
    ],
)
def test_a_hostile_body_is_read_in_no_time(body: Any) -> None:
    started = time.perf_counter()
    assert classify_response(400, {}, body).reason in REASONS
    assert time.perf_counter() - started < 1


# ---- what is believed: a code before prose, a status before a number, a number in its own provider's shape alone


def minimax(code: int, message: str = "x") -> dict[str, Any]:
    return {"base_resp": {"status_code": code, "status_msg": message}}


def minimax_error(status: int, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "x_error", "message": message, "http_code": str(status)}}


@pytest.mark.parametrize(
    ("reason", "status", "body"),
    [
        ("content_policy", 400, {"error": {"code": "1301", "message": "x"}}),
        ("content_policy", None, {"error": {"code": 1301, "message": "x"}}),
        ("content_policy", 200, {"error": {"message": "Provider", "metadata": {"raw": '{"error":{"code":"1301"}}'}}}),
        ("rate_limit", 429, {"error": {"code": "1300", "message": "x"}}),
        ("rate_limit", 429, {"object": "error", "message": "x", "type": "rate_limited", "code": "1300"}),
        ("rate_limit", None, openai("Rate limit exceeded", None, "1300")),
        ("unknown", None, openai("x", "", "1261")),
        ("rate_limit", 200, {"object": "error", "message": "x", "type": "rate_limited", "code": "1300"}),
        ("rate_limit", 429, {"error": {"message": "x", "type": "rate_limited", "code": "1300"}}),
        ("format", 400, {"object": "error", "message": "x", "type": "invalid_request_error", "code": "1301"}),
        ("format", 400, openai("x", "invalid_request_error", "1113")),
        ("format", 400, {"code": 1301, "message": "x"}),
        ("server_error", 500, {"error": {"message": "x", "type": "server_error", "code": "1261"}}),
        *[("content_policy", status, minimax(code)) for status in (200, 422, 500) for code in (1026, 1027)],
        *[
            ("content_policy", status, minimax_error(status, f"{side} new_sensitive ({code})"))
            for status in (200, 422, 500)
            for side, code in (("input", 1026), ("output", 1027))
        ],
        ("content_policy", 422, openai("input new_sensitive (1026)")),
        ("rate_limit", 200, minimax(1002, "rate limit")),
        ("rate_limit", 200, minimax(1041, "conn limit")),
        ("billing", 200, minimax(1008, "x")),
        ("billing", 200, minimax(2056, "x")),
        ("auth", 200, minimax(2049, "x")),
        ("timeout", 200, minimax(1001, "x")),
        ("server_error", 200, minimax(1024, "x")),
        ("rate_limit", 429, minimax(1026, "x")),
        ("auth", 401, minimax(1039, "x")),
        ("billing", 200, minimax_error(200, "x (1008)")),
        ("model_not_found", 404, {"error": {"code": "DeploymentNotFound", "message": "x"}}),
        ("model_not_found", 404, openai("The API deployment for this resource does not exist.")),
        (
            "billing",
            429,
            {"error": {"code": 429, "message": "Rate limit exceeded: free-models-per-day. Add 10 credits"}},
        ),
        ("billing", 429, openai("Rate limit exceeded: free-models-per-day-high-balance.", "rate_limit_error", "429")),
        ("rate_limit", 429, {"error": {"code": 429, "message": "Rate limit exceeded: free-models-per-min."}}),
        (
            "payload_too_large",
            400,
            google(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20 bytes."),
        ),
    ],
)
def test_a_number_is_believed_for_its_own_provider(reason: Reason, status: int | None, body: Any) -> None:
    assert classify_response(status, {}, body).reason == reason


QUOTED = [
    "prompt is too long",
    "This model's maximum context length is 5 tokens",
    "max_tokens must be at least 1, got -7",
    "it was flagged for possible abuse",
    "violates our usage policy",
    "inappropriate content",
    "input new_sensitive (1026)",
    "Requests ending with a model turn are not supported",
    "the reasoning_content in the thinking mode must be passed back",
    "Corrupted thought signature",
    "max_tokens must be less than or equal to 100",
    "can only afford 100",
    "'temperature' is not supported",
]
NAMED: list[tuple[Reason, str]] = [
    ("rate_limit", "rate_limit_exceeded"),
    ("rate_limit", "ThrottlingException"),
    ("billing", "insufficient_quota"),
    ("overloaded", "server_is_overloaded"),
    ("model_not_found", "model_not_found"),
    ("auth", "invalid_api_key"),
    ("timeout", "request_timeout"),
    ("failed_generation", "tool_use_failed"),
]


@pytest.mark.parametrize("quoted", QUOTED)
@pytest.mark.parametrize(("reason", "code"), NAMED)
@pytest.mark.parametrize("status", [None, 400, 422])
def test_a_quoted_prompt_steers_nothing_against_a_code(
    reason: Reason, code: str, quoted: str, status: int | None
) -> None:
    body = openai(f"The request failed. You wrote: '{quoted}'", "invalid_request_error", code)
    assert classify_response(status, {}, body).reason == reason


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_quoted_prompt_makes_no_refusal_and_no_repair_of_an_overflow(quoted: str) -> None:
    body = openai(f"You wrote: '{quoted}'", "invalid_request_error", "context_length_exceeded")
    assert classify_response(400, {}, body).reason in ("context_overflow", "output_cap")


@pytest.mark.parametrize("quoted", QUOTED)
@pytest.mark.parametrize(
    ("status", "reason"), [(401, "auth"), (408, "timeout"), (429, "rate_limit"), (503, "overloaded")]
)
def test_a_quoted_prompt_steers_nothing_against_a_status(status: int, reason: Reason, quoted: str) -> None:
    assert classify_response(status, {}, openai(f"You wrote: '{quoted}'")).reason == reason
