"""Deviations that somebody invented who had seen nothing but the page of manners."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.fsm.replies.parts import ToolCall
from rungwise.testing import ScriptedReply
from support import protocols
from support.streams import rendered

TEXT = "Hi there."
OWL = {"bird": "owl"}
LOOK = ("look", OWL)


def read(api: str, *events: Any, ends: bytes = b"") -> Any:
    decoder = protocols.backend(api, "http://host/v1").decoder({})
    if api == "bedrock":
        data = b"".join([frame(*each) for event in events for each in event.items()])
    elif api == "ollama":
        data = b"".join([json.dumps(event).encode() + b"\n" for event in events])
    else:
        data = b"".join([b"data: " + json.dumps(event).encode() + b"\n\n" for event in events])
    decoder.feed(data + ends)
    return decoder.close()


def whole(api: str, value: Any) -> Any:
    return protocols.backend(api, "http://host/v1").decode(200, {}, json.dumps(value).encode())


def calls(reply: Any) -> list[Any]:
    return [(call.name, json.loads(call.arguments)) for call in reply.tool_calls]


DONE = b"data: [DONE]\n\n"


def gemini(*parts: Any, **members: Any) -> Any:
    return {"candidates": [{"content": {"role": "model", "parts": [*parts]}, **members}]}


def test_a_call_of_gemini_that_comes_in_pieces_ends_with_an_empty_one() -> None:
    """As Vertex ends arguments that are no text [vercel/ai#14362]."""
    piece = {"partialArgs": [{"jsonPath": "$.bird", "stringValue": "owl"}], "willContinue": True}
    begin = gemini({"functionCall": {"name": "look", "willContinue": True}})
    for end in ({}, {"name": "look"}, {"willContinue": False}):
        last = gemini({"functionCall": end}, finishReason="STOP")
        assert calls(read("gemini", begin, gemini({"functionCall": piece}), last)) == [LOOK]
    assert calls(whole("gemini", gemini({"functionCall": {}}, finishReason="STOP"))) == []


@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_candidates_of_gemini_without_an_index_of_their_own_are_one_reply(index: Any) -> None:
    call = {"functionCall": {"name": "look", "args": OWL}}
    [first] = gemini({"text": TEXT})["candidates"]
    [second] = gemini(call, finishReason="STOP", **index)["candidates"]
    for came in (
        whole("gemini", {"candidates": [first, second]}),
        read("gemini", {"candidates": [first, second]}),
    ):
        assert (came.text, calls(came)) == (TEXT, [LOOK])
    other = whole(
        "gemini", {"candidates": [{**first, "finishReason": "STOP"}, {**second, "index": 1}]}
    )
    assert (other.text, calls(other)) == (TEXT, [])


@pytest.mark.parametrize("name", ["arguments", "args", "input", "parameters"])
def test_arguments_are_found_under_every_name(name: str) -> None:
    named: dict[str, Any] = {"name": "look", name: OWL}
    message = {"tool_calls": [{"id": "c", "type": "function", "function": named}]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    assert calls(whole("openai", {"choices": [choice]})) == [LOOK]
    delta = {"choices": [{"index": 0, "delta": message, "finish_reason": "tool_calls"}]}
    assert calls(read("openai", delta, ends=DONE)) == [LOOK]
    block = {"type": "tool_use", "id": "c", **named}
    value: dict[str, Any] = {"content": [block], "stop_reason": "tool_use"}
    assert calls(whole("anthropic", value)) == [LOOK]
    item = {"type": "function_call", "call_id": "c", **named}
    assert calls(whole("responses", {"status": "completed", "output": [item]})) == [LOOK]
    assert calls(whole("gemini", gemini({"functionCall": named}, finishReason="STOP"))) == [LOOK]
    content = [{"toolUse": {"toolUseId": "c", **named}}]
    value = {"output": {"message": {"content": content}}, "stopReason": "tool_use"}
    assert calls(whole("bedrock", value)) == [LOOK]
    for call in ({"function": named}, named):
        value = {"message": {"content": "", "tool_calls": [call]}, "done": True}
        assert calls(whole("ollama", value)) == [LOOK]
        assert calls(read("ollama", value)) == [LOOK]


@pytest.mark.parametrize("name", ["partial_json", "text", "input", "arguments"])
def test_the_input_of_a_call_in_messages_under_every_name(name: str) -> None:
    use = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    delta = {"type": "input_json_delta", name: json.dumps(OWL)}
    events = [
        {"type": "content_block_start", "index": 0, "content_block": use},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    assert calls(read("anthropic", *events)) == [LOOK]


def test_an_empty_object_behind_whole_arguments_is_no_other_call() -> None:
    function = {"name": "look", "arguments": json.dumps(OWL)}
    first = {"tool_calls": [{"index": 0, "id": "c", "function": function}]}
    last = {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    chunks = [{"choices": [{"index": 0, "delta": each}]} for each in (first, last)]
    assert calls(read("openai", *chunks, ends=DONE)) == [LOOK]


def test_parts_of_gemini_that_hold_two_things() -> None:
    part = {"text": "Hi.", "functionCall": {"name": "look", "args": OWL}}
    came = whole("gemini", gemini(part, finishReason="STOP"))
    assert (came.text, calls(came)) == ("Hi.", [LOOK])
    came = whole("gemini", gemini({"text": "Hm.", "thought": "true"}, {"text": "Hi."}))
    assert (came.reasoning, came.text) == ("Hm.", "Hi.")


def test_done_with_every_line_of_ollama() -> None:
    lines = [{"message": {"content": text}, "done": True} for text in ("Hi ", "there.")]
    assert read("ollama", *lines).text == TEXT
    last = {"message": {"content": ""}, "done": True, "done_reason": "stop"}
    assert read("ollama", *lines, last, lines[0]).text == TEXT


def test_calls_of_ollama_beside_the_message() -> None:
    call = {"function": {"name": "look", "arguments": OWL}}
    value = {"message": {"content": "Hi."}, "tool_calls": [call], "done": True}
    for came in (whole("ollama", value), read("ollama", value)):
        assert (came.text, calls(came)) == ("Hi.", [LOOK])


def test_texts_under_other_types() -> None:
    parts = [{"type": "output_text", "text": "Hi "}, {"type": "text", "text": "there."}]
    item = {"type": "message", "content": parts}
    assert whole("responses", {"status": "completed", "output": [item]}).text == TEXT
    content = [{"type": "text", "text": "Hi "}, {"type": "text", "text": {"value": "there."}}]
    choice = {"index": 0, "message": {"content": content}, "finish_reason": "stop"}
    assert whole("openai", {"choices": [choice]}).text == TEXT


def test_an_error_without_a_word_is_none() -> None:
    error = {"message": "", "type": "", "param": "", "code": None}
    choice = {"index": 0, "message": {"content": TEXT}, "finish_reason": "stop"}
    came = whole("openai", {"choices": [choice], "error": error})
    assert (came.text, came.interrupted) == (TEXT, False)


def test_indexes_of_choices_that_count_the_chunks_are_no_whole_reply() -> None:
    first = {"choices": [{"index": 0, "delta": {"content": "Hi "}}]}
    last = {"choices": [{"index": 1, "delta": {"content": "there."}, "finish_reason": "stop"}]}
    assert read("openai", first, last, ends=DONE).interrupted


def test_input_that_only_the_total_shows() -> None:
    usage = {"prompt_tokens": None, "completion_tokens": 7, "total_tokens": 16}
    choice = {"index": 0, "message": {"content": TEXT}, "finish_reason": "stop"}
    came = whole("openai", {"choices": [choice], "usage": usage}).usage
    assert (came.input_tokens, came.output_tokens) == (9, 7)
    usage = {"candidatesTokenCount": 7, "totalTokenCount": 16}
    came = whole("gemini", {**gemini({"text": TEXT}, finishReason="STOP"), "usageMetadata": usage})
    assert (came.usage.input_tokens, came.usage.output_tokens) == (9, 7)


def test_a_count_of_nothing_behind_a_placeholder_is_an_estimate() -> None:
    delta = {"type": "text_delta", "text": "Herons. " * 50}
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 9, "output_tokens": 0},
        },
        {"type": "message_stop"},
    ]
    usage = read("anthropic", *events).usage
    assert (usage.input_tokens, usage.estimated) == (9, True)
    assert usage.output_tokens >= 100


# What no reader finds is doubt, and never lost.

CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": json.dumps(OWL)}}
USE = {"type": "tool_use", "id": "c", "name": "look", "input": OWL}
SAID = {"type": "output_text", "text": TEXT}
UNREAD: list[tuple[str, Any]] = [
    ("anthropic", {"content": [{"type": "text", "text": TEXT}], "tool_calls": [CALL]}),
    ("openai", {"choices": [{"message": {"content": [{"type": "text", "text": TEXT}, USE]}}]}),
    ("openai", {"choices": [{"message": {"content": TEXT}, "tool_calls": [CALL]}]}),
    ("responses", {"output": [{"type": "message", "content": [SAID, USE]}]}),
    ("responses", {"output": [{"type": "message", "content": [SAID], "tool_calls": [CALL]}]}),
    (
        "responses",
        {"output": [{"type": "message", "content": [SAID]}, {**USE, "type": "tool_call"}]},
    ),
    ("gemini", {**gemini({"text": TEXT}), "functionCalls": [{"name": "look", "args": OWL}]}),
    ("gemini", gemini({"text": TEXT}, functionCalls=[{"name": "look", "args": OWL}])),
    ("gemini", gemini({"text": TEXT}, {"functionCall": [{"name": "look", "args": OWL}]})),
    (
        "bedrock",
        {"output": {"message": {"content": [{"text": TEXT}, {"tool_use": {"name": "look"}}]}}},
    ),
]
ENDS = {
    "openai": {},
    "anthropic": {"stop_reason": "end_turn"},
    "responses": {"status": "completed"},
    "gemini": {},
    "bedrock": {"stopReason": "end_turn"},
}


@pytest.mark.parametrize(("api", "body"), UNREAD)
def test_a_text_beside_a_call_that_nobody_can_read_is_in_doubt(api: str, body: Any) -> None:
    came = whole(api, {**body, **ENDS[api]})
    assert (came.text, came.stop_reason, came.tool_calls) == (TEXT, "unknown", ())


def test_a_call_that_nobody_can_read_in_a_stream_is_doubt() -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"text": TEXT}}
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "tool_calls": [CALL]}
    assert read("anthropic", start, delta, stop).stop_reason == "unknown"
    chunk = {"choices": [{"index": 0, "delta": {"content": TEXT}}]}
    choice = {"index": 0, "delta": {"content": [USE]}, "finish_reason": "stop"}
    assert read("openai", chunk, {"choices": [choice]}, ends=DONE).stop_reason == "unknown"


@pytest.mark.parametrize(
    "more",
    [
        {"tool_calls": []},
        {"tool_calls": None, "function_call": None},
        {"tool_calls": [{}]},
        {"metadata": {"tool_calls": [CALL]}},
    ],
)
def test_what_is_no_call_is_no_doubt(more: Any) -> None:
    choice = {"index": 0, "message": {"content": TEXT, **more}, "finish_reason": "stop"}
    assert whole("openai", {"choices": [choice], **more}).stop_reason == "stop"
    body = {"content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn", **more}
    assert whole("anthropic", body).stop_reason == "stop"


def test_tools_of_the_server_are_no_doubt() -> None:
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    body = {"content": [search, {"type": "text", "text": TEXT}], "stop_reason": "end_turn"}
    assert whole("anthropic", body).stop_reason == "stop"
    item = {"type": "mcp_call", "id": "m", "name": "look", "arguments": "{}"}
    output = [item, {"type": "message", "content": [SAID]}]
    tools = [{"type": "function", "name": "look", "parameters": {}}]
    value = {"status": "completed", "output": output, "tools": tools, "incomplete_details": None}
    assert whole("responses", value).stop_reason == "stop"


@pytest.mark.parametrize("api", ["anthropic", "responses"])
@pytest.mark.parametrize("size", [1, 100_000])
def test_types_that_stand_in_the_names_of_events_alone(api: str, size: int) -> None:
    call = {"id": "c", "name": "look", "arguments": json.dumps(OWL)}
    said = ScriptedReply("Hi there. " * 9, reasoning="Hm.", tool_calls=[call], chunk_size=7)
    data = rendered(protocols.backend(api, "http://host/v1"), said, streams=True)
    bare = re.sub(rb'\ndata: \{"type":"[a-z_.]+",?', b"\ndata: {", data)
    assert bare.count(b'data: {"type"') == 0
    decoder: Any = protocols.backend(api, "http://host/v1").decoder({})
    for start in range(0, len(bare), size):
        decoder.feed(bare[start : start + size])
    came = decoder.close()
    assert (came.text, came.reasoning, calls(came)) == ("Hi there. " * 9, "Hm.", [LOOK])


def numbered(text: str = "The heron stands still. " * 9) -> list[dict[str, Any]]:
    """Return the events of a response of which only the numbers tell the order."""
    said = ScriptedReply(text, tool_calls=[ToolCall("c", "look", json.dumps(OWL))], chunk_size=7)
    data = rendered(protocols.backend("responses", "http://host/v1"), said, streams=True)
    events = []
    for line in data.split(b"\n"):
        event = json.loads(line[6:]) if line.startswith(b"data: {") else {"type": "done"}
        if event["type"] == "response.completed":
            event["response"]["output"] = []
        if not event["type"].endswith("done"):
            events.append(event)
    for number, event in enumerate(events):
        event["sequence_number"] = number
    return events


def swapped(events: list[Any], every: int) -> list[Any]:
    """Return events of which so many in a row always come backwards."""
    groups = [events[start : start + every] for start in range(0, len(events), every)]
    return [event for group in groups for event in reversed(group)]


ORDERS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "as they are": lambda events: events,
    "each twice": lambda events: [event for each in events for event in (each, each)],
    "some once more": lambda events: [*events[:20], *events[9:]],
    "in pairs": lambda events: [*events[:1], *swapped(events[1:], 2)],
    "in tens": lambda events: [*events[:4], *swapped(events[4:], 10)],
    "every other number": lambda events: [
        {**event, "sequence_number": 2 * event["sequence_number"]} for event in events
    ],
    "one number for all": lambda events: [{**event, "sequence_number": 0} for event in events],
    "the number first": lambda events: [
        {"sequence_number": event["sequence_number"], **event} for event in events
    ],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [50, 100_000])
def test_events_of_responses_come_in_the_order_of_their_numbers(order: str, size: int) -> None:
    events = ORDERS[order](numbered())
    data = b"".join([b"data: " + json.dumps(event).encode() + b"\n\n" for event in events])
    decoder: Any = protocols.backend("responses", "http://host/v1").decoder({})
    shown = []
    for start in range(0, len(data), size):
        shown += decoder.feed(data[start : start + size])
    came = decoder.close()
    assert (came.text, calls(came)) == ("The heron stands still. " * 9, [LOOK])
    assert "".join([delta.text for delta in shown]) == came.text


def test_events_whose_places_are_gone_are_no_whole_reply() -> None:
    events = numbered("The heron stands still. " * 30)
    came = read("responses", *events[:9], *events[-2:8:-1], events[-1])
    assert came.interrupted
    assert came.failure.reason == "malformed"


def test_one_call_in_place_of_a_list() -> None:
    call = {"id": "c", "function": {"name": "look", "arguments": json.dumps(OWL)}}
    choice = {"index": 0, "delta": {"tool_calls": call}, "finish_reason": "tool_calls"}
    assert calls(read("openai", {"choices": [choice]}, ends=DONE)) == [LOOK]
    assert calls(read("ollama", {"message": [{"tool_calls": call}], "done": True})) == [LOOK]


def test_whole_arguments_of_a_response_under_another_name() -> None:
    item = {"type": "function_call", "id": "f", "call_id": "c", "name": "look", "arguments": ""}
    whole = {"type": "response.function_call_arguments.done", "item_id": "f"}
    came = read(
        "responses",
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {**whole, "output_index": 0, "input": json.dumps(OWL)},
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    )
    assert calls(came) == [LOOK]


def finished(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


COMPLETED = {"type": "response.completed", "response": {"status": "completed", "output": []}}


@pytest.mark.parametrize("index", [1, None, "1"])
def test_one_id_for_all_calls_and_messages_of_a_response(index: Any) -> None:
    call = {"type": "function_call", "id": "one", "name": "look"}
    first = finished(0, call_id="a", arguments=json.dumps(OWL), **call)
    second = finished(index, call_id="b", arguments="{}", **call)
    assert calls(read("responses", first, second, COMPLETED)) == [LOOK, ("look", {})]
    assert calls(read("responses", first, {**first, "output_index": index}, COMPLETED)) == [LOOK]
    said = [finished(place, type="message", id="one", content=TEXT[:3]) for place in (0, 1)]
    assert read("responses", *said, COMPLETED).text == TEXT[:3]
    rest = finished(1, type="message", id="one", content=TEXT[3:])
    assert read("responses", said[0], rest, COMPLETED).text == TEXT


@pytest.mark.parametrize(
    "output",
    [
        {"message": {"content": [{"type": "text", "text": {"text": TEXT}}]}},
        [{"message": [{"content": TEXT}]}],
    ],
)
def test_a_whole_reply_of_converse_in_lists_and_texts_in_texts(output: Any) -> None:
    assert whole("bedrock", {"output": output, "stopReason": "end_turn"}).text == TEXT


def test_a_piece_of_converse_outside_its_delta() -> None:
    events = [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": "Hi "}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "text": "there."}},
        {"messageStop": {"stopReason": "end_turn"}},
    ]
    assert read("bedrock", *events).text == TEXT
