"""What Converse alone has, over HTTP: signed requests, signed reasoning, exceptions as events, its own counters."""

from typing import Any

import pytest

import rungwise
from rungwise import Message, ToolResult
from rungwise.adapters.provider.languages.language import SIGNATURE
from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.testing import ScriptedReply
from support.modes import EVERY
from support.runs import asking

NEW, OLD = "anthropic.claude-opus-5-5", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
KEYS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "wJalrXUtnFEMI"}
TOOL = {"toolSpec": {"name": "look", "description": "Look.", "inputSchema": {"json": {"type": "object"}}}}


@pytest.fixture(params=[pytest.param(mode, marks=[pytest.mark.full] * (mode in ("acall", "awhole"))) for mode in EVERY])
def asks(request: pytest.FixtureRequest) -> Any:
    """Return what asks a provider that plays a script, in one mode, and what it was sent."""

    def begin(*script: ScriptedReply, model: str = NEW, **options: Any) -> Any:
        def backend(url: str) -> rungwise.Bedrock:
            return rungwise.Bedrock(model, region="eu-north-1", base_url=url, **KEYS, **options)

        return asking(request.param, script, backend)

    return begin


def test_each_attempt_is_signed(asks: Any) -> None:
    with asks(ScriptedReply(status=503), ScriptedReply(text="Reeds.")) as (one, stage, waits):
        result = one()
        assert (result.text, result.attempts, len(waits)) == ("Reeds.", 2, 1)
        for request in stage.requests:
            assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
            assert request.headers["x-amz-date"].endswith("Z")
        assert "AKIDEXAMPLE" not in result.journal.to_json()


def test_signed_reasoning_goes_back_word_for_word_in_a_tool_loop(asks: Any) -> None:
    call = ToolCall("tooluse_1", "look", '{"bird": "heron"}')
    first = ScriptedReply(text="I look.", reasoning="Grey. A heron.", tool_calls=(call,))
    asked = {"reasoning_effort": "high"}
    with asks(first, ScriptedReply(text="In the reeds."), model=OLD) as (one, stage, _):
        result = one(tools=[TOOL], parameters=asked, max_tokens=4096)
        told = Message("tool", (ToolResult("tooluse_1", "look", "Ardea."),))
        history = [{"role": "user", "content": [{"text": "Where?"}]}, result.message, told]
        assert one(history, tools=[TOOL], parameters=asked, max_tokens=4096).text == "In the reeds."
        sent = stage.requests[1].body
    assert sent["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Grey. A heron.", "signature": SIGNATURE}}},
                {"text": "I look."},
                {"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": {"bird": "heron"}}},
            ],
        },
        {"role": "user", "content": [{"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": "Ardea."}]}}]},
    ]
    assert sent["additionalModelRequestFields"]["thinking"]["type"] == "enabled"


def test_cut_text_goes_on_behind_itself_where_the_model_takes_that(asks: Any) -> None:
    script = (ScriptedReply(text="In the reeds, ", finish="length"), ScriptedReply(text="mostly."))
    with asks(*script, model=OLD) as (one, stage, _):
        assert one(max_tokens=1000).text == "In the reeds, mostly."
        sent = [request.body for request in stage.requests]
    assert [body["inferenceConfig"]["maxTokens"] for body in sent] == [1000, 2000]
    assert sent[1]["messages"][-1] == {"role": "assistant", "content": [{"text": "In the reeds,"}]}


def test_a_throttle_inside_a_reply_keeps_its_text(asks: Any) -> None:
    broken = ScriptedReply(text="In the reeds, ", error_event={"type": "ThrottlingException", "message": "Slow down"})
    with asks(broken, ScriptedReply(text="mostly.")) as (one, _, _):
        result = one()
    assert result.outcome == "done"
    assert result.text in ("In the reeds, mostly.", "mostly.")  # a whole body with an error in it has no text
    assert [step.reason for step in result.journal.steps if step.reason] == ["rate_limit"]


def test_a_call_that_the_server_could_not_read_is_asked_for_again(asks: Any) -> None:
    call = ToolCall("tooluse_1", "look", "{}")
    with asks(ScriptedReply(finish="malformed_tool_use"), ScriptedReply(tool_calls=(call,))) as (one, _, _):
        result = one(tools=[TOOL])
    assert [each.name for each in result.tool_calls] == ["look"]
    assert [step.code for step in result.journal.steps if step.code] == ["malformed_tool_use"]


def test_all_tokens_are_counted_in_one_meaning(asks: Any) -> None:
    usage = {
        **{"inputTokens": 10, "outputTokens": 70, "totalTokens": 1180},
        **{"cacheReadInputTokens": 100, "cacheWriteInputTokens": 1000},
    }
    with asks(ScriptedReply(text="Reeds.", usage=usage)) as (one, _, _):
        assert one().usage == rungwise.Usage(1110, 70, 100, 1000)
