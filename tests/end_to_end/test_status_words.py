"""Words for the state of a reply that say more than how it ended: it is not there yet, it was
cancelled, it will not come from this model, it was blocked, or nothing was to come.
"""

import json
from typing import Any, Final

import pytest

from rungwise.core import Call, Reply, Request
from rungwise.testing import ScriptedReply
from support import protocols
from support.modes import EVERY
from support.runs import Run, Stage

pytestmark = pytest.mark.sampled(12)

TEXT: Final = "Herons nest in the reeds of the northern lake."
GOOD: Final = ScriptedReply(TEXT)
JSON: Final = {"content-type": "application/json"}
MODES: Final = pytest.mark.parametrize("mode", EVERY)


@pytest.fixture
def play(stages: tuple[Stage, ...], caplog: pytest.LogCaptureFixture, api: str, mode: str) -> Run:
    return Run(mode, stages, caplog, api)


def saying(body: dict[str, Any], status: int = 200) -> ScriptedReply:
    return ScriptedReply(body=json.dumps(body), headers=JSON, status=status)


def response(status: str, *output: dict[str, Any], **more: Any) -> ScriptedReply:
    return saying({"object": "response", "status": status, "output": output, **more})


CALL: Final = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}


@pytest.mark.parametrize("api", ["responses"])
@MODES
@pytest.mark.parametrize("output", [(), ({"type": "reasoning", "summary": []},), (CALL,)])
@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_what_is_not_there_yet_may_come(play: Run, status: str, output: Any) -> None:
    ended = play([response(status, *output), GOOD])
    ended.was("done", TEXT, counts=[2], path="retry done")
    ended = play([response(status, *output, usage={"input_tokens": 3, "output_tokens": 0})])
    ended.was("failed", "", tool_calls=(), path="retry retry retry failed")


@pytest.mark.parametrize("api", ["responses"])
@MODES
@pytest.mark.parametrize("usage", [None, {"input_tokens": 3, "output_tokens": 2}])
def test_what_was_cancelled_is_asked_for_once_more(play: Run, usage: Any) -> None:
    cancelled = response("cancelled", usage=usage)
    play([cancelled, GOOD]).was("done", TEXT, counts=[2], path="repair done")
    play([cancelled]).was("failed", "", counts=[2], path="repair failed")
    play([cancelled], [GOOD]).was("done", TEXT, counts=[2, 1], path="repair fallback done")


@pytest.mark.parametrize("api", ["gemini"])
@MODES
@pytest.mark.parametrize("word", ["TOO_MANY_TOOL_CALLS", "NO_IMAGE", "OTHER"])
def test_what_a_model_will_not_write_is_not_asked_of_it_again(play: Run, word: str) -> None:
    def ending(*parts: dict[str, Any]) -> ScriptedReply:
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": word}
        return saying({"candidates": [candidate]})

    for parts in ([], [{"functionCall": {"name": "look", "args": {}}}]):
        play([ending(*parts)]).was("failed", "", counts=[1], tool_calls=())
        play([ending(*parts)], [GOOD]).was("done", TEXT, counts=[1, 1], path="fallback done")
    said = {"text": "The weir is"}
    play([ending(said)]).was("partial", "The weir is", counts=[1])
    play([ending(said)], [GOOD]).was("done", TEXT, counts=[1, 1], path="fallback done")


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
@MODES
def test_moderation_is_a_refusal_in_every_protocol(play: Run) -> None:
    error = {"code": "moderation_blocked", "type": "moderation_blocked", "message": "No."}
    blocked = saying({"error": error, "__type": "moderation_blocked", "message": "No."}, 400)
    play([blocked]).was("refused", "", counts=[1])


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
@MODES
@pytest.mark.parametrize("word", ["moderation_blocked", "content_policy_violation"])
def test_a_reply_that_ends_in_moderation_is_a_refusal(play: Run, word: str) -> None:
    play([ScriptedReply("The weir", finish=word)]).was("refused", counts=[1])


PICTURE: Final = {"type": "image_generation_call", "id": "ig", "status": "failed", "result": None}
BLOCKED: Final = {"type": "image_generation_user_error", "code": "moderation_blocked"}
SAID: Final = {"type": "message", "content": [{"type": "output_text", "text": TEXT}]}


@pytest.mark.parametrize("api", ["responses"])
@MODES
@pytest.mark.parametrize("message", ["No.", ""])
@pytest.mark.parametrize("beside", [(), ({"type": "reasoning", "summary": []},)])
def test_a_picture_that_moderation_blocked_is_a_refusal(
    play: Run, message: str, beside: Any
) -> None:
    picture = {**PICTURE, "error": {**BLOCKED, "message": message}}
    play([response("completed", *beside, picture)]).was("refused", "", counts=[1])
    play([response("completed", picture, SAID)]).was("done", TEXT, counts=[1])


@pytest.mark.parametrize("prewarm", [True, False])
def test_a_request_that_only_fills_the_cache_is_answered_by_nothing(prewarm: bool) -> None:
    options = {"prompt_cache_options": {"mode": "explicit", "prewarm": prewarm}}
    call = Call(Request("Where do herons nest?", parameters=options))
    assert call.begin() is not None
    call.receive(Reply(stop_reason="stop"))
    assert call.is_over is prewarm
    if prewarm:
        assert (call.result.outcome, call.result.text, call.result.attempts) == ("done", "", 1)
