"""What a reader gathers is what the result holds, in every protocol, after any cut, discard and
resume.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rungwise
from rungwise.ui import ag_ui, sse, vercel
from support.ui_events import Ended, calls, turns
from support.ui_readers import AgUiReader, SseReader, VercelReader, last_text
from support.ui_server import RECORDED

STREAMS = st.one_of(calls(), turns())
SLOW = settings(
    suppress_health_check=(
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    )
)


def text_of(stream: Ended) -> str:
    """Return what must be on the screen at the end."""
    return last_text([stream.result.text])


def events_of(stream: Ended, kind: type) -> list[Any]:
    return [event for event in stream.events if isinstance(event, kind)]


@SLOW
@given(STREAMS, st.floats(0, 1))
def test_a_reader_of_plain_events_who_is_cut_off_resumes_by_its_last_id(
    stream: Ended, cut: float
) -> None:
    body = b"".join(sse(stream))
    reader = SseReader().feed(body[: int(len(body) * cut)])
    if reader.end is None:
        reader.feed(b"".join(sse(stream.after(reader.last_id), after=reader.last_id)))
    assert reader.text == text_of(stream)
    assert reader.end is not None
    kind, end = reader.end
    assert kind == ("result" if stream.result.is_success else "error")
    assert end["outcome"] == stream.result.outcome
    assert len(reader.steps) == len(events_of(stream, rungwise.Step))


@SLOW
@given(STREAMS, st.floats(0, 1))
def test_a_reader_of_vercels_stream_is_sent_the_message_again(stream: Ended, cut: float) -> None:
    body = b"".join(vercel(stream, message_id="m", resets=True))
    VercelReader().feed(body[: int(len(body) * cut)])
    again = b"".join(vercel(stream, message_id="m", resets=True))
    reader = VercelReader().feed(again)
    assert reader.text == text_of(stream)
    assert reader.id == "m"
    assert reader.is_done is True
    is_success = stream.result.is_success
    assert (reader.finish is not None) == is_success
    assert (reader.error is None) == is_success
    thoughts = [event.text for event in events_of(stream, rungwise.Reasoning)]
    shown = [part["text"] for part in reader.parts if part["type"] == "reasoning"]
    assert "".join(shown) == "".join(thoughts)
    ended = [part for part in reader.parts if "ended" in part]
    assert len(ended) == len(events_of(stream, rungwise.ToolEnded))


@SLOW
@given(STREAMS)
def test_without_resets_vercels_stream_ends_where_text_is_taken_back(stream: Ended) -> None:
    reader = VercelReader().feed(b"".join(vercel(stream)))
    assert reader.is_done
    assert not any(chunk["type"] == "reset-step" for chunk in reader.seen)
    if events_of(stream, rungwise.Discard):
        assert "taken back" in reader.error
    else:
        assert reader.text == text_of(stream)


@SLOW
@given(STREAMS)
def test_held_text_is_final(stream: Ended) -> None:
    reader = VercelReader().feed(b"".join(vercel(stream, hold=True)))
    assert reader.text == text_of(stream)
    assert reader.is_done is True
    assert not any(chunk["type"] == "reset-step" for chunk in reader.seen)
    assert (reader.finish is None) == (not stream.result.is_success)


@SLOW
@given(STREAMS)
def test_a_reader_of_ag_ui_is_sent_all_messages_where_text_is_taken_back(stream: Ended) -> None:
    asked = [{"id": "q", "role": "user", "content": "Why?"}]
    body = b"".join(ag_ui(stream, asked, thread_id="t", run_id="r"))
    reader = AgUiReader([*asked]).feed(body)
    assert reader.text == text_of(stream)
    assert reader.messages[0] == asked[0]
    assert reader.end is not None
    assert (reader.end["type"] == "RUN_FINISHED") == stream.result.is_success
    result = reader.end.get("result")
    outcome = result["outcome"] if result else reader.end["code"]
    assert outcome == stream.result.outcome
    snapshots = [event for event in reader.seen if event["type"] == "MESSAGES_SNAPSHOT"]
    assert len(snapshots) == len(events_of(stream, rungwise.Discard))


@pytest.mark.parametrize("scene", ["taken back", "fallback", "tools"])
def test_the_readers_of_these_tests_make_the_same_as_the_official_ones(scene: str) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))[scene]
    shown = VercelReader().feed(recorded["vercel"].encode())
    official = [part.get("text", part.get("output")) for part in recorded["message"]["parts"]]
    assert [part.get("text", part.get("ended")) for part in shown.parts] == official
    asked = [{"id": "q", "role": "user", "content": scene}]
    assert AgUiReader(asked).feed(recorded["ag_ui"].encode()).messages == recorded["messages"]
