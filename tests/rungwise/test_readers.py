"""Every reader of outside input gives a valid value or an error of ours, whatever it reads.

What is read is near enough to something valid that it gets past the first check: a document of the
right kind in which a few values were replaced, retyped, removed, repeated or moved.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import rungwise
from rungwise import OpenAIChat
from rungwise.adapters.provider.server import render
from rungwise.adapters.testing.scripts import scripted_replies
from rungwise.adapters.wires.endpoint import read_url
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.call.policy_values import from_mapping
from rungwise.fsm.values.files import toml_value
from rungwise.testing import Script, failures, replies
from support.drawn import chunkings
from support.sampling import examples
from support.spoiling import ODD, deep, is_clear, spoilt

pytestmark = pytest.mark.sampled(4)

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
FEW = settings(max_examples=examples(150), suppress_health_check=SLOW)
MANY = settings(FEW, max_examples=examples(400))

# policies and scripts, as TOML

POLICY = {
    **rungwise.Policy(
        budget=rungwise.Budget(seconds=60, output_tokens=9_000, money=0.5)
    ).to_mapping(),
    "limits": {"retries": 2, "fallbacks": 1},
    "timeouts": {"connect": 5.0, "idle": 30, "total": 90.0},
}
HUGE = st.sampled_from((10**400, -(10**30), float("nan"), float("inf"), -float("inf")))
UNWRITABLE = "0x" + "f" * 5_000
"""A number with more digits than Python writes, so that it can only be a text until it is TOML."""


TOML_ODD = ODD | HUGE | st.just(UNWRITABLE)


def toml(document: Any) -> str:
    """Write a document as TOML."""
    if isinstance(document, dict):
        return "\n".join(
            f"{json.dumps(key)} = {_value(value)}"
            for key, value in document.items()
            if value is not None
        )
    return _value(document)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (
            f"{json.dumps(key)} = {_value(item)}" for key, item in value.items() if item is not None
        )
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, (item for item in value if item is not None))) + "]"
    return value if value == UNWRITABLE else toml_value(value)


@MANY
@given(spoilt(POLICY, TOML_ODD))
@example({"limits": {"retries": UNWRITABLE}})
@example({"switch_after": {"timeout": UNWRITABLE}})
@example({"limits": deep(90)})
def test_a_policy_is_refused_or_valid(document: Any) -> None:
    try:
        policy = rungwise.Policy.from_toml(toml(document))
    except rungwise.ConfigurationError as error:
        is_clear(error, "policy: ")
        return
    assert from_mapping(rungwise.Policy, policy.to_mapping()) == policy
    call = Call(Request("?"), policy, [PlainLink(prices=rungwise.Prices(1, 1))])
    call.begin()
    call.cancel()
    assert (
        rungwise.replay(rungwise.Journal.from_json(call.journal.to_json())).outcome
        == call.result.outcome
    )


@MANY
@given(st.dictionaries(st.sampled_from((*POLICY, 1, None, "x" * 10_000)), ODD | HUGE, max_size=3))
@example({"hints": {"rungs": {1: "x"}}})
def test_plain_values_of_any_kind_are_refused_or_a_policy(values: Any) -> None:
    try:
        assert isinstance(from_mapping(rungwise.Policy, values), rungwise.Policy)
    except rungwise.ConfigurationError as error:
        is_clear(error, "")


TOO_MUCH = {
    "digits": f"retries = {'9' * 5_000}",
    "hexadecimal digits": f"base_cap = 0x{'f' * 5_000}",
    "levels": f"limits = {'[' * 5_000}{']' * 5_000}",
    "dotted levels": f"{'a.' * 5_000}b = 1",
    "an open string": 'a = "',
    "a key that is long": f"{'k' * 100_000} = 1",
}


@pytest.mark.parametrize("name", TOO_MUCH)
@pytest.mark.parametrize(
    "read", [rungwise.Policy.from_toml, Script.from_toml], ids=["policy", "script"]
)
def test_toml_that_is_too_much_is_refused(read: Callable[[str], object], name: str) -> None:
    with pytest.raises(rungwise.ConfigurationError) as caught:
        read(TOO_MUCH[name])
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("path", ["a\0b", 5, b"x", "."])
@pytest.mark.parametrize("load", [rungwise.Policy.load, Script.load], ids=["policy", "script"])
def test_a_path_that_is_none_is_refused(load: Callable[[Any], object], path: Any) -> None:
    with pytest.raises(rungwise.ConfigurationError):
        load(path)


REPLY = {
    "status": 429,
    "text": "half",
    "reasoning": "hm",
    "finish": "length",
    "refusal": "no",
    "model": "m",
    "delay": 1.5,
    "chunk_delay": 0,
    "lasts": 2,
    "hang": False,
    "cut_after": 7,
    "chunk_size": 3,
    "write_sizes": [3, 4],
    "usage": {"prompt_tokens": 3, "details": {"cached": 1.0}},
    "tool_calls": [{"id": "1", "name": "look", "arguments": "{}"}],
    "error": {"message": "m", "code": 7},
    "headers": {"retry-after": "2"},
    "reasoning_field": "reasoning",
    "final_message": True,
}


@pytest.mark.full
@MANY
@given(spoilt({"replies": [REPLY, {"text": "b"}], "after": "loop"}, TOML_ODD))
def test_a_script_is_refused_or_can_be_served(document: Any) -> None:
    try:
        script = Script.from_toml(toml(document))
    except rungwise.ConfigurationError as error:
        is_clear(error, "script: ")
        return
    assert Script.from_toml(script.to_toml()) == script
    for reply in script.replies:
        for streams in (False, True):
            render(reply, {"stream": streams, "stream_options": {"include_usage": True}})


# responses and the bytes of streams

BACKEND = OpenAIChat("model", base_url="http://localhost:1/v1")
COMPLETION = {
    "id": "1",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "thinking", "thinking": [{"text": "b"}]},
                ],
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "text": "c",
                        "index": 0,
                    }
                ],
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "1",
                        "function": {"name": "look", "arguments": "{}"},
                    }
                ],
                "refusal": None,
            },
            "delta": {
                "content": "a",
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "1",
                        "function": {"arguments": "{"},
                    }
                ],
            },
            "finish_reason": "stop",
            "error": {"message": "m", "code": 429},
        }
    ],
    "usage": {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "completion_tokens_details": {"reasoning_tokens": 1},
    },
    "error": {
        "message": "Try again in 5s",
        "type": "t",
        "code": "rate_limit",
        "param": "p",
        "details": [{"a": "b"}],
    },
    "base_resp": {"status_code": 1},
    "x_groq": {"usage": {}},
}
HEADERS = {
    "retry-after": "2",
    "date": "Wed, 12 Nov 2025 10:00:00 GMT",
    "x-ratelimit-reset-tokens": "1s",
}
BODIES = spoilt(COMPLETION, ODD | HUGE)
STATUSES = st.sampled_from((200, 201, 206, 299, 300, 400, 429, 500, 599, 600, 999))


def is_valid(heard: object) -> bool:
    """Tell whether this is what a call takes; it takes it."""
    assert isinstance(heard, (Reply, Failure))
    call = Call(Request("?"), contents=True)
    call.begin()
    call.receive(heard)
    call.cancel()
    return bool(call.journal.to_json())


@MANY
@given(BODIES, STATUSES, spoilt(HEADERS))
def test_a_response_is_a_reply_or_a_failure(body: Any, status: int, headers: Any) -> None:
    assert is_valid(BACKEND.decode(status, headers, json.dumps(body).encode()))


@pytest.mark.parametrize("status", [200, 429, 500])
@pytest.mark.parametrize("levels", [200, 900, 5_000])
@pytest.mark.parametrize(
    "around", ["{}", '{{"error": {}}}', '{{"choices": [{{"message": {{"content": {}}}}}]}}']
)
def test_a_response_that_is_deep_is_a_reply_or_a_failure(
    around: str, levels: int, status: int
) -> None:
    body = around.format("[" * levels + "NaN" + "]" * levels).encode()
    assert is_valid(BACKEND.decode(status, {}, body))
    decoder = BACKEND.decoder({})
    decoder.feed(b"data: " + body + b"\n\n")
    assert is_valid(decoder.close())


@FEW
@given(st.binary(max_size=200), STATUSES)
def test_bytes_of_any_kind_are_a_reply_or_a_failure(body: bytes, status: int) -> None:
    assert is_valid(BACKEND.decode(status, {}, body))


@pytest.mark.full
@MANY
@given(st.data())
def test_the_bytes_of_a_stream_are_a_reply_or_a_failure(data: st.DataObject) -> None:
    prefixes = st.sampled_from(
        (b"data: ", b"data:", b"event: error\ndata: ", b"", b"error: ", b": ")
    )
    events = data.draw(st.lists(st.tuples(prefixes, BODIES), min_size=1, max_size=4))
    endings = data.draw(
        st.sampled_from(
            (b"", b"data: [DONE]\n\n", b"data: {", b"\xff\xfe", b"data: " + b"[" * 5_000)
        )
    )
    body = (
        b"".join(prefix + json.dumps(event).encode() + b"\n\n" for prefix, event in events)
        + endings
    )
    decoder = BACKEND.decoder({})
    for piece in data.draw(chunkings(body)):
        for delta in decoder.feed(piece):
            assert isinstance(delta, (rungwise.Text, rungwise.Reasoning))
    assert is_valid(decoder.close(data.draw(st.none() | failures())))


@FEW
@given(scripted_replies(), st.booleans())
def test_what_the_embedded_provider_writes_is_read(reply: Any, streams: bool) -> None:
    assert is_valid(
        BACKEND.decode(reply.status, reply.headers, render(reply, {"stream": streams}).body)
    )


@FEW
@given(replies() | failures())
def test_what_others_make_of_a_response_is_taken(heard: Any) -> None:
    assert is_valid(heard)


# URLs and headers

HOSTS = st.sampled_from(
    (
        "a..b",
        ".a",
        "a.",
        "a" * 64,
        "a." * 130,
        "xn--a",
        "xn--zzzzzzzzzzzzzzzzzz99999",
        "[::1",
        "[::1]",
        "[v1.x]",
        "256.1.1.1",
        "1.2.3",
        "a:99999",
        "a:b",
        "a:",
        "[::1]x",
        "*",
        "a\\b",
        "a%zz",
        "a%00",
        "é",
        "\x00",
        " ",
        "",
        "-",
        "[fe80::1%eth0]",
        "localhost",
        "127.0.0.1:1",
        "u:p@h",
        "0x7f.1",
        "a_b",
        "A.B",
        "٣",
    )
)
PATHS = st.sampled_from(
    ("", "/", "/v1", "/v1/chat/completions", "//", "/" + "x" * 70_000, "?a=b", "#f", "/%", "/\n")
)
URLS = st.builds(
    "{}{}{}".format,
    st.sampled_from(("http://", "https://", "", "ftp://", "http:", "HTTP://")),
    HOSTS,
    PATHS,
)


@MANY
@given(URLS | st.text(max_size=30) | st.builds("http://{}".format, st.text(max_size=20)))
def test_a_url_can_be_sent_to_or_has_a_problem(url: str) -> None:
    import httpx

    try:
        endpoint = read_url(url, "/chat/completions")
    except rungwise.ConfigurationError:
        return
    assert isinstance(endpoint.problem, str | None)
    if endpoint.problem is None:
        sent = httpx.Request("POST", f"{endpoint.root}/chat/completions{endpoint.query}")
        assert sent.headers["host"]
        assert sent.url.raw_host.decode("ascii").encode("idna")  # as the lookup of a name does
        assert sent.url.port is None or sent.url.port <= 65_535
