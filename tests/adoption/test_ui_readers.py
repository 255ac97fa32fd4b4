"""The official readers of `rungwise.ui`'s protocols, in Node: npm's `ai` and `@ag-ui/client`, over
a real server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from adoption.readers import Read, reader_of
from rungwise.testing import EmbeddedProvider
from rungwise.testing import testing as no_waits
from support.ui_server import RECORDED, RIGHT, TROUBLES, WRONG, app_of, provider_reply, served

SCENES = ("taken back", "fallback", "tools")
WANTED = ("ai@7", "@ag-ui/client@1")


@pytest.fixture(scope="module")
def read() -> Read:
    """Return `read(program, *arguments)`, which runs a program beside the readers on the Node that
    PyPI brings.
    """
    return reader_of("ui-readers", WANTED)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with (
        no_waits(),
        EmbeddedProvider(provider_reply) as provider,
        served(app_of(provider.base_url)) as url,
    ):
        yield url


def body(trouble: str, **options: Any) -> str:
    return json.dumps(
        {"messages": [{"role": "user", "parts": [{"type": "text", "text": trouble}]}], **options}
    )


def text_of(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


@pytest.mark.full
@pytest.mark.parametrize("trouble", TROUBLES)
def test_vercels_reader(read: Read, url: str, trouble: str) -> None:
    came = read("ui_vercel.mjs", f"{url}/vercel", body(trouble))
    assert (text_of(came["message"]), came["errors"]) == (RIGHT, [])
    assert came["message"]["metadata"]["rungwise"]["outcome"] == "done"
    assert any(text == WRONG for text in came["seen"]) == (trouble == "taken back")


@pytest.mark.full
def test_vercels_reader_of_held_text_never_sees_what_is_taken_back(read: Read, url: str) -> None:
    came = read("ui_vercel.mjs", f"{url}/vercel", body("taken back", hold=True))
    assert (text_of(came["message"]), came["errors"]) == (RIGHT, [])
    assert not any("green" in text for text in came["seen"])


@pytest.mark.full
def test_an_older_reader_is_told_instead_of_left_with_wrong_text(read: Read, url: str) -> None:
    came = read("ui_vercel.mjs", f"{url}/vercel", body("taken back", resets=False))
    assert [("taken back" in error) for error in came["errors"]] == [True]


@pytest.mark.full
@pytest.mark.parametrize("trouble", TROUBLES)
def test_ag_uis_client(read: Read, url: str, trouble: str) -> None:
    came = read("ui_ag_ui.mjs", f"{url}/ag-ui", trouble)
    assert [message["content"] for message in came["messages"]] == [trouble, RIGHT]
    assert (came["error"], came["steps"][0], came["steps"][-1]) == (None, "sent", "answered")


@pytest.mark.full
def test_a_turn_with_a_tool_whose_answer_is_taken_back(read: Read, url: str) -> None:
    came = read("ui_vercel.mjs", f"{url}/vercel", body("tools"))
    parts = came["message"]["parts"]
    kinds = ["step-start", "reasoning", "text", "dynamic-tool", "step-start", "text"]
    assert ([part["type"] for part in parts], came["errors"]) == (kinds, [])
    assert (parts[3]["state"], parts[3]["output"], parts[5]["text"]) == (
        "output-available",
        {"sky": "blue"},
        RIGHT,
    )
    came = read("ui_ag_ui.mjs", f"{url}/ag-ui", "tools")
    assert [message["role"] for message in came["messages"]] == [
        "user",
        "reasoning",
        "assistant",
        "tool",
        "assistant",
    ]
    assert [came["messages"][place]["content"] for place in (2, 4)] == ["Let me look.", RIGHT]
    assert came["messages"][2]["toolCalls"][0]["function"]["name"] == "look"
    assert came["error"] is None


@pytest.mark.full
@pytest.mark.parametrize("scene", SCENES)
def test_the_official_readers_still_make_the_same_of_what_was_recorded(
    read: Read, url: str, scene: str
) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))[scene]
    assert (
        read("ui_vercel.mjs", f"{url}/recorded/{scene}/vercel", "{}")["message"]
        == recorded["message"]
    )
    assert (
        read("ui_ag_ui.mjs", f"{url}/recorded/{scene}/ag_ui", scene)["messages"]
        == recorded["messages"]
    )


def record(read: Read, url: str) -> None:
    """Record anew: call this from a test, once."""
    scenes = {}
    for scene in SCENES:
        messages = [{"id": "q", "role": "user", "content": scene}]
        asked = {"threadId": "t", "runId": "r", "messages": messages}
        bodies = {
            "vercel": httpx.post(f"{url}/vercel", content=body(scene)).text,
            "ag_ui": httpx.post(f"{url}/ag-ui", json=asked).text,
        }
        scenes[scene] = bodies
        RECORDED.write_text(json.dumps(scenes), encoding="utf-8")
        bodies["message"] = read("ui_vercel.mjs", f"{url}/recorded/{scene}/vercel", "{}")["message"]
        bodies["messages"] = read("ui_ag_ui.mjs", f"{url}/recorded/{scene}/ag_ui", scene)[
            "messages"
        ]
    RECORDED.write_text(json.dumps(scenes, indent=1) + "\n", encoding="utf-8")
