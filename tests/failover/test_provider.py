"""The provider that goes wrong, seen with a plain HTTP client, and the faults as they are written down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs
import httpx
import pytest

from failover.faults import ANSWER, FAULTS, HEALTHY, TOKENS, Fault
from failover.provider import FaultyProvider, Scene
from failover.scaling import scaled
from rungwise import Budget, Policy, Timeouts, Waits

SCALE = 0.01


@pytest.fixture(scope="module")
def provider() -> Iterator[FaultyProvider]:
    with FaultyProvider(SCALE) as provider:
        yield provider


def post(provider: FaultyProvider, model: str, *turns: dict[str, Any], **body: Any) -> httpx.Response:
    messages = [{"role": "user", "content": "Well?"}, *turns]
    url = f"{provider.base_url}/chat/completions"
    return httpx.post(url, json={"model": model, "messages": messages, "stream": True, **body}, timeout=5.0)


def read(response: httpx.Response) -> tuple[str, list[str]]:
    """Return the text of a stream, and those of its events that hold none."""
    text, others = "", []
    for event in response.text.removesuffix("\n\n").split("\n\n"):
        data = event.removeprefix("data: ")
        try:
            [choice] = json.loads(data)["choices"]
        except ValueError:
            others.append(data)
        else:
            text += choice["delta"].get("content", "")
    return text, others


def test_there_are_sixteen_faults_and_sixty_words():
    assert list(FAULTS) == [f"S{number:02}" for number in range(1, 17)]
    assert (TOKENS, len(ANSWER.split())) == (60, 60)


@pytest.mark.parametrize("name", FAULTS)
def test_the_fallback_answers(provider: FaultyProvider, name: str):
    scene = provider.play(FAULTS[name])
    text, others = read(post(provider, scene.fallback))
    assert (text, others) == (ANSWER, ["[DONE]"])
    assert [(attempt.role, attempt.is_answered) for attempt in scene.attempts] == [("fallback", True)]


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("S01", [429, 200, 200]),
        ("S02", [429] * 4),
        ("S03", [500, 200, 200]),
        ("S04", [503] * 4),
        ("S12", [400, 400]),
        ("S13", [400, 400]),
        ("S16", [503] * 4),
    ],
)
def test_the_primary_answers_with_errors(provider: FaultyProvider, name: str, statuses: list[int]):
    scene = provider.play(FAULTS[name])
    responses = [post(provider, scene.primary) for _ in statuses]
    assert [response.status_code for response in responses] == statuses
    assert [attempt.is_answered for attempt in scene.attempts] == [status == 200 for status in statuses]
    assert all(read(response)[0] == ANSWER for response in responses if response.status_code == 200)
    assert responses[0].json()["error"]["code"] == FAULTS[name].primary[0].code


def test_a_wait_is_asked_for_once_in_whole_seconds_or_as_they_are_scaled(provider: FaultyProvider):
    scene = provider.play(FAULTS["S01"])
    asked, unasked = post(provider, scene.primary).headers, post(provider, scene.primary).headers
    assert (float(asked["retry-after-ms"]), "retry-after" in asked) == (2000 * SCALE, False)
    assert not any(name.startswith("retry-after") for name in unasked)
    assert not any(
        name.startswith("retry-after") for name in post(provider, provider.play(FAULTS["S02"]).primary).headers
    )
    with FaultyProvider() as real:
        asked = post(real, real.play(FAULTS["S01"]).primary).headers
    assert (asked["retry-after"], "retry-after-ms" in asked) == ("2", False)


def test_the_connection_is_reset_before_any_byte(provider: FaultyProvider):
    scene = provider.play(FAULTS["S05"])
    with pytest.raises(httpx.ReadError):
        post(provider, scene.primary)
    assert read(post(provider, scene.primary))[0] == ANSWER


def test_nothing_ever_comes(provider: FaultyProvider):
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        post(provider, provider.play(FAULTS["S06"]).primary)


def test_the_first_token_comes_late_and_the_headers_do_not(provider: FaultyProvider):
    scene = provider.play(FAULTS["S07"])
    text = read(post(provider, scene.primary))[0]
    assert (text, scene.now >= 20.0) == (ANSWER, True)
    with FaultyProvider() as real:  # which begins no answer within the time in which its headers have to be here
        body = {"model": real.play(FAULTS["S07"]).primary, "messages": [{"role": "user", "content": "Well?"}]}
        with httpx.stream("POST", f"{real.base_url}/chat/completions", json=body, timeout=10.0) as response:
            assert response.status_code == 200


@pytest.mark.parametrize(("name", "words"), [("S08", 40), ("S09", 20), ("S14", 40)])
def test_the_stream_dies(provider: FaultyProvider, name: str, words: int):
    scene = provider.play(FAULTS[name])
    body = {"model": scene.primary, "messages": [{"role": "user", "content": "Well?"}], "stream": True}
    pieces: list[bytes] = []
    cut = pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read")
    with httpx.stream("POST", f"{provider.base_url}/chat/completions", json=body) as response, cut:
        pieces.extend(response.iter_bytes())
    assert scene.now >= FAULTS[name].primary[0].stalls
    text, others = read(httpx.Response(200, content=b"".join(pieces)))
    assert (text.split(), others) == (ANSWER.split()[:words], [])
    assert not scene.attempts[0].is_answered


def test_the_tenth_event_is_no_json_and_the_rest_is_complete(provider: FaultyProvider):
    response = post(provider, provider.play(FAULTS["S10"]).primary)
    text, [garbled, done] = read(response)
    assert (text, done) == (ANSWER, "[DONE]")
    assert response.text.split("\n\n")[9] == f"data: {garbled}"


def test_there_is_no_done(provider: FaultyProvider):
    assert read(post(provider, provider.play(FAULTS["S11"]).primary)) == (ANSWER, [])


def test_usage_is_reported_to_whom_asks_for_it(provider: FaultyProvider):
    model = provider.play(FAULTS["S11"]).primary
    assert '"usage"' not in post(provider, model).text
    assert '"completion_tokens": 60' in post(provider, model, stream_options={"include_usage": True}).text


def test_a_trailing_assistant_turn_is_refused_by_the_fallback_alone(provider: FaultyProvider):
    scene = provider.play(FAULTS["S14"])
    prefill, question = {"role": "assistant", "content": "A call"}, {"role": "user", "content": "Go on."}
    assert post(provider, scene.fallback, prefill).status_code == 400
    assert post(provider, scene.fallback, prefill, question).status_code == 200
    assert [attempt.is_refused_prefill for attempt in scene.attempts] == [True, False]


def test_the_primary_is_dead_for_a_time_or_until_it_is_told_to_recover(provider: FaultyProvider):
    for_a_time = provider.play(attrs.evolve(FAULTS["S15"], dead_for=1000.0))
    assert post(provider, for_a_time.primary).status_code == 503
    for_a_time._began -= 1000.0 * SCALE
    assert post(provider, for_a_time.primary).status_code == 200
    told = provider.play(FAULTS["S04"])
    assert post(provider, told.primary).status_code == 503
    assert len(told.recover()) == 1
    assert post(provider, told.primary).status_code == 200


def test_a_model_that_goes_on_says_the_rest(provider: FaultyProvider):
    scene = provider.play(attrs.evolve(FAULTS["S08"], fallback=attrs.evolve(HEALTHY, goes_on=True)))
    said = " ".join(ANSWER.split()[:40])
    assert said + read(post(provider, scene.fallback, {"role": "assistant", "content": said}))[0] == ANSWER
    assert read(post(provider, scene.fallback, {"role": "assistant", "content": "Something else"}))[0] == ANSWER


class TestAScaledPolicy:
    def test_has_each_of_its_seconds_multiplied(self):
        fast = scaled(Policy(budget=Budget(seconds=60, attempts=7), waits=Waits(reask_cap=30.0, jitter=0.5)), 0.5)
        assert (fast.budget.seconds, fast.budget.attempts) == (30.0, 7)
        assert (fast.waits.retry_base, fast.waits.reask_cap, fast.waits.jitter) == (1.0, 15.0, 0.5)
        usual = attrs.asdict(Timeouts())
        assert attrs.asdict(fast.timeouts) == {name: seconds / 2 for name, seconds in usual.items()}

    def test_keeps_what_has_no_limit_and_all_that_is_no_time(self):
        policy = Policy(budget=Budget(seconds=None, output_tokens=500), timeouts=Timeouts(total=None))
        fast = scaled(policy, 0.1)
        assert (fast.budget, fast.timeouts.total) == (policy.budget, None)
        assert (fast.limits, fast.hints, fast.switch_after) == (policy.limits, policy.hints, policy.switch_after)

    def test_is_the_same_at_full_length(self):
        assert scaled(Policy(), 1.0) == Policy()


def test_a_scene_counts_its_time_as_it_would_be_unscaled():
    scene = Scene(Fault(name="S00", title="nothing", primary=(HEALTHY,), limit=1), 0.001)
    scene._began -= 2.0
    assert 2000.0 <= scene.now < 4000.0
