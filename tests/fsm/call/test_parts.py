"""Replies and turns in neutral parts."""

from __future__ import annotations

import pickle
from typing import Any

import attrs
import pytest

from rungwise import ConfigurationError, Message, OpaquePart, ReasoningPart, Reply, Request, TextPart, ToolCall
from rungwise.fsm.call.estimate import estimate_tokens

CALL = ToolCall("1", "look", "{}", {"signature": ["s"]}, "one")
PARTS = (ReasoningPart("hm", {"s": 1}, "one"), TextPart("a"), OpaquePart("one", [{"x": 1}]), TextPart("b"), CALL)


def test_a_reply_of_parts_has_their_text_reasoning_and_tool_calls() -> None:
    reply = Reply(parts=PARTS)
    assert (reply.text, reply.reasoning, reply.tool_calls, reply.parts) == ("ab", "hm", (CALL,), PARTS)
    assert attrs.evolve(reply, stop_reason="stop").parts == PARTS
    assert pickle.loads(pickle.dumps(reply)) == reply


def test_a_reply_of_text_has_parts() -> None:
    text = "x" * 10
    reply = Reply(text, reasoning="hm", tool_calls=(CALL,))
    assert reply.parts == (ReasoningPart("hm"), TextPart(text), CALL)
    assert reply == Reply(parts=[*reply.parts])
    assert Reply(parts=(TextPart(text),)).text is text
    assert Reply().parts == ()


@pytest.mark.parametrize("fields", [{"text": "c"}, {"reasoning": "c"}, {"tool_calls": [CALL, CALL]}, {"parts": ["a"]}])
def test_a_reply_that_says_two_things_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Reply(**{"parts": PARTS, **fields})


def test_a_turn_may_stand_among_messages_and_cannot_be_changed() -> None:
    block = {"x": [1]}
    turn = Message("assistant", [TextPart("secret"), OpaquePart("one", block)])
    block["x"].append(2)
    (kept,) = Request([turn]).messages
    assert kept == turn
    assert kept.parts[1] == OpaquePart("one", {"x": [1]})  # type: ignore[union-attr]
    assert pickle.loads(pickle.dumps(turn)) == turn
    assert "secret" not in repr(turn)
    assert isinstance(hash(turn), int)
    assert isinstance(hash(CALL), int)


@pytest.mark.parametrize(("role", "parts"), [("nobody", ()), ("user", ("a",))])
def test_a_turn_that_is_none_is_refused(role: Any, parts: Any) -> None:
    with pytest.raises(ConfigurationError):
        Message(role, parts)


def test_all_of_a_turn_counts_as_input() -> None:
    short, long = (Message("assistant", (OpaquePart("one", {"data": "x" * size}),)) for size in (30, 300))
    assert estimate_tokens([long]) - estimate_tokens([short]) == 90
