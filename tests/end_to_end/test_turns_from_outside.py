"""Turns over HTTP as users meet them: one event loop for tools, compactors, one Ctrl-C, summaries,
replays.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from rungwise import (
    Anthropic,
    Cancellation,
    Client,
    Gemini,
    OpenAIChat,
    OpenAIResponses,
    Tool,
    TurnCancelled,
    TurnFailed,
    TurnJournal,
    TurnPolicy,
    replay,
)
from rungwise.adapters.tools.scheduling import CANCELLED, LEFT
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.plain import bad_request, user
from support.waiting import patience

BACKENDS: list[Callable[..., Any]] = [OpenAIChat, OpenAIResponses, Anthropic, Gemini]


def calling(*names: str, text: str = "", **more: Any) -> ScriptedReply:
    return ScriptedReply(
        text, tool_calls=[{"name": name, "arguments": "{}"} for name in names], **more
    )


def client_of(
    provider: EmbeddedProvider, kind: Callable[..., Any] = OpenAIChat, **options: Any
) -> Client:
    return Client(kind("model", api_key="key", base_url=provider.base_url), **options)


@pytest.fixture
def site() -> Iterator[str]:
    with EmbeddedProvider(Script([ScriptedReply("a page")] * 4)) as provider:
        yield provider.base_url


@pytest.mark.parametrize("is_streamed", [False, True])
def test_async_tools_of_all_rounds_share_an_event_loop(site: str, is_streamed: bool) -> None:
    http = httpx.AsyncClient()  # whose kept-alive connections belong to the loop that opened them
    loops: list[asyncio.AbstractEventLoop] = []

    async def fetch() -> str:
        loops.append(asyncio.get_running_loop())
        body = {"model": "m", "messages": [user("page")]}
        response = await http.post(
            f"{site.rstrip('/')}/chat/completions", json=body, headers={"authorization": "k"}
        )
        return str(response.json()["choices"][0]["message"]["content"])

    script = Script([calling("fetch"), calling("fetch", "fetch"), ScriptedReply("done")])
    with EmbeddedProvider(script) as provider:
        client = client_of(provider)
        if is_streamed:
            with client.stream_turn("Fetch.", tools=[fetch]) as stream:
                *_, result = stream
                result = stream.result
        else:
            result = client.turn("Fetch.", tools=[fetch])
        sent = json.dumps(provider.requests[-1].body)
    assert result.text == "done"
    assert sent.count("a page") == 3
    assert len(loops) == 3
    assert len(set(map(id, loops))) == 1
    until = time.monotonic() + patience()
    while not loops[0].is_closed() and time.monotonic() < until:
        time.sleep(0.001)
    assert loops[0].is_closed()


@pytest.mark.full
def test_a_tool_that_blocks_the_loop_does_not_hold_the_next_round() -> None:
    let_go = threading.Event()

    async def block() -> None:
        let_go.wait(patience())

    async def quick() -> str:
        return "quick"

    tools = [Tool(block, seconds=0.05), quick]
    with EmbeddedProvider(
        Script([calling("block"), calling("quick"), ScriptedReply("done")])
    ) as provider:
        try:
            assert client_of(provider).turn("Go.", tools=tools).text == "done"
        finally:
            let_go.set()
        sent = provider.requests[-1].body["messages"]
    assert "timed out" in sent[2]["content"]
    assert sent[4]["content"] == "quick"


@pytest.mark.parametrize("way", ["sync", "asyncio"])
def test_one_cancellation_leaves_a_tool_that_hangs(way: str) -> None:
    begun = threading.Event()
    let_go = threading.Event()
    cancellation = Cancellation()

    def hang() -> None:
        begun.set()
        let_go.wait(patience())

    async def main(client: Client) -> Any:
        task = asyncio.ensure_future(client.aturn("Go.", tools=[hang]))
        await asyncio.to_thread(begun.wait, patience())
        task.cancel()
        await asyncio.wait([task])
        with pytest.raises(asyncio.CancelledError) as caught:
            task.result()
        return caught.value.result  # type: ignore[attr-defined]

    with EmbeddedProvider(Script([calling("hang")])) as provider:
        client = client_of(provider)
        try:
            if way == "asyncio":
                result = asyncio.run(main(client))
            else:
                threading.Thread(
                    target=lambda: begun.wait(patience()) and cancellation.cancel()
                ).start()
                with pytest.raises(TurnCancelled) as caught:
                    client.turn("Go.", tools=[hang], cancellation=cancellation)
                result = caught.value.result
            assert not let_go.is_set()
        finally:
            let_go.set()
    assert result.outcome == "cancelled"
    assert result.plain_messages[-1]["content"] == f"{CANCELLED}; {LEFT}"


@pytest.mark.parametrize("kind", BACKENDS)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_compactor_is_given_plain_messages_alone(kind: Any, is_async: bool) -> None:
    given: list[Any] = []
    said = ScriptedReply("An answer.", reasoning="Thought.", signature="signed")

    def shorter(messages: Any, room: int) -> Any:
        given.append(messages)
        assert all(type(each) is dict for each in messages)
        json.dumps(messages)
        kept = [*messages[:1], *messages[-2:]]
        messages[0]["content"] = "changed"  # its own copy
        return [{**kept[0], "content": "Short."}, *kept[1:]]

    overflow = bad_request("context length exceeded", code="context_length_exceeded")
    script = Script(
        [said, calling("look", reasoning="T", signature="s"), overflow, ScriptedReply("done")]
    )

    def look() -> str:
        return "seen"

    with EmbeddedProvider(script) as provider:
        client = client_of(provider, kind)
        first = client.call("Long. " * 500)
        history = [
            user("Long. " * 500),
            first.message,
            user("Go on."),
        ]
        if is_async:
            result = asyncio.run(client.aturn(history, tools=[look], compactor=shorter))
        else:
            result = client.turn(history, tools=[look], compactor=shorter)
        assert len(given) == 1
        assert [each["role"] for each in given[0]] == [
            "user",
            "assistant",
            "user",
            "assistant",
            "tool",
        ]
        last = json.dumps(provider.requests[-1].body)
    assert result.text == "done"
    assert "Short." in last
    assert "changed" not in last
    if kind is Anthropic:  # what the compactor left as it was keeps its signature
        assert '"s"' in last


def test_the_compactor_of_a_call_is_given_plain_messages_too() -> None:
    given: list[Any] = []

    def shorter(messages: Any) -> Any:
        given.extend(messages)
        return messages[-1:]

    overflow = bad_request("context length exceeded", code="context_length_exceeded")
    with EmbeddedProvider(
        Script([ScriptedReply("An answer."), overflow, ScriptedReply("done")])
    ) as provider:
        client = client_of(provider, compactor=shorter)
        said = client.call("Hello.").message
        history = [
            user("Hello."),
            said,
            user("Go on."),
        ]
        assert client.call(history).text == "done"
        assert provider.requests[-1].body["messages"] == [user("Go on.")]
    assert given == [history[0], {"role": "assistant", "content": "An answer."}, history[2]]


def test_a_summary_that_calls_tools_again_is_no_success() -> None:
    def look() -> str:
        return "seen"

    with EmbeddedProvider(Script([calling("look")] * 3)) as provider:
        client = client_of(provider)
        with pytest.raises(TurnFailed, match="asked for a summary it called tools again") as caught:
            client.turn("Look.", tools=[look], policy=TurnPolicy(auto_continues=1))
        assert "tools" not in provider.requests[2].body
    assert replay(caught.value.result.journal).outcome == "failed"


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_replay_has_the_plain_messages_of_the_turn(kind: Any) -> None:
    def look() -> str:
        return "seen"

    with EmbeddedProvider(
        Script([calling("look", text="I look."), ScriptedReply("done")])
    ) as provider:
        result = client_of(provider, kind, contents=True).turn("Look.", tools=[look])
    assert result.plain_messages[1]["tool_calls"][0]["function"] == {
        "name": "look",
        "arguments": "{}",
    }
    read = TurnJournal.from_json(result.journal.to_json())
    for again in (replay(result.journal), replay(read)):
        assert again.plain_messages == result.plain_messages[1:]
