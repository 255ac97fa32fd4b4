"""What a response says went wrong: each wording, number and status that was seen, and the reason
that it is.
"""

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from rungwise.fsm.replies.failures.classify import classify_response
from rungwise.fsm.replies.failures.failure import Reason
from support.error_bodies import anthropic, openai

REASONS = frozenset(get_args(Reason))
WORDINGS = tomllib.loads(
    Path(__file__).with_name("response_wordings.toml").read_text(encoding="utf-8")
)
BARE: list[tuple[Reason, int | None, Any]] = [
    ("auth", 403, None),
    ("malformed", 200, b""),
    ("malformed", 200, {}),
    ("malformed", 204, None),
    ("unknown", None, None),
]
FLAT = [
    *BARE,
    *(
        (reason, status or None, json.loads(body) if body.startswith("{") else body)
        for reason, cases in WORDINGS["cases"].items()
        for status, body in cases
    ),
]


@pytest.mark.parametrize(("reason", "status", "body"), FLAT)
def test_names_the_reason(reason: Reason, status: int | None, body: Any) -> None:
    failure = classify_response(status, {}, body)
    assert failure.reason == reason
    assert failure.status == status


def test_every_reason_of_a_response_is_covered() -> None:
    elsewhere = {
        "output_cap",
        "parameter_unsupported",
        "certificate",
        "silence",
        "unreachable",
        "crashed",
    }
    assert {reason for reason, _, _ in FLAT} | elsewhere == REASONS


def body_of(said: str) -> Any:
    return said if said.startswith("{") else openai(said)


@pytest.mark.parametrize(("available", "said"), WORDINGS["room"])
def test_reads_the_available_tokens(available: int, said: str) -> None:
    failure = classify_response(400, {}, body_of(said))
    assert (failure.reason, failure.available_tokens) == ("output_cap", available)


def test_what_is_left_of_the_credit_is_an_output_cap_too() -> None:
    message = (
        "This request requires more credits, or fewer max_tokens. You requested up to "
        "32000, but can only afford 27342."
    )
    failure = classify_response(402, {}, {"error": {"code": 402, "message": message}})
    assert (failure.reason, failure.available_tokens) == ("output_cap", 27342)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (
            "context_overflow",
            (
                "maximum context length is 100 tokens. However, you requested 300 tokens (200 in "
                "the messages, 100 in the completion)"
            ),
        ),
        ("context_overflow", "exceed context limit: 200000 + 1 > 200000"),
        (
            "context_overflow",
            (
                "This model's maximum context length is 8192 tokens. However, you requested 4000 "
                "output tokens and your prompt contains at least 4193 input tokens"
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
    body = {
        "error": {
            "code": 404,
            "message": "No endpoints found that support the provided 'tool_choice' value.",
        }
    }
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
        anthropic(
            f"messages.65.content.1.tool_use.{'x' * 90}.text: Extra inputs are not permitted"
        ),
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
        "response_format",
        "response_format.json_schema",
        "output_format",
        "format",
        "guided_json",
        "responseMimeType",
        "generationConfig.responseSchema",
        "generation_config.response_json_schema",
        "text.format",
        "text.format.type",
        "output_config.format",
        "outputConfig.textFormat",
    ],
)
def test_what_asks_for_json_is_one_parameter_by_whatever_name(name: str) -> None:
    failure = classify_response(
        400, {}, openai(f"'{name}' is not supported", None, "unsupported_parameter", name)
    )
    assert (failure.reason, failure.parameter) == ("parameter_unsupported", "response_format")


def test_a_kind_of_json_that_is_not_supported_is_the_parameter_for_it() -> None:
    told = (
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with "
        "this model."
    )
    failure = classify_response(400, {}, openai(told))
    assert (failure.reason, failure.parameter) == ("parameter_unsupported", "response_format")


# how servers say that a prompt does not fit, and what sounds like it: each wording with its source
# is in a table


OVERFLOWS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("overflow_wordings.toml").read_text(encoding="utf-8")
)["wording"]


def overflow_of(wording: dict[str, Any]) -> bytes:
    if "body" in wording:
        return str(wording["body"]).encode()
    error = {
        "message": wording["message"],
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }
    return json.dumps({"error": error}).encode()


@pytest.mark.parametrize(
    "wording",
    OVERFLOWS,
    ids=[f"{wording['provider']}-{wording['status']}" for wording in OVERFLOWS],
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


@pytest.mark.parametrize(
    "wording", [w for w in OVERFLOWS if w["reason"] == "context_overflow" and "message" in w]
)
@pytest.mark.parametrize("status", [401, 402, 404, 429, 503])
def test_no_wording_is_an_overflow_on_a_status_that_says_something_else(
    wording: dict[str, Any], status: int
) -> None:
    assert classify_response(status, {}, overflow_of(wording)).reason not in (
        "context_overflow",
        "payload_too_large",
    )


@pytest.mark.parametrize(
    "said",
    [
        "Unsupported parameter: 'top_k' is not supported with this model. See "
        "https://example.com/docs/api-reference/chat/completions.",
        "'top_k' is not supported with this model; clients use streamed responses_of our own.",
    ],
)
def test_a_link_to_a_page_names_no_other_endpoint(said: str) -> None:
    assert classify_response(400, {}, openai(said)).reason == "parameter_unsupported"
