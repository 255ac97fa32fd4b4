"""Streams for user interfaces over a real provider and a real server: text taken back, fallbacks,
lost connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

import rungwise
from rungwise.testing import EmbeddedProvider
from rungwise.testing import testing as no_waits
from support.ui_readers import AgUiReader, SseReader, VercelReader
from support.ui_server import RIGHT, TROUBLES, app_of, not_green, provider_reply, served

EVENTS = {
    "taken back": "answered_wrongly",
    "fallback": "failed_transiently",
    "cut": "interrupted",
}


@pytest.fixture(scope="module")
def provider() -> Iterator[EmbeddedProvider]:
    with EmbeddedProvider(provider_reply) as provider:
        yield provider


@pytest.fixture(scope="module")
def url(provider: EmbeddedProvider) -> Iterator[str]:
    with no_waits(), served(app_of(provider.base_url)) as url:
        yield url


def asked(trouble: str, **options: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "parts": [{"type": "text", "text": trouble}]}], **options}


every_trouble = pytest.mark.parametrize("trouble", TROUBLES)


@every_trouble
@pytest.mark.parametrize("path", ["sse", "threads", "kept"])
def test_plain_events(url: str, trouble: str, path: str) -> None:
    answer = httpx.get(f"{url}/{path}", params={"question": trouble})
    assert answer.headers["content-type"].startswith("text/event-stream")
    reader = SseReader().feed(answer.content)
    assert (reader.text, reader.end[0], reader.end[1]["outcome"]) == (RIGHT, "result", "done")
    assert EVENTS[trouble] in [step["event"] for step in reader.steps]
    assert (b"event: discard" in answer.content) == (trouble == "taken back")


@every_trouble
@pytest.mark.parametrize("hold", [False, True])
def test_vercels_stream(url: str, trouble: str, hold: bool) -> None:
    answer = httpx.post(f"{url}/vercel", json=asked(trouble, hold=hold))
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    reader = VercelReader().feed(answer.content)
    assert (reader.text, reader.is_done, reader.error) == (RIGHT, True, None)
    assert (b"reset-step" in answer.content) == (trouble == "taken back" and not hold)
    sent = "".join(chunk.get("delta", "") for chunk in reader.seen)
    assert ("green" in sent) == (trouble == "taken back" and not hold)


def over_ag_ui(url: str, question: str) -> tuple[AgUiReader, httpx.Response]:
    messages = [{"id": "q", "role": "user", "content": question}]
    given = {"threadId": "t", "runId": "r", "messages": messages}
    answer = httpx.post(f"{url}/ag-ui", json=given)
    return AgUiReader([*messages]).feed(answer.content), answer


@every_trouble
def test_ag_ui(url: str, trouble: str) -> None:
    reader, _ = over_ag_ui(url, trouble)
    assert (reader.text, reader.end["type"]) == (RIGHT, "RUN_FINISHED")
    assert [message["content"] for message in reader.messages] == [trouble, RIGHT]
    assert EVENTS[trouble] in [value["event"] for name, value in reader.custom]


def test_a_turn_with_a_tool_whose_answer_is_taken_back(url: str) -> None:
    plain = SseReader().feed(httpx.get(f"{url}/sse", params={"question": "tools"}).content)
    assert plain.texts == ["Let me look.", RIGHT]
    assert plain.tools["call_1"]["output"] == {"sky": "blue"}
    shown = VercelReader().feed(httpx.post(f"{url}/vercel", json=asked("tools")).content)
    assert [part["type"] for part in shown.parts] == [
        "step-start",
        "reasoning",
        "text",
        "tool",
        "step-start",
        "text",
    ]
    assert shown.text == RIGHT
    agent, answer = over_ag_ui(url, "tools")
    assert [each["role"] for each in agent.messages] == [
        "user",
        "reasoning",
        "assistant",
        "tool",
        "assistant",
    ]
    assert (agent.text, agent.messages[3]["content"]) == (RIGHT, '{"sky":"blue"}')
    assert b"MESSAGES_SNAPSHOT" in answer.content


@pytest.mark.parametrize("path", ["sse", "threads"])
def test_a_reader_who_leaves_ends_the_call(path: str) -> None:
    with EmbeddedProvider(provider_reply) as provider, served(app_of(provider.base_url)) as url:
        with httpx.stream("GET", f"{url}/{path}", params={"question": "endless"}) as response:
            for chunk in response.iter_raw():
                if b"event: text" in chunk:
                    break
        assert provider.wait_disconnected()
        assert provider.aborted == 1


def test_a_reader_who_loses_the_connection_resumes(url: str) -> None:
    reader = SseReader()
    with httpx.stream("GET", f"{url}/kept", params={"question": "slow"}) as response:
        id = response.headers["x-id"]
        with closing(response.iter_raw()) as chunks:
            for chunk in chunks:
                if reader.feed(chunk).last_id >= 3:
                    break
    assert 0 < len(reader.text) < len(RIGHT)
    rest = httpx.get(
        f"{url}/kept", params={"id": id}, headers={"last-event-id": str(reader.last_id)}
    )
    assert reader.feed(rest.content).text == RIGHT
    again = httpx.get(
        f"{url}/kept", params={"id": id}, headers={"last-event-id": str(reader.last_id)}
    )
    assert again.status_code == 204
    assert httpx.get(f"{url}/kept", params={"id": "another"}).status_code == 204


async def body_of(frames: rungwise.ui.Frames) -> bytes:
    return b"".join([chunk async for chunk in frames])


@pytest.mark.full
def test_a_durable_stream_is_read_again_in_any_process(
    provider: EmbeddedProvider, tmp_path: Path
) -> None:
    client = rungwise.Client(rungwise.OpenAIChat("first", base_url=provider.base_url), health=None)
    database = f"sqlite:///{tmp_path / 'calls.sqlite'}"
    with rungwise.Durable(client, database, modules=["support"]) as durable:
        body = b"".join(rungwise.ui.sse(durable.stream("an id", "taken back", verdict=not_green)))
        handle = durable.handle("an id")
        for cut in range(0, len(body), 97):
            reader = SseReader().feed(body[:cut])
            rest = anyio.run(
                body_of, rungwise.ui.sse(handle.astream(reader.last_id), after=reader.last_id)
            )
            assert reader.feed(rest).text == RIGHT
        message = b"".join(rungwise.ui.vercel(handle.stream(), message_id=handle.id, resets=True))
        again = anyio.run(
            body_of, rungwise.ui.vercel(handle.astream(), message_id=handle.id, resets=True)
        )
    assert again == message
    assert VercelReader().feed(message).text == RIGHT
