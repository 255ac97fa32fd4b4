"""Each finish reason and error code that servers of chat completions are known to send: what it means, row by row."""

import json
from typing import Any

import pytest

import rungwise
from rungwise import Client, OpenAIChat
from rungwise.core import Reply
from rungwise.fsm.failures.failure import event_of_failure
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.classified import event_of
from support.error_bodies import minimax, openai
from support.modes import ask, options_of

URLS = {
    "openai": "https://api.openai.com/v1",
    "azure": "https://x.openai.azure.com/openai/v1",
    "deepseek": "https://api.deepseek.com",
    "mistral": "https://api.mistral.ai/v1",
    "kimi": "https://api.moonshot.ai/v1",
    "qwen": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    "groq": "https://api.groq.com/openai/v1",
    "cerebras": "https://api.cerebras.ai/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "xai": "https://api.x.ai/v1",
    "zai": "https://api.z.ai/api/paas/v4",
    "minimax": "https://api.minimax.io/v1",
    "together": "https://api.together.xyz/v1",
    "fireworks": "https://api.fireworks.ai/inference/v1",
    "local": "http://localhost:8000/v1",
}
USUAL = {"stop": "answered", "length": "truncated", "content_filter": "refused", "tool_calls": "called_tools"}

FINISHES: dict[str, dict[str, str]] = {
    "openai": {**USUAL, "function_call": "called_tools"},
    "azure": USUAL,
    "deepseek": {**USUAL, "insufficient_system_resource": "interrupted"},
    "mistral": {"stop": "answered", "length": "truncated", "tool_calls": "called_tools"}
    | {"model_length": "truncated", "error": "interrupted"},
    "kimi": USUAL,
    "qwen": USUAL,
    "groq": USUAL,
    "cerebras": USUAL,
    "openrouter": {**USUAL, "error": "interrupted"},
    "xai": {**USUAL, "REASON_STOP": "answered", "REASON_MAX_LEN": "truncated", "REASON_MAX_CONTEXT": "overflowed"}
    | {"REASON_TOOL_CALLS": "called_tools", "REASON_TIME_LIMIT": "truncated"},
    "zai": {**USUAL, "sensitive": "refused", "network_error": "interrupted"}
    | {"model_context_window_exceeded": "overflowed"},
    "minimax": USUAL,
    "together": {**USUAL, "eos": "answered", "eos_token": "answered"},
    "fireworks": USUAL,
    # vLLM, SGLang, llama.cpp, LM Studio and Ollama's compatible endpoint; and what Cohere says through a proxy.
    "local": {**USUAL, "abort": "interrupted", "error": "interrupted", "repetition": "malformed"}
    | {"COMPLETE": "answered", "STOP_SEQUENCE": "answered", "MAX_TOKENS": "truncated", "TOOL_CALL": "called_tools"},
}
NOBODYS = ("gremlins", "Stop!", "tool-calls", 5, {"reason": "stop"}, True)

CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def replies(provider: str, finish: Any) -> list[Reply]:
    """Return a reply with a finish reason, whole and streamed."""
    backend = OpenAIChat("m", base_url=URLS[provider])
    calls = {"tool_calls": [CALL]} if "call" in str(finish).lower() else {}
    said = {"role": "assistant", "content": "In the reeds.", **calls}
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    whole = {"choices": [{"index": 0, "message": said, "finish_reason": finish}], "usage": usage}
    decoder = backend.decoder({})
    for choices in ([{"index": 0, "delta": said}], [{"index": 0, "delta": {}, "finish_reason": finish}]):
        decoder.feed(b"data: %s\n\n" % json.dumps({"choices": choices}).encode())
    decoder.feed(b"data: [DONE]\n\n")
    found = [backend.decode(200, {}, json.dumps(whole).encode()), decoder.close()]
    assert all(isinstance(reply, Reply) for reply in found)
    return found  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("provider", "word", "event"), [(provider, *each) for provider, words in FINISHES.items() for each in words.items()]
)
def test_finish_reasons(provider: str, word: str, event: str) -> None:
    for reply in replies(provider, word):
        assert reply.stop_raw == word
        assert event_of(reply) == event


@pytest.mark.parametrize("provider", URLS)
@pytest.mark.parametrize("word", NOBODYS, ids=str)
def test_what_nobody_knows_is_no_success(provider: str, word: Any) -> None:
    for reply in replies(provider, word):
        assert reply.stop_reason == "unknown"
        assert event_of(reply) == "malformed"


@pytest.mark.parametrize("provider", URLS)
def test_a_reply_without_a_finish_reason_was_cut(provider: str) -> None:
    for reply in replies(provider, None):
        assert event_of(reply) == "interrupted"


def zai(code: int) -> dict[str, Any]:
    return {"error": {"code": str(code), "message": "x"}}


def flat(message: str, code: object, **rest: str) -> dict[str, Any]:
    return {"message": message, "code": code, **rest}


def mistral(message: str, kind: str, code: str | None = None) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code}


def openrouter(code: int, message: str, **metadata: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "metadata": metadata}}


FILTERED = {
    "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    "type": None,
    "param": "prompt",
    "code": "content_filter",
    "status": 400,
    "innererror": {
        "code": "ResponsibleAIPolicyViolation",
        "content_filter_result": {"violence": {"filtered": True, "severity": "medium"}},
    },
}

INVALID, OVERFLOW = "invalid_request_error", "context_overflow"
ERRORS: list[tuple[str, int, dict[str, Any], str]] = [
    # OpenAI, as in the reference of its API.
    ("openai", 401, openai("Incorrect API key provided", INVALID, "invalid_api_key"), "auth"),
    ("openai", 429, openai("Rate limit reached", "requests", "rate_limit_exceeded"), "rate_limit"),
    *[
        ("openai", 429, openai("x", code, code), "billing")
        for code in ("insufficient_quota", "billing_hard_limit_reached", "credit_balance_exhausted")
    ],
    ("openai", 429, openai("x", "x", "project_spend_limit_exceeded"), "billing"),
    ("openai", 400, openai("x", INVALID, "context_length_exceeded"), OVERFLOW),
    ("openai", 404, openai("The model `m` does not exist", INVALID, "model_not_found"), "model_not_found"),
    ("openai", 503, openai("x", "server_error", "server_is_overloaded"), "overloaded"),
    ("openai", 500, openai("x", "server_error"), "server_error"),
    (
        "openai",
        400,
        openai("Unsupported parameter: 'max_tokens'", INVALID, "unsupported_parameter", "max_tokens"),
        "parameter_unsupported",
    ),
    # Azure.
    ("azure", 400, {"error": FILTERED}, "content_policy"),
    (
        "azure",
        404,
        openai("The API deployment for this resource does not exist", None, "DeploymentNotFound"),
        "model_not_found",
    ),
    (
        "azure",
        429,
        openai("Requests have exceeded call rate limit. Please retry after 6 seconds.", None, "429"),
        "rate_limit",
    ),
    ("azure", 401, openai("Access denied due to invalid subscription key", None, "401"), "auth"),
    # DeepSeek [api-docs.deepseek.com/quick_start/error_codes].
    ("deepseek", 402, openai("Insufficient Balance", "unknown_error", INVALID), "billing"),
    ("deepseek", 429, openai("Rate limit reached"), "rate_limit"),
    ("deepseek", 503, openai("Server overloaded"), "overloaded"),
    (
        "deepseek",
        400,
        openai("The reasoning_content in the thinking mode must be passed back to the API.", INVALID),
        "reasoning_missing",
    ),
    ("deepseek", 400, openai("Content Exists Risk", INVALID), "content_policy"),
    # Mistral.
    ("mistral", 401, {"message": "Unauthorized", "request_id": "x"}, "auth"),
    ("mistral", 429, mistral("Requests rate limit exceeded", "rate_limited", "1300"), "rate_limit"),
    (
        "mistral",
        429,
        mistral("Service tier capacity exceeded for this model.", "service_tier_capacity_exceeded", "3505"),
        "overloaded",
    ),
    ("mistral", 400, mistral("Invalid model: m", "invalid_model", "1500"), "model_not_found"),
    (
        "mistral",
        400,
        mistral(
            "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.", "invalid_function_call", "3280"
        ),
        "format",
    ),
    (
        "mistral",
        422,
        {
            "detail": [
                {"type": "extra_forbidden", "loc": ["body", "logit_bias"], "msg": "Extra inputs are not permitted"}
            ]
        },
        "parameter_unsupported",
    ),
    ("mistral", 422, {"detail": [{"type": "missing", "loc": ["body", "model"], "msg": "Field required"}]}, "format"),
    # Moonshot [platform.moonshot.ai/docs/api/errors].
    ("kimi", 429, openai("Your account is suspended", "exceeded_current_quota_error"), "billing"),
    (
        "kimi",
        429,
        openai("The engine is currently overloaded, please try again later", "engine_overloaded_error"),
        "overloaded",
    ),
    ("kimi", 429, openai("max RPM: 3, please try again after 1 seconds", "rate_limit_reached_error"), "rate_limit"),
    (
        "kimi",
        400,
        openai("The request was rejected because it was considered high risk", "content_filter"),
        "content_policy",
    ),
    ("kimi", 404, openai("Not found the model m or Permission denied", "resource_not_found_error"), "model_not_found"),
    ("kimi", 401, openai("Invalid Authentication", "invalid_authentication_error"), "auth"),
    ("kimi", 400, openai("Invalid request: Your request exceeded model token limit: 8192", INVALID), OVERFLOW),
    # DashScope [help.aliyun.com/en/model-studio/error-code].
    (
        "qwen",
        400,
        openai("Input data may contain inappropriate content.", "x", "data_inspection_failed"),
        "content_policy",
    ),
    ("qwen", 400, flat("Input data may contain inappropriate content.", "DataInspectionFailed"), "content_policy"),
    (
        "qwen",
        400,
        openai("Access denied, please make sure your account is in good standing.", "Arrearage", "Arrearage"),
        "billing",
    ),
    (
        "qwen",
        403,
        openai(
            "The free tier of the model has been exhausted.",
            "AllocationQuota.FreeTierOnly",
            "AllocationQuota.FreeTierOnly",
        ),
        "billing",
    ),
    ("qwen", 429, openai("Requests rate limit exceeded", "limit_requests", "limit_requests"), "rate_limit"),
    ("qwen", 429, {"code": "Throttling.RateQuota", "message": "Requests rate limit exceeded"}, "rate_limit"),
    ("qwen", 429, openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "billing"),
    ("qwen", 401, openai("Incorrect API key provided.", INVALID, "invalid_api_key"), "auth"),
    (
        "qwen",
        404,
        openai("The model `m` does not exist or you do not have access to it.", "x", "model_not_found"),
        "model_not_found",
    ),
    ("qwen", 400, openai("Range of input length should be [1, 30720]", INVALID, "invalid_parameter_error"), OVERFLOW),
    # Groq [console.groq.com/docs/errors].
    ("groq", 429, openai("Rate limit reached for model `m`", "tokens", "rate_limit_exceeded"), "rate_limit"),
    ("groq", 498, openai("Flex tier capacity exceeded"), "overloaded"),
    ("groq", 413, openai("Request too large for model `m`", "tokens", "rate_limit_exceeded"), "payload_too_large"),
    (
        "groq",
        400,
        openai("Failed to call a function. Please adjust your prompt.", INVALID, "tool_use_failed"),
        "failed_generation",
    ),
    # Cerebras [explyt/explyt #35, continuedev/continue #9800].
    (
        "cerebras",
        429,
        flat(
            "Requests per second limit exceeded",
            "request_quota_exceeded",
            type="too_many_requests_error",
            param="quota",
        ),
        "rate_limit",
    ),
    (
        "cerebras",
        429,
        flat("Tokens per minute limit exceeded", "token_quota_exceeded", type="too_many_tokens_error"),
        "rate_limit",
    ),
    (
        "cerebras",
        429,
        flat("We're experiencing high traffic right now!", "queue_exceeded", type="too_many_requests_error"),
        "overloaded",
    ),
    (
        "cerebras",
        400,
        flat("Please reduce the length. Current length is 9000 while limit is 8192", "context_length_exceeded"),
        OVERFLOW,
    ),
    # OpenRouter [openrouter.ai/docs/api-reference/errors].
    ("openrouter", 402, openrouter(402, "Insufficient credits"), "billing"),
    ("openrouter", 408, openrouter(408, "Request timed out"), "timeout"),
    ("openrouter", 429, openrouter(429, "Rate limited", provider_name="x", raw="x"), "rate_limit"),
    ("openrouter", 502, openrouter(502, "Provider returned error", provider_name="x"), "server_error"),
    ("openrouter", 503, openrouter(503, "No instances available"), "overloaded"),
    ("openrouter", 200, openrouter(429, "Rate limited", provider_name="x"), "rate_limit"),
    ("openrouter", 404, openrouter(404, "No endpoints found for m."), "model_not_found"),
    # xAI.
    (
        "xai",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "Each message must have at least one content element",
        },
        "format",
    ),
    ("xai", 400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: x"}, "auth"),
    ("xai", 429, {"code": "Some resource has been exhausted", "error": "Too many requests for team x"}, "rate_limit"),
    (
        "xai",
        403,
        {"code": "x", "error": "Your team has used all available credits or reached its monthly spending limit."},
        "billing",
    ),
    # Z.AI [docs.bigmodel.cn/cn/api/api-code].
    *[("zai", 429, zai(code), "billing") for code in (1113, *range(1308, 1322))],
    *[("zai", 429, zai(code), "rate_limit") for code in (1302, 1303)],
    ("zai", 429, zai(1305), "overloaded"),
    *[("zai", 200, zai(code), "auth") for code in (1000, 1001, 1002, 1003, 1004, 1110, 1111, 1112, 1121, 1220)],
    *[("zai", 400, zai(code), "format") for code in (1210, 1212, 1213, 1214, 1215, 1221, 1222)],
    ("zai", 400, zai(1211), "model_not_found"),
    ("zai", 400, zai(1261), OVERFLOW),
    *[("zai", 400, zai(code), "content_policy") for code in (1300, 1301)],
    *[("zai", 500, zai(code), "server_error") for code in (1120, 1230, 1234)],
    # MiniMax [platform.minimax.io/docs/api-reference/errorcode].
    *[
        ("minimax", 200, minimax(code), reason)
        for code, reason in {
            **{
                1000: "unknown",
                1001: "timeout",
                1002: "rate_limit",
                1004: "auth",
                1008: "billing",
                1024: "server_error",
            },
            **{1026: "content_policy", 1027: "content_policy", 1033: "server_error", 1039: OVERFLOW},
            **{1041: "rate_limit", 1042: "format", 2013: "format", 2049: "auth", 2056: "billing"},
        }.items()
    ],
    ("minimax", 200, minimax(2013, "invalid params, context window exceeds limit (2013)"), OVERFLOW),
    ("minimax", 200, minimax(1039, "token limit, please try again later"), "rate_limit"),
    # Together and Fireworks.
    (
        "together",
        422,
        openai(
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5013 `inputs` tokens"
            " and 128 `max_new_tokens`",
            INVALID,
        ),
        OVERFLOW,
    ),
    (
        "together",
        429,
        openai("You have reached the rate limit specific to this model", "rate_limit", "rate_limit"),
        "rate_limit",
    ),
    ("together", 402, openai("Credit limit exceeded", "credit_limit", "credit_limit"), "billing"),
    ("fireworks", 400, openai("The prompt is too long: 9000, model maximum context length: 8192", INVALID), OVERFLOW),
    (
        "fireworks",
        412,
        openai("Account x is suspended, possibly due to reaching the monthly spending limit", "error"),
        "billing",
    ),
    # Servers of one's own.
    (
        "local",
        400,
        flat("Please reduce the length of the messages or completion.", 400, object="error", type="BadRequestError"),
        OVERFLOW,
    ),
    (
        "local",
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size",
                "type": "exceed_context_size_error",
            }
        },
        OVERFLOW,
    ),
    ("local", 503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, "overloaded"),
    ("local", 200, {"error": "Trying to keep the first 9000 tokens when context the overflows."}, OVERFLOW),
    (
        "local",
        404,
        {"error": {"message": 'model "m" not found, try pulling it first', "type": "not_found_error"}},
        "model_not_found",
    ),
    ("local", 400, {"error": {"message": '"m" does not support thinking', "type": INVALID}}, "parameter_unsupported"),
]


EVENTS = {
    **dict.fromkeys(("auth", "billing", "model_not_found", "format"), "failed_permanently"),
    **dict.fromkeys(("rate_limit", "overloaded", "server_error", "timeout", "unknown"), "failed_transiently"),
    **dict.fromkeys(("context_overflow", "payload_too_large"), "overflowed"),
    **dict.fromkeys(("parameter_unsupported", "reasoning_missing"), "rejected_fixably"),
    "failed_generation": "failed_transiently",
    "content_policy": "refused",
}


@pytest.mark.parametrize(("provider", "status", "body", "reason"), ERRORS)
def test_errors(provider: str, status: int, body: dict[str, Any], reason: str) -> None:
    failure = OpenAIChat("m", base_url=URLS[provider]).decode(status, {}, json.dumps(body).encode())
    assert (failure.reason, event_of_failure(failure)) == (reason, EVENTS[reason])
    assert failure.status in (status, None)


@pytest.mark.parametrize(
    ("provider", "chunk", "reason"),
    [
        ("groq", {"x_groq": {"id": "r", "error": "over capacity, please retry"}}, "overloaded"),
        ("minimax", minimax(1027, "output new_sensitive"), "content_policy"),
        ("minimax", minimax(1002, "rate limit"), "rate_limit"),
        ("openrouter", openrouter(502, "Provider disconnected"), "server_error"),
        ("azure", openai("Requests have exceeded call rate limit.", None, "429"), "rate_limit"),
    ],
)
@pytest.mark.parametrize("has_choice", [True, False])
def test_errors_inside_a_stream(provider: str, chunk: dict[str, Any], reason: str, has_choice: bool) -> None:
    said = {"choices": [{"index": 0, "delta": {"content": "In the"}}]}
    rest = {"choices": [{"index": 0, "delta": {"content": " re"}}]} if has_choice else {"choices": []}
    decoder = OpenAIChat("m", base_url=URLS[provider]).decoder({})
    for value in (said, said, {**rest, **chunk}, said):
        decoder.feed(b"data: %s\n\n" % json.dumps(value).encode())
    reply = decoder.close()
    assert (reply.text[:12], reply.interrupted, reply.failure.reason) == ("In theIn the", True, reason)


@pytest.mark.parametrize(
    "chunk", [minimax(0, ""), {"x_groq": {"id": "r"}}, {"x_groq": {"error": None}}, {"base_resp": 5}]
)
def test_an_envelope_without_an_error_is_none(chunk: dict[str, Any]) -> None:
    decoder = OpenAIChat("m", base_url=URLS["local"]).decoder({})
    for text, finish in (("In the", None), (" reeds.", None), ("", "stop")):
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
        decoder.feed(b"data: %s\n\n" % json.dumps({"choices": [choice], **chunk}).encode())
    reply = decoder.close()
    assert (reply.text, reply.failure) == ("In the reeds.", None)


def test_what_azures_filters_found_is_no_part_of_a_reply() -> None:
    found = {"hate": {"filtered": False, "severity": "safe"}, "error": {"code": "content_filter_error", "message": "x"}}
    decoder = OpenAIChat("m", base_url=URLS["azure"]).decoder({})
    chunks: list[dict[str, Any]] = [
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": found}]}
    ]
    for text, finish in (("In the", None), (" reeds.", None), ("", "stop")):
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish, "content_filter_results": found}
        chunks.append({"choices": [choice]})
    for chunk in chunks:
        decoder.feed(b"data: %s\n\n" % json.dumps(chunk).encode())
    reply = decoder.close()
    assert (reply.text, reply.stop_reason, reply.failure) == ("In the reeds.", "stop", None)


# ---- the journal keeps what was said --------------------------------------------------------------------------------

NO_MORE = rungwise.Policy(limits=rungwise.Limits(retries=0, reasks=0, continuations=0))


def steps_of(reply: ScriptedReply, mode: str) -> list[rungwise.Step]:
    with EmbeddedProvider(Script([reply])) as provider:
        client = Client([OpenAIChat("m", base_url=provider.base_url)], policy=NO_MORE, **options_of(mode))
        try:
            result = ask(client, mode)
        except rungwise.CallError as error:
            result = error.result
    return [*result.journal.steps]


@pytest.mark.parametrize("mode", ["stream", "whole"])
@pytest.mark.parametrize("word", ["sensitive", "eos", "REASON_MAX_CONTEXT", "gremlins"])
def test_words_are_in_the_journal_as_they_came(word: str, mode: str) -> None:
    assert word in [step.stop_raw for step in steps_of(ScriptedReply(text="In the reeds.", finish=word), mode)]


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (429, "insufficient_quota", "billing"),
        (429, "1113", "billing"),
        (400, "data_inspection_failed", "content_policy"),
    ],
)
def test_statuses_and_codes_are_in_the_journal(status: int, code: str, reason: str) -> None:
    error = {"code": code, "message": "x"}
    body = json.dumps({"error": error})
    steps = steps_of(ScriptedReply(status=status, body=body), "call")
    assert (status, code, reason) in [(step.status, step.code, step.reason) for step in steps]
