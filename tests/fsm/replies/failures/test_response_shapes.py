"""Where in a response its code and its words stand, and which of them are believed."""

import json
import time
from typing import Any, get_args

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise.fsm.replies.failures.classify import classify_exception, classify_response
from rungwise.fsm.replies.failures.failure import (
    KEY_HINT_REASONS,
    Failure,
    Reason,
    event_of_failure,
)
from support.error_bodies import anthropic, google, minimax, minimax_error, openai


def test_what_an_aggregator_passes_on_is_read() -> None:
    raw = json.dumps(anthropic("prompt is too long: 2 tokens > 1 maximum"))
    body = {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": raw, "provider_name": "x"},
        }
    }
    failure = classify_response(200, {}, body)
    assert (failure.reason, failure.code) == ("context_overflow", "invalid_request_error")
    assert failure.message == "Provider returned error"


def test_json_of_an_unknown_shape_within_the_message_is_prose() -> None:
    wrapped = {
        "external_model_provider": "x",
        "external_model_error": {"error": {"message": "prompt is too long: 3"}},
    }
    failure = classify_response(
        400, {}, {"error_code": "BAD_REQUEST", "message": json.dumps(wrapped)}
    )
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
        (
            openai("m", "invalid_request_error", "context_length_exceeded"),
            "context_length_exceeded",
            "m",
        ),
        (openai("m", "server_error"), "server_error", "m"),
        (anthropic("m", "overloaded_error"), "overloaded_error", "m"),
        (google(429, "RESOURCE_EXHAUSTED", "m"), "RESOURCE_EXHAUSTED", "m"),
        (
            {
                "object": "error",
                "message": "m",
                "type": "invalid_model",
                "code": "1500",
            },
            "1500",
            "m",
        ),
        ({"error": {"code": 502, "message": "m"}}, "502", "m"),
        (
            {
                "detail": [
                    {
                        "loc": ["body", "x"],
                        "msg": "m",
                        "type": "missing",
                    }
                ]
            },
            "missing",
            "m",
        ),
        (
            {
                "type": "error",
                "code": "rate_limit_exceeded",
                "message": "m",
                "param": None,
            },
            "rate_limit_exceeded",
            "m",
        ),
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


@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("FALSE", False), ("maybe", None), ("", None)]
)
def test_reads_the_word_of_the_service(value: str, expected: bool | None) -> None:
    assert classify_response(500, {"X-Should-Retry": value}, "").should_retry is expected


def test_nothing_private_is_in_the_repr() -> None:
    failure = classify_response(
        401, {"authorization": "sk-secret"}, openai("Incorrect API key provided: sk-secret")
    )
    assert "sk-secret" in failure.message
    assert "sk-secret" not in repr(failure)
    assert "sk-secret" not in repr(classify_exception(httpx.ConnectError("sk-secret")))


def mistral(kind: str, code: str) -> dict[str, str]:
    return {"object": "error", "message": "x", "type": kind, "code": code}


# a code before prose, a status before a number, a number in the shape of its own provider alone


@pytest.mark.parametrize(
    ("reason", "status", "body"),
    [
        ("content_policy", 400, {"error": {"code": "1301", "message": "x"}}),
        ("content_policy", None, {"error": {"code": 1301, "message": "x"}}),
        (
            "content_policy",
            200,
            {"error": {"message": "Provider", "metadata": {"raw": '{"error":{"code":"1301"}}'}}},
        ),
        ("rate_limit", 429, {"error": {"code": "1300", "message": "x"}}),
        (
            "rate_limit",
            429,
            mistral("rate_limited", "1300"),
        ),
        ("rate_limit", None, openai("Rate limit exceeded", None, "1300")),
        ("unknown", None, openai("x", "", "1261")),
        (
            "rate_limit",
            200,
            mistral("rate_limited", "1300"),
        ),
        (
            "rate_limit",
            429,
            openai("x", "rate_limited", "1300"),
        ),
        (
            "format",
            400,
            mistral("invalid_request_error", "1301"),
        ),
        ("format", 400, openai("x", "invalid_request_error", "1113")),
        ("format", 400, {"code": 1301, "message": "x"}),
        (
            "server_error",
            500,
            openai("x", "server_error", "1261"),
        ),
        *[
            ("content_policy", status, minimax(code))
            for status in (200, 422, 500)
            for code in (1026, 1027)
        ],
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
            {
                "error": {
                    "code": 429,
                    "message": "Rate limit exceeded: free-models-per-day. Add 10 credits",
                }
            },
        ),
        (
            "billing",
            429,
            openai(
                "Rate limit exceeded: free-models-per-day-high-balance.", "rate_limit_error", "429"
            ),
        ),
        (
            "rate_limit",
            429,
            {"error": {"code": 429, "message": "Rate limit exceeded: free-models-per-min."}},
        ),
        (
            "payload_too_large",
            400,
            google(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20 bytes."),
        ),
    ],
)
def test_a_number_is_believed_for_its_own_provider(
    reason: Reason, status: int | None, body: Any
) -> None:
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
    reason: Reason,
    code: str,
    quoted: str,
    status: int | None,
) -> None:
    body = openai(f"The request failed. You wrote: '{quoted}'", "invalid_request_error", code)
    assert classify_response(status, {}, body).reason == reason


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_quoted_prompt_makes_no_refusal_and_no_repair_of_an_overflow(quoted: str) -> None:
    body = openai(f"You wrote: '{quoted}'", "invalid_request_error", "context_length_exceeded")
    assert classify_response(400, {}, body).reason in ("context_overflow", "output_cap")


@pytest.mark.parametrize("quoted", QUOTED)
@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "auth"), (408, "timeout"), (429, "rate_limit"), (503, "overloaded")],
)
def test_a_quoted_prompt_steers_nothing_against_a_status(
    status: int, reason: Reason, quoted: str
) -> None:
    assert classify_response(status, {}, openai(f"You wrote: '{quoted}'")).reason == reason


# whatever a response holds has a reason, and every reason its event


REASONS = frozenset(get_args(Reason))


EVENTS = {
    "failed_permanently": (
        "auth",
        "billing",
        "certificate",
        "model_not_found",
        "not_found",
        "format",
    ),
    "failed_transiently": (
        "rate_limit",
        "overloaded",
        "server_error",
        "timeout",
        "connection",
        "unreachable",
        "unknown",
        "failed_generation",
        "crashed",
    ),
    "overflowed": ("context_overflow", "payload_too_large"),
    "rejected_fixably": (
        "output_cap",
        "prefill_unsupported",
        "parameter_unsupported",
        "reasoning_signature",
        "reasoning_missing",
        "wrong_endpoint",
    ),
    "refused": ("content_policy",),
    "malformed": ("malformed",),
    "fell_silent": ("silence",),
}
OF_REASON: dict[Any, str] = {
    reason: event for event, reasons in EVENTS.items() for reason in reasons
}


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


KEYS = st.sampled_from(
    [
        "error",
        "message",
        "code",
        "type",
        "status",
        "details",
        "detail",
        "metadata",
        "raw",
        "param",
        "loc",
        "msg",
    ]
)
TEXTS = st.text(max_size=40) | st.sampled_from(
    [
        "max_tokens <= 1",
        "Unsupported parameter: 'x'",
        "{",
        "[1",
        '{"error":{"code":500}}',
        "try again in 5s",
        "quota",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=10,
)
HEADERS = st.dictionaries(
    st.sampled_from(["x-should-retry", "Retry-After", "Date", "x-amzn-errortype"]) | TEXTS, TEXTS
)


@given(
    st.none() | st.integers(100, 599) | st.integers(),
    HEADERS,
    JSON | st.binary() | JSON.map(lambda v: json.dumps(v)),
)
def test_never_raises_and_always_names_a_reason(
    status: int | None, headers: dict[str, str], body: Any
) -> None:
    failure = classify_response(status, headers, body)
    assert failure.reason in REASONS
    assert event_of_failure(failure) in EVENTS
    assert failure.asked_wait is None or failure.asked_wait > 0
    assert (failure.available_tokens is not None) == (failure.reason == "output_cap")
    assert (failure.parameter is not None) == (failure.reason == "parameter_unsupported")


@given(st.text(min_size=8).filter(lambda text: not text.isascii()))
def test_no_message_is_in_the_repr(secret: str) -> None:
    body = {
        "error": {
            "message": secret,
            "code": secret,
            "param": secret,
            "type": secret,
        }
    }
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
    started = time.thread_time()
    assert classify_response(400, {}, body).reason in REASONS
    assert time.thread_time() - started < 1
