"""A stream that sends every event twice shows its text once, and one that goes on with another
reply is no whole answer, in every mode.
"""

import json
from typing import Any, Final

import pytest

from rungwise.testing import ScriptedReply
from support import protocols
from support.modes import EVERY, follow, streams
from support.runs import Run, Stage
from support.streams import rendered

pytestmark = pytest.mark.sampled(8)

TEXT: Final = "Herons nest in the reeds of the northern lake."
OTHER: Final = "Bitterns nest there, too."
STREAM: Final = {"content-type": "text/event-stream"}
MODES: Final = pytest.mark.parametrize("mode", EVERY)


@pytest.fixture
def play(stages: tuple[Stage, ...], caplog: pytest.LogCaptureFixture, api: str, mode: str) -> Run:
    return Run(mode, stages, caplog, api)


@pytest.mark.parametrize("api", ["openai", "responses", "anthropic", "gemini", "interactions"])
@MODES
def test_a_stream_that_sends_each_event_twice_shows_its_text_once(play: Run, api: str) -> None:
    backend = protocols.backend(api, "http://host/v1")
    data = rendered(backend, ScriptedReply(TEXT, chunk_size=6), streams=True).decode()
    events = [f"{event}\n\n" for event in data.split("\n\n") if event.strip()]
    body = "".join([event * 2 for event in events])
    ended = play([ScriptedReply(body=body, headers=STREAM)])
    ended.was("done", TEXT, counts=[1], path="done")
    assert not streams(play.mode) or follow(ended.events) == TEXT


@pytest.mark.parametrize("api", ["openai"])
@MODES
def test_a_stream_that_goes_on_with_another_reply_is_asked_for_once_more(
    play: Run, api: str
) -> None:
    body = ""
    for id, text in (("a", TEXT[:20]), ("a", TEXT[20:30]), ("b", TEXT[:30]), ("b", TEXT[30:])):
        choice: dict[str, Any] = {"index": 0, "delta": {"content": text}}
        body += f"data: {json.dumps({'id': id, 'choices': [choice]})}\n\n"
    last = {"id": "b", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    body += f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n"
    ended = play([ScriptedReply(body=body, headers=STREAM), ScriptedReply(OTHER)])
    ended.was("done", OTHER, counts=[2], path="recheck done")
    assert not streams(play.mode) or follow(ended.events) == OTHER
