"""A number that no JSON has is a caller's mistake: it is refused by its place before anything is
sent.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import rungwise
from rungwise import (
    Client,
    ConfigurationError,
    MediaPart,
    Message,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
)
from rungwise.core import OpaquePart, ReasoningPart, Reply, Request, Send
from rungwise.testing import EmbeddedProvider, ScriptedReply
from support import protocols

NUMBERS = [math.nan, math.inf, -math.inf]
ASKED: list[Any] = [{"role": "user", "content": "Which?"}]


class Measure(float):
    """A float of another library's own kind."""


@dataclass
class Noted:
    """A mapping in JSON."""

    weight: float


def call_of(arguments: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "tool_calls": [{"function": {"name": "look", "arguments": arguments}}],
    }


PLACES: dict[str, Callable[[float], dict[str, Any]]] = {
    "Request.parameters['x']": lambda number: {"parameters": {"x": number}},
    "Request.parameters['a'][1]['b'][0]": lambda number: {
        "parameters": {"a": [1, {"b": (number,)}]}
    },
    "Request.parameters['noted']['weight']": lambda number: {
        "parameters": {"noted": Noted(number)}
    },
    "Request.parameters['response_format']['schema']['maximum']": lambda number: {
        "response_format": {"type": "json_schema", "schema": {"maximum": number}}
    },
    "Request.tools[1]['function']['parameters']['maximum']": lambda number: {
        "tools": [
            {"type": "function", "function": {"name": "look"}},
            {"type": "function", "function": {"name": "note", "parameters": {"maximum": number}}},
        ]
    },
    "messages[1]['content'][0]['detail']": lambda number: {
        "messages": [
            *ASKED,
            {
                "role": "user",
                "content": [
                    {
                        "type": "text",
                        "text": "Secret.",
                        "detail": number,
                    }
                ],
            },
        ]
    },
    "messages[1]['tool_calls'][0]['function']['arguments']['weight']": lambda number: {
        "messages": [*ASKED, call_of({"bird": "Secret.", "weight": number})]
    },
    "messages[0]['content'][0]['input']['weight']": lambda number: {
        "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "input": {"weight": number}}]},
            *ASKED,
        ]
    },
    "messages[0]['parts'][0]['functionCall']['args']['weight']": lambda number: {
        "messages": [
            {
                "role": "model",
                "parts": [{"functionCall": {"name": "look", "args": {"weight": number}}}],
            }
        ]
    },
}


@pytest.mark.parametrize("number", [*NUMBERS, Measure("nan")], ids=repr)
@pytest.mark.parametrize("place", PLACES)
def test_a_request_refuses_it_and_says_where_it_stands(place: str, number: float) -> None:
    given = {"messages": ASKED, **PLACES[place](number)}
    with pytest.raises(ConfigurationError) as caught:
        Request(given.pop("messages"), **given)
    assert str(caught.value) == f"{place} has no form in JSON: it is not a finite number"
    fine = {"messages": ASKED, **PLACES[place](1.5)}
    assert Request(fine.pop("messages"), **fine)


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
@pytest.mark.parametrize("streams", [False, True])
def test_nothing_is_sent(api: str, streams: bool) -> None:
    with EmbeddedProvider(lambda request: ScriptedReply(text="A heron.")) as provider:
        backend = protocols.backend(api, provider.base_url)
        with Client(backend) as client:
            for place in PLACES:
                given = {"messages": ASKED, **PLACES[place](math.nan)}
                asked = given.pop("messages")
                with pytest.raises(ConfigurationError, match="not a finite number"):
                    _ = [*client.stream(asked, **given)] if streams else client.call(asked, **given)
                with pytest.raises(ConfigurationError, match="not a finite number"):
                    client.check(asked, **given)
            assert provider.requests == []


@pytest.mark.parametrize("number", NUMBERS)
def test_a_backend_refuses_it(number: float) -> None:
    with pytest.raises(ConfigurationError) as caught:
        rungwise.OpenAIChat("m", parameters={"a": {"b": [number]}})
    assert (
        str(caught.value)
        == "parameters['a']['b'][0] has no form in JSON: it is not a finite number"
    )


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "build",
    [
        lambda own: TextPart("x", cache=own),
        lambda own: MediaPart("image", data="AA==", cache=own),
        lambda own: ReasoningPart("x", own, "p"),
        lambda own: ToolCall("c", "look", "{}", own, "p"),
        lambda own: OpaquePart("p", own),
        lambda own: ToolResult("c", "look", "4", cache=own),
    ],
)
def test_a_part_refuses_it(build: Callable[[Any], Any], number: float) -> None:
    build({"a": [1.5]})
    with pytest.raises(
        ConfigurationError, match=r"\['a'\]\[0\] has no form in JSON: it is not a finite number"
    ):
        build({"a": [number]})


def test_a_tool_of_a_turn_refuses_it() -> None:
    with pytest.raises(
        ConfigurationError, match=r"^Tool.parameters\['maximum'\] has no form in JSON"
    ):
        Tool(name="look", parameters={"maximum": math.inf})


def test_a_long_path_is_cut() -> None:
    value: Any = math.nan
    for _ in range(150):
        value = {"k" * 500: value}
    with pytest.raises(ConfigurationError) as caught:
        Request("x", parameters=value)
    assert len(str(caught.value)) < 600


REPLIES = {
    "openai": '{"choices":[{"message":{"role":"assistant","content":"A '
    'heron.","reasoning_details":[{"a":NaN}]},'
    '"finish_reason":"stop"}]}',
    "responses": '{"status":"completed","output":[{"type":"web_search_call","id":"w","a":NaN},'
    '{"type":"message",'
    '"role":"assistant","content":[{"type":"output_text","text":"A heron."}]}]}',
    "anthropic": '{"type":"message","role":"assistant","stop_reason":"end_turn","content":'
    '[{"type":"server_tool_use","id":"s","name":"n","input":{"a":NaN}},{"type":"text","text":"A '
    'heron."}]}',
    "gemini": '{"candidates":[{"content":{"role":"model","parts":[{"executableCode":{"a":NaN}},'
    '{"text":"A heron."}]},'
    '"finishReason":"STOP"}]}',
}


@pytest.mark.parametrize("api", REPLIES)
def test_what_a_provider_sends_of_them_does_not_go_back_as_something_else(api: str) -> None:
    backend = protocols.backend(api, "http://localhost:1/v1")
    reply = backend.decode(200, {"content-type": "application/json"}, REPLIES[api].encode())
    assert isinstance(reply, Reply), reply
    assert reply.text == "A heron."
    messages = (
        *Request(ASKED).messages,
        Message("assistant", reply.parts),
        *Request(ASKED).messages,
    )
    send = Send(
        rung="ask", backend=0, wait=0, messages=messages, max_tokens=100, request=Request(ASKED)
    )
    body = backend.encode(send, stream=False).body
    assert b"A heron." in body
    assert b"null" not in body


def test_a_key_that_is_no_name_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Request(ASKED, parameters={"x": {"our secret": [math.inf]}})
    assert (
        str(caught.value)
        == "Request.parameters['x'][…][0] has no form in JSON: it is not a finite number"
    )
