"""The provider wants the reasoning of earlier turns back, as DeepSeek and Kimi do in a tool loop."""

from collections.abc import Callable
from typing import Any

import pytest

from rungwise import Client
from rungwise.adapters.wires.chat.request import STAND_IN
from rungwise.testing import ReceivedRequest, ScriptedReply

THOUGHT = "Herons like shallow water and reeds."
WANTED = "The `reasoning_content` in the thinking mode must be passed back to the API."
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"city": "Malmö"}'}}
ANSWER = ScriptedReply(text="In the reeds, mostly.")
DOWN = ScriptedReply(status=401)

FIELDS = pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"reasoning_content": THOUGHT}, THOUGHT),
        ({"reasoning": THOUGHT}, THOUGHT),
        ({"reasoning_text": THOUGHT}, THOUGHT),
        ({"reasoning_details": [{"type": "reasoning.text", "text": THOUGHT, "signature": "s"}]}, THOUGHT),
        ({"thinking_blocks": [{"type": "thinking", "thinking": THOUGHT, "signature": "s"}]}, THOUGHT),
        ({"content": [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": "I look."}]}, THOUGHT),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAA"}]}, STAND_IN),
        ({"reasoning_content": ""}, STAND_IN),
        ({}, STAND_IN),
    ],
)


def conversation(given: dict[str, Any]) -> list[Any]:
    return [
        {"role": "user", "content": "Where do herons nest?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL], **given},
        {"role": "tool", "tool_call_id": "call_1", "content": "Three nests were seen."},
    ]


def deepseek(answer: ScriptedReply = ANSWER) -> Callable[[ReceivedRequest], ScriptedReply]:
    """Reject a conversation in which the reasoning of an assistant turn is missing."""

    def reply(request: ReceivedRequest) -> ScriptedReply:
        turns = [message for message in request.body["messages"] if message["role"] == "assistant"]
        if all(turn.get("reasoning_content") for turn in turns):
            return answer
        return ScriptedReply(status=400, error={"message": WANTED, "code": "invalid_request_error"})

    return reply


def sent(request: ReceivedRequest) -> list[Any]:
    return [turn.get("reasoning_content") for turn in request.body["messages"] if turn["role"] == "assistant"]


@FIELDS
@pytest.mark.parametrize("streams", [False, True])
def test_it_is_given_back(serve: Any, backend_of: Any, given: dict[str, Any], wanted: str, streams: bool) -> None:
    provider = serve(deepseek())
    with Client(backend_of(provider)) as client:
        messages = conversation(given)
        result = list(client.stream(messages))[-1] if streams else client.call(messages)
    assert result.text == "In the reeds, mostly."
    assert sent(provider.requests[-1]) == [wanted]
    assert len(provider.requests) == (1 if given.get("reasoning_content") else 2)
    assert messages == conversation(given)


@FIELDS
def test_it_is_given_back_after_a_switch_of_backend(run: Any, given: dict[str, Any], wanted: str) -> None:
    messages = conversation({**given, "content": None})  # that `run` compares
    wanted = STAND_IN if "content" in given else wanted
    ended = run([DOWN], [deepseek()], messages=messages)
    ended.was("done", path="fallback repair done", waits=[])
    assert [sent(request) for request in ended.by_backend[1]] == [[None], [wanted]]
    last = ended.bodies[-1]["messages"][1]
    assert last["tool_calls"] == [CALL]
    assert not {"reasoning", "reasoning_text", "reasoning_details", "thinking_blocks"} & last.keys()


def test_it_is_given_back_once_and_not_for_ever(serve: Any, backend_of: Any) -> None:
    rejected = ScriptedReply(status=400, error={"message": WANTED})
    provider = serve(rejected)
    with Client(backend_of(provider)) as client, pytest.raises(Exception, match="reasoning_missing"):
        client.call(conversation({}))
    assert len(provider.requests) == 2


def test_a_provider_that_then_rejects_the_field_gets_none(serve: Any, backend_of: Any) -> None:
    rejected = ScriptedReply(status=400, error={"message": "property 'reasoning_content' is unsupported"})
    provider = serve(ScriptedReply(status=400, error={"message": WANTED}), rejected, ANSWER)
    with Client(backend_of(provider)) as client:
        assert client.call(conversation({})).text == "In the reeds, mostly."
    assert [sent(request) for request in provider.requests] == [[None], [STAND_IN], [None]]


def test_the_fallback_gets_none_unless_it_asks_for_it_too(run: Any) -> None:
    ended = run([DOWN], [ScriptedReply(status=400, error={"message": WANTED})], [ANSWER], messages=conversation({}))
    ended.was("done", counts=[1, 2, 1])
    assert [sent(request) for request in ended.requests] == [[None], [None], [STAND_IN], [None]]


def test_a_tool_loop_works_with_the_plain_message_and_at_once_with_the_reasoning(serve: Any, backend_of: Any) -> None:
    asks = ScriptedReply(reasoning=THOUGHT, tool_calls=({"id": "call_1", "name": "look", "arguments": "{}"},))
    for property_name, reasoning in (("plain_message", STAND_IN), ("plain_message_with_reasoning", THOUGHT)):
        provider = serve(asks, deepseek())
        if property_name == "plain_message":
            provider = serve(asks, deepseek(), deepseek())
        with Client(backend_of(provider)) as client:
            messages: list[Any] = [{"role": "user", "content": "Where do herons nest?"}]
            first = client.call(messages)
            messages += [
                getattr(first, property_name),
                {"role": "tool", "tool_call_id": "call_1", "content": "Three nests."},
            ]
            assert client.call(messages).text == "In the reeds, mostly."
        assert sent(provider.requests[-1]) == [reasoning]
        assert len(provider.requests) == (3 if property_name == "plain_message" else 2)
