"""What goes out as Responses: by OpenAI's own types, and word for word what its models want
back.
"""

from typing import Any

import pytest

from rungwise import (
    Capabilities,
    MediaPart,
    Message,
    OpenAIResponses,
    TextPart,
    ToolCall,
    ToolResult,
)
from rungwise.adapters.wires.responses.items import parts_of_items
from rungwise.core import OpaquePart, ReasoningPart
from support import official
from support.protocols import body_of, chat_call

URL = "http://localhost/v1"
BACKEND: Any = OpenAIResponses("gpt-5", base_url=URL)
OWN = BACKEND.provider
USER = {"type": "message", "role": "user", "content": "Where?"}
SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "x"},
}
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "I look."}],
    "encrypted_content": "gAAAA==",
}
SAID = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [
        {
            "type": "output_text",
            "text": "I look.",
            "annotations": [
                {
                    "type": "url_citation",
                    "url": "https://e.org",
                    "title": "E",
                    "start_index": 0,
                    "end_index": 1,
                }
            ],
        }
    ],
}
CALLED = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "c1",
    "name": "f",
    "arguments": "{}",
}
FREE = {
    "id": "ct_1",
    "type": "custom_tool_call",
    "call_id": "c2",
    "name": "g",
    "input": 'say "hi"',
}
OUTPUT = [THOUGHT, SEARCH, SAID, CALLED, FREE]
RESULTS = Message("tool", (ToolResult("c1", "f", "one"), ToolResult("c2", "g", "two")))
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "one"}
BARE_SAID = {"type": "message", "role": "assistant", "content": "I look."}
BARE_CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}


def sent(*messages: Any, backend: OpenAIResponses = BACKEND, **options: Any) -> dict[str, Any]:
    """Return the body of a request, which must be what OpenAI's own types say."""
    body: dict[str, Any] = body_of(backend, *(messages or (USER,)), **options)
    official.check("responses", body)
    return body


def test_a_prompt() -> None:
    assert sent() == {
        "model": "gpt-5",
        "input": [USER],
        "stream": False,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


@pytest.mark.parametrize(
    ("model", "options", "is_asked"),
    [
        ("gpt-5", {}, True),
        ("openai/o4-mini", {}, True),
        ("gpt-5-chat-latest", {}, False),
        ("gpt-4.1", {}, False),
        ("grok-4", {}, True),
        ("gpt-4.1", {"capabilities": Capabilities(reasoning=True)}, True),
        ("gpt-5", {"capabilities": Capabilities(reasoning=False)}, False),
        ("gpt-5", {"parameters": {"store": True}}, False),
    ],
)
def test_encrypted_reasoning_is_requested_if_nothing_is_stored(
    model: str, options: Any, is_asked: bool
) -> None:
    body = sent(backend=OpenAIResponses(model, base_url=URL, **options))
    assert ("include" in body) is is_asked


def test_what_the_caller_includes_stays() -> None:
    asked = ["message.output_text.logprobs"]
    assert sent(parameters={"include": asked})["include"] == [*asked, "reasoning.encrypted_content"]


def test_the_parts_of_a_turn_go_back_word_for_word_to_their_own_model() -> None:
    parts, _ = parts_of_items(OUTPUT, OWN)
    body = sent(USER, Message("assistant", parts), RESULTS)
    free = {"type": "custom_tool_call_output", "call_id": "c2", "output": "two"}
    assert body["input"] == [USER, *OUTPUT, RESULT, free]


@pytest.mark.parametrize(
    ("provider", "options"),
    [
        ("api.openai.com/gpt-4/responses", {}),
        (OWN, {"unsigned": True, "portable": True}),
    ],
)
def test_nobody_else_is_sent_what_only_their_model_can_read(provider: str, options: Any) -> None:
    parts, _ = parts_of_items(OUTPUT, provider)
    body = sent(USER, Message("assistant", parts), RESULTS, **options)
    free = {
        "type": "function_call",
        "call_id": "c2",
        "name": "g",
        "arguments": '{"input":"say \\"hi\\""}',
    }
    second = {"type": "function_call_output", "call_id": "c2", "output": "two"}
    assert body["input"] == [USER, BARE_SAID, BARE_CALL, free, RESULT, second]


def test_a_fallback_to_the_very_same_model_is_sent_its_own_items() -> None:
    parts, _ = parts_of_items(OUTPUT, OWN)
    body = sent(USER, Message("assistant", parts), RESULTS, portable=True)
    assert body["input"][1:6] == OUTPUT


@pytest.mark.parametrize("items", [[THOUGHT], [SAID, THOUGHT], [THOUGHT, THOUGHT]])
def test_reasoning_that_nothing_follows_is_left_out(items: list[Any]) -> None:
    parts, _ = parts_of_items(items, OWN)
    body = sent(USER, Message("assistant", parts), USER)
    assert "reasoning" not in [item.get("type") for item in body["input"]]


def test_reasoning_by_its_id_alone_is_left_out_where_nothing_is_stored() -> None:
    bare = {name: value for name, value in THOUGHT.items() if name != "encrypted_content"}
    parts, _ = parts_of_items([bare, SAID], OWN)
    messages = [USER, Message("assistant", parts), USER]
    assert sent(*messages)["input"] == [USER, SAID, USER]
    assert sent(*messages, parameters={"store": True})["input"] == [USER, bare, SAID, USER]


def test_reasoning_that_did_not_come_to_its_end_is_not_sent_back() -> None:
    parts, _ = parts_of_items([{**THOUGHT, "status": "incomplete"}, SAID], OWN)
    assert parts[0] == ReasoningPart("I look.")
    assert sent(USER, Message("assistant", parts), USER)["input"] == [USER, SAID, USER]


def test_text_that_was_changed_is_a_message_of_its_own() -> None:
    parts, _ = parts_of_items([SAID], OWN)
    body = sent(USER, Message("assistant", (*parts, TextPart(" And on."))), USER)
    assert body["input"][1] == {**BARE_SAID, "content": "I look. And on."}


def test_items_of_the_callers_own_go_out_as_they_are() -> None:
    items = [
        {"type": "message", "role": "developer", "content": "Be brief."},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Where?"}],
        },
        *OUTPUT,
        RESULT,
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "two"},
    ]
    assert sent(*items)["input"] == items


def test_items_lose_signatures_where_they_may_be_anothers() -> None:
    body = sent(USER, THOUGHT, SAID, CALLED, RESULT, portable=True)
    assert body["input"][1:3] == [BARE_SAID, BARE_CALL]


def test_messages_of_any_form_become_items() -> None:
    long_id = "x" * 80
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "https://e.org/a.png", "detail": "low"}},
        {"type": "image", "source": source},
    ]
    answer = {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Hm.",
        "tool_calls": [chat_call(long_id, "f", '{"a": 1}')],
    }
    _, user, said, call, result = sent(
        USER,
        {"role": "user", "name": "ann", "content": parts},
        answer,
        {"role": "tool", "tool_call_id": long_id, "content": "one"},
    )["input"]
    short_id = call["call_id"]
    assert len(short_id) <= 64
    data_url = "data:image/png;base64,aGk="
    content = [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": "https://e.org/a.png", "detail": "low"},
        {"type": "input_image", "image_url": data_url, "detail": "auto"},
    ]
    assert user == {"type": "message", "role": "user", "content": content}
    assert said == BARE_SAID
    assert call == {**BARE_CALL, "call_id": short_id, "arguments": '{"a": 1}'}
    assert result == {**RESULT, "call_id": short_id}


def test_files_and_what_has_no_place() -> None:
    parts = (
        MediaPart(
            "file",
            data="aGk=",
            media_type="application/pdf",
            name="a.pdf",
        ),
        MediaPart("file", url="https://e.org/a.pdf"),
        MediaPart("audio", data="aGk=", media_type="audio/wav"),
    )
    assert sent(Message("user", parts))["input"][0]["content"] == [
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,aGk=",
        },
        {"type": "input_file", "file_url": "https://e.org/a.pdf"},
        {"type": "input_text", "text": "(audio: audio/wav)"},
    ]


def test_a_tool_may_return_a_picture() -> None:
    result = ToolResult("c1", "f", "Here:", media=(MediaPart("image", url="https://e.org/a.png"),))
    body = sent(
        USER, Message("assistant", (ToolCall("c1", "f", "{}"),)), Message("tool", (result,))
    )
    assert body["input"][-1]["output"] == [
        {"type": "input_text", "text": "Here:"},
        {
            "type": "input_image",
            "image_url": "https://e.org/a.png",
            "detail": "auto",
        },
    ]


# tools


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


FUNCTION = {"name": "f", "parameters": SCHEMA}
WRITTEN = {"type": "function", "description": "", **FUNCTION}
GRAMMAR = {"syntax": "regex", "definition": "a+"}
GRAMMAR_INSIDE = {"type": "grammar", "grammar": GRAMMAR}


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        (
            {"type": "function", "function": {**FUNCTION, "description": "d"}},
            {**WRITTEN, "description": "d", "strict": False},
        ),
        (
            {"type": "function", "function": {**FUNCTION, "strict": True}},
            {**WRITTEN, "strict": True},
        ),
        ({"name": "f", "input_schema": SCHEMA}, {**WRITTEN, "strict": False}),
        (
            {"type": "custom", "custom": {"name": "g", "format": GRAMMAR_INSIDE}},
            {"type": "custom", "name": "g", "format": {"type": "grammar", **GRAMMAR}},
        ),
        *(
            (tool, tool)
            for tool in (
                {"type": "web_search"},
                {"type": "custom", "name": "g"},
                {"type": "function", **FUNCTION, "strict": None},
            )
        ),
    ],
)
def test_tools_keep_their_meaning(tool: dict[str, Any], expected: dict[str, Any]) -> None:
    assert sent(tools=[tool])["tools"] == [expected]


def test_what_another_provider_runs_by_itself_is_left_out() -> None:
    given = [{"type": "web_search_20250305", "name": "web_search"}, {"type": "web_search"}]
    assert sent(tools=given)["tools"] == [{"type": "web_search"}]


# parameters


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"reasoning_effort": "low", "reasoning": {"summary": "auto"}},
            {"reasoning": {"effort": "low", "summary": "auto"}},
        ),
        (
            {"reasoning_effort": "low", "reasoning": {"effort": "high"}},
            {"reasoning": {"effort": "high"}},
        ),
        (
            {"response_format": {"type": "json_object"}, "text": {"verbosity": "low"}},
            {"text": {"verbosity": "low", "format": {"type": "json_object"}}},
        ),
        (
            {"service_tier": "flex", "metadata": {"a": "b"}, "parallel_tool_calls": False},
            {"service_tier": "flex", "metadata": {"a": "b"}, "parallel_tool_calls": False},
        ),
    ],
)
def test_parameters_are_translated_and_own_ones_pass(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    plain = sent()
    assert {
        name: value for name, value in sent(parameters=given).items() if name not in plain
    } == expected


def test_what_is_lost_is_named() -> None:
    lost = OpenAIResponses.lost_parameters(
        {
            "stop": ["x"],
            "seed": 0,
            "temperature": 1,
        }
    )
    assert lost.keys() == {"stop", "seed"}
    assert OpenAIResponses.lost_parameters({"stop": None}) == {}


@pytest.mark.parametrize(
    ("model", "given", "lowered"),
    [
        ("gpt-5", {"reasoning_effort": "high"}, "low"),
        ("gpt-5", {"reasoning": {"effort": "low"}}, "minimal"),
        ("gpt-5.1", {"reasoning": {"effort": "low"}}, "none"),
        ("o3", {"reasoning": {"effort": "low"}}, "low"),
        ("o3", {}, "low"),
        ("gpt-4.1", {}, None),
        ("grok-4", {}, None),
    ],
)
def test_reasoning_is_lowered_where_it_was_on(
    model: str, given: dict[str, Any], lowered: str | None
) -> None:
    body = sent(
        backend=OpenAIResponses(model, base_url=URL), parameters=given, lower_reasoning=True
    )
    assert body.get("reasoning", {}).get("effort") == lowered


def test_the_options_of_streams_go_out_with_streams_alone() -> None:
    given = {"stream_options": {"include_obfuscation": False}}
    assert sent(parameters=given, stream=True)["stream_options"] == given["stream_options"]
    assert "stream_options" not in sent(parameters=given)


# what goes on from a stored response


@pytest.mark.parametrize("name", ["previous_response_id", "conversation"])
def test_what_goes_on_from_a_stored_response_is_stored_and_says_what_is_new(name: str) -> None:
    result = {
        "type": "function_call_output",
        "call_id": "c1",
        "output": "one",
    }
    for message in (
        result,
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "one",
        },
    ):
        body = sent(message, parameters={name: "resp_1"})
        assert body[name] == "resp_1"
        assert body["input"] == [result]
        assert "store" not in body
        assert "include" not in body


def test_the_callers_word_on_storing_counts() -> None:
    body = sent(parameters={"previous_response_id": "resp_1", "store": False})
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert sent(parameters={"store": True})["store"] is True


@pytest.mark.parametrize(
    "block", [{}, {"type": "message"}, {"type": "message", "content": 1}, [1], "x", {"type": 5}]
)
def test_an_own_part_of_any_shape_can_be_written(block: Any) -> None:
    items = body_of(
        BACKEND, USER, Message("assistant", (OpaquePart(OWN, block), TextPart("a"))), USER
    )["input"]
    assert {"type": "message", "role": "assistant", "content": "a"} in items
