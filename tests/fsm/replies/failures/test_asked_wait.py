import math
import tracemalloc
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise.fsm.replies.failures.asked_wait import asked_wait, has_date

NOW = "Fri, 20 Nov 2026 10:00:00 GMT"
LATER = "Fri, 20 Nov 2026 10:00:30 GMT"
DATE = {"date": NOW}
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "14s"}


def used_up(**resets: str) -> dict[str, str]:
    """Write the headers of limits that are used up, by name, each with its time until it is
    reset.
    """
    left = {f"x-ratelimit-remaining-{name}": "0" for name in resets}
    return left | {f"x-ratelimit-reset-{name}": reset for name, reset in resets.items()}


def of_anthropic(name: str, remaining: str, reset: str) -> dict[str, str]:
    limit = f"anthropic-ratelimit-{name}"
    return {f"{limit}-remaining": remaining, f"{limit}-reset": f"2026-11-20T{reset}:00Z"}


HEADERS: list[tuple[dict[str, str], float | None]] = [
    ({"retry-after-ms": "1500"}, 1.5),
    ({"x-ms-retry-after-ms": "250"}, 0.25),
    ({"retry-after": "7"}, 7),
    ({"retry-after": " 0.25 "}, 0.25),
    ({"Retry-After": "30s"}, 30),
    ({"RETRY-AFTER": LATER, "DATE": NOW}, 30),
    ({"retry-after": LATER}, None),
    ({"retry-after": "Fri, 20 Nov 2026 09:59:30 GMT", **DATE}, None),
    ({"retry-after": LATER, "date": "yesterday"}, None),
    ({"retry-after": "-1"}, None),
    ({"retry-after": "0"}, None),
    ({"retry-after": "nan"}, None),
    ({"retry-after": "inf"}, None),
    ({"retry-after": "1e999"}, None),
    ({"retry-after": "9" * 5000}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after": "7, 7"}, 7),
    ({"retry-after": "30s,30s ,30s"}, 30),
    ({"retry-after": "7, 8"}, None),
    ({"retry-after": ",".join(["7"] * 1000)}, None),
    ({"retry-after": f"{LATER}, {LATER}", "date": f"{NOW}, {NOW}"}, 30),
    ({"retry-after": ""}, None),
    ({"retry-after": "1795168830"}, None),
    ({"retry-after": "1795168830", **DATE}, 30),
    ({"retry-after": "1795168830.25", **DATE}, 30.25),
    ({"retry-after": "1795168830001", **DATE}, 30.001),
    ({"retry-after": "2026-11-20T10:00:30.000001Z", **DATE}, 30.000001),
    ({"retry-after": "2026-11-20T10:00:30.0000010001Z", **DATE}, 30.000002),
    ({"retry-after": "9999-12-31T23:59:59.9999999Z", **DATE}, None),
    (used_up(requests="12ms"), 0.012),
    (used_up(tokens="6m0s"), 360),
    (used_up(tokens="1h2m3.5s"), 3723.5),
    ({"x-ratelimit-remaining-tokens-minute": "0", "x-ratelimit-reset-tokens-minute": "27.5"}, 27.5),
    ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "6m0s"}, None),
    ({"x-ratelimit-remaining-tokens": "-1", "x-ratelimit-reset-tokens": "-1"}, None),
    (used_up(tokens="0"), None),
    ({"x-ratelimit-remaining-tokens": "0"}, None),
    ({"x-ratelimit-reset-tokens": "5s"}, None),
    (
        {
            "x-ratelimit-remaining": "0",
            "x-ratelimit-reset": "1795168830000",
            **DATE,
        },
        30,
    ),
    (used_up(requests="1s", tokens="2m"), 120),
    ({"ratelimit-limit": "9", "ratelimit-remaining": "0", "ratelimit-reset": "12"}, 12),
    ({"RateLimit-Limit": "9, 9;w=60", "RateLimit-Remaining": "0", "RateLimit-Reset": "12"}, 12),
    ({"ratelimit-remaining": "3", "ratelimit-reset": "12"}, None),
    ({"ratelimit-reset": "12"}, None),
    ({"ratelimit": "limit=100, remaining=0, reset=9"}, 9),
    ({"RateLimit": "limit=100;w=60,remaining=0,reset=9"}, 9),
    ({"ratelimit": "limit=100, remaining=7, reset=9"}, None),
    ({"ratelimit": "limit=100, remaining=0"}, None),
    ({"ratelimit": '"api";r=0;t=14', "ratelimit-policy": '"a window";"api";q=1000;w=300'}, 14),
    ({"ratelimit": '"api"; r=0; t=14'}, 14),
    ({"ratelimit": '"api";t=14;r=0;pk=:cHsdsRa894==:'}, 14),
    ({"ratelimit": '"api";r=900;t=250'}, None),
    ({"ratelimit": '"api";r=0'}, None),
    ({"ratelimit": '"minute";r=0;t=14, "day";r=9;t=5000, "hour";r=0;t=90'}, 90),
    ({"ratelimit": '"a;r=0;t=99, remaining=0";r=9;t=14'}, None),
    ({"ratelimit": '"a";r=0;t=14, "a";r=0;t=14'}, 14),
    ({"ratelimit": "limit=1, remaining=0, reset=-5"}, None),
    ({"ratelimit": "limit=1, remaining=0, reset=9e9"}, None),
    ({"ratelimit": f'"{"a" * 500}";r=0;t=14'}, None),
    ({"ratelimit": "0"}, None),
    ({"retry-after": "3", "ratelimit": '"api";r=0;t=14'}, 3),
    (of_anthropic("tokens", "0", "10:01"), None),
    (
        {
            **of_anthropic("input-tokens", "0", "10:01"),
            **of_anthropic("requests", "12", "11:00"),
            **DATE,
        },
        60,
    ),
]

BODIES: list[tuple[Any, float | None]] = [
    ({"retry_after": 3}, 3),
    ({"retry_after": "4.5"}, 4.5),
    ({"error": {"retry_after": 5}}, 5),
    ({"error": {"metadata": {"retry_after": 6}}}, 6),
    ({"error": {"metadata": {"retry_after_seconds": 6.5}}}, 6.5),
    ({"error": {"retry_after_ms": 900}}, 0.9),
    ({"retry_after": True}, None),
    ({"retry_after": -1}, None),
    ({"retry_after": 0}, None),
    ({"retry_after": 10**400}, None),
    ({"retry_after": math.nan}, None),
    ({"retry_after": math.inf}, None),
    ({"retry_after": [1]}, None),
    ({"error": {"code": 429, "details": [{"@type": "QuotaFailure"}, RETRY_INFO]}}, 14),
    ([{"error": {"code": 429, "details": [RETRY_INFO]}}], 14),
    ({"error": {"details": [{"retryDelay": "45.578569677s"}]}}, 45.578569677),
    ({"error": {"details": "none"}}, None),
    ({"error": {"message": "Please try again in 20s."}}, 20),
    ({"error": "Rate limited, retry after 6 seconds"}, 6),
    ("Please retry in 2 minutes", 120),
    (None, None),
]

MESSAGES = [
    (
        "Rate limit reached for gpt-4o (TPM): Limit 30000, Used 8554, Requested 3082. Please try "
        "again in 9.816s.",
        9.816,
    ),
    (
        "Limit 200, Used 200, Requested 1. Please try again in 6m0s. Visit "
        "https://example.test/limits",
        360,
    ),
    ("Please try again in 174ms.", 0.174),
    ("Please try again in 12 milliseconds", 0.012),
    ("Please retry your request in 20s", 20),
    ("try again in 1.5 seconds", 1.5),
    ("reached max organization concurrency: 3, please try again after 1 seconds", 1),
    ("Please retry in 45.578569677s.", 45.578569677),
    ("Please wait for 1 minute", 60),
    ("The limit resets in 1 hour, 20 minutes", 4800),
    ("Available again in 1 hour and 30 seconds", 3630),
    ("PLEASE TRY AGAIN IN 2 DAYS", 172800),
    ("Please try again later", None),
    ("try again at 12:16 PM", None),
    ("try again in -5s", None),
    ("try again in 0s", None),
    ("try again in 20 models", None),
    ("your request took 20s", None),
    ("Limit 3 / min", None),
]


@pytest.mark.parametrize(("headers", "expected"), HEADERS)
def test_headers(headers: dict[str, str], expected: float | None) -> None:
    assert asked_wait(headers, None) == pytest.approx(expected)


@pytest.mark.parametrize(("body", "expected"), BODIES)
def test_bodies(body: Any, expected: float | None) -> None:
    assert asked_wait({}, body) == pytest.approx(expected)


@pytest.mark.parametrize(("message", "expected"), MESSAGES)
def test_wordings(message: str, expected: float | None) -> None:
    assert asked_wait({}, None, message) == pytest.approx(expected)


def test_takes_the_headers_of_a_client() -> None:
    assert asked_wait(httpx.Headers({"Retry-After": "2"}), None) == 2


NAMES = st.sampled_from(
    [
        "Retry-After",
        "retry-after-ms",
        "x-ms-retry-after-ms",
        "date",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
        "ratelimit-remaining",
        "ratelimit-reset",
        "ratelimit",
    ]
)
RATE_LIMITS = ["limit=1, remaining=0, reset=", '"a";r=0;t=', '"', '"a";r=0;t=3, "b";r=0;t="']
VALUES = st.text() | st.sampled_from(
    ["0", "-1", "1e9", "6m0s", "9" * 400, NOW, "2026-11-20T10:00:00Z", *RATE_LIMITS]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | VALUES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "metadata", "details", "retry_after", "retryDelay", "message"]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, VALUES), JSON, VALUES)
def test_never_raises_and_is_finite(headers: dict[str, str], body: Any, message: str) -> None:
    wait = asked_wait(headers, body, message)
    assert wait is None or (0 < wait < math.inf)


@given(
    st.floats(0.001, 1e6), st.sampled_from([("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)])
)
def test_never_wakes_earlier_than_asked(amount: float, unit: tuple[str, float]) -> None:
    text = f"{amount:.6f}"
    wait = asked_wait({}, None, f"try again in {text}{unit[0]}")
    asked = float(text) * unit[1]
    assert (wait or 0) >= asked or asked >= 1e9


@pytest.mark.parametrize("headers", [None, 3, {1: 2}, {b"retry-after": b"3"}])
def test_headers_of_another_kind_are_passed_over(headers: Any) -> None:
    assert asked_wait(headers, None) is None


QUOTED = {
    "X-RateLimit-Limit": "50",
    "X-RateLimit-Remaining": "0",
    "X-RateLimit-Reset": "1795168830000",
}


@pytest.mark.parametrize(
    ("quoted", "date", "expected"),
    [
        (QUOTED, DATE, 30),
        (
            {
                **QUOTED,
                "X-RateLimit-Reset": 1795168830000,
                "X-RateLimit-Remaining": 0,
            },
            DATE,
            30,
        ),
        (QUOTED, {}, None),
        ({**QUOTED, "X-RateLimit-Remaining": "3"}, DATE, None),
        ({"Retry-After": "7"}, {}, 7),
        ({"Retry-After": [7]}, {}, None),
        ("none", DATE, None),
    ],
)
def test_reads_the_headers_that_an_aggregator_quotes(
    quoted: Any, date: dict[str, str], expected: float | None
) -> None:
    body = {
        "error": {
            "code": 429,
            "message": "Rate limit exceeded",
            "metadata": {"headers": quoted},
        }
    }
    assert asked_wait(date, body) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text", ["1s" * 500_000 + "x", "0s" * 500_000, "9" * 1_000_000, "Mon, " + " 1" * 500_000]
)
@pytest.mark.parametrize(
    "place",
    [
        lambda text: (
            {
                "retry-after": text,
                "x-ratelimit-remaining": "0",
                "x-ratelimit-reset": text,
            },
            None,
        ),
        lambda text: ({"retry-after-ms": text, "date": text}, None),
        lambda text: ({"ratelimit": f'"a";r=0;t={text}'}, None),
        lambda text: ({}, {"retry_after": text, "retry_after_ms": text}),
        lambda text: ({}, {"error": {"details": [{"retryDelay": text}]}}),
        lambda text: ({}, {"error": {"metadata": {"headers": {"Retry-After": text}}}}),
        lambda text: ({}, {"error": {"message": f"try again in {text}"}}),
    ],
    ids=["headers", "milliseconds", "list", "body", "details", "quoted headers", "message"],
)
def test_a_wait_that_takes_a_megabyte_to_write_is_none_and_takes_no_memory(
    place: Any, text: str
) -> None:
    headers, body = place(text)
    tracemalloc.start()
    try:
        wait = asked_wait(headers, body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000
    assert wait is None or (isinstance(body, dict) and "try again" in str(body))


def test_an_endless_number_among_quoted_headers_is_passed_over() -> None:
    quoted = {"X-RateLimit-Limit": 10**5_000, "Retry-After": 7}
    assert asked_wait({}, {"error": {"metadata": {"headers": quoted}}}) == 7


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Date": NOW}, True),
        ({"DATE": f" {DATE['date']} " + " " * 5_000}, True),
        ({"date": "yesterday"}, False),
        ({"date": NOW, "Date": "yesterday"}, False),
        ({"Date": "yesterday", "date": NOW}, True),
        ({"date": NOW, "Date": 5}, True),
        ({"date": 5, 5: NOW}, False),
        ({}, False),
        (None, False),
    ],
)
def test_there_is_a_date_where_a_wait_until_a_moment_is_counted_from_one(
    headers: Any, expected: bool
) -> None:
    assert has_date(headers) is expected
    until = {"retry-after": LATER, **(headers or {})}
    assert asked_wait(until, None) == (30 if expected else None)
