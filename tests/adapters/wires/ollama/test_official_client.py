"""Ollama's own client: our requests are of its types, its replies are read, and it reads the embedded provider."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import ollama
import pytest

from rungwise import Message, Ollama, TextPart, ToolCall
from rungwise.core import Request
from rungwise.fsm.call.conversation.parts import MediaPart, ReasoningPart, ToolResult
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.protocols import sending

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
USER = {"role": "user", "content": "What is this?"}
CALL = ToolCall("call_1", "look", '{"bird": "heron", "far": true}')
RESULT = ToolResult("call_1", "look", "A heron.", media=(MediaPart("image", data=PIXEL),))
SCHEMA = {"type": "object", "properties": {"bird": {"type": "string"}}, "required": ["bird"]}
BACKEND: Any = Ollama("m")

# ---- requests --------------------------------------------------------------------------------------------------------

HISTORIES: dict[str, Sequence[Any]] = {
    "a prompt": [USER],
    "of its own": [
        {"role": "system", "content": "Be brief."},
        {**USER, "images": [PIXEL]},
        {"role": "assistant", "thinking": "A bird?", "tool_calls": [{"function": {"name": "look", "arguments": {}}}]},
        {"role": "tool", "tool_name": "look", "content": "A heron."},
    ],
    "in parts": [
        Message.saying("system", "Be brief."),
        Message("user", (TextPart("What is this?"), MediaPart("image", data=PIXEL))),
        Message("assistant", (ReasoningPart("A bird?", provider=BACKEND.provider), TextPart("I look."), CALL)),
        Message("tool", (RESULT,)),
    ],
    "of chat completions": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "A bird?",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "A heron."},
    ],
    "of Anthropic": [
        {"role": "user", "content": [{"type": "text", "text": "What?", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "A bird?", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"bird": "heron"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "A heron."}]},
    ],
}
PARAMETERS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": "END", "reasoning_effort": "low", "tool_choice": "auto"},
    {
        "response_format": {"type": "json_schema", "json_schema": {"name": "b", "schema": SCHEMA}},
        "reasoning_effort": "none",
    },
    {"response_format": {"type": "json_object"}, "parallel_tool_calls": False, "tool_choice": "required"},
    {"options": {"num_ctx": 8192, "top_k": 4}, "think": True, "keep_alive": "10m", "logprobs": True, "top_logprobs": 2},
]


def known(value: Mapping[str, Any], kind: Any) -> None:
    """Check strictly that an object is of a type of the client's, and has no member that the type does not know."""
    kind.model_validate(value, strict=True)
    assert value.keys() <= kind.model_fields.keys(), value.keys() - kind.model_fields.keys()


def check_request(body: Mapping[str, Any]) -> None:
    kinds = ollama._types
    known(body, kinds.ChatRequest)
    known(body.get("options", {}), kinds.Options)
    for message in body["messages"]:
        images = [{"value": each} for each in message.get("images", ())]  # which the client writes as their text
        known({**message, **({"images": images} if images else {})}, kinds.Message)
        for call in message.get("tool_calls", ()):
            known(call, kinds.Message.ToolCall)
            known(call["function"], kinds.Message.ToolCall.Function)
    for tool in body.get("tools", ()):
        known(tool, kinds.Tool)
        known(tool["function"], kinds.Tool.Function)


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("parameters", PARAMETERS, ids=range(len(PARAMETERS)))
@pytest.mark.parametrize("is_portable", [False, True])
def test_requests_are_of_its_types(history: str, parameters: dict[str, Any], is_portable: bool) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": SCHEMA, "strict": True}}
    request = Request(HISTORIES[history], tools=[tool], parameters=parameters, max_tokens=50)
    for stream in (False, True):
        send = sending(request, max_tokens=50, portable=is_portable, lower_reasoning=is_portable)
        check_request(json.loads(BACKEND.encode(send, stream=stream).body))


# ---- replies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "In the reeds."])
@pytest.mark.parametrize("thought", [None, "Herons like reeds."])
@pytest.mark.parametrize("calls", [(), ({"bird": "heron"}, {})])
@pytest.mark.parametrize("reason", ["stop", "length"])
def test_replies_of_its_types_are_read(text: str, thought: str | None, calls: Sequence[Any], reason: str) -> None:
    made = [{"function": {"name": "look", "arguments": each}} for each in calls]
    message = ollama.Message(role="assistant", content=text, thinking=thought, tool_calls=made or None)
    said = ollama.ChatResponse(
        model="m",
        created_at="2026-08-21T18:48:22Z",
        done=True,
        done_reason=reason,
        prompt_eval_count=3,
        eval_count=5,
        message=message,
        logprobs=[{"token": "In", "logprob": -0.5}],
    )
    body = said.model_dump_json(exclude_none=True).encode()
    decoder = BACKEND.decoder({})
    decoder.feed(body + b"\n")
    for reply in (BACKEND.decode(200, {}, body), decoder.close()):
        assert (reply.text, reply.reasoning, reply.stop_raw) == (text, thought or "", reason)
        assert [json.loads(each.arguments) for each in reply.tool_calls] == [*calls]
        assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.interrupted) == (3, 5, False)


# ---- the embedded provider -------------------------------------------------------------------------------------------


def told(reply: ScriptedReply, *, stream: bool) -> dict[str, Any]:
    """Return what the client reads of a scripted reply."""
    read: dict[str, Any] = {"text": "", "thought": "", "calls": [], "last": None, "error": None}
    with EmbeddedProvider(Script([reply])) as provider:
        client = ollama.Client(host=provider.base_url, trust_env=False)
        try:
            found = client.chat("m", [USER], stream=stream)
            for response in found if stream else [found]:
                read["text"] += response.message.content or ""
                read["thought"] += response.message.thinking or ""
                read["calls"] += [dict(each.function.arguments) for each in response.message.tool_calls or ()]
                read["last"] = response
        except ollama.ResponseError as error:
            read["error"] = (error.status_code, error.error)
    return read


STREAMED = pytest.mark.parametrize("stream", [False, True])


@STREAMED
def test_it_reads_text_thinking_calls_and_counts(stream: bool) -> None:
    reply = ScriptedReply(
        text="In the reeds, mostly.", reasoning="Herons like reeds.", tool_calls=(CALL,), model="heron-1"
    )
    read = told(reply, stream=stream)
    assert (read["text"], read["thought"], read["calls"]) == (reply.text, reply.reasoning, [json.loads(CALL.arguments)])
    last = read["last"]
    assert (last.model, last.done, last.done_reason) == ("heron-1", True, "stop")
    assert min(last.prompt_eval_count, last.eval_count, last.total_duration, last.load_duration, last.eval_duration) > 0


@STREAMED
def test_every_line_is_of_its_types(stream: bool) -> None:
    reply = ScriptedReply(
        text="In the reeds, mostly.", reasoning="Herons like reeds.", tool_calls=(CALL,), finish="length"
    )
    with EmbeddedProvider(Script([reply])) as provider:
        url = f"{provider.base_url}/api/chat"
        response = httpx.post(url, json={"model": "m", "messages": [USER], "stream": stream}, trust_env=False)
    kind = "application/x-ndjson" if stream else "application/json"
    assert response.headers["content-type"] == kind
    lines = response.text.splitlines()
    assert len(lines) == (6 if stream else 1)
    for line in lines:
        value = json.loads(line)
        known(value, ollama.ChatResponse)
        known(value["message"], ollama.Message)
    assert value["done_reason"] == "length"


@STREAMED
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_it_reads_errors(stream: bool, status: int) -> None:
    code, message = told(ScriptedReply(status=status), stream=stream)["error"]
    assert code == status
    assert message
    assert told(ScriptedReply(status=status, error={"message": "Gone."}), stream=stream)["error"] == (status, "Gone.")


def test_it_reads_an_error_inside_a_stream() -> None:
    read = told(ScriptedReply(text="In the", error_event={"message": "Gone."}), stream=True)
    assert (read["text"], read["error"]) == ("In the", (-1, "Gone."))


def test_a_stream_without_its_end_has_none() -> None:
    read = told(ScriptedReply(text="In the reeds.", done=False), stream=True)
    assert (read["text"], read["last"].done) == ("In the reeds.", False)


def test_it_lists_models() -> None:
    with EmbeddedProvider(Script([ScriptedReply(model="heron-1"), ScriptedReply(model="stork-2")])) as provider:
        listed = ollama.Client(host=provider.base_url, trust_env=False).list()
        version = httpx.get(f"{provider.base_url}/api/version", trust_env=False).json()
    assert [each.model for each in listed.models] == ["heron-1", "stork-2"]
    assert all(each.details and each.size for each in listed.models)
    assert version["version"]
