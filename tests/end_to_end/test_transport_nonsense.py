"""Whatever a program sends, `rungwise.Transport` answers: it raises nothing, and nothing in it
breaks.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rungwise import Transport
from rungwise.testing import ScriptedReply
from support.gateways import OWN, asking_for, client_over, fault_of, post, written
from support.plain import user
from support.protocols import chat_call
from support.runs import Stage
from support.sampling import examples
from support.sdks import APIS
from support.texts import places

pytestmark = pytest.mark.sampled(2)

PARAMETERS: Final = {"type": "object", "properties": {"bird": {"type": "string"}}}
PIXEL: Final = "iVBORw0KGgo="
VALID: Final[dict[str, dict[str, Any]]] = {
    "openai": {
        "messages": [
            {"role": "system", "content": "Be short."},
            user(
                [
                    {"type": "text", "text": "Hi"},
                    {"type": "image_url", "image_url": {"url": "u"}},
                ]
            ),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [chat_call("c", "look")],
            },
            {"role": "tool", "tool_call_id": "c", "content": "Grey."},
        ],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "stream_options": {"include_usage": True},
        "n": 1,
        **asking_for(PARAMETERS)["openai"],
    },
    "responses": {
        "instructions": "Be short.",
        "input": [
            user([{"type": "input_text", "text": "Hi"}]),
            {
                "type": "reasoning",
                "id": "r",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "e",
            },
            {
                "type": "function_call",
                "call_id": "c",
                "name": "look",
                "arguments": "{}",
            },
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": "Grey.",
            },
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Grey."}],
            },
        ],
        "tool_choice": {"type": "function", "name": "look"},
        "store": False,
        "text": {
            "format": {
                "type": "json_schema",
                "name": "x",
                "schema": PARAMETERS,
            },
            "verbosity": "low",
        },
        "stream_options": {"include_obfuscation": False},
    },
    "anthropic": {
        "system": [
            {
                "type": "text",
                "text": "Be short.",
                "cache_control": {"type": "ephemeral"},
            }
        ],
        "messages": [
            user([{"type": "text", "text": "Hi"}]),
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {
                        "type": "tool_use",
                        "id": "c",
                        "name": "look",
                        "input": {"bird": "x"},
                    },
                ],
            },
            user(
                [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c",
                        "content": "Grey.",
                    }
                ]
            ),
        ],
        "tool_choice": {
            "type": "tool",
            "name": "look",
            "disable_parallel_tool_use": True,
        },
        "top_k": 1,
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": PARAMETERS}},
        "temperature": 1,
    },
    "gemini": {
        "contents": [
            {
                "role": "user",
                "parts": [{"text": "Hi"}, {"inlineData": {"mimeType": "image/png", "data": PIXEL}}],
            },
            {
                "role": "model",
                "parts": [{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "s"}],
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "look", "response": {"output": "Grey."}}}],
            },
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
        "generationConfig": {
            **OWN["gemini"]["generationConfig"],
            "responseMimeType": "application/json",
            "responseSchema": {"type": "OBJECT"},
        },
    },
    "interactions": {
        "input": [
            {
                "type": "user_input",
                "content": [
                    {"type": "text", "text": "Hi"},
                    {"type": "image", "mime_type": "image/png", "data": PIXEL},
                ],
            },
            {"type": "thought", "signature": "s"},
            {"type": "function_call", "id": "c", "name": "look", "arguments": {}},
            {"type": "function_result", "call_id": "c", "name": "look", "result": "Grey."},
        ],
        "response_format": {"type": "text", "mime_type": "application/json", "schema": PARAMETERS},
        "generation_config": {
            **OWN["interactions"]["generation_config"],
            "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["look"]}},
        },
    },
}
JSON: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(
        ["user", "model", "text", "function", "json_schema", "system", "auto", "\ud800", "low"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "text", "name", "id", "parts", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[str, Any, bool]:
    """Draw a protocol, a request of its own in which up to three values are others, and whether it
    streams.
    """
    api = draw(st.sampled_from(APIS))
    body = copy.deepcopy({**written(api), **OWN[api], **VALID[api]})
    for _ in range(draw(st.integers(1, 3))):
        *before, last = draw(st.sampled_from([*places(body)]))
        holder: Any = body
        for name in before:
            holder = holder[name]
        match draw(st.sampled_from(["other", "gone", "listed", "wrapped", "more"])):
            case "gone":
                del holder[last]
            case "listed":
                holder[last] = [holder[last]]
            case "wrapped":
                holder[last] = {"type": holder[last]}
            case "more" if isinstance(holder, dict):
                holder[draw(st.text(max_size=5))] = draw(JSON)
            case _:
                holder[last] = draw(JSON)
        if not body:
            break
    return api, body, draw(st.booleans())


def check(
    transport: Any,
    api: str,
    body: Any,
    *,
    streams: bool,
) -> httpx.Response:
    """Send a body, and check that what comes back is an answer or a proper error."""
    if streams and api != "gemini":
        body = {**body, "stream": True}
    raw = json.dumps(body).encode()
    response = post(transport, api, raw, streams=streams)
    if response.headers.get("x-rungwise-outcome") == "forwarded":
        return response
    if response.status_code == 200:
        assert response.text
    else:
        assert response.status_code in (400, 404, 503), response.text
        assert fault_of(api, response)
    return response


@pytest.fixture(scope="module")
def transports() -> Iterator[dict[str, Transport]]:
    """Return a transport to a backend of each protocol that answers everything."""
    stages = {
        api: Stage([ScriptedReply('{"bird": "heron"}')]) for api in (*APIS, "bedrock", "ollama")
    }
    clients = {api: client_over([api], [stage]) for api, stage in stages.items()}
    yield {api: Transport(client) for api, client in clients.items()}
    for api, stage in stages.items():
        clients[api].close()
        stage.provider.close()


@settings(
    max_examples=examples(1_200),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(request=spoiled(), backend=st.sampled_from([*APIS, "bedrock", "ollama"]))
def test_a_spoiled_request_is_answered(
    request: tuple[str, Any, bool], backend: str, transports: dict[str, Transport]
) -> None:
    api, body, streams = request
    check(transports[backend], api, body, streams=streams)


@pytest.mark.full
@pytest.mark.sampled(4)
@pytest.mark.parametrize("api", APIS)
def test_every_field_may_be_anything(api: str, transports: dict[str, Transport]) -> None:
    odd: list[Any] = [
        None,
        True,
        0,
        -1,
        2**70,
        1e300,
        "",
        "x",
        [],
        ["x"],
        [[]],
        {},
        {"x": 1},
        {"type": []},
    ]
    whole = {**written(api), **OWN[api], **VALID[api]}
    for path in places(whole):
        for number, value in enumerate(odd):
            if (len(path) + number) % 4:
                continue
            body = copy.deepcopy(whole)
            holder: Any = body
            for name in path[:-1]:
                holder = holder[name]
            holder[path[-1]] = value
            for backend in (api, "anthropic" if api != "anthropic" else "openai"):
                check(transports[backend], api, body, streams=bool(number % 2))


def test_what_a_provider_sends_back_may_be_anything() -> None:
    stage = Stage()
    with client_over(["openai"], [stage]) as client, stage.provider:
        for body in (
            "",
            "[]",
            "{}",
            '{"choices": 5}',
            '{"choices": [{"message": {"content": 5}}]}',
            "data: x\n\n",
        ):
            for api in APIS:
                for streams in (False, True):
                    stage.play([ScriptedReply(body=body)])
                    response = post(Transport(client), api, written(api), streams=streams)
                    assert response.status_code == 503
                    assert fault_of(api, response)
