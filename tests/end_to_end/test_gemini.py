"""Gemini over HTTP, in every mode: signatures through a round of tools, repairs, blocks, and what
Vertex is told.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from rungwise import Client, Gemini, Message, Result, ToolResult
from rungwise.adapters.gateway.languages.language import SIGNATURE
from rungwise.adapters.wires.gemini.backend import DUMMY
from rungwise.fsm.replies.parts import MediaPart, ToolCall
from rungwise.testing import ReceivedRequest, ScriptedReply
from support.runs import Stage, asking
from support.sampling import sampled

KEY = "AIza-9d2f6b1c44e07a35"
ASKED = {"role": "user", "content": "Where do herons nest?"}
TOOL = {"functionDeclarations": [{"name": "look", "parametersJsonSchema": {"type": "object"}}]}
ANSWER = ScriptedReply(text="In the reeds, mostly.")
PIXEL = "iVBORw0KGgo="


@pytest.fixture(params=sampled(("stream", "call", "acall", "whole", "astream", "awhole"), one_in=3))
def mode(request: pytest.FixtureRequest) -> str:
    """Run each test that takes it in every mode."""
    return str(request.param)


def backend(provider: Any, model: str = "gemini-3-pro-preview", **options: Any) -> Gemini:
    return Gemini(
        model,
        **{
            "base_url": provider.base_url,
            "api_key": KEY,
            "name": "primary",
            **options,
        },
    )


@pytest.fixture
def asks(mode: str) -> Callable[..., AbstractContextManager[tuple[Any, Stage, list[float]]]]:
    """Return what asks a model that plays a script, in every mode."""
    return lambda *script, model="gemini-3-pro-preview": asking(
        mode,
        script,
        lambda url: Gemini(model, base_url=url, api_key=KEY, name="primary"),
    )


def path_of(result: Result) -> str:
    return " ".join(step.target for step in result.journal.steps if step.target != "await")


def contents(request: ReceivedRequest) -> Any:
    return request.body["contents"]


def whatever(*chunks: dict[str, Any]) -> Callable[[ReceivedRequest], ScriptedReply]:
    """Answer with these objects: as events, or merged into one list of parts where the reply is not
    streamed.
    """

    def answer(request: ReceivedRequest) -> ScriptedReply:
        if ":stream" in request.path:
            body = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks)
            return ScriptedReply(body=body, headers={"content-type": "text/event-stream"})
        *_, last = chunks
        merged = json.loads(json.dumps(last))
        if "candidates" in last:
            parts = [
                part
                for chunk in chunks
                for part in chunk["candidates"][0]["content"].get("parts", [])
            ]
            merged["candidates"][0]["content"]["parts"] = parts
        return ScriptedReply(body=json.dumps(merged))

    return answer


def chunk(*parts: Any, **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [*parts]}, **candidate}]}


OWN = [
    {"text": "Herons like reeds.", "thought": True},
    {"text": "I look.", "thoughtSignature": "dGV4dA=="},
    {"functionCall": {"name": "look", "args": {"bird": "heron"}}, "thoughtSignature": "Y2FsbA=="},
    {"functionCall": {"name": "look", "args": {"bird": "heron"}}},
]
ASKS = whatever(
    *map(chunk, OWN), chunk({"text": "", "thoughtSignature": "ZW5k"}, finishReason="STOP")
)


def test_a_round_of_tools_goes_back_word_for_word(asks: Any) -> None:
    with asks(ASKS, ANSWER) as (one, stage, _):
        first = one([ASKED], tools=[TOOL])
        assert (first.text, first.reasoning) == ("I look.", "Herons like reeds.")
        told = [
            Message("tool", (ToolResult(call.id, call.name, f"{call.id}."),))
            for call in reversed(first.tool_calls)
        ]
        second = one([ASKED, first.message, *told], tools=[TOOL])
    assert second.text == ANSWER.text
    _, model, user = contents(stage.requests[1])
    assert model == {"role": "model", "parts": [*OWN, {"text": "", "thoughtSignature": "ZW5k"}]}
    results = [part["functionResponse"] for part in user["parts"]]
    assert [(each["name"], each["response"]) for each in results] == [
        ("look", {"output": f"{call.id}."}) for call in first.tool_calls
    ]
    assert all("id" not in each for each in results)
    assert [request.headers["x-goog-api-key"] for request in stage.requests] == [KEY, KEY]


def test_another_model_gets_no_signature_but_the_stand_in_that_it_wants(serve: Any) -> None:
    provider = serve(ASKS)
    other = serve(ANSWER)
    with Client(backend(provider)) as client:
        turn = client.call([ASKED], tools=[TOOL]).message
    told = Message("tool", [ToolResult(call.id, call.name, "See.") for call in turn.tool_calls])
    bare = {"text": "I look."}, {"functionCall": {"name": "look", "args": {"bird": "heron"}}}
    for model, call in (
        ("gemini-3-flash-preview", {**bare[1], "thoughtSignature": DUMMY}),
        ("gemini-2.5-pro", bare[1]),
    ):
        with Client(backend(other, model)) as client:
            assert client.call([ASKED, turn, told], tools=[TOOL]).text == ANSWER.text
        assert contents(other.requests[-1])[1]["parts"] == [bare[0], call, bare[1]]


def test_a_signature_that_is_rejected_is_sent_no_more(asks: Any) -> None:
    broken = ScriptedReply(status=400, error={"message": "Corrupted thought signature."})
    with asks(ASKS, broken, ANSWER) as (one, stage, _):
        turn = one([ASKED], tools=[TOOL]).message
        told = Message("tool", [ToolResult(call.id, call.name, "See.") for call in turn.tool_calls])
        result = one([ASKED, turn, told], tools=[TOOL])
    assert (result.text, path_of(result)) == (ANSWER.text, "repair done")
    signed = [part.get("thoughtSignature") for part in contents(stage.requests[2])[1]["parts"]]
    assert signed == [None, DUMMY, None]


@pytest.mark.parametrize(
    ("message", "gone"),
    [
        (
            "Invalid JSON payload received. Unknown name \"temperature\" at 'generation_config': "
            "Cannot find field.",
            "temperature",
        ),
        ("`top_p` is not supported for this model.", "topP"),
        ("Thinking level LOW is not supported for this model.", "thinkingConfig"),
    ],
)
def test_a_rejected_parameter_is_left_out(
    asks: Any,
    message: str,
    gone: str,
) -> None:
    with asks(ScriptedReply(status=400, error={"message": message}), ANSWER) as (one, stage, _):
        parameters = {
            "temperature": 0.2,
            "top_p": 0.5,
            "reasoning_effort": "low",
        }
        result = one([ASKED], parameters=parameters, max_tokens=100)
    assert (result.text, path_of(result)) == (ANSWER.text, "repair done")
    first, second = (request.body["generationConfig"] for request in stage.requests)
    assert first == {**second, gone: first[gone]}


def test_a_model_that_goes_on_from_its_own_turn_is_asked_where_it_rejects_that(asks: Any) -> None:
    cut = ScriptedReply(text="Herons nest in the ", finish="length")
    rejects = ScriptedReply(
        status=400, error={"message": "Requests ending with a model turn are not supported."}
    )
    with asks(cut, rejects, ScriptedReply(text="reeds."), model="gemini-2.5-pro") as (
        one,
        stage,
        _,
    ):
        result = one([ASKED])
    assert (result.text, path_of(result)) == (
        "Herons nest in the reeds.",
        "continuation repair done",
    )
    began = {"role": "model", "parts": [{"text": "Herons nest in the"}]}
    assert contents(stage.requests[1])[-1] == began
    assert contents(stage.requests[2])[-1]["role"] == "user"


def test_what_a_rung_adds_stands_behind_contents_that_are_sent_word_for_word(asks: Any) -> None:
    own = [
        {
            "role": "user",
            "parts": [
                {"fileData": {"fileUri": "files/1"}, "videoMetadata": {"fps": 1}},
                {"text": "Where?"},
            ],
        },
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "look", "response": {"seen": 1}}}],
        },
    ]
    with asks(
        ScriptedReply(),
        ScriptedReply(text="Herons nest in", finish="length"),
        ScriptedReply(text=" reeds."),
        model="gemini-3.6-flash",
    ) as (one, stage, _):
        result = one(own, tools=[TOOL])
    assert (result.text, path_of(result)) == ("Herons nest in reeds.", "nudge continuation done")
    assert all(contents(request)[:3] == own for request in stage.requests)
    assert [each["role"] for each in contents(stage.requests[2])[3:]][-2:] == ["model", "user"]


def test_reasoning_that_used_up_the_cap_is_lowered(asks: Any) -> None:
    with asks(ScriptedReply(reasoning="Herons like reeds.", finish="length"), ANSWER) as (
        one,
        stage,
        _,
    ):
        result = one([ASKED], max_tokens=100)
    assert (result.text, path_of(result)) == (ANSWER.text, "enlarge done")
    assert [request.body["generationConfig"] for request in stage.requests] == [
        {"maxOutputTokens": 100},
        {"maxOutputTokens": 200, "thinkingConfig": {"thinkingLevel": "LOW"}},
    ]


def test_a_call_that_the_server_could_not_read_is_asked_for_again(asks: Any) -> None:
    broken = whatever(
        chunk(
            finishReason="MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: print("
        )
    )
    with asks(broken, ScriptedReply(tool_calls=(ToolCall("1", "look", "{}"),))) as (one, stage, _):
        result = one([ASKED], tools=[TOOL])
    assert ([call.name for call in result.tool_calls], path_of(result)) == (["look"], "retry done")
    assert stage.requests[0].body == stage.requests[1].body


def test_a_blocked_prompt_is_refused_and_its_word_is_in_the_journal(asks: Any) -> None:
    blocked = whatever(
        {
            "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
            "usageMetadata": {"promptTokenCount": 8},
        }
    )
    with asks(blocked) as (one, _, _):
        result = one([ASKED])
    assert result.outcome == "refused"
    assert (result.journal.last.stop_raw, result.usage.input_tokens) == ("PROHIBITED_CONTENT", 8)


def test_a_wait_that_stands_in_the_body_is_kept(asks: Any) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "14s"}]
    error = {
        "error": {
            "code": 429,
            "status": "RESOURCE_EXHAUSTED",
            "message": "Too many.",
            "details": details,
        }
    }
    busy = ScriptedReply(status=429, body=json.dumps([error]))
    with asks(busy, ANSWER) as (one, _, waits):
        assert one([ASKED]).text == ANSWER.text
    assert waits == [14.0]


def test_a_picture_alone_is_an_answer(asks: Any) -> None:
    shown = chunk(
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}, "thoughtSignature": SIGNATURE},
        finishReason="STOP",
    )
    with asks(whatever(shown), ANSWER, model="gemini-3-pro-image-preview") as (one, stage, _):
        first = one([ASKED])
        assert (first.outcome, first.text) == ("done", "")
        assert [part for part in first.message.parts if isinstance(part, MediaPart)] == [
            MediaPart("image", PIXEL, "image/png")
        ]
        one([ASKED, first.message, ASKED])
    assert contents(stage.requests[1])[1] == shown["candidates"][0]["content"]
