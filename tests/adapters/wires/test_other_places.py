"""What a server says in another place, under another word, or once more, is read as what it is; and
what cannot be told is never a whole answer.
"""

import json
from typing import Any

import pytest

from rungwise.adapters.gateway.languages.bedrock import frame
from support import protocols
from support.classified import event_of

TEXT = "The kingfishers nest in the steep bank."
WORDS = ("The king", "fishers nest", " in the", " steep bank.")
OWL = {"bird": "owl", "where": "in the barn"}
WRITTEN = json.dumps(OWL)
LOOK = ("look", OWL)
DONE = b"data: [DONE]\n\n"


def read(api: str, *events: Any, ends: bytes = b"") -> Any:
    decoder = protocols.backend(api, "http://host/v1").decoder({})
    for event in events:
        data = json.dumps(event).encode()
        if api == "bedrock":
            [(name, value)] = event.items()
            decoder.feed(frame(name, value))
        else:
            decoder.feed(data + b"\n" if api == "ollama" else b"data: " + data + b"\n\n")
    decoder.feed(ends)
    return decoder.close()


def whole(api: str, value: Any) -> Any:
    return protocols.backend(api, "http://host/v1").decode(200, {}, json.dumps(value).encode())


def calls(reply: Any) -> list[Any]:
    return [(call.name, json.loads(call.arguments)) for call in reply.tool_calls]


def delta(finish: Any = None, **members: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": members, "finish_reason": finish}
    return {"id": "c", "choices": [choice]}


def called(api: str, call: dict[str, Any]) -> list[Any]:
    """Return a reply with a call, whole and streamed where the protocol has it in one piece."""
    if api == "openai":
        choice = {"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
        streamed = read(api, delta("tool_calls", tool_calls=[{"index": 0, **call}]), ends=DONE)
        return [whole(api, {"choices": [choice]}), streamed]
    if api == "ollama":
        value = {"message": {"content": "", "tool_calls": [call]}, "done": True}
        return [whole(api, value), read(api, value)]
    if api == "anthropic":
        block = {"type": "tool_use", **call}
        events = (
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        )
        return [whole(api, {"content": [block], "stop_reason": "tool_use"}), read(api, *events)]
    if api == "responses":
        item = {"type": "function_call", "call_id": "c", **call}
        response = {"status": "completed", "output": [item]}
        completed = {"type": "response.completed", "response": response}
        return [whole(api, response), read(api, completed)]
    if api == "gemini":
        part = {"functionCall": call}
        value = {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}
        return [whole(api, value), read(api, value)]
    content = [{"toolUse": {"toolUseId": "c", **call}}]
    return [whole(api, {"output": {"message": {"content": content}}, "stopReason": "tool_use"})]


@pytest.mark.parametrize("api", ["openai", "ollama", "anthropic", "responses", "gemini", "bedrock"])
@pytest.mark.parametrize("empty", [None, "", {}, "{}"])
def test_arguments_beside_an_empty_place_of_their_own(api: str, empty: Any) -> None:
    for name in ("arguments", "input", "args", "parameters"):
        for other in {"arguments", "input", "args"} - {name}:
            for came in called(api, {"id": "c", "name": "look", other: empty, name: OWL}):
                assert calls(came) == [LOOK]


@pytest.mark.parametrize("api", ["openai", "ollama"])
def test_arguments_beside_the_function_or_without_one(api: str) -> None:
    """[acon96/home-llm#349]"""
    for function in ({"name": "look"}, {"name": "look", "arguments": None}, None):
        for written in (WRITTEN, OWL):
            call = {"id": "c", "name": "look", "function": function, "arguments": written}
            for came in called(api, call):
                assert calls(came) == [LOOK]


@pytest.mark.parametrize("api", ["anthropic", "responses"])
def test_arguments_in_a_function_where_there_is_none(api: str) -> None:
    function = {"name": "look", "arguments": WRITTEN}
    for came in called(api, {"id": "c", "name": "look", "function": function}):
        assert calls(came) == [LOOK]


def test_arguments_as_a_text_in_json() -> None:
    """[quarkiverse/quarkus-langchain4j#2642]"""
    twice = json.dumps(WRITTEN)
    pieces = [delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "look"}}])]
    for piece in (twice[:9], twice[9:]):
        pieces.append(delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}]))
    assert calls(read("openai", *pieces, delta("tool_calls"), ends=DONE)) == [LOOK]
    for came in called("gemini", {"name": "look", "args": WRITTEN}):
        assert calls(came) == [LOOK]
    no_object = {"name": "look", "arguments": json.dumps("an owl")}
    [call] = called("openai", {"id": "c", "function": no_object})[1].tool_calls
    assert call.arguments == "an owl"


def test_a_call_that_is_written_both_ways_is_one() -> None:
    function = {"name": "look", "arguments": WRITTEN}
    call = {"index": 0, "id": "c", "function": function}
    events = (delta(function_call=function), delta("tool_calls", tool_calls=[call]))
    assert calls(read("openai", *events, ends=DONE)) == [LOOK]


def test_pieces_of_arguments_that_are_called_texts() -> None:
    use = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    events: list[Any] = [{"type": "content_block_start", "index": 0, "content_block": use}]
    for piece in (WRITTEN[:9], WRITTEN[9:]):
        text = {"type": "text_delta", "text": piece}
        events.append({"type": "content_block_delta", "index": 0, "delta": text})
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    came = read("anthropic", *events, end, {"type": "message_stop"})
    assert (came.text, calls(came)) == ("", [LOOK])


WORDS_FOR_ENDS = [
    ("stop", "stop"),
    ("end_turn", "stop"),
    ("length", "length"),
    ("max_tokens", "length"),
    ("content_filter", "content_filter"),
    ("FinishReason.STOP", "stop"),
    ("FinishReason.MAX_TOKENS", "length"),
]


@pytest.mark.parametrize(("word", "means"), WORDS_FOR_ENDS)
def test_words_for_the_end_that_a_gateway_leaves_as_they_are(word: str, means: str) -> None:
    values = {
        "openai": {"choices": [{"message": {"content": TEXT}, "finish_reason": word}]},
        "anthropic": {"content": [{"type": "text", "text": TEXT}], "stop_reason": word},
        "gemini": {"candidates": [{"content": {"parts": [{"text": TEXT}]}, "finishReason": word}]},
        "bedrock": {"output": {"message": {"content": [{"text": TEXT}]}}, "stopReason": word},
    }
    for api, value in values.items():
        came = whole(api, value)
        assert (came.text, came.stop_reason) == (TEXT, means), api


@pytest.mark.parametrize("role", ["tool", "function"])
def test_what_a_tool_of_the_server_found_is_no_answer(role: str) -> None:
    texts = [delta(role="assistant", content=word) for word in WORDS]
    found = delta(role=role, content='{"citations": []}')
    events = [found, *texts[:2], found, *texts[2:], delta("stop")]
    assert read("openai", *events, ends=DONE).text == TEXT


def block(text: str, index: int = 0) -> list[dict[str, Any]]:
    said = {"type": "text_delta", "text": text}
    return [
        {
            "type": "content_block_start",
            "index": index,
            "content_block": {"type": "text", "text": ""},
        },
        {"type": "content_block_delta", "index": index, "delta": said},
        {"type": "content_block_stop", "index": index},
    ]


@pytest.mark.parametrize("name", ["message_delta", "message_stop", "content_block_stop"])
def test_an_error_in_any_event_of_messages(name: str) -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    events = [*block(WORDS[0]), {"type": name, "index": 0, "error": error}]
    came = read("anthropic", *events, {"type": "message_stop"})
    assert (came.text, came.interrupted, came.failure.reason) == (WORDS[0], True, "overloaded")


def test_a_message_that_begins_once_more_replaces_what_came() -> None:
    """As a gateway has it that asks again amid a stream [apache/shenyu#6647]."""
    first = {"type": "message_start", "message": {"id": "m1", "content": []}}
    again = {"type": "message_start", "message": {"id": "m2", "content": []}}
    end = [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    events = [first, *block(WORDS[0])[:2], again, *block(TEXT), *end]
    assert read("anthropic", *events).text == TEXT
    assert read("anthropic", first, first, *block(TEXT), *end).text == TEXT
    begins = {"messageStart": {"role": "assistant"}}
    cut, said = [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": text}}}
        for text in (WORDS[0], TEXT)
    ]
    ends: Any = ({"messageStop": {"stopReason": "end_turn"}}, {"metadata": {}})
    assert read("bedrock", begins, cut, begins, said, *ends).text == TEXT
    assert read("bedrock", begins, begins, said, *ends).text == TEXT


def test_a_message_that_stands_twice_in_a_response_is_one() -> None:
    content = [{"type": "output_text", "text": TEXT}]
    message = {"type": "message", "id": "m", "role": "assistant", "content": content}
    response = {"status": "completed", "output": [message, message]}
    assert whole("responses", response).text == TEXT
    assert read("responses", {"type": "response.completed", "response": response}).text == TEXT
    response = {"status": "completed", "output": [message, {**message, "id": "other"}]}
    assert whole("responses", response).text == TEXT + TEXT


@pytest.mark.parametrize("thought", [True, "true", "True", 1])
def test_a_thought_of_gemini_in_other_words(thought: Any) -> None:
    parts = [{"text": "Hm.", "thought": thought}, {"text": TEXT, "thought": "False"}]
    value = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    for came in (whole("gemini", value), read("gemini", value)):
        assert (came.reasoning, came.text) == ("Hm.", TEXT)


@pytest.mark.parametrize(
    "report",
    [
        {"token_usage": {"prompt_tokens": 11, "completion_tokens": 7}},
        {"meta": {"usage": {"prompt_tokens": 11, "completion_tokens": 7}}},
        {"meta": {"billed_units": {"input_tokens": 11, "output_tokens": 7}}},
        {"usage": {"tokens": {"input_tokens": 11, "output_tokens": 7}}},
    ],
)
def test_tokens_in_further_places(report: Any) -> None:
    choice = {"message": {"content": TEXT}, "finish_reason": "stop"}
    chunks = [delta(content=TEXT), delta("stop"), {"choices": [], **report}]
    for came in (whole("openai", {"choices": [choice], **report}), read("openai", *chunks)):
        usage = came.usage
        assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (11, 7, False)


def test_an_unread_event_without_a_choice_may_have_said_why_it_ended() -> None:
    events = [delta(content=WORDS[0]), {"choices": None, "meta": {"error": "overloaded"}}]
    assert event_of(read("openai", *events, ends=DONE)) != "answered"
