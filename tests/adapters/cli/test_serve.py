"""What `rungwise serve` says: where each client is pointed, and what each has asked, in any
protocol.
"""

from typing import Any

import pytest

from rungwise import Client
from rungwise.adapters.cli.serve import _line, pointers, summary_of, text_of
from rungwise.adapters.gateway.languages import LANGUAGES, language_of
from rungwise.adapters.wires.classes import backend_class
from rungwise.adapters.wires.registry import APIS, WIRES
from rungwise.core import Request
from rungwise.testing import ReceivedRequest, ScriptedReply

ANSWER = ScriptedReply(text="Yes.")
SPOKEN = {api: wire for api, wire in WIRES.items() if language_of(wire.client_path) is not None}


def test_every_protocol_has_a_client_and_the_other_way_round() -> None:
    assert list(WIRES) == list(APIS)
    assert {type(language_of(wire.client_path)) for wire in SPOKEN.values()} == set(
        map(type, LANGUAGES)
    )
    lines = list(pointers("http://127.0.0.1:80/v1"))
    assert len(lines) == len(SPOKEN)
    for wire, line in zip(SPOKEN.values(), lines, strict=True):
        assert line.startswith(wire.protocol)
        assert f"'http://127.0.0.1:80{wire.client_base}'" in line


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("api", SPOKEN)
def test_each_request_has_a_line_that_says_the_same_in_every_protocol(
    api: str, streams: bool, rungwise_provider: Any
) -> None:
    provider = rungwise_provider(ANSWER)
    backend = backend_class(api)("any", base_url=provider.base_url, api_key="sk-1")
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Where do the herons nest?"},
    ]
    with Client(backend, stream_calls=streams) as client:
        client.call(Request(messages, max_tokens=90))
    line = _line(1, provider.requests[0], ANSWER)
    told = '1 model any, 3 messages, last user "Where do the herons nest?", cap 90'
    assert line == f"{told}{', stream' if streams else ''} <- HTTP 200, text"


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/nowhere", *(wire.client_path for wire in SPOKEN.values())]
)
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": 5},
        {"messages": [5]},
        {"messages": [{"role": ["x"], "content": {"a": 1}}]},
        {"contents": [{"parts": 5}]},
        {"input": [{"type": 5}], "options": 5, "generationConfig": []},
        {
            "messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}],
            "max_tokens": {"a": 1},
        },
    ],
)
def test_whatever_a_client_sends_has_its_line(path: str, body: dict[str, Any]) -> None:
    line = _line(1, ReceivedRequest(path, {}, body, 0.0), ANSWER)
    assert line.startswith("1 model ")
    assert "\n" not in line


def test_what_is_asked_of_responses_may_be_a_text() -> None:
    request = ReceivedRequest(
        "/v1/responses",
        {},
        {
            "model": "m",
            "input": "Hello",
            "max_output_tokens": 5,
        },
        0.0,
    )
    asked = summary_of(request)
    assert text_of(asked.messages[0]) == ("user", "Hello")
    assert asked.cap == 5
