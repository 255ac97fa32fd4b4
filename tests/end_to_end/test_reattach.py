"""A reply that its provider goes on with is fetched: nothing is paid twice or repeated."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

import rungwise
from rungwise import (
    Client,
    Discard,
    GeminiInteractions,
    Limits,
    OpenAIResponses,
    Policy,
    Quota,
    Text,
    Timeouts,
    Waits,
)
from rungwise.testing import testing
from support.kept_server import PROMPT, KeptServer
from support.modes import EVERY, MODES, ask, options_of, streams

TOKENS = [f"word{number} " for number in range(12)]
WHOLE = "".join(TOKENS)


def made(server: KeptServer, mode: str, **policy: Any) -> tuple[Any, list[Any]]:
    kind = OpenAIResponses if server.api == "responses" else GeminiInteractions
    backend = kind("m", base_url=server.base_url, api_key="k", background=True, name="kept")
    events: list[Any] = []
    with testing(), Client(backend, policy=Policy(**policy), **options_of(mode)) as client:
        more = {"events": events} if streams(mode) else {}
        return ask(client, mode, "Where?", **more), events


def shown(events: list[Any]) -> str:
    assert not any(isinstance(event, Discard) for event in events)
    return "".join(event.text for event in events if isinstance(event, Text))


@pytest.mark.parametrize("mode", MODES)
def test_a_cut_stream_is_taken_up_behind_its_last_event(mode: str) -> None:
    with KeptServer(TOKENS, cuts=[1100, 200]) as server:
        result, events = made(server, mode)
    assert result.text == WHOLE
    assert result.usage.output_tokens == len(TOKENS)
    assert result.usage.input_tokens == PROMPT
    assert server.charged == PROMPT + len(TOKENS)
    first, *rest = server.asked
    assert first[2]["background"] is True
    assert first[2]["store"] is True
    assert [method for method, _, _ in rest] == ["GET", "GET"]
    assert all("stream=true&starting_after=" in path for _, path, _ in rest)
    if streams(mode):
        assert shown(events) == WHOLE


@pytest.mark.parametrize("mode", ["whole", "awhole"])
def test_a_whole_reply_is_polled(mode: str) -> None:
    with KeptServer(TOKENS, polls=3) as server:
        result, _ = made(server, mode)
    assert result.text == WHOLE
    assert result.attempts == 1
    assert server.requests[1:] == ["GET /v1/responses/resp_0"] * 4
    assert server.charged == result.usage.input_tokens + result.usage.output_tokens


@pytest.mark.parametrize("mode", MODES)
def test_an_interaction_is_taken_up_behind_its_last_event(mode: str) -> None:
    with KeptServer(TOKENS, cuts=[700, 300], api="interactions") as server:
        result, events = made(server, mode)
    assert result.text == WHOLE
    assert result.usage.input_tokens + result.usage.output_tokens == server.charged
    assert server.asked[0][2]["background"] is True
    assert server.asked[0][2]["store"] is True
    assert len(server.asked) == 3
    assert all("?stream=true&last_event_id=e-" in path for _, path, _ in server.asked[1:])
    if streams(mode):
        assert shown(events) == WHOLE


@pytest.mark.parametrize("mode", ["whole", "awhole"])
def test_a_whole_interaction_is_polled(mode: str) -> None:
    with KeptServer(TOKENS, polls=2, api="interactions") as server:
        result, _ = made(server, mode)
    assert result.text == WHOLE
    assert server.requests[1:] == ["GET /v1/interactions/resp_0"] * 3


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_that_is_too_old_is_polled(mode: str) -> None:
    with KeptServer(TOKENS, cuts=[1100], refusals=[400], polls=1) as server:
        result, events = made(server, mode)
    assert result.text == WHOLE
    assert server.charged == PROMPT + len(TOKENS)
    assert server.requests[2:] == ["GET /v1/responses/resp_0"] * 2
    if streams(mode):
        assert shown(events) == WHOLE


@pytest.mark.parametrize("mode", MODES)
def test_a_reply_that_is_gone_is_continued(mode: str) -> None:
    with KeptServer(TOKENS, cuts=[2500], refusals=[404]) as server:
        result, _ = made(server, mode)
    assert result.text.startswith(TOKENS[0])
    posts = [body for method, _, body in server.asked if method == "POST"]
    assert len(posts) == 2  # the continuation, and nothing is cancelled
    assert TOKENS[0].strip() in str(posts[1]["input"])


@pytest.mark.parametrize("mode", EVERY)
def test_a_generation_that_nobody_waits_for_is_cancelled(mode: str) -> None:
    off = Limits(reattaches=0, continuations=0, retries=0, fallbacks=0)
    timeouts = Timeouts(total=0.4)
    with (
        KeptServer(TOKENS, cuts=[1100], polls=99) as server,
        suppress(rungwise.CallError),
    ):
        made(server, mode, limits=off, timeouts=timeouts)
    assert server.requests[-1] == "POST /v1/responses/resp_0/cancel"
    assert server.kept["resp_0"].is_cancelled


def test_other_protocols_say_who_can() -> None:
    with pytest.raises(TypeError, match="background"):
        rungwise.OpenAIChat("m", background=True)  # type: ignore[call-arg]


def test_vertex_has_other_requests_for_it() -> None:
    url = "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/l"
    with pytest.raises(rungwise.ConfigurationError, match="Vertex AI"):
        GeminiInteractions("m", base_url=url, background=True)


HOLDING = ["Herons nest ", "here ", "<thi", "s> and so ", "on."]
"""Of which a stream holds back what may begin a think tag."""


@pytest.mark.parametrize("cut", [850, 980, 1000, 1250])
@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_what_a_stream_holds_back_is_said_once(mode: str, cut: int) -> None:
    with KeptServer(HOLDING, cuts=[cut]) as server:
        result, events = made(server, mode)
    assert result.text == "".join(HOLDING) == shown(events)


@pytest.mark.parametrize("cut", [850, 980, 1000, 1250])
def test_what_another_backend_goes_on_with_is_said_once(cut: int) -> None:
    with KeptServer(HOLDING, cuts=[cut]) as first, KeptServer(HOLDING) as second, testing():
        chain = []
        for server, quota in ((first, Quota(requests_per_minute=1)), (second, None)):
            url = server.base_url
            kept = OpenAIResponses("m", base_url=url, api_key="k", background=True, quota=quota)
            chain.append(kept)
        with Client(chain, policy=Policy(waits=Waits(longest_asked=1.0))) as client:
            *events, result = client.stream("Where?")
    assert result.text == "".join(HOLDING) == shown(events)
    assert first.cancels == ["resp_0"]


def cut_at_random(random: Random) -> None:
    tokens = [f"{random.choice('abc')}{number} " for number in range(random.randint(1, 30))]
    cuts: list[int | None] = [random.randint(0, 4000) for _ in range(random.randint(1, 3))]
    api = random.choice(["responses", "interactions"])
    cuts[0] = random.randint(200, 4000)  # before the first event, nobody knows what to fetch
    with KeptServer(tokens, cuts=cuts, api=api) as server:
        result, events = made(server, random.choice(MODES))
    whole = "".join(tokens)
    assert result.text == whole
    assert server.charged == PROMPT + len(tokens)  # nothing was paid twice
    assert result.usage.input_tokens + result.usage.output_tokens == server.charged
    assert not events or shown(events) == whole


@pytest.mark.parametrize("seed", range(20))
def test_random_cuts_pay_and_repeat_nothing(seed: int) -> None:
    cut_at_random(Random(seed))


@pytest.mark.full
def test_a_thousand_random_cuts_pay_and_repeat_nothing() -> None:
    for seed in range(1000):
        cut_at_random(Random(f"cut {seed}"))
