"""Messages of Responses with a phase: the final answer is the answer, and commentary stands beside
it, whole, streamed, sent back, and through an SDK on the transport.
"""

import json
from typing import Any, Final

import pytest

from rungwise import Client, OpenAIResponses, Reasoning, Text
from rungwise.core import Commentary, CommentaryPart
from rungwise.fsm.call.conversation.plain import stored
from rungwise.testing import ScriptedReply
from support import sdks
from support.gateways import asked
from support.modes import EVERY, ask, options_of, streams
from support.runs import Run, Stage, Stages

pytestmark = pytest.mark.sampled(4)

FIRST: Final = "I look at the map first. "
THEN: Final = "Now the reeds. "
TEXT: Final = "Herons nest in the reeds of the northern lake."
JSON: Final = {"content-type": "application/json"}
SSE: Final = {"content-type": "text/event-stream"}
MODES: Final = pytest.mark.parametrize("mode", EVERY)


@pytest.fixture
def play(stages: tuple[Stage, ...], caplog: pytest.LogCaptureFixture, mode: str) -> Run:
    return Run(mode, stages, caplog, "responses")


def said(number: int, text: str, phase: str | None = None) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    item: dict[str, Any] = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
    }
    item["content"] = [part]
    if phase:
        item["phase"] = phase
    return item


def commented(*, answer: str = TEXT, phase: str | None = "final_answer") -> list[dict[str, Any]]:
    return [
        said(0, FIRST, "commentary"),
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        said(2, THEN, "commentary"),
        said(3, answer, phase),
    ]


def events_of(response: dict[str, Any], *, late: bool) -> bytes:
    """Return the stream of a response; its items say their phase late, or at once."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r"}}]
    for index, item in enumerate(response["output"]):
        begun = {**item, "status": "in_progress", "content": []}
        if late:
            begun.pop("phase", None)
        where = {"output_index": index, "item_id": item["id"]}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        for part in item.get("content", ()):
            delta = {**where, "content_index": 0}
            for piece in (part["text"][:7], part["text"][7:]):
                events.append({"type": "response.output_text.delta", **delta, "delta": piece})
            events.append({"type": "response.output_text.done", **delta, "text": part["text"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": response})
    lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events]
    return "".join(lines).encode()


def reply(mode: str, *items: dict[str, Any], late: bool = False) -> ScriptedReply:
    response = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    if mode in ("whole", "awhole"):
        return ScriptedReply(body=json.dumps(response), headers=JSON)
    return ScriptedReply(body=events_of(response, late=late).decode(), headers=SSE)


def backend_at(provider: Any) -> OpenAIResponses:
    return OpenAIResponses("m", base_url=f"{provider.base_url}/v1", api_key="k")


@MODES
@pytest.mark.parametrize("late", [False, True])
def test_the_final_answer_is_the_text_and_commentary_stands_beside_it(
    play: Run, late: bool
) -> None:
    ended = play([reply(play.mode, *commented(), late=late)])
    ended.was("done", TEXT, counts=[1], commentary=FIRST + THEN, final_text=TEXT)
    parts = ended.result.message.parts
    assert [part.text for part in parts if isinstance(part, CommentaryPart)] == [FIRST, THEN]
    if streams(play.mode) and not late:
        assert "".join(e.text for e in ended.events if isinstance(e, Commentary)) == FIRST + THEN
        assert "".join(e.text for e in ended.events if isinstance(e, Text)) == TEXT
        assert all(isinstance(e, Commentary) for e in ended.events if isinstance(e, Reasoning))


@MODES
@pytest.mark.parametrize("phase", [None, "final_answer", "epilogue"])
def test_what_is_not_called_commentary_is_the_answer(play: Run, phase: str | None) -> None:
    ended = play([reply(play.mode, said(0, "One. ", phase), said(1, "Two.", phase))])
    ended.was("done", "One. Two.", counts=[1], commentary="")
    play([reply(play.mode, *commented(phase=phase))]).was("done", TEXT, counts=[1])


@MODES
@pytest.mark.parametrize("phase", [None, "sketch"])
def test_what_stands_beside_a_final_answer_is_no_part_of_it(play: Run, phase: str | None) -> None:
    items = [said(0, FIRST, phase), said(1, TEXT, "final_answer")]
    ended = play([reply(play.mode, *items)])
    ended.was("done", TEXT, counts=[1], commentary=FIRST)


@MODES
def test_a_schema_checks_the_final_answer(mode: str) -> None:
    stage = Stage([reply(mode, *commented(answer='{"nests": 3}'))])
    with stage.provider as provider, Client([backend_at(provider)], **options_of(mode)) as client:
        result = ask(client, mode, "How many?", returns=dict[str, int])
    assert (result.outcome, result.value, len(stage.requests)) == ("done", {"nests": 3}, 1)
    assert result.commentary == FIRST + THEN


@MODES
def test_commentary_alone_is_no_answer(play: Run) -> None:
    ended = play([reply(play.mode, *commented()[:3]), reply(play.mode, *commented())])
    ended.was("done", TEXT, counts=[2], path="prefill done")
    assert ended.steps[1].event == "only_reasoned"


@MODES
def test_commentary_beside_a_call_is_no_text_of_it(play: Run) -> None:
    call = {"id": "fc", "type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    ended = play([reply(play.mode, said(0, FIRST, "commentary"), call)], tools=tools)
    ended.was("done", "", counts=[1], commentary=FIRST)
    assert [call.name for call in ended.result.tool_calls] == ["look"]


@MODES
@pytest.mark.parametrize("is_stored", [False, True])
def test_it_goes_back_with_its_phase(mode: str, is_stored: bool) -> None:
    stage = Stage([reply(mode, *commented()), reply(mode, said(9, "Yes."))])
    with stage.provider as provider, Client([backend_at(provider)], **options_of(mode)) as client:
        result = ask(client, mode, "Where?")
        turn = stored(result.message) if is_stored else result.message
        ask(client, mode, [turn, {"role": "user", "content": "Sure?"}])
    sent = stage.requests[-1].body["input"]
    of_model = [item for item in sent if item.get("role") != "user"]
    assert [(item["type"], item.get("phase")) for item in of_model] == [
        ("message", "commentary"),
        ("reasoning", None),
        ("message", "commentary"),
        ("message", "final_answer"),
    ]
    texts = [item["content"][0]["text"] for item in of_model if item["type"] == "message"]
    assert texts == [FIRST, THEN, TEXT]


@pytest.mark.parametrize("way", sdks.WAYS)
def test_an_sdk_sees_the_phases(way: str, stages: Stages) -> None:
    shown = reply("stream", *commented())
    seen = asked(stages, "responses", way, ("responses", [shown]))
    assert seen.error is None
    last = seen.events[-1]
    response = last.response if sdks.streams(way) else last
    found = [
        (item.phase, item.content[0].text) for item in response.output if item.type == "message"
    ]
    assert found == [("commentary", FIRST + THEN), ("final_answer", TEXT)]
    if sdks.streams(way):
        done = [e.item for e in seen.events if e.type == "response.output_item.done"]
        assert {item.phase for item in done if item.type == "message"} == {
            "commentary",
            "final_answer",
        }


@pytest.mark.parametrize("way", sdks.WAYS)
def test_an_sdk_of_another_protocol_sees_it_as_reasoning(way: str, stages: Stages) -> None:
    seen = asked(stages, "openai", way, ("responses", [reply("stream", *commented())]))
    assert (seen.error, seen.text, seen.reasoning) == (None, TEXT, FIRST + THEN)
