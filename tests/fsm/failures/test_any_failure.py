"""Whatever a response holds has a reason, and every reason its event."""

import json
import time
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise.fsm.failures.classify import classify_response
from rungwise.fsm.failures.failure import KEY_HINT_REASONS, Failure, Reason, event_of_failure

REASONS = frozenset(get_args(Reason))


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
    "fell_silent": ("silence",),
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
    started = time.thread_time()
    assert classify_response(400, {}, body).reason in REASONS
    assert time.thread_time() - started < 1
