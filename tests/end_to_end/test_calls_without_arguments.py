"""What a tool call without arguments is: one that has none, as the official clients say, or one
that was cut.
"""

import json
from typing import Any

import pytest

import rungwise
from rungwise import Client
from rungwise.testing import EmbeddedProvider, ScriptedReply
from support import protocols
from support.modes import waits_into

WANTS = {
    "type": "object",
    "properties": {"bird": {"type": "string"}},
    "required": ["bird"],
}
TOOLS = [
    {"type": "function", "function": {"name": "look", "parameters": schema}}
    for schema in ({"type": "object", "properties": {}}, WANTS)
]
"""One that needs no arguments, and one that does."""


def stream(*events: dict[str, Any]) -> ScriptedReply:
    return ScriptedReply(
        body="".join(
            (f"event: {each['type']}\n" if "type" in each else "") + f"data: {json.dumps(each)}\n\n"
            for each in events
        ),
        headers={"content-type": "text/event-stream"},
    )


def whole(body: dict[str, Any]) -> ScriptedReply:
    return ScriptedReply(body=json.dumps(body), headers={"content-type": "application/json"})


USE: dict[str, Any] = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "look",
    "input": {},
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 1},
}
START = {"type": "message_start", "message": MESSAGE}
BEGIN = {"type": "content_block_start", "index": 0, "content_block": USE}
NO_PIECE = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "input_json_delta", "partial_json": ""},
}
END = {"type": "content_block_stop", "index": 0}
LAST = {"type": "message_stop"}


def stop(reason: str) -> dict[str, Any]:
    usage = {"output_tokens": 9}
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": usage,
    }


def told(call: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"functionCall": call}]}
    return {
        "candidates": [
            {
                "index": 0,
                "content": content,
                **candidate,
            }
        ],
        "modelVersion": "m",
    }


CALL: dict[str, Any] = {"id": "c1", "name": "look"}
CLEAN = {
    "anthropic stream": stream(START, BEGIN, END, stop("tool_use"), LAST),
    "anthropic stream, an empty piece": stream(START, BEGIN, NO_PIECE, END, stop("tool_use"), LAST),
    "anthropic": whole(
        {
            **MESSAGE,
            "content": [USE],
            "stop_reason": "tool_use",
        }
    ),
    "gemini stream": stream(
        told(CALL),
        told(
            {
                "id": "c2",
                "name": "look",
                "args": {},
            },
            finishReason="STOP",
        ),
    ),
    "gemini": whole(told(CALL, finishReason="STOP")),
    "gemini, in an object": whole(told({**CALL, "args": {}}, finishReason="STOP")),
}
CUT = {
    "anthropic stream, in the call": stream(START, BEGIN),
    "anthropic stream, in the call, an empty piece": stream(START, BEGIN, NO_PIECE),
    "anthropic stream, behind the call": stream(START, BEGIN, END),
    "anthropic stream, at the cap": stream(START, BEGIN, END, stop("max_tokens"), LAST),
    "anthropic, at the cap": whole(
        {
            **MESSAGE,
            "content": [USE],
            "stop_reason": "max_tokens",
        }
    ),
    "gemini stream, behind the call": stream(told(CALL)),
    "gemini stream, in the call": stream(
        told({**CALL, "willContinue": True}), told({"willContinue": True}, finishReason="STOP")
    ),
    "gemini stream, at the cap": stream(told(CALL, finishReason="MAX_TOKENS")),
    "gemini, at the cap": whole(told(CALL, finishReason="MAX_TOKENS")),
}


def client_of(case: str, provider: EmbeddedProvider) -> Client:
    backend = protocols.backend(case.split()[0].strip(","), provider.base_url)
    return Client(backend, stream_calls="stream" in case, **waits_into([]))


@pytest.mark.parametrize("case", CLEAN)
def test_one_that_came_whole_has_none(case: str, serve: Any) -> None:
    provider = serve(CLEAN[case])
    with client_of(case, provider) as client:
        result = client.call("Where?", tools=[TOOLS[0]])
    assert result.outcome == "done"
    assert {(call.name, call.arguments) for call in result.tool_calls} == {("look", "{}")}
    assert len(provider.requests) == 1


@pytest.mark.parametrize("case", CLEAN)
def test_one_that_came_whole_and_lacks_what_its_tool_requires_goes_back(
    case: str, serve: Any
) -> None:
    provider = serve(CLEAN[case])
    with (
        client_of(case, provider) as client,
        pytest.raises(rungwise.Exhausted, match=r"wrong: look\.bird"),
    ):
        client.call("Where?", tools=[TOOLS[1]])
    assert len(provider.requests) == 2


@pytest.mark.parametrize("tool", TOOLS, ids=["none required", "one required"])
@pytest.mark.parametrize("case", CUT)
def test_one_that_was_cut_is_never_handed_out(case: str, tool: dict[str, Any], serve: Any) -> None:
    provider = serve(CUT[case])
    with client_of(case, provider) as client, pytest.raises(rungwise.CallError) as caught:
        client.call("Where?", tools=[tool], max_tokens=50)
    assert caught.value.result.tool_calls == ()
    assert "called_tools" not in [step.event for step in caught.value.result.journal.steps]
    assert len(provider.requests) > 1
