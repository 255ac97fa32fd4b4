"""Numbers in the arguments of tools arrive and go out as they were written, in every protocol."""

import json
import re
from typing import Any

import pytest

from rungwise import ConfigurationError, Message, ToolCall, ToolResult
from rungwise.adapters.wires.json_text import as_json, dump, load
from rungwise.fsm.replies.text.contents import is_cut_json, json_in
from rungwise.testing import ScriptedReply
from support import protocols
from support.streams import rendered

BIG = 123456789012345678901234567890
ARGUMENTS = (
    f'{{"id":{BIG},"least":-9223372036854775809,"most":18446744073709551616,'
    f'"near":9007199254740993,"part":0.5}}'
)
CALL = ToolCall("call_00001", "look_up", ARGUMENTS)
APIS = protocols.PROTOCOLS
OBJECTS = ("anthropic", "bedrock", "gemini", "interactions", "ollama")
"""The protocols whose arguments are objects."""

OPENAI = (
    '{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":'
    '[{"id":"c1","type":"function","function":{"name":"look_up","arguments":ARGS}}]},'
    '"finish_reason":"tool_calls"}]}'
)
"""A whole reply of a server of chat completions that sends objects too."""
ANTHROPIC = (
    'data: {"type":"message_start","message":{"usage":{}}}\n\ndata: '
    '{"type":"content_block_start","index":0,'
    '"content_block":{"type":"tool_use","id":"c1","name":"look_up","input":ARGS}}\n\n'
    'data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}\n\ndata: '
    '{"type":"message_stop"}\n\n'
)
"""A stream with an object in it, where Anthropic itself sends pieces of a text."""
MARK = '{"mark": 1}'
CALLING = ScriptedReply(tool_calls=[ToolCall("c1", "look_up", MARK)])


def backend(api: str) -> Any:
    return protocols.backend(api, "http://localhost:1/v1")


def read(api: str, args: str, *, streamed: bool = False) -> Any:
    """Return the call that a reply has brought, with these arguments."""
    said = rendered(backend(api), CALLING, streams=streamed)
    said = re.sub(rb'\{"mark": ?1\}', b"ARGS", said)
    if api == "openai" or (api, streamed) == ("anthropic", True):
        said = (OPENAI if api == "openai" else ANTHROPIC).encode()
    assert said.count(b"ARGS") == 1
    said = said.replace(b"ARGS", args.encode())
    if streamed:
        decoder = backend(api).decoder({})
        decoder.feed(said)
        reply = decoder.close(None)
    else:
        reply = backend(api).decode(200, {"content-type": "application/json"}, said)
    [call] = reply.tool_calls
    return call


def sent(api: str, *messages: Any) -> bytes:
    body: bytes = protocols.encoded(backend(api), *messages, max_tokens=100).body
    return body


@pytest.mark.parametrize(
    ("api", "streamed"),
    [*((api, False) for api in ("openai", *OBJECTS)), ("gemini", True), ("ollama", True)],
)
def test_whole_numbers_of_any_length_are_read_as_they_stand(api: str, streamed: bool) -> None:
    call = read(api, ARGUMENTS, streamed=streamed)
    assert call.arguments == ARGUMENTS
    assert isinstance(json_in(call.arguments)[0], dict)


@pytest.mark.parametrize("api", OBJECTS)
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "9" * 5_000])
def test_a_number_that_nobody_can_hold_makes_a_call_that_is_not_handed_out(
    api: str, number: str
) -> None:
    call = read(api, f'{{"id":{number}}}')
    assert "null" not in call.arguments, "which would be another argument"
    assert not is_cut_json(call.arguments)
    assert not json_in(call.arguments)[1]


@pytest.mark.parametrize("api", APIS)
def test_whole_numbers_of_any_length_are_sent_as_they_stand(api: str) -> None:
    asked = [Message.saying("user", "Which?"), Message("assistant", (CALL,))]
    body = sent(api, *asked, Message("tool", (ToolResult("call_00001", "look_up", "Reeds."),)))
    said = body if api in OBJECTS else json.dumps(json.loads(body)).replace('\\"', '"').encode()
    assert ARGUMENTS.encode() in said
    assert json.loads(body), "it is JSON all the same"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("theirs", ["call", "block"])
def test_those_that_callers_wrote_as_objects_too(api: str, theirs: str) -> None:
    given = json.loads(ARGUMENTS)
    block = {
        "role": "assistant",
        "content": [
            {
                "type": "tool_use",
                "id": "call_00001",
                "name": "look_up",
                "input": given,
            }
        ],
    }
    content = {
        "role": "model",
        "parts": [
            {
                "functionCall": {
                    "id": "call_00001",
                    "name": "look_up",
                    "args": given,
                }
            }
        ],
    }
    body = sent(api, {"role": "user", "content": "Which?"}, block if theirs == "block" else content)
    assert str(BIG).encode() in body
    assert b"18446744073709551616" in body


@pytest.mark.parametrize("api", OBJECTS)
@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ("", {}),
        ("{}", {}),
        ('{"a": [1]}', {"a": [1]}),
        ("[1]", {"input": [1]}),
        ("3", {"input": 3}),
        ('{"a": ', {"input": '{"a": '}),
        ("\ud83d", {"input": "\ufffd"}),
        *(
            (f'{{"id": {number}}}', {"input": f'{{"id": {number}}}'})
            for number in ("NaN", "1e400", "9" * 5_000)
        ),
    ],
)
def test_arguments_are_an_object_whatever_another_model_wrote(
    api: str, arguments: str, given: dict[str, Any]
) -> None:
    call = ToolCall("call_00001", "look_up", arguments)
    body = sent(api, Message.saying("user", "Which?"), Message("assistant", (call,)))
    assert json.dumps(given, separators=(",", ":"), ensure_ascii=False).encode() in body
    json.loads(body, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_json_is_read_and_written_without_loss() -> None:
    assert load(ARGUMENTS.encode()) == json.loads(ARGUMENTS)
    assert as_json(json.loads(ARGUMENTS)) == dump(json.loads(ARGUMENTS)).decode() == ARGUMENTS
    assert load(b'["12345678901234567890123", 1]') == ["12345678901234567890123", 1]
    assert isinstance(load(b"[" + b"9" * 5_000 + b"]")[0], float)
    with pytest.raises(ConfigurationError, match="no form in JSON"):
        dump({"x": 10**5_000})
    assert as_json({"x": 10**5_000}) == "null"
