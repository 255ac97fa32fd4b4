"""What a backend of Interactions sends."""

from typing import Any, Final

import pytest

from rungwise import GeminiInteractions, MediaPart, Message, TextPart, ToolCall, ToolResult
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.core import Request
from support import official
from support.protocols import body_of, encoded

PIXEL: Final = "iVBORw0KGgo="
ASKED: Final = Message.saying("user", "Where?")
TOOL: Final = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}


def backend(model: str = "gemini-3-pro", **options: Any) -> Any:
    return GeminiInteractions(model, **{"base_url": "http://localhost:1/v1beta", **options})


def sent(*messages: Any, **fields: Any) -> Any:
    body = body_of(backend(), *messages, **fields)
    official.check("interactions", body)
    return body


def test_the_url_and_the_key() -> None:
    own = GeminiInteractions("gemini-3-pro", api_key="k1234567")
    request = encoded(own, ASKED)
    assert request.url == "https://generativelanguage.googleapis.com/v1beta/interactions"
    assert request.headers["x-goog-api-key"] == "k1234567"
    place = "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global"
    vertex = GeminiInteractions("gemini-3-pro", base_url=place, api_key="ya29.token")
    request = encoded(vertex, ASKED)
    assert request.url == f"{place}/interactions"
    assert request.headers["authorization"] == "Bearer ya29.token"


def test_a_whole_conversation() -> None:
    calls = (ToolCall("c1", "look", '{"bird":"heron"}'), ToolCall("c2", "look", "{}"))
    found = ToolResult("c2", "look", "Gone.", is_fault=True)
    picture = MediaPart("image", PIXEL, "image/png", detail="low")
    seen = ToolResult("c1", "look", "Reeds.", media=(picture,))
    body = sent(
        Message.saying("system", "Be brief."),
        Message("user", (TextPart("Which?"), MediaPart("file", url="gs://a/b.pdf"))),
        Message("assistant", (TextPart("I look."), *calls)),
        Message("tool", (seen, found)),
        tools=[TOOL],
    )
    image = {"type": "image", "mime_type": "image/png", "data": PIXEL, "resolution": "low"}
    assert body["system_instruction"] == "Be brief."
    assert body["input"] == [
        {
            "type": "user_input",
            "content": [
                {"type": "text", "text": "Which?"},
                {"type": "document", "mime_type": "application/pdf", "uri": "gs://a/b.pdf"},
            ],
        },
        {"type": "model_output", "content": [{"type": "text", "text": "I look."}]},
        {"type": "function_call", "id": "c1", "name": "look", "arguments": {"bird": "heron"}},
        {"type": "function_call", "id": "c2", "name": "look", "arguments": {}},
        {
            "type": "function_result",
            "call_id": "c1",
            "name": "look",
            "result": [{"type": "text", "text": "Reeds."}, image],
        },
        {
            "type": "function_result",
            "call_id": "c2",
            "name": "look",
            "result": "Gone.",
            "is_error": True,
        },
    ]
    [tool] = body["tools"]
    assert (tool["type"], tool["name"]) == ("function", "look")
    assert (body["store"], body["stream"]) == (False, False)
    read = read_messages(body["input"])
    assert read[1].parts == (TextPart("I look."), *calls)
    assert [message.tool_results for message in read[2:]] == [(seen,), (found,)]


def test_steps_of_the_callers_own_go_out_as_they_are() -> None:
    steps = [
        {"type": "user_input", "content": [{"type": "text", "text": "Where?"}]},
        {"type": "thought", "signature": "c2ln"},
        {"type": "function_call", "id": "c1", "name": "look", "arguments": {}},
        {"type": "function_result", "call_id": "c1", "result": {"place": "reeds"}},
    ]
    assert body_of(backend(), *steps)["input"] == steps
    neutral = read_messages(steps)
    assert [message.role for message in neutral] == ["user", "assistant", "tool"]
    assert neutral[2].tool_results[0].text == '{"place":"reeds"}'
    assert [backend().shapes.role_of(step) for step in steps] == [
        "user",
        "assistant",
        "assistant",
        "tool",
    ]


@pytest.mark.parametrize(
    ("model", "effort", "level"),
    [
        ("gemini-3-pro", "low", "low"),
        ("gemini-3-pro", "medium", "high"),
        ("gemini-3-flash", "minimal", "minimal"),
        ("gemini-2.5-flash", "none", "minimal"),
        ("gemini-2.5-pro", "max", "high"),
        ("gemini-2.0-flash", "high", None),
    ],
)
def test_an_effort_is_a_level(model: str, effort: str, level: str | None) -> None:
    own = backend(model)
    body = body_of(own, ASKED, parameters={"reasoning_effort": effort})
    assert body.get("generation_config", {}).get("thinking_level") == level
    lost = own.lost(Request("x", parameters={"reasoning_effort": effort}))
    assert bool(lost) is (level != effort)


@pytest.mark.parametrize(
    ("given", "level"), [(None, "low"), ("high", "low"), ("low", "minimal"), ("minimal", "minimal")]
)
def test_reasoning_is_lowered(given: str | None, level: str) -> None:
    parameters = {"thinking_level": given} if given else {}
    body = body_of(backend("gemini-3-flash"), ASKED, parameters=parameters, lower_reasoning=True)
    assert body["generation_config"]["thinking_level"] == level


@pytest.mark.parametrize("store", [None, False, True])
def test_it_goes_on_by_a_token_with_what_the_provider_does_not_have(store: bool | None) -> None:
    parameters = {} if store is None else {"store": store}
    body = body_of(backend(parameters=parameters), ASKED, continuation="t\nv1_a")
    assert body["continuation_token"] == "t"
    assert ("input" in body, body.get("previous_interaction_id")) == (
        (False, "v1_a") if store else (True, None)
    )


def test_a_schema_and_the_parameters_of_the_backend_and_the_call() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    own = backend(parameters={"generation_config": {"seed": 1, "thinking_summaries": "auto"}})
    body = body_of(own, ASKED, parameters={"seed": 2, "response_format": wanted}, max_tokens=9)
    official.check("interactions", body)
    assert body["generation_config"] == {
        "seed": 2,
        "thinking_summaries": "auto",
        "max_output_tokens": 9,
    }
    assert body["response_format"] == {
        "type": "text",
        "mime_type": "application/json",
        "schema": {"type": "object"},
    }
    way, schema, _ = own.asks_by({"type": "object", "properties": {}}, {}, [])
    assert (way, schema["type"]) == ("schema", "object")
