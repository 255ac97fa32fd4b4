"""Gemini's Interactions over HTTP, in every mode: what goes out, and what is read of it."""

import json
from typing import Any, Final

import pytest
from pydantic import BaseModel

import rungwise
from rungwise import Discard, Message, ToolResult
from rungwise.adapters.gateway.languages.language import SIGNATURE
from rungwise.testing import ScriptedReply
from support import official
from support.modes import EVERY, follow, streams
from support.runs import Run, Stage, asking

pytestmark = pytest.mark.sampled(3)

MODES: Final = pytest.mark.parametrize("mode", EVERY)
KEY: Final = "AIza-9d2f6b1c44e07a35"
USAGE: Final = {"total_input_tokens": 9, "total_output_tokens": 7, "total_tokens": 16}


def step(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, **members}


def said(text: str) -> dict[str, Any]:
    return step("model_output", content=[{"type": "text", "text": text}])


def whole(*steps: Any, status: str = "completed", **members: Any) -> ScriptedReply:
    body = {"id": "v1_a", "status": status, "model": "g", "steps": [*steps], "usage": USAGE}
    return ScriptedReply(
        body=json.dumps({**body, **members}), headers={"content-type": "application/json"}
    )


def events(*values: dict[str, Any]) -> ScriptedReply:
    body = "".join(f"event: {each['event_type']}\ndata: {json.dumps(each)}\n\n" for each in values)
    return ScriptedReply(body=body, headers={"content-type": "text/event-stream"})


def backend(url: str, **options: Any) -> rungwise.GeminiInteractions:
    given = {"api_key": KEY, "name": "primary", **options}
    return rungwise.GeminiInteractions("gemini-3-pro", base_url=url, **given)


@MODES
def test_a_call_is_answered(mode: str) -> None:
    with asking(mode, [whole(said("In the reeds."))], backend) as (ask, stage, _):
        result = ask("Where do herons nest?", max_tokens=100)
    assert (result.outcome, result.text) == ("done", "In the reeds.")
    [request] = stage.requests
    assert request.path.endswith("/interactions")
    assert request.headers["x-goog-api-key"] == KEY
    assert request.body == {
        "model": "gemini-3-pro",
        "stream": request.body["stream"],
        "store": False,
        "input": [
            {"type": "user_input", "content": [{"type": "text", "text": "Where do herons nest?"}]}
        ],
        "generation_config": {"max_output_tokens": 100},
    }
    assert (result.usage.input_tokens, result.usage.output_tokens) == (9, 7)


@pytest.fixture
def play(stages: tuple[Stage, ...], caplog: pytest.LogCaptureFixture, mode: str) -> Run:
    return Run(mode, stages, caplog, "interactions")


def delta(text: str) -> dict[str, Any]:
    return {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": text}}


def checkpoint(token: str) -> dict[str, Any]:
    return {
        "event_type": "interaction.status_update",
        "interaction_id": "v1_a",
        "status": "in_progress",
        "continuation_token": token,
    }


def hop(
    text: str, token: str | None = None, status: str = "requires_continuation"
) -> ScriptedReply:
    return whole(said(text), status=status, continuation_token=token)


END: Final = "completed"


def tokens(ended: Any) -> list[str | None]:
    """Return the token of each request, all of which are the same besides."""
    first = ended.bodies[0]
    sent = []
    for body in ended.bodies:
        sent.append(body.get("continuation_token"))
        assert {**body, "continuation_token": None} == {**first, "continuation_token": None}
    return sent


@MODES
def test_the_original_request_goes_out_with_the_token(play: Run) -> None:
    ended = play([hop("Herons n", "t1"), hop("est ", "t2"), hop("in reeds.", status=END)])
    ended.was("done", "Herons nest in reeds.", path="continuation continuation done")
    assert tokens(ended) == [None, "t1", "t2"]
    assert ended.result.usage.input_tokens == 27


@MODES
def test_the_same_token_twice_ends_it(play: Run) -> None:
    ended = play([hop("Herons ", "t1"), hop("nest ", "t1")])
    ended.was("partial", "Herons nest ", counts=[2])


@MODES
def test_the_cap_of_continuations_holds(play: Run) -> None:
    ended = play([hop(f"{number} ", f"t{number}") for number in range(9)])
    ended.was("partial", "0 1 2 3 ", counts=[4])


@MODES
@pytest.mark.parametrize("then", [0, 1])
def test_a_dropped_stream_resumes_from_its_last_checkpoint(play: Run, then: int) -> None:
    dropped = events(
        delta("Herons "), checkpoint("t1"), delta("nest "), checkpoint("t2"), delta("in reeds, so")
    )
    again = events(delta("in reeds, m"))  # and not even to a checkpoint
    ended = play([dropped, *([again] * then), hop("in reeds, mostly.", status=END)])
    ended.was("done", "Herons nest in reeds, mostly.", counts=[2 + then])
    assert tokens(ended) == [None] + ["t2"] * (1 + then)
    if streams(play.mode):
        assert follow(ended.events) == ended.text
        assert any(isinstance(event, Discard) for event in ended.events)


@MODES
@pytest.mark.parametrize(
    ("status", "path"),
    [
        ("queued", "retry done"),
        ("in_progress", "retry done"),
        ("failed", "retry done"),
        ("cancelled", "repair done"),
        ("incomplete", "continuation done"),
        ("budget_exceeded", "continuation done"),
    ],
)
def test_each_status_has_its_rung(play: Run, status: str, path: str) -> None:
    begun = "Herons nest in the reeds of the northern lake, and "
    steps = [said(begun)] if "continuation" in path else []
    ended = play([whole(*steps, status=status), ScriptedReply(text="some in trees.")])
    ended.was("done", path=path)


LOOK: Final = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@MODES
def test_a_round_of_tools_sends_thoughts_and_calls_back(mode: str) -> None:
    calls = (rungwise.ToolCall("c1", "look", '{"a":1}'), rungwise.ToolCall("c2", "look", "{}"))
    script = [
        ScriptedReply(reasoning="Hm.", signature="", tool_calls=calls),
        ScriptedReply(text="Reeds."),
    ]
    with asking(mode, script, backend) as (ask, stage, _):
        first = ask("Where?", tools=[LOOK])
        results = [ToolResult(call.id, call.name, "Reeds.") for call in first.tool_calls]
        asked = [Message.saying("user", "Where?"), first.message, Message("tool", results)]
        second = ask(asked, tools=[LOOK])
    assert (first.outcome, second.text) == ("done", "Reeds.")
    body = stage.requests[1].body
    official.check("interactions", body)
    thought, *rest = body["input"][1:]
    assert thought["signature"] == SIGNATURE
    kinds = [each["type"] for each in rest]
    assert kinds == ["function_call", "function_call", "function_result", "function_result"]
    assert [each["arguments"] for each in rest[:2]] == [{"a": 1}, {}]


class Bird(BaseModel):
    name: str


@MODES
def test_an_answer_is_held_to_its_schema(mode: str) -> None:
    with asking(mode, [ScriptedReply(text='{"name": "heron"}')], backend) as (ask, stage, _):
        result = ask("Which?", returns=Bird)
    assert result.value == Bird(name="heron")
    form = stage.requests[0].body["response_format"]
    assert (form["type"], form["mime_type"]) == ("text", "application/json")
    assert form["schema"]["required"] == ["name"]


def test_what_it_would_lose_is_named() -> None:
    client = rungwise.Client(backend("http://localhost:1/v1beta"))
    check = client.check("Where?", parallel_tool_calls=False, reasoning_effort="medium")
    assert "parallel_tool_calls" in str(check)
    assert "reasoning_effort medium: it is sent as high" in str(check)
