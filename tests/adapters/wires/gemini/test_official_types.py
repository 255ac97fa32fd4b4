"""What we send fits the types of Google's own client, which refuse unknown names, and we read what
those write.
"""

import json
from typing import Any

import pytest
from google.genai import types
from hypothesis import given

from rungwise import Gemini, Message, Policy, ToolResult, Usage
from rungwise.adapters.wires.gemini.backend import DUMMY
from rungwise.core import Call, Request
from rungwise.testing import conversations
from support import official
from support.protocols import body_of

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look.",
            "parameters": SCHEMA,
            "strict": True,
        },
    },
    {"name": "note", "input_schema": SCHEMA},
    {"googleSearch": {}},
]
MODELS = pytest.mark.parametrize(
    "model", ["gemini-2.0-flash", "gemini-2.5-pro", "gemini-3-flash-preview"]
)


@MODELS
@given(conversations(forms=("call", "message", "block"), scattered=True))
def test_every_conversation_is_of_the_clients_types(model: str, messages: Any) -> None:
    body = body_of(Gemini(model, base_url="http://localhost:1/v1beta"), *messages, tools=TOOLS)
    official.check("gemini", body)
    assert all(content["parts"] for content in body["contents"])
    contents = body["contents"]
    assert contents[0]["role"] == "user"
    for content, after in zip(contents, [*contents[1:], None], strict=True):
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        if calls:
            told = [
                part["functionResponse"] for part in after["parts"] if "functionResponse" in part
            ]
            assert [each["name"] for each in told] == [each["name"] for each in calls]
            signed = [
                part.get("thoughtSignature") for part in content["parts"] if "functionCall" in part
            ]
            assert signed == [DUMMY if "gemini-3" in model else None, *[None] * (len(calls) - 1)]


def response(*parts: Any, **fields: Any) -> Any:
    content = types.Content(role="model", parts=[*parts])
    candidate = types.Candidate(content=content, finish_reason=types.FinishReason.STOP, index=0)
    counts = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=10,
        candidates_token_count=5,
        thoughts_token_count=3,
        cached_content_token_count=4,
        total_token_count=18,
    )
    return types.GenerateContentResponse(
        candidates=[candidate], usage_metadata=counts, model_version="g", **fields
    )


def test_what_the_clients_models_say_is_what_is_read() -> None:
    call = types.FunctionCall(id="1", name="look", args={"bird": "heron"})
    made = response(
        types.Part(text="Hm.", thought=True),
        types.Part(text="I look."),
        types.Part(function_call=call, thought_signature=b"signed"),
        types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG")),
        response_id="r",
    )
    body = made.model_dump_json(by_alias=True, exclude_none=True).encode()
    backend = Gemini("gemini-3-pro-preview", base_url="http://localhost:1/v1beta")
    decoder = backend.decoder({})
    decoder.feed(b"data: %b\n\n" % body)
    for reply in (backend.decode(200, {}, body), decoder.close()):
        assert reply.text == "I look."
        assert reply.reasoning == "Hm."
        assert reply.model == "g"
        assert reply.stop_raw == "STOP"
        [called] = reply.tool_calls
        assert called.id == "1"
        assert called.name == "look"
        assert json.loads(called.arguments) == {"bird": "heron"}
        assert reply.usage == Usage(10, 8, cache_read_tokens=4, reasoning_tokens=3)
        told = (ToolResult("1", "look", "See."),)
        sent = body_of(
            backend,
            Message.saying("user", "Where?"),
            Message("assistant", reply.parts),
            Message("tool", told),
        )
        back = types.Content.model_validate_json(json.dumps(sent["contents"][1]))
        assert back == made.candidates[0].content


@pytest.mark.parametrize("reason", list(types.FinishReason), ids=lambda reason: reason.name)
def test_every_finish_reason_of_the_client_ends_a_call_or_goes_on(reason: Any) -> None:
    made = response(types.Part(text="Herons nest in the reeds."))
    made.candidates[0].finish_reason = reason
    body = made.model_dump_json(by_alias=True, exclude_none=True).encode()
    backend = Gemini("g", base_url="http://localhost:1/v1beta")
    call = Call(Request("Where?"), Policy(), (backend,))
    call.begin()
    call.receive(backend.decode(200, {}, body))
    assert (call.journal.steps[1].event == "answered") is (reason is types.FinishReason.STOP)
    assert call.journal.steps[1].stop_raw == reason.value


@pytest.mark.parametrize("reason", list(types.BlockedReason), ids=lambda reason: reason.name)
def test_every_block_reason_of_the_client_is_a_refusal(reason: Any) -> None:
    feedback = types.GenerateContentResponsePromptFeedback(
        block_reason=reason, block_reason_message="No."
    )
    body = types.GenerateContentResponse(prompt_feedback=feedback).model_dump_json(
        by_alias=True, exclude_none=True
    )
    reply = Gemini("g", base_url="http://localhost:1/v1beta").decode(200, {}, body.encode())
    assert reply.stop_reason == "content_filter"
    assert reply.stop_raw == reason.value
    assert reply.refusal == "No."
