"""The provider answers as it should."""

from typing import Any

import pytest

from rungwise import Client, Result, ToolCall
from rungwise.core import Request
from rungwise.testing import Clocks, ScriptedReply
from support.modes import ask

ODD_ARGUMENTS = '{"city" :  "Malmö 🪜",\n "n": 1e3, "deep": {"a": [1, 2, "]}"]}}'
CALLS = (
    ToolCall("call_a", "look", ODD_ARGUMENTS),
    ToolCall("call_b", "note", '{"text": "two  blanks"}'),
)
TOOLS = [
    {
        "type": "function",
        "function": {"name": "now", "parameters": {"type": "object", "properties": {}}},
    },
    {
        "type": "function",
        "function": {
            "name": "look",
            "parameters": {
                "type": "object",
                "required": ["city"],
                "properties": {},
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "note", "parameters": {"type": "object", "properties": {"text": {}}}},
    },
]


def test_a_call_without_arguments_of_a_tool_that_requires_none_is_whole(run: Any) -> None:
    ended = run([ScriptedReply(tool_calls=[ToolCall("call_a", "now", "")])], tools=TOOLS)
    ended.was("done")
    assert [(call.name, call.arguments.strip() or "{}") for call in ended.result.tool_calls] == [
        ("now", "{}")
    ]


def test_text_beside_tool_calls_that_arrives_byte_by_byte_is_read_like_any_other(run: Any) -> None:
    text = "Grüße 🪜 aus dem Schilf."
    reply = ScriptedReply(
        text=text, reasoning="hm", tool_calls=CALLS, chunk_size=3, write_sizes=(1,)
    )
    ended = run([reply], tools=TOOLS)
    ended.was("done", text, tool_calls=CALLS, counts=[1], added=[[]], caps=[None])
    assert ended.bodies[0]["tools"] == TOOLS
    assert ended.result.plain_message["content"] == text


@pytest.mark.parametrize(
    "field", ["reasoning_content", "reasoning", "reasoning_text", "reasoning_details"]
)
def test_reasoning_in_a_field_of_its_own_is_no_text(run: Any, field: Any) -> None:
    ended = run(
        [ScriptedReply(text="In the reeds.", reasoning="Herons like reeds.", reasoning_field=field)]
    )
    ended.was("done", "In the reeds.", reasoning="Herons like reeds.")


@pytest.mark.parametrize("size", [1, 5, 200])
@pytest.mark.parametrize("tag", ["think", "thinking", "reasoning"])
def test_reasoning_in_inline_tags_is_no_text(run: Any, tag: str, size: int) -> None:
    ended = run(
        [
            ScriptedReply(
                text=f"<{tag}>Herons like reeds.</{tag}>In the <b>reeds</b>.", chunk_size=size
            )
        ]
    )
    ended.was("done", "In the <b>reeds</b>.", reasoning="Herons like reeds.")


def test_a_stream_that_ends_without_its_done_mark_is_whole_if_it_named_its_finish(run: Any) -> None:
    run([ScriptedReply(text="In the reeds.", done=False)]).was("done", "In the reeds.", counts=[1])


def test_what_the_caller_adds_reaches_the_wire(run: Any) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    messages = [
        {"role": "system", "content": "Answer in one sentence."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "What is on this picture?"}, picture],
        },
    ]
    ended = run(
        [ScriptedReply(text="A heron in the reeds.")],
        messages=messages,
        parameters={"temperature": 0.25, "metadata": {"trip": "north"}},
        headers={"x-trip": "north"},
        max_tokens=321,
        backends=[{"headers": {"x-team": "birds"}, "parameters": {"top_p": 0.5, "temperature": 1}}],
    )
    (request,) = ended.requests
    assert request.body["messages"] == messages
    assert request.body["temperature"] == 0.25
    assert request.body["metadata"] == {"trip": "north"}
    assert request.body["top_p"] == 0.5
    assert request.body["max_tokens"] == 321
    assert request.headers["x-trip"] == "north"
    assert request.headers["x-team"] == "birds"


def test_a_lone_surrogate_in_a_message_is_repaired_before_sending(
    serve: Any, backend_of: Any, mode: str
) -> None:
    messages = [{"role": "user", "content": "half a bird: \ud83e."}]
    provider = serve(ScriptedReply(text="A heron."))
    with Client(backend_of(provider)) as client:
        assert ask(client, mode, messages).text == "A heron."
    assert provider.requests[0].body["messages"] == [
        {"role": "user", "content": "half a bird: \ufffd."}
    ]
    assert messages == [{"role": "user", "content": "half a bird: \ud83e."}]


@pytest.mark.parametrize("kind", ["prompt", "list", "tuple", "generator", "request"])
def test_messages_may_come_in_several_forms(serve: Any, backend_of: Any, kind: str) -> None:
    messages = [{"role": "user", "content": "Where?"}]
    forms = {
        "prompt": "Where?",
        "list": messages,
        "tuple": tuple(messages),
        "generator": (message for message in messages),
        "request": Request("Where?"),
    }
    provider = serve(ScriptedReply(), ScriptedReply(text="In the reeds."))
    with Client(backend_of(provider), testing=Clocks(sleep=lambda seconds: None)) as client:
        assert client.call(forms[kind]).text == "In the reeds."
    assert [request.body["messages"] for request in provider.requests] == [messages, messages]


def test_streams_that_are_read_in_turns_do_not_mix(serve: Any, backend_of: Any) -> None:
    def answer(request: Any) -> ScriptedReply:
        prompt, *more = (message["content"] for message in request.body["messages"])
        return (
            ScriptedReply(text=f"{prompt} ends.")
            if more
            else ScriptedReply(text=f"{prompt} begins, ", finish="length")
        )

    provider = serve(answer)
    with Client(backend_of(provider)) as client:
        streams = [client.stream(f"number {number}") for number in range(3)]
        events: list[list[Any]] = [[], [], []]
        while any(more := [next(stream, None) for stream in streams]):
            for own, event in zip(events, more, strict=True):
                own.append(event)
    texts = [next(event.text for event in own if isinstance(event, Result)) for own in events]
    assert texts == [f"number {number} begins, number {number} ends." for number in range(3)]
