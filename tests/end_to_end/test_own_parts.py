"""The contents of earlier turns: what one provider alone reads, or wants back as DeepSeek does, and
what all read.
"""

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from rungwise import Client, Message, TextPart, ToolCall
from rungwise.adapters.wires.chat.reasoned import STAND_IN
from rungwise.core import OpaquePart, ReasoningPart
from rungwise.testing import ReceivedRequest, ScriptedReply
from support.modes import ask, options_of
from support.plain import bad_request, user

ASKED = user("Where do herons nest?")
FOUND = {"role": "tool", "tool_call_id": "call_1", "content": "Three nests."}
DETAILS = [
    {
        "type": "reasoning.text",
        "text": "Herons like reeds.",
        "format": "v1",
        "index": 0,
        "signature": "c2ln",
    },
    {"type": "reasoning.encrypted", "data": "gAAA", "id": "r1", "index": 1},
    {"type": "reasoning.encrypted", "data": "gBBB", "id": "r2", "index": 1},
]
FUNCTION = {"name": "look", "arguments": '{"city": "Malmö"}'}
SIGNED = {
    "id": "call_1",
    "type": "function",
    "function": FUNCTION,
    "extra_content": {"google": {"signature": "s"}},
}
PLAIN = {"id": "call_1", "type": "function", "function": FUNCTION}
PORTABLE = {"role": "assistant", "content": "I look.", "tool_calls": [PLAIN]}
OWN = {**PORTABLE, "tool_calls": [SIGNED], "reasoning_details": DETAILS}
ANSWER = ScriptedReply("In the reeds, mostly.")
EVERY_MODE = pytest.mark.parametrize("mode", ["stream", "call", "whole"])


def deltas() -> list[dict[str, Any]]:
    text, encrypted, other = DETAILS
    pieces = [
        {
            **text,
            "text": piece,
            "signature": None,
        }
        for piece in ("Herons ", "like ", "reeds.")
    ]
    ends = {"type": text["type"], "index": 0, "signature": text["signature"]}
    opening = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "look", "arguments": ""},
    }
    arguments = [
        {"index": 0, "function": {"arguments": piece}} for piece in ('{"city": ', '"Malmö"}')
    ]
    return [
        *({"reasoning_details": [piece]} for piece in (*pieces, ends, encrypted, other)),
        *({"content": piece} for piece in ("I ", "look.")),
        *({"tool_calls": [call]} for call in (opening, *arguments)),
        {"tool_calls": [{"index": 0, "extra_content": SIGNED["extra_content"]}]},
    ]


def whole(message: Any) -> str:
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return json.dumps({"choices": [choice]})


def asks(request: ReceivedRequest) -> ScriptedReply:
    """Reason, say something and call a tool, each with what the provider wants back."""
    if not request.body.get("stream"):
        return ScriptedReply(body=whole(OWN))
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas()]
    chunks.append(
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {},
                    "finish_reason": "tool_calls",
                }
            ]
        }
    )
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return ScriptedReply(
        body="".join([*events, "data: [DONE]\n\n"]), headers={"content-type": "text/event-stream"}
    )


def sent(provider: Any) -> list[Any]:
    return [
        request.body["messages"][1]
        for request in provider.requests
        if len(request.body["messages"]) > 1
    ]


@EVERY_MODE
def test_it_goes_back_to_its_provider_word_for_word(serve: Any, backend_of: Any, mode: str) -> None:
    provider = serve(asks, ANSWER)
    with Client(backend_of(provider), **options_of(mode)) as client:
        first = ask(client, mode, [ASKED])
        assert ask(client, mode, [ASKED, first.message, FOUND]).text == "In the reeds, mostly."
    assert sent(provider) == [OWN]
    assert [type(part) for part in first.message.parts] == [
        ReasoningPart,
        OpaquePart,
        TextPart,
        ToolCall,
    ]
    assert (first.message.text, first.message.reasoning) == ("I look.", "Herons like reeds.")
    assert first.tool_calls == (ToolCall("call_1", "look", FUNCTION["arguments"]),)


@EVERY_MODE
def test_another_provider_gets_what_anyone_can_read(serve: Any, backend_of: Any, mode: str) -> None:
    with Client(backend_of(serve(asks)), **options_of(mode)) as client:
        turn = ask(client, mode, [ASKED]).message
    other = serve(ANSWER)
    with Client(backend_of(other)) as client:
        client.call([ASKED, turn, FOUND])
    with Client(backend_of(other, model="another")) as client:
        client.call([ASKED, turn, FOUND])
    assert sent(other) == [PORTABLE, PORTABLE]


def test_after_a_fallback_each_gets_its_own(serve: Any, backend_of: Any) -> None:
    down = serve(ScriptedReply(status=401))
    provider = serve(asks, ANSWER)
    with Client([backend_of(down), backend_of(provider, name="second")], health=None) as client:
        client.call([ASKED, client.call([ASKED]).message, FOUND])
    assert (sent(down), sent(provider)) == ([PORTABLE], [OWN])


def test_a_provider_that_rejects_its_own_signature_gets_none(serve: Any, backend_of: Any) -> None:
    provider = serve(asks, bad_request("Corrupted thought signature."), ANSWER)
    with Client(backend_of(provider)) as client:
        client.call([ASKED, client.call([ASKED]).message, FOUND])
    assert sent(provider) == [OWN, PORTABLE]


@pytest.mark.parametrize("thought", ["Herons like reeds.", ""])
def test_a_provider_that_wants_plain_reasoning_back_gets_that(
    serve: Any, backend_of: Any, thought: str
) -> None:
    provider = serve(
        ScriptedReply("I look.", reasoning=thought),
        bad_request(WANTED),
        ANSWER,
    )
    with Client(backend_of(provider)) as client:
        client.call([ASKED, client.call([ASKED]).message, user("And?")])
    message = {"role": "assistant", "content": "I look."}
    assert sent(provider) == [message, {**message, "reasoning_content": thought or STAND_IN}]


def test_messages_and_copies_of_results_hold_no_parts_of_the_provider(
    serve: Any, backend_of: Any
) -> None:
    with Client(backend_of(serve(asks))) as client:
        result = client.call([ASKED])
    for each in (result, pickle.loads(pickle.dumps(result))):
        assert each.plain_message == PORTABLE
        assert each.plain_message_with_reasoning == {
            **PORTABLE,
            "reasoning_content": "Herons like reeds.",
        }
        assert each.message.parts[1].block == {"reasoning_details": DETAILS}


def test_what_is_nested_too_deeply_to_go_back_does_not_break_the_reply(
    serve: Any, backend_of: Any
) -> None:
    deep: list[Any] = []
    for _ in range(250):
        deep = [deep]
    message = {
        **OWN,
        "reasoning_details": deep,
        "tool_calls": [{**PLAIN, "extra_content": {"x": deep}}],
    }
    provider = serve(ScriptedReply(body=whole(message)), ANSWER)
    with Client(backend_of(provider)) as client:
        client.call([ASKED, client.call([ASKED]).message, FOUND])
    assert sent(provider) == [PORTABLE]


def test_text_of_several_replies_goes_back_as_one_turn(serve: Any, backend_of: Any) -> None:
    provider = serve(ScriptedReply("In the reeds, ", finish="length"), ScriptedReply("mostly."))
    with Client(backend_of(provider)) as client:
        assert client.call([ASKED]).message == Message.saying("assistant", "In the reeds, mostly.")


# reasoning that a provider wants back, as DeepSeek and Kimi do in a tool loop


THOUGHT = "Herons like shallow water and reeds."
WANTED = "The `reasoning_content` in the thinking mode must be passed back to the API."
DOWN = ScriptedReply(status=401)

FIELDS = pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"reasoning_content": THOUGHT}, THOUGHT),
        ({"reasoning": THOUGHT}, THOUGHT),
        ({"reasoning_text": THOUGHT}, THOUGHT),
        (
            {
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "text": THOUGHT,
                        "signature": "s",
                    }
                ]
            },
            THOUGHT,
        ),
        (
            {
                "thinking_blocks": [
                    {
                        "type": "thinking",
                        "thinking": THOUGHT,
                        "signature": "s",
                    }
                ]
            },
            THOUGHT,
        ),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": THOUGHT},
                    {"type": "text", "text": "I look."},
                ]
            },
            THOUGHT,
        ),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAA"}]}, STAND_IN),
        ({"reasoning_content": ""}, STAND_IN),
        ({}, STAND_IN),
    ],
)


def conversation(given: dict[str, Any]) -> list[Any]:
    return [
        user("Where do herons nest?"),
        {"role": "assistant", "content": None, "tool_calls": [PLAIN], **given},
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": "Three nests were seen.",
        },
    ]


def deepseek(answer: ScriptedReply = ANSWER) -> Callable[[ReceivedRequest], ScriptedReply]:
    """Reject a conversation in which the reasoning of an assistant turn is missing."""

    def reply(request: ReceivedRequest) -> ScriptedReply:
        turns = [message for message in request.body["messages"] if message["role"] == "assistant"]
        if all(turn.get("reasoning_content") for turn in turns):
            return answer
        return bad_request(WANTED, code="invalid_request_error")

    return reply


def given_back(request: ReceivedRequest) -> list[Any]:
    return [
        turn.get("reasoning_content")
        for turn in request.body["messages"]
        if turn["role"] == "assistant"
    ]


@FIELDS
@pytest.mark.parametrize("mode", ["call", "stream"])
def test_it_is_given_back(
    serve: Any,
    backend_of: Any,
    given: Any,
    wanted: str,
    mode: str,
) -> None:
    provider = serve(deepseek())
    with Client(backend_of(provider)) as client:
        messages = conversation(given)
        result = ask(client, mode, messages)
    assert result.text == "In the reeds, mostly."
    assert given_back(provider.requests[-1]) == [wanted]
    assert len(provider.requests) == (1 if given.get("reasoning_content") else 2)
    assert messages == conversation(given)


@FIELDS
def test_it_is_given_back_after_a_switch_of_backend(run: Any, given: Any, wanted: str) -> None:
    messages = conversation({**given, "content": None})  # that `run` compares
    wanted = STAND_IN if "content" in given else wanted
    ended = run([DOWN], [deepseek()], messages=messages)
    ended.was("done", path="fallback repair done", waits=[])
    assert [given_back(request) for request in ended.by_backend[1]] == [[None], [wanted]]
    last = ended.bodies[-1]["messages"][1]
    assert last["tool_calls"] == [PLAIN]
    assert not {"reasoning", "reasoning_text", "reasoning_details", "thinking_blocks"} & last.keys()


def test_a_provider_that_then_rejects_the_field_gets_none(serve: Any, backend_of: Any) -> None:
    rejected = bad_request("property 'reasoning_content' is unsupported")
    provider = serve(bad_request(WANTED), rejected, ANSWER)
    with Client(backend_of(provider)) as client:
        assert client.call(conversation({})).text == "In the reeds, mostly."
    assert [given_back(request) for request in provider.requests] == [[None], [STAND_IN], [None]]


def test_the_fallback_gets_none_unless_it_asks_for_it_too(run: Any) -> None:
    ended = run(
        [DOWN],
        [bad_request(WANTED)],
        [ANSWER],
        messages=conversation({}),
    )
    ended.was("done", counts=[1, 2, 1])
    assert [given_back(request) for request in ended.requests] == [
        [None],
        [None],
        [STAND_IN],
        [None],
    ]


@pytest.mark.parametrize(
    ("kind", "reasoning", "requests"),
    [("plain_message", STAND_IN, 3), ("plain_message_with_reasoning", THOUGHT, 2)],
)
def test_a_tool_loop_works_with_the_plain_message_and_at_once_with_the_reasoning(
    serve: Any, backend_of: Any, kind: str, reasoning: str, requests: int
) -> None:
    asks = ScriptedReply(reasoning=THOUGHT, tool_calls=(ToolCall("call_1", "look", "{}"),))
    provider = serve(asks, deepseek(), deepseek())
    with Client(backend_of(provider)) as client:
        message = getattr(client.call([ASKED]), kind)
        assert client.call([ASKED, message, FOUND]).text == "In the reeds, mostly."
    assert given_back(provider.requests[-1]) == [reasoning]
    assert len(provider.requests) == requests
