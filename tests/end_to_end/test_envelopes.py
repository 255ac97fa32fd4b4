"""Envelopes, other names of events and streams out of order, over HTTP: read, or never `done`."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import rungwise
from support import modes, protocols
from support.clocked import clocked
from support.deviating import (
    REPLIES,
    body_of,
    encoded,
    events_of,
    lifted,
    read_of,
    response,
    said_by,
)
from support.raw_server import RawServer, answering


def asked(api: str, mode: str, answer: bytes) -> tuple[Any, int]:
    """Return the result of a call whose every request gets the same answer, and how many did."""
    with RawServer(answering(answer)) as server:
        backend = protocols.backend(api, server.base_url)
        options = clocked({**modes.waits_into([]), **modes.options_of(mode)})
        with rungwise.Client(backend, **options) as client:
            try:
                result = modes.ask(client, mode)
            except rungwise.CallError as error:
                result = error.result
    return result, len(server.requests)


def packed(api: str, event: Any) -> Any:
    if api == "bedrock" and len(event) == 1:
        return {name: {"code": 0, "data": payload} for name, payload in event.items()}
    return {"code": 0, "data": event}


def respelled(api: str, event: Any) -> Any:
    if api == "bedrock":
        return {name.upper(): payload for name, payload in event.items()}
    return {**event, "type": event["type"].upper().replace("_", "-")}


WAYS: dict[str, tuple[tuple[str, ...], Callable[[str, Any], Any]]] = {
    "in an envelope": (protocols.PROTOCOLS, packed),
    "under other names": (("responses", "anthropic", "bedrock"), respelled),
    "without what is around": (("openai", "gemini", "ollama"), lifted),
}
CASES = [(way, api) for way, (apis, _) in WAYS.items() for api in apis]


@pytest.mark.parametrize("mode", modes.EVERY)
@pytest.mark.parametrize(("way", "api"), CASES)
def test_what_is_said_otherwise_is_read(way: str, api: str, mode: str) -> None:
    change = WAYS[way][1]
    streams = modes.asks_for_streams(mode)
    if way == "under other names" and not streams:
        return
    for reply in (REPLIES["text"], REPLIES["calls"]):
        body = json.dumps(change(api, body_of(api, reply))).encode() if not streams else b""
        if streams:
            body = encoded(api, [change(api, event) for event in events_of(api, reply)])
        result, requests = asked(api, mode, response(api, body, streams=streams))
        assert (result.outcome, requests) == ("done", 1)
        assert read_of(result) == said_by(reply)


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("api", ["openai", "anthropic", "gemini", "ollama", "bedrock"])
def test_a_stream_that_comes_backwards_is_never_done(api: str, mode: str) -> None:
    for reply in (REPLIES["text"], REPLIES["calls"]):
        body = encoded(api, events_of(api, reply)[::-1])
        result, requests = asked(api, mode, response(api, body, streams=True))
        assert result.outcome != "done"
        assert not result.tool_calls
        assert requests > 1
