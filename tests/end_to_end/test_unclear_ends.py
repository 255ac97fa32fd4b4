"""A finish reason that nobody knows, in every protocol and mode: the same request goes out once
more, then the next backend is asked, and the text that came is not lost.
"""

import json
from typing import Any, Final

import pytest

from rungwise import Discard
from rungwise.adapters.demo.scenarios import SCENARIOS
from rungwise.fsm.replies.parts import ToolCall
from rungwise.testing import ScriptedReply
from support import protocols
from support.modes import EVERY, follow, streams
from support.runs import Ended, Run, Stage

pytestmark = pytest.mark.sampled(12)

TEXT: Final = "Herons nest in the reeds of the northern lake."
OTHER: Final = "Bitterns nest there, too."
WORD: Final = "gremlins"
JSON: Final = "application/json"
UNCLEAR: Final = ScriptedReply(TEXT, finish=WORD)
LOOK: Final = ToolCall("call_1", "get_weather", '{"city": "Oslo"}')
WITH_A_CALL: Final = ScriptedReply(TEXT, tool_calls=(LOOK,), finish=WORD)
PROTOCOLS: Final = pytest.mark.parametrize("api", protocols.PROTOCOLS)
MODES: Final = pytest.mark.parametrize("mode", EVERY)


@pytest.fixture
def play(stages: tuple[Stage, ...], caplog: pytest.LogCaptureFixture, api: str, mode: str) -> Run:
    return Run(mode, stages, caplog, api)


def assert_sent_as_it_was(ended: Ended) -> None:
    """Check that each backend was sent its first request again, and nothing of the text."""
    for requests in ended.by_backend:
        assert all(request.body == requests[0].body for request in requests)
        assert all(TEXT not in str(request.body) for request in requests)


@PROTOCOLS
@MODES
def test_the_same_request_goes_out_once_more_and_its_answer_stands(play: Run) -> None:
    ended = play([UNCLEAR, ScriptedReply(OTHER)])
    ended.was("done", OTHER, counts=[2], path="recheck done", waits=[1])
    assert_sent_as_it_was(ended)
    if streams(play.mode):
        assert [each.text for each in ended.events if isinstance(each, Discard)] == [TEXT]


@PROTOCOLS
@MODES
def test_without_a_better_one_the_text_stands(play: Run) -> None:
    ended = play([UNCLEAR])
    ended.was("partial", TEXT, counts=[2], path="recheck partial")
    assert_sent_as_it_was(ended)
    assert ended.steps[-1].stop_raw == WORD
    assert not streams(play.mode) or follow(ended.events) == TEXT


@PROTOCOLS
@MODES
def test_the_fallback_answers_by_itself(play: Run) -> None:
    ended = play([UNCLEAR], [ScriptedReply(OTHER)])
    ended.was("done", OTHER, counts=[2, 1], path="recheck fallback done")
    assert_sent_as_it_was(ended)


@PROTOCOLS
@MODES
@pytest.mark.parametrize(
    "fallback",
    [ScriptedReply(status=401), ScriptedReply(finish=""), ScriptedReply(status=404)],
    ids=["a wrong key", "no answer", "no such model"],
)
def test_where_the_fallback_fails_too_the_text_stands(play: Run, fallback: ScriptedReply) -> None:
    ended = play([UNCLEAR], [fallback])
    ended.was("partial", TEXT)
    assert ended.counts[0] == 2
    assert_sent_as_it_was(ended)


@PROTOCOLS
@MODES
def test_no_tool_call_is_handed_out(play: Run) -> None:
    ended = play([WITH_A_CALL], tools=[SCENARIOS["tool-round"].tools[0]])
    ended.was("partial", TEXT, counts=[2], tool_calls=())
    assert_sent_as_it_was(ended)


@PROTOCOLS
@MODES
def test_a_stream_that_breaks_off_behind_it_loses_nothing(play: Run) -> None:
    broken: Any = protocols.cut_in_half(ScriptedReply("Herons like the reeds best of all."))
    ended = play([UNCLEAR, broken, ScriptedReply(status=401)])
    ended.was("partial", TEXT)


CALL: Final = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
UNREAD: Final[dict[str, Any]] = {
    "openai": {
        "choices": [
            {"message": {"content": TEXT}, "tool_calls": [CALL], "finish_reason": "stop"},
        ]
    },
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": TEXT}]}, CALL],
        "tool_calls": [CALL],
    },
    "anthropic": {
        "content": [{"type": "text", "text": TEXT}],
        "tool_calls": [CALL],
        "stop_reason": "end_turn",
    },
    "gemini": {
        "candidates": [{"content": {"parts": [{"text": TEXT}]}, "finishReason": "STOP"}],
        "functionCalls": [{"name": "look", "args": {}}],
    },
}


@pytest.mark.parametrize("api", UNREAD)
@MODES
def test_a_text_beside_a_call_that_nobody_can_read_is_asked_for_once_more(
    play: Run, api: str
) -> None:
    unread = ScriptedReply(body=json.dumps(UNREAD[api]), headers={"content-type": JSON})
    ended = play([unread])
    ended.was("partial", TEXT, counts=[2], path="recheck partial")
    assert_sent_as_it_was(ended)
    ended = play([unread, ScriptedReply(OTHER)])
    ended.was("done", OTHER, counts=[2], path="recheck done")
    assert_sent_as_it_was(ended)
