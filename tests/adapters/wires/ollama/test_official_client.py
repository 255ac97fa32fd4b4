"""Ollama's own client: our requests are of its types, its replies are read, and it reads the
embedded provider.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import ollama
import pytest

from rungwise import Ollama, ToolCall
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJR"
    "U5ErkJggg=="
)
USER = {"role": "user", "content": "What is this?"}
CALL = ToolCall("call_1", "look", '{"bird": "heron", "far": true}')
BACKEND: Any = Ollama("m")


def known(value: Mapping[str, Any], kind: Any) -> None:
    """Check strictly that an object is of a type of the client's, and has no member that the type
    does not know.
    """
    kind.model_validate(value, strict=True)
    assert value.keys() <= kind.model_fields.keys(), value.keys() - kind.model_fields.keys()


# ---- replies
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "In the reeds."])
@pytest.mark.parametrize("thought", [None, "Herons like reeds."])
@pytest.mark.parametrize("calls", [(), ({"bird": "heron"}, {})])
@pytest.mark.parametrize("reason", ["stop", "length"])
def test_replies_of_its_types_are_read(
    text: str,
    thought: str | None,
    calls: Sequence[Any],
    reason: str,
) -> None:
    made = [{"function": {"name": "look", "arguments": each}} for each in calls]
    message = ollama.Message(
        role="assistant", content=text, thinking=thought, tool_calls=made or None
    )
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
        assert reply.text == text
        assert reply.model == "m"
        assert reply.reasoning == (thought or "")
        assert reply.stop_raw == reason
        assert [json.loads(each.arguments) for each in reply.tool_calls] == [*calls]
        assert reply.usage.input_tokens == 3
        assert reply.usage.output_tokens == 5
        assert reply.interrupted is False


# ---- the embedded provider
# -------------------------------------------------------------------------------------------


def told(reply: ScriptedReply, *, stream: bool) -> dict[str, Any]:
    """Return what the client reads of a scripted reply."""
    read: dict[str, Any] = {
        "text": "",
        "thought": "",
        "calls": [],
        "last": None,
        "error": None,
    }
    with EmbeddedProvider(Script([reply])) as provider:
        client = ollama.Client(host=provider.base_url, trust_env=False)
        try:
            found = client.chat("m", [USER], stream=stream)
            for response in found if stream else [found]:
                read["text"] += response.message.content or ""
                read["thought"] += response.message.thinking or ""
                read["calls"] += [
                    dict(each.function.arguments) for each in response.message.tool_calls or ()
                ]
                read["last"] = response
        except ollama.ResponseError as error:
            read["error"] = (error.status_code, error.error)
    return read


STREAMED = pytest.mark.parametrize("stream", [False, True])


@STREAMED
def test_it_reads_text_thinking_calls_and_counts(stream: bool) -> None:
    reply = ScriptedReply(
        text="In the reeds, mostly.",
        reasoning="Herons like reeds.",
        tool_calls=(CALL,),
        model="heron-1",
    )
    read = told(reply, stream=stream)
    assert read["text"] == reply.text
    assert read["thought"] == reply.reasoning
    assert read["calls"] == [json.loads(CALL.arguments)]
    last = read["last"]
    assert last.model == "heron-1"
    assert last.done is True
    assert last.done_reason == "stop"
    assert (
        min(
            last.prompt_eval_count,
            last.eval_count,
            last.total_duration,
            last.load_duration,
            last.eval_duration,
        )
        > 0
    )


@STREAMED
def test_every_line_is_of_its_types(stream: bool) -> None:
    reply = ScriptedReply(
        text="In the reeds, mostly.",
        reasoning="Herons like reeds.",
        tool_calls=(CALL,),
        finish="length",
    )
    with EmbeddedProvider(Script([reply])) as provider:
        url = f"{provider.base_url}/api/chat"
        response = httpx.post(
            url,
            json={
                "model": "m",
                "messages": [USER],
                "stream": stream,
            },
            trust_env=False,
        )
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
    assert told(ScriptedReply(status=status, error={"message": "Gone."}), stream=stream)[
        "error"
    ] == (status, "Gone.")


def test_it_reads_an_error_inside_a_stream() -> None:
    read = told(ScriptedReply(text="In the", error_event={"message": "Gone."}), stream=True)
    assert read["text"] == "In the"
    assert read["error"] == (-1, "Gone.")


def test_a_stream_without_its_end_has_none() -> None:
    read = told(ScriptedReply(text="In the reeds.", done=False), stream=True)
    assert read["text"] == "In the reeds."
    assert read["last"].done is False


def test_it_lists_models() -> None:
    with EmbeddedProvider(
        Script([ScriptedReply(model="heron-1"), ScriptedReply(model="stork-2")])
    ) as provider:
        listed = ollama.Client(host=provider.base_url, trust_env=False).list()
        version = httpx.get(f"{provider.base_url}/api/version", trust_env=False).json()
    assert [each.model for each in listed.models] == ["heron-1", "stork-2"]
    assert all(each.details and each.size for each in listed.models)
    assert version["version"]
