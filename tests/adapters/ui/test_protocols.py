"""What a reader gathers is what the result holds, in every protocol, after any cut, discard and
resume.
"""

from __future__ import annotations

import json

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


def is_kept(stream: Ended) -> bool:
    return not any(isinstance(event, rungwise.Discard) for event in stream.events)


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
    assert reader.end[0] == ("result" if stream.result.is_success else "error")
    assert reader.end[1]["outcome"] == stream.result.outcome
    assert len(reader.steps) == sum(isinstance(event, rungwise.Step) for event in stream.events)


@SLOW
@given(STREAMS, st.floats(0, 1))
def test_a_reader_of_vercels_stream_is_sent_the_message_again(stream: Ended, cut: float) -> None:
    body = b"".join(vercel(stream, message_id="m", resets=True))
    VercelReader().feed(body[: int(len(body) * cut)])
    reader = VercelReader().feed(b"".join(vercel(stream, message_id="m", resets=True)))
    assert (reader.text, reader.id, reader.is_done) == (text_of(stream), "m", True)
    assert (reader.finish is None, reader.error is None) == (
        not stream.result.is_success,
        stream.result.is_success,
    )
    reasoning = "".join(
        event.text for event in stream.events if isinstance(event, rungwise.Reasoning)
    )
    assert (
        "".join(part["text"] for part in reader.parts if part["type"] == "reasoning") == reasoning
    )
    ended = [event for event in stream.events if isinstance(event, rungwise.ToolEnded)]
    assert len([part for part in reader.parts if "ended" in part]) == len(ended)


@SLOW
@given(STREAMS)
def test_without_resets_vercels_stream_ends_where_text_is_taken_back(stream: Ended) -> None:
    reader = VercelReader().feed(b"".join(vercel(stream)))
    assert reader.is_done
    assert not any(chunk["type"] == "reset-step" for chunk in reader.seen)
    if is_kept(stream):
        assert reader.text == text_of(stream)
    else:
        assert "taken back" in reader.error


@SLOW
@given(STREAMS)
def test_held_text_is_final(stream: Ended) -> None:
    reader = VercelReader().feed(b"".join(vercel(stream, hold=True)))
    assert (reader.text, reader.is_done) == (text_of(stream), True)
    assert not any(chunk["type"] == "reset-step" for chunk in reader.seen)
    assert (reader.finish is None) == (not stream.result.is_success)


@SLOW
@given(STREAMS)
def test_a_reader_of_ag_ui_is_sent_all_messages_where_text_is_taken_back(stream: Ended) -> None:
    asked = [{"id": "q", "role": "user", "content": "Why?"}]
    reader = AgUiReader([*asked]).feed(b"".join(ag_ui(stream, asked, thread_id="t", run_id="r")))
    assert reader.text == text_of(stream)
    assert reader.messages[0] == asked[0]
    assert reader.end is not None
    assert (reader.end["type"] == "RUN_FINISHED") == stream.result.is_success
    assert (reader.end.get("result") or {"outcome": reader.end["code"]})[
        "outcome"
    ] == stream.result.outcome
    snapshots = [event for event in reader.seen if event["type"] == "MESSAGES_SNAPSHOT"]
    assert len(snapshots) == sum(isinstance(event, rungwise.Discard) for event in stream.events)


@pytest.mark.parametrize("scene", ["taken back", "fallback", "tools"])
def test_the_readers_of_these_tests_make_the_same_as_the_official_ones(scene: str) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))[scene]
    shown = VercelReader().feed(recorded["vercel"].encode())
    official = [part.get("text", part.get("output")) for part in recorded["message"]["parts"]]
    assert [part.get("text", part.get("ended")) for part in shown.parts] == official
    asked = [{"id": "q", "role": "user", "content": scene}]
    assert AgUiReader(asked).feed(recorded["ag_ui"].encode()).messages == recorded["messages"]
