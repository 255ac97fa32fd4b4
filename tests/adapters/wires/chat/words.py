"""What servers of chat completions say at the end of a reply and of what went wrong, row by row."""

import json
import re
from typing import Any

from rungwise import OpenAIChat
from support.error_bodies import minimax, openai
from support.protocols import chat_call

URLS = {
    "openai": "https://api.openai.com/v1",
    "azure": "https://x.openai.azure.com/openai/v1",
    "deepseek": "https://api.deepseek.com",  # api-docs.deepseek.com/quick_start/error_codes
    "mistral": "https://api.mistral.ai/v1",
    "kimi": "https://api.moonshot.ai/v1",  # platform.moonshot.ai/docs/api/errors
    # help.aliyun.com/en/model-studio/error-code
    "qwen": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    "groq": "https://api.groq.com/openai/v1",  # console.groq.com/docs/errors
    "cerebras": "https://api.cerebras.ai/v1",  # explyt/explyt #35, continuedev/continue #9800
    "openrouter": "https://openrouter.ai/api/v1",  # openrouter.ai/docs/api-reference/errors
    "xai": "https://api.x.ai/v1",
    "zai": "https://api.z.ai/api/paas/v4",  # docs.bigmodel.cn/cn/api/api-code
    "minimax": "https://api.minimax.io/v1",  # platform.minimax.io/docs/api-reference/errorcode
    "together": "https://api.together.xyz/v1",
    "fireworks": "https://api.fireworks.ai/inference/v1",
    "local": "http://localhost:8000/v1",
}
SERVERS = {name: OpenAIChat("m", base_url=url) for name, url in URLS.items()}
BACKEND: Any = SERVERS["local"]
REFUSALS: list[Any] = []
USUAL = {
    "stop": "answered",
    "length": "truncated",
    "content_filter": "refused",
    "tool_calls": "called_tools",
}

FINISHES: dict[str, dict[str, str]] = {
    "openai": {**USUAL, "function_call": "called_tools"},
    "azure": USUAL,
    "deepseek": {**USUAL, "insufficient_system_resource": "interrupted"},
    "mistral": {
        "stop": "answered",
        "length": "truncated",
        "tool_calls": "called_tools",
    }
    | {"model_length": "truncated", "error": "interrupted"},
    "kimi": USUAL,
    "qwen": USUAL,
    "groq": USUAL,
    "cerebras": USUAL,
    "openrouter": {**USUAL, "error": "interrupted"},
    "xai": {
        **USUAL,
        "REASON_STOP": "answered",
        "REASON_MAX_LEN": "truncated",
        "REASON_MAX_CONTEXT": "overflowed",
    }
    | {"REASON_TOOL_CALLS": "called_tools", "REASON_TIME_LIMIT": "truncated"},
    "zai": {**USUAL, "sensitive": "refused", "network_error": "interrupted"}
    | {"model_context_window_exceeded": "overflowed"},
    "minimax": USUAL,
    "together": {**USUAL, "eos": "answered", "eos_token": "answered"},
    "fireworks": USUAL,
    # vLLM, SGLang, llama.cpp, LM Studio and Ollama's compatible endpoint; and what Cohere says
    # through a proxy.
    "local": {
        **USUAL,
        "abort": "interrupted",
        "error": "interrupted",
        "repetition": "ended_unclearly",
    }
    | {
        "COMPLETE": "answered",
        "STOP_SEQUENCE": "answered",
        "MAX_TOKENS": "truncated",
        "TOOL_CALL": "called_tools",
    }
    | dict.fromkeys(("end_turn", "FINISH_REASON_STOP", "STOP"), "answered")
    | {
        "max_output_tokens": "truncated",
        "tool_use": "called_tools",
        "SAFETY": "refused",
        "pause_turn": "paused",
    }
    | dict.fromkeys(("FINISH_REASON_UNSPECIFIED", "OTHER"), "ended_unclearly"),
}
NOBODYS = ("gremlins", "Stop!", "tool-calls", 5, {"reason": "stop"}, True)
MEANINGS = {
    "answered": "stop",
    "truncated": "length",
    "refused": "content_filter",
    "called_tools": "tool_calls",
    "overflowed": "overflow",
    "interrupted": "error",
    "ended_unclearly": "unknown",
    "paused": "paused",
}
ENDS = [
    *[
        (word, name, MEANINGS[event], event)
        for name, events in FINISHES.items()
        for word, event in events.items()
    ],
    *[(word, name, "unknown", "ended_unclearly") for name in URLS for word in NOBODYS],
    *[(None, name, None, "answered") for name in URLS],
]
CALL = chat_call("call_1", "look")


def read(backend: Any, *chunks: Any) -> Any:
    decoder = backend.decoder({})
    for chunk in chunks:
        data = chunk if isinstance(chunk, str) else json.dumps(chunk)
        decoder.feed(b"data: %s\n\n" % data.encode())
    return decoder.close()


def ended(finish: Any, server: str) -> list[Any]:
    calls = {"tool_calls": [CALL]} if re.search("call|_use", str(finish).lower()) else {}
    said = {"role": "assistant", "content": "In the reeds.", **calls}
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    whole = {
        "choices": [
            {
                "index": 0,
                "message": said,
                "finish_reason": finish,
            }
        ],
        "usage": usage,
    }
    last = {"index": 0, "delta": {}, "finish_reason": finish}
    chunks = [{"choices": [{"index": 0, "delta": said}]}, {"choices": [last]}, "[DONE]"]
    return [
        SERVERS[server].decode(200, {}, json.dumps(whole).encode()),
        read(SERVERS[server], *chunks),
    ]


def flat(message: str, code: object, **rest: str) -> dict[str, Any]:
    return {"message": message, "code": code, **rest}


def mistral(message: str, kind: str, code: str | None = None) -> dict[str, Any]:
    return {
        "object": "error",
        "message": message,
        "type": kind,
        "param": None,
        "code": code,
    }


def detail(kind: str, name: str, message: str) -> dict[str, Any]:
    return {"detail": [{"type": kind, "loc": ["body", name], "msg": message}]}


def openrouter(code: int, message: str, **metadata: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "metadata": metadata}}


FILTERED = {
    "message": "The response was filtered due to the prompt triggering Azure OpenAI's content "
    "management policy.",
    "type": None,
    "param": "prompt",
    "code": "content_filter",
    "status": 400,
    "innererror": {
        "code": "ResponsibleAIPolicyViolation",
        "content_filter_result": {"violence": {"filtered": True, "severity": "medium"}},
    },
}
INVALID = "invalid_request_error"
INVALID_TOO = "Client specified an invalid argument"
TOO_MANY = {"type": "too_many_requests_error"}
TOO_MANY_TOKENS = {"type": "too_many_tokens_error"}
ERRORS: dict[str, list[tuple[str, int | None, Any]]] = {
    "auth": [
        ("openai", 401, openai("Incorrect API key provided", INVALID, "invalid_api_key")),
        ("azure", 401, openai("Access denied due to invalid subscription key", None, "401")),
        ("mistral", 401, {"message": "Unauthorized", "request_id": "x"}),
        ("kimi", 401, openai("Invalid Authentication", "invalid_authentication_error")),
        ("qwen", 401, openai("Incorrect API key provided.", INVALID, "invalid_api_key")),
        ("xai", 400, {"code": INVALID_TOO, "error": "Incorrect API key provided: x"}),
        *[
            ("zai", 200, code)
            for code in (1000, 1001, 1002, 1003, 1004, 1110, 1111, 1112, 1121, 1220)
        ],
        *[("minimax", 200, code) for code in (1004, 2049)],
    ],
    "rate_limit": [
        ("openai", 429, openai("Rate limit reached", "requests", "rate_limit_exceeded")),
        (
            "azure",
            429,
            openai(
                "Requests have exceeded call rate limit. Please retry after 6 seconds.", None, "429"
            ),
        ),
        ("deepseek", 429, openai("Rate limit reached")),
        ("mistral", 429, mistral("Requests rate limit exceeded", "rate_limited", "1300")),
        (
            "kimi",
            429,
            openai("max RPM: 3, please try again after 1 seconds", "rate_limit_reached_error"),
        ),
        ("qwen", 429, openai("Requests rate limit exceeded", "limit_requests", "limit_requests")),
        ("qwen", 429, {"code": "Throttling.RateQuota", "message": "Requests rate limit exceeded"}),
        ("groq", 429, openai("Rate limit reached for model `m`", "tokens", "rate_limit_exceeded")),
        (
            "cerebras",
            429,
            flat(
                "Requests per second limit exceeded",
                "request_quota_exceeded",
                param="quota",
                **TOO_MANY,
            ),
        ),
        (
            "cerebras",
            429,
            flat("Tokens per minute limit exceeded", "token_quota_exceeded", **TOO_MANY_TOKENS),
        ),
        ("openrouter", 429, openrouter(429, "Rate limited", provider_name="x", raw="x")),
        ("openrouter", 200, openrouter(429, "Rate limited", provider_name="x")),
        (
            "xai",
            429,
            {"code": "Some resource has been exhausted", "error": "Too many requests for team x"},
        ),
        *[("zai", 429, code) for code in (1302, 1303)],
        ("minimax", 200, minimax(1039, "token limit, please try again later")),
        (
            "together",
            429,
            openai(
                "You have reached the rate limit specific to this model", "rate_limit", "rate_limit"
            ),
        ),
        *[("minimax", 200, code) for code in (1002, 1041)],
        ("minimax", None, minimax(1002, "rate limit")),
        ("azure", None, openai("Requests have exceeded call rate limit.", None, "429")),
    ],
    "billing": [
        ("openai", 429, openai("x", "insufficient_quota", "insufficient_quota")),
        ("openai", 429, openai("x", "billing_hard_limit_reached", "billing_hard_limit_reached")),
        ("openai", 429, openai("x", "credit_balance_exhausted", "credit_balance_exhausted")),
        ("openai", 429, openai("x", "x", "project_spend_limit_exceeded")),
        ("deepseek", 402, openai("Insufficient Balance", "unknown_error", INVALID)),
        ("kimi", 429, openai("Your account is suspended", "exceeded_current_quota_error")),
        (
            "qwen",
            400,
            openai(
                "Access denied, please make sure your account is in good standing.",
                *["Arrearage"] * 2,
            ),
        ),
        (
            "qwen",
            403,
            openai(
                "The free tier of the model has been exhausted.",
                *["AllocationQuota.FreeTierOnly"] * 2,
            ),
        ),
        (
            "qwen",
            429,
            openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
        ),
        ("openrouter", 402, openrouter(402, "Insufficient credits")),
        ("mistral", 200, mistral("x", "x", "insufficient_quota")),
        (
            "xai",
            403,
            {
                "code": "x",
                "error": "Your team has used all available credits or reached its spending limit.",
            },
        ),
        *[("zai", 429, code) for code in (1113, *range(1308, 1322))],
        ("together", 402, openai("Credit limit exceeded", "credit_limit", "credit_limit")),
        (
            "fireworks",
            412,
            openai("Account x is suspended, possibly due to reaching the spending limit", "error"),
        ),
        *[("minimax", 200, code) for code in (1008, 2056)],
    ],
    "context_overflow": [
        ("openai", 400, openai("x", INVALID, "context_length_exceeded")),
        (
            "kimi",
            400,
            openai("Invalid request: Your request exceeded model token limit: 8192", INVALID),
        ),
        (
            "qwen",
            400,
            openai(
                "Range of input length should be [1, 30720]", INVALID, "invalid_parameter_error"
            ),
        ),
        (
            "cerebras",
            400,
            flat("Current length is 9000 while limit is 8192", "context_length_exceeded"),
        ),
        ("zai", 400, 1261),
        ("minimax", 200, minimax(2013, "invalid params, context window exceeds limit (2013)")),
        (
            "together",
            422,
            openai(
                "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5013 `inputs` tokens",
                INVALID,
            ),
        ),
        (
            "fireworks",
            400,
            openai("The prompt is too long: 9000, model maximum context length: 8192", INVALID),
        ),
        (
            "local",
            400,
            flat(
                "Please reduce the length of the messages or completion.",
                400,
                type="BadRequestError",
            ),
        ),
        (
            "local",
            400,
            openai(
                "the request exceeds the available context size", "exceed_context_size_error", 400
            ),
        ),
        (
            "local",
            200,
            {"error": "Trying to keep the first 9000 tokens when context the overflows."},
        ),
        ("minimax", 200, 1039),
    ],
    "model_not_found": [
        ("openai", 404, openai("The model `m` does not exist", INVALID, "model_not_found")),
        (
            "azure",
            404,
            openai(
                "The API deployment for this resource does not exist", None, "DeploymentNotFound"
            ),
        ),
        ("mistral", 400, mistral("Invalid model: m", "invalid_model", "1500")),
        (
            "kimi",
            404,
            openai("Not found the model m or Permission denied", "resource_not_found_error"),
        ),
        (
            "qwen",
            404,
            openai(
                "The model `m` does not exist or you do not have access to it.",
                "x",
                "model_not_found",
            ),
        ),
        ("openrouter", 404, openrouter(404, "No endpoints found for m.")),
        ("zai", 400, 1211),
        (
            "local",
            404,
            {
                "error": {
                    "message": 'model "m" not found, try pulling it first',
                    "type": "not_found_error",
                }
            },
        ),
    ],
    "overloaded": [
        ("openai", 503, openai("x", "server_error", "server_is_overloaded")),
        ("deepseek", 503, openai("Server overloaded")),
        (
            "mistral",
            429,
            mistral("Service tier capacity exceeded.", "service_tier_capacity_exceeded", "3505"),
        ),
        (
            "kimi",
            429,
            openai(
                "The engine is currently overloaded, please try again later",
                "engine_overloaded_error",
            ),
        ),
        ("groq", 498, openai("Flex tier capacity exceeded")),
        (
            "cerebras",
            429,
            flat("We're experiencing high traffic right now!", "queue_exceeded", **TOO_MANY),
        ),
        ("openrouter", 503, openrouter(503, "No instances available")),
        ("zai", 429, 1305),
        (
            "local",
            503,
            {
                "error": {
                    "code": 503,
                    "message": "Loading model",
                    "type": "unavailable_error",
                }
            },
        ),
        ("groq", None, {"x_groq": {"id": "r", "error": "over capacity, please retry"}}),
    ],
    "server_error": [
        ("openai", 500, openai("x", "server_error")),
        ("openrouter", 502, openrouter(502, "Provider returned error", provider_name="x")),
        *[("zai", 500, code) for code in (1120, 1230, 1234)],
        *[("minimax", 200, code) for code in (1024, 1033)],
        ("openrouter", None, openrouter(502, "Provider disconnected")),
        ("openrouter", 200, {"choices": [{**openrouter(502, "x"), "message": {"content": ""}}]}),
    ],
    "parameter_unsupported": [
        (
            "openai",
            400,
            openai(
                "Unsupported parameter: 'max_tokens'",
                INVALID,
                "unsupported_parameter",
                "max_tokens",
            ),
        ),
        ("mistral", 422, detail("extra_forbidden", "logit_bias", "Extra inputs are not permitted")),
        ("local", 400, {"error": {"message": '"m" does not support thinking', "type": INVALID}}),
    ],
    "content_policy": [
        ("azure", 400, {"error": FILTERED}),
        ("deepseek", 400, openai("Content Exists Risk", INVALID)),
        (
            "kimi",
            400,
            openai(
                "The request was rejected because it was considered high risk", "content_filter"
            ),
        ),
        (
            "qwen",
            400,
            openai("Input data may contain inappropriate content.", "x", "data_inspection_failed"),
        ),
        (
            "qwen",
            400,
            flat("Input data may contain inappropriate content.", "DataInspectionFailed"),
        ),
        *[("zai", 400, code) for code in (1300, 1301)],
        *[("minimax", 200, code) for code in (1026, 1027)],
        ("minimax", None, minimax(1027, "output new_sensitive")),
    ],
    "reasoning_missing": [
        (
            "deepseek",
            400,
            openai(
                "The reasoning_content in thinking mode must be passed back to the API.", INVALID
            ),
        ),
    ],
    "format": [
        (
            "mistral",
            400,
            mistral(
                "Tool call id was call_1 but must be a-z, 0-9, of length 9.",
                "invalid_function_call",
                "3280",
            ),
        ),
        ("mistral", 422, detail("missing", "model", "Field required")),
        ("xai", 400, {"code": INVALID_TOO, "error": "Each message must have a content element"}),
        *[("zai", 400, code) for code in (1210, 1212, 1213, 1214, 1215, 1221, 1222)],
        *[("minimax", 200, code) for code in (1042, 2013)],
    ],
    "payload_too_large": [
        ("groq", 413, openai("Request too large for model `m`", "tokens", "rate_limit_exceeded"))
    ],
    "failed_generation": [
        (
            "groq",
            400,
            openai(
                "Failed to call a function. Please adjust your prompt.", INVALID, "tool_use_failed"
            ),
        ),
    ],
    "timeout": [
        ("openrouter", 408, openrouter(408, "Request timed out")),
        ("minimax", 200, 1001),
    ],
    "unknown": [("minimax", 200, 1000)],
}

"""Those without a status come within a stream, beside the text of a chunk or without; a number is
the server's code.
"""


def failed(server: str, status: int | None, error: Any) -> list[Any]:
    backend: Any = SERVERS[server]
    if status is None:
        said: Any = {"choices": [{"index": 0, "delta": {"content": "In the"}}]}
        more: Any = {"choices": [{"index": 0, "delta": {"content": " re"}}]}
        came = [read(backend, said, {**rest, **error}, said) for rest in ({"choices": []}, more)]
        return [(came[0], {"text": "In the"}), (came[1], {"text": "In the re"})]
    if isinstance(error, int):
        error = (
            minimax(error)
            if server == "minimax"
            else {"error": {"code": str(error), "message": "x"}}
        )
    failure = backend.decode(status, {}, json.dumps(error).encode())
    assert failure.status in (status, None)
    return [(failure, {})]
