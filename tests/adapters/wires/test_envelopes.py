"""What gateways put around the events of a protocol, and how else they call them, says nothing."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from rungwise.adapters.wires.reading.events import Events
from rungwise.core import Reply
from rungwise.testing import ScriptedReply
from support import protocols
from support.deviating import (
    CALLS,
    REPLIES,
    TEXT,
    body_of,
    events_of,
    lifted,
    read_of,
    said_by,
    streamed,
    whole,
)

ENVELOPES: dict[str, Callable[[Any], Any]] = {
    "data": lambda event: {"data": event},
    "result": lambda event: {"jsonrpc": "2.0", "id": 1, "result": event},
    "response": lambda event: {"response": event},
    "code and data": lambda event: {"code": 0, "message": "ok", "error": None, "data": event},
    "event and data": lambda event: {"event": event.get("type", "chunk"), "data": event},
    "type and payload": lambda event: {"type": "event", "payload": event},
    "message": lambda event: {"message": event},
    "any name": lambda event: {"id": 7, "original": event},
    "two of them": lambda event: {"data": {"data": event}},
    "a list of one": lambda event: [event],
    "a list in it": lambda event: {"data": [event]},
    "text": lambda event: {"data": json.dumps(event)},
}


def enveloped(api: str, name: str, event: Any) -> Any:
    if api == "bedrock":
        return {kind: ENVELOPES[name](payload) for kind, payload in event.items()}
    return ENVELOPES[name](event)


@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_an_envelope_says_nothing(api: str, envelope: str) -> None:
    for name, reply in REPLIES.items():
        events = events_of(api, reply)
        packed = [enveloped(api, envelope, event) for event in events]
        mixed = [packed[at] if at % 2 else event for at, event in enumerate(events)]
        for stream in (packed, mixed):
            assert read_of(streamed(api, stream)) == said_by(reply), name
        body = ENVELOPES[envelope](body_of(api, reply))
        assert read_of(whole(api, body)) == said_by(reply), name


@pytest.mark.parametrize("api", ["openai", "responses", "anthropic", "gemini"])
def test_several_events_in_one_list(api: str) -> None:
    long = ScriptedReply("The heron stands still. " * 50, chunk_size=2)
    assert streamed(api, [events_of(api, long)]).text == long.text
    for reply in REPLIES.values():
        events = events_of(api, reply)
        assert read_of(streamed(api, [events[:3], events[3:]])) == said_by(reply)
        assert read_of(streamed(api, [json.dumps(event) for event in events])) == said_by(reply)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "upper": str.upper,
    "title": str.title,
    "kebab": lambda name: name.replace("_", "-"),
    "snake": lambda name: name.replace(".", "_"),
    "pascal": lambda name: name.title().replace("_", "").replace(".", "") + "Event",
    "prefix": lambda name: f"openai.{name}",
    "colon": lambda name: f"event:{name}",
    "short": lambda name: name.removeprefix("response."),
    "unknown": lambda name: "x",
}


def respelled(api: str, spell: Callable[[str], str], event: Any) -> Any:
    if api == "bedrock":
        return {spell(name): payload for name, payload in event.items()}
    return {**event, "type": spell(event["type"])}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("api", ["responses", "anthropic", "bedrock"])
def test_the_name_of_an_event_in_another_spelling(api: str, spelling: str) -> None:
    for name, reply in REPLIES.items():
        events = events_of(api, reply)
        spelled = [respelled(api, SPELLINGS[spelling], event) for event in events]
        mixed = [spelled[at] if at % 2 else event for at, event in enumerate(events)]
        assert read_of(streamed(api, spelled)) == said_by(reply), name
        assert read_of(streamed(api, mixed)) == said_by(reply), name


@pytest.mark.parametrize("api", ["responses", "anthropic"])
def test_the_name_of_an_event_beside_its_data(api: str) -> None:
    for reply in REPLIES.values():
        events = []
        for event in events_of(api, reply):
            events.append({"event": event.pop("type"), "data": event})
        assert read_of(streamed(api, events)) == said_by(reply)
        for event in events:
            event["type"] = event.pop("event")
        assert read_of(streamed(api, events)) == said_by(reply)


@pytest.mark.parametrize("api", ["openai", "gemini", "ollama"])
def test_a_message_without_what_is_around_it(api: str) -> None:
    for name, reply in REPLIES.items():
        events = [lifted(api, event) for event in events_of(api, reply)]
        plain = events_of(api, reply)
        mixed = [events[at] if at % 2 else event for at, event in enumerate(plain)]
        assert read_of(streamed(api, events)) == said_by(reply), name
        assert read_of(streamed(api, mixed)) == said_by(reply), name
        assert read_of(whole(api, lifted(api, body_of(api, reply)))) == said_by(reply), name


def test_a_list_of_messages_in_place_of_one() -> None:
    message = {"role": "assistant", "content": TEXT}
    question = {"role": "user", "content": "Where?"}
    body = {"model": "m", "messages": [question, message], "done": True}
    assert whole("ollama", body).text == TEXT
    assert streamed("ollama", [body]).text == TEXT
    body = {"model": "m", "messages": [message], "finish_reason": "stop"}
    assert whole("openai", body).text == TEXT
    asked: Any = whole("openai", {"model": "m", "messages": [message, question]})
    assert not isinstance(asked, Reply)


STRANGERS: list[tuple[str, Any]] = [
    ("responses", {"type": "codex.rate_limits", "rate_limits": {"limit_reached": True}}),
    ("responses", {"type": "response.audio.delta", "delta": "UklGRg=="}),
    ("anthropic", {"type": "usage_update", "usage": {"output_tokens": 3}}),
    ("openai", {"object": "queue", "message": "waiting", "position": 3}),
    ("openai", {"id": "1", "prompt_filter_results": [{"prompt_index": 0}]}),
    ("gemini", {"responseId": "1", "trace": {"steps": [{"name": "route"}]}}),
]


@pytest.mark.parametrize(("api", "stranger"), STRANGERS)
def test_what_is_no_event_of_a_reply_changes_nothing(api: str, stranger: Any) -> None:
    reply = REPLIES["both"]
    events = events_of(api, reply)
    came = streamed(api, [*events[:2], stranger, *events[2:]])
    assert read_of(came) == said_by(reply)
    assert came.stop_reason in ("stop", "tool_calls")


@pytest.mark.parametrize("member", ["message", "detail"])
def test_an_error_that_quotes_the_request_is_no_reply(member: str) -> None:
    asked = {"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}]}
    body = {"error": {member: "no", "code": "rate_limit_exceeded"}, "request": asked}
    failure = whole("openai", body)
    assert (isinstance(failure, Reply), failure.reason) == (False, "rate_limit")


def test_the_search_is_bounded() -> None:
    deep: Any = {"choices": []}
    for _ in range(50):
        deep = {"data": deep}
    usual = Events(frozenset({"choices"}))
    assert usual.events_in(deep) == [deep]
    wide = {str(number): {"inner": {}} for number in range(10_000)}
    assert usual.events_in(wide) == [wide]
    assert usual.events_in([[]] * 10_000) == []


# What cannot be read is never a whole answer.


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
@pytest.mark.parametrize("name", REPLIES)
def test_a_stream_that_comes_backwards_is_no_whole_reply(api: str, name: str) -> None:
    events = events_of(api, REPLIES[name])
    orders = [events[::-1]]
    if api not in ("gemini", "ollama"):  # whose pieces have no beginning and no place
        orders.append([events[0], *events[-2:0:-1], events[-1]])
    for order in orders:
        came = streamed(api, order)
        is_whole = isinstance(came, Reply) and came.stop_reason in (None, "stop", "tool_calls")
        is_empty = is_whole and not came.text and not came.tool_calls
        assert (
            not is_whole or is_empty or came.interrupted or read_of(came) == said_by(REPLIES[name])
        )


def test_a_piece_that_nothing_tells_the_place_of_is_doubt() -> None:
    events = events_of("responses", REPLIES["text"])
    stray = {"type": "x", "delta": "and it waits. "}
    came = streamed("responses", [*events[:4], stray, *events[4:]])
    assert (came.stop_reason, came.interrupted) == ("unknown", False)
    call = events_of("responses", REPLIES["both"])
    came = streamed("responses", [*call[:4], stray, *call[4:]])
    assert came.stop_reason == "unknown"


def test_a_finish_reason_with_every_piece_is_no_doubt() -> None:
    chunks = events_of("openai", REPLIES["text"])
    for chunk in chunks:
        for choice in chunk["choices"]:
            choice["finish_reason"] = "stop"
    assert streamed("openai", chunks).stop_reason == "stop"


# The final form, and what comes behind it.


def message(content: list[Any], **more: Any) -> dict[str, Any]:
    return {"type": "message", "id": "m", "role": "assistant", "content": content, **more}


@pytest.mark.parametrize("at_top", [False, True])
def test_a_message_that_stands_whole_in_its_last_event(at_top: bool) -> None:
    for reply in REPLIES.values():
        body = body_of("anthropic", reply)
        start = {"type": "message_start", "message": message([])}
        last: Any = {"type": "message_stop", "message": body}
        if at_top:
            last = {**body, "type": "message_stop"}
        for events in ([start, last], [last]):
            came = streamed("anthropic", events)
            assert read_of(came) == said_by(reply)
            assert came.usage.output_tokens
        came = streamed("anthropic", [*events_of("anthropic", reply)[:-1], last])
        assert read_of(came) == said_by(reply)


@pytest.mark.parametrize("number", [str, int])
def test_numbers_of_events_as_text(number: Callable[[int], Any]) -> None:
    events = events_of("responses", ScriptedReply(TEXT, chunk_size=5))
    for at, event in enumerate(events):
        event["sequence_number"] = number(at)
        if event["type"] == "response.completed":
            event["response"]["output"] = []
    events = [event for event in events if not event["type"].endswith("done")]
    pairs = [pair for at in range(1, len(events), 2) for pair in events[at : at + 2][::-1]]
    assert streamed("responses", [events[0], *pairs]).text == TEXT
    assert streamed("responses", [each for event in events for each in (event, event)]).text == TEXT


def test_a_piece_behind_the_whole_of_its_text_is_late() -> None:
    said = {"output_index": 0, "content_index": 0, "item_id": "m"}
    item = {"type": "message", "id": "m", "content": []}
    delta = {"type": "response.output_text.delta", **said}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {**delta, "delta": "Hi "},
        {"type": "response.output_text.done", **said, "text": "Hi there you."},
        {**delta, "delta": "there "},
        {**delta, "delta": "you."},
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    ]
    assert streamed("responses", events).text == "Hi there you."
    more = {**delta, "delta": " And more."}
    assert streamed("responses", [*events[:-1], more, events[-1]]).text == "Hi there you. And more."


def test_a_piece_behind_all_arguments_is_late() -> None:
    [call, _] = CALLS
    item = {"type": "function_call", "id": "f", "call_id": "c", "name": "look", "arguments": ""}
    place = {"output_index": 0, "item_id": "f"}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.function_call_arguments.done", **place, "arguments": call.arguments},
        {"type": "response.function_call_arguments.delta", **place, "delta": '"owl"}'},
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    ]
    assert read_of(streamed("responses", events))[1] == [("look", {"bird": "owl"})]
