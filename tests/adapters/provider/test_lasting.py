"""How long a reply takes, on a real clock and on a test's own, and what stands in a script beside
it.
"""

import json
from itertools import accumulate
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise.adapters.testing.runner import MemoryProvider
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply, VirtualClock

STREAM = {
    "model": "m",
    "messages": [],
    "stream": True,
    "stream_options": {"include_usage": True},
}
SLOW = ScriptedReply(text="abcdefgh", chunk_size=1, delay=10.0, lasts=600.7)


def asked(url: str, http: httpx.Client, body: dict[str, Any] = STREAM) -> str:
    return http.post(f"{url}/chat/completions", json=body).text


def client_of(memory: MemoryProvider) -> httpx.Client:
    return httpx.Client(transport=httpx.MockTransport(memory.respond))


def test_a_reply_lasts_as_long_as_it_says_wherever_it_is_played() -> None:
    clock = VirtualClock()
    memory = MemoryProvider(Script([SLOW]))
    with (
        EmbeddedProvider(Script([SLOW]), sleep=clock.advance) as provider,
        httpx.Client(trust_env=False) as http,
    ):
        sent = asked(provider.base_url, http)
    assert clock.now == pytest.approx(610.7, rel=1e-15)
    assert asked(memory.base_url, client_of(memory)) == sent
    assert memory.clock.now == clock.now


@given(st.integers(0, 10**6), st.integers(1, 500))
def test_pauses_come_to_the_whole_on_a_clock_that_adds_them_up(quarters: int, count: int) -> None:
    pauses = ScriptedReply(lasts=quarters / 4).pauses(count)
    *_, whole = accumulate(pauses)
    assert len(pauses) == count
    assert whole == quarters / 4
    assert max(pauses) - min(pauses) < 0.001
    assert ScriptedReply(lasts=1.0).pauses(0) == []


@pytest.mark.parametrize("usage", [{"prompt_tokens": 3, "completion_tokens": 5}, {}, None])
def test_a_given_usage_is_told_before_an_error_inside_a_reply(usage: dict[str, int] | None) -> None:
    reply = ScriptedReply(
        text="half", error_event={"message": "m", "type": "server_error"}, usage=usage
    )
    memory = MemoryProvider(Script([reply]))
    http = client_of(memory)
    stream = asked(memory.base_url, http)
    texts = [event.removeprefix("data: ") for event in stream.split("\n\n")]
    events = [json.loads(text) for text in texts if "{" in text]
    usages = [event["usage"] for event in events if event.get("usage")]
    assert usages == ([usage] if usage else [])
    assert "error" in events[-1]
    whole = json.loads(asked(memory.base_url, http, {"model": "m", "messages": []}))
    assert whole["error"]["type"] == "server_error"
    assert whole.get("usage") == usage


def test_a_note_stands_above_each_reply() -> None:
    script = Script([ScriptedReply(text="a"), ScriptedReply(text="b")], after="loop")
    text = script.to_toml(["1. the first", "2. the second", "3. none"])
    assert text.count('\n# 1. the first\n[[replies]]\ntext = "a"') == 1
    assert "3. none" not in text
    assert Script.from_toml(text) == script
