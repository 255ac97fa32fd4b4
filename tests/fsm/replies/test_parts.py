"""Replies and turns in neutral parts."""

import pickle
from typing import Any

import attrs
import pytest

from rungwise import ConfigurationError, Message, Result, TextPart, Tool, Toolbox, ToolCall, Usage
from rungwise.core import Call, OpaquePart, ReasoningPart, Reply, Request, Send
from rungwise.fsm.call.budget.estimate import estimate_tokens

CALL = ToolCall("1", "look", "{}", {"signature": ["s"]}, "one")
PARTS = (
    ReasoningPart("hm", {"s": 1}, "one"),
    TextPart("a"),
    OpaquePart("one", [{"x": 1}]),
    TextPart("b"),
    CALL,
)


def test_a_reply_of_parts_has_their_text_reasoning_and_tool_calls() -> None:
    reply = Reply(parts=PARTS)
    assert (reply.text, reply.reasoning, reply.tool_calls, reply.parts) == (
        "ab",
        "hm",
        (CALL,),
        PARTS,
    )
    assert attrs.evolve(reply, stop_reason="stop").parts == PARTS
    assert pickle.loads(pickle.dumps(reply)) == reply


def test_a_reply_of_text_has_parts() -> None:
    text = "x" * 10
    reply = Reply(text, reasoning="hm", tool_calls=(CALL,))
    assert reply.parts == (ReasoningPart("hm"), TextPart(text), CALL)
    assert reply == Reply(parts=[*reply.parts])
    assert Reply(parts=(TextPart(text),)).text is text
    assert Reply().parts == ()


@pytest.mark.parametrize(
    "fields", [{"text": "c"}, {"reasoning": "c"}, {"tool_calls": [CALL, CALL]}, {"parts": ["a"]}]
)
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
    short, long = (
        Message("assistant", (OpaquePart("one", {"data": "x" * size}),)) for size in (30, 300)
    )
    assert estimate_tokens([long]) - estimate_tokens([short]) == 90


class Block:
    """An object of a provider's own client."""

    def model_dump(self) -> dict[str, str]:
        return {"type": "text", "text": "Where?"}


def said(**fields: Any) -> list[dict[str, Any]]:
    return [{"role": "assistant", **fields}]


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        (said(content=5), "messages[0]['content'] must be a text or a list of blocks, not int"),
        (
            said(content={"Where?"}),
            "messages[0]['content'] must be a text or a list of blocks, not set",
        ),
        (
            said(content=b"Where?"),
            "messages[0]['content'] must be a text or a list of blocks, not bytes",
        ),
        (said(content=["Where?", 5]), "messages[0]['content'][1] must be a mapping, not int"),
        (
            said(content=[Block()]),
            "messages[0]['content'][0] must be a mapping, not Block: give its model_dump()",
        ),
        (said(parts=[None]), "messages[0]['parts'][0] must be a mapping, not NoneType"),
        (
            said(tool_calls=[Block()]),
            "messages[0]['tool_calls'][0] must be a mapping, not Block: give its model_dump()",
        ),
        (b"Where?", "messages must be a prompt or a list of messages, not bytes"),
        ({"Where?"}, "messages must be a prompt or a list of messages, not set"),
        (
            [Block()],
            "messages[0] must be a mapping with 'role' and 'content', not Block: give its "
            "model_dump()",
        ),
    ],
)
def test_what_no_protocol_can_read_is_refused_in_the_callers_words(
    messages: Any, told: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Request(messages)
    assert str(caught.value) == told


@pytest.mark.parametrize("tools", [len, [len], [Tool(len, name="len", parameters={})], Toolbox()])
def test_a_call_that_is_given_what_a_turn_runs_says_so(tools: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"a turn \(client\.turn\) runs them"):
        Request("Where?", tools=tools)


@pytest.mark.parametrize(
    "content",
    ["", None, "Where?", ["Where?"], ({"type": "text", "text": "Where?"},), {"text": "W"}],
)
def test_content_in_every_form_is_taken(content: Any) -> None:
    assert Request([{"role": "user", "content": content}]).messages[0]["content"] == content  # type: ignore[index]


# what a call hands out is frozen


CUT = Reply("In the reeds, and", stop_reason="length", usage=Usage(10, 5))


def handed_out() -> list[Any]:
    """Return a send, the result and the usage of a call whose reply is cut again and again."""
    call = Call(Request("Where does the bittern nest?"))
    send = call.begin(0.0)
    first = send
    while send is not None:
        send = call.receive(CUT)
    return [first, call.result, call.result.usage]


@pytest.mark.parametrize(
    ("place", "kind"), [(0, Send), (1, Result), (2, Usage)], ids=["send", "result", "usage"]
)
def test_what_a_call_hands_out_cannot_be_changed(place: int, kind: type) -> None:
    value = handed_out()[place]
    assert type(value) is kind
    for field in attrs.fields(kind):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(value, field.name, None)
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            delattr(value, field.name)
