"""A turn that its provider has paused goes on with the provider's own blocks."""

from typing import Any

import pytest

import rungwise
from rungwise import Hints, Message, Policy, TextPart, ToolCall
from rungwise.core import Call, Failure, OpaquePart, PlainLink, ReasoningPart, Reply, Request, Send

SEARCH, FOUND = OpaquePart("p/m", {"type": "search"}), OpaquePart("p/m", {"type": "found"})
CALL = ToolCall("1", "look", "{}")
ASKED = {"role": "user", "content": "Where?"}


def paused(*parts: Any) -> Reply:
    return Reply(parts=parts, stop_reason="paused", stop_raw="pause_turn")


def cut(text: str) -> Reply:
    return Reply(text, stop_reason="length")


def played(
    *replies: Reply | Failure, chain: int = 1, **options: Any
) -> tuple[list[Send], rungwise.Result]:
    """Play a call and return what was sent, and its end."""
    links = tuple(PlainLink(f"link{index}") for index in range(chain))
    policy = Policy(limits=rungwise.Limits(continuations=4))
    call = Call(Request([ASKED], **options), policy, links)
    script = list(replies)
    sends = []
    send = call.begin(0.0)
    while send is not None:
        sends.append(send)
        send = call.receive(script.pop(0), 0.1)
    assert not script
    return sends, call.result


def added(send: Send) -> list[Any]:
    return [*send.messages[1:]]


def test_text_that_is_cut_after_a_pause_follows_its_blocks() -> None:
    sends, result = played(
        paused(SEARCH),
        cut("The first half, "),
        Reply("the second half, ", interrupted=True),
        paused(FOUND),
        Reply("the end.", stop_reason="stop"),
    )
    turn, asked_on = added(sends[2])
    assert turn == Message("assistant", (SEARCH, TextPart("The first half, ")))
    assert (asked_on.role, asked_on.text) == ("user", Hints().continuation)
    halves = (TextPart("The first half, "), TextPart("the second half, "))
    assert added(sends[3])[0] == Message("assistant", (SEARCH, *halves))
    assert added(sends[4]) == [Message("assistant", (SEARCH, *halves, FOUND))]
    assert result.message.parts == (SEARCH, *halves, FOUND, TextPart("the end."))
    assert result.text == "The first half, the second half, the end."


def test_tool_calls_that_end_a_paused_turn_stand_at_its_end() -> None:
    _, result = played(paused(SEARCH), Reply(parts=(FOUND, CALL), stop_reason="tool_calls"))
    assert result.message.parts == (SEARCH, FOUND, CALL)
    assert result.message.tool_calls == result.tool_calls == (CALL,)


REPEATED = "Herons nest in tall trees, and in reeds."


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        ((TextPart(REPEATED), CALL), (CALL,)),
        ((TextPart(f"{REPEATED} So"), CALL), (TextPart(" So"), CALL)),
        ((ReasoningPart("Hm."), TextPart(REPEATED), CALL), (ReasoningPart("Hm."), CALL)),
    ],
)
def test_what_was_said_before_a_pause_is_not_said_twice_behind_it(parts: Any, left: Any) -> None:
    _, result = played(
        paused(TextPart(REPEATED), SEARCH), Reply(parts=parts, stop_reason="tool_calls")
    )
    assert result.message.parts == (TextPart(REPEATED), SEARCH, *left)
    assert result.message.text == result.text


def test_half_a_tool_call_after_a_pause_is_never_a_part_of_the_turn() -> None:
    half = ToolCall("1", "look", '{"a')
    sends, result = played(
        paused(SEARCH),
        Reply(parts=(TextPart("So "), half), stop_reason="length"),
        Reply("There.", stop_reason="stop"),
    )
    assert not any(message.tool_calls for send in sends for message in added(send))
    assert result.message.parts == (SEARCH, TextPart("There."))


def test_a_turn_that_stays_paused_is_partial_with_its_blocks() -> None:
    _, result = played(*[paused(TextPart("More, "), SEARCH)] * 5)
    assert result.outcome == "partial"
    assert result.message.parts == (TextPart("More, "), SEARCH) * 5


@pytest.mark.parametrize("is_early", [True, False])
def test_a_nudge_stands_where_it_was_given(is_early: bool) -> None:
    nothing = Reply(stop_reason="stop")
    tool = {"role": "tool", "tool_call_id": "1", "content": "found"}
    replies = [nothing, paused(SEARCH)] if is_early else [paused(SEARCH), nothing]
    links = (PlainLink(),)
    call = Call(Request([ASKED, tool]), Policy(), links)
    call.begin(0.0)
    sends = [call.receive(reply, 0.1) for reply in replies]
    nudge = [
        Message.saying("assistant", Hints().placeholder),
        Message.saying("user", Hints().nudge),
    ]
    turn = [Message("assistant", (SEARCH,))]
    assert [*sends[-1].messages[2:]] == (nudge + turn if is_early else turn + nudge)


def test_what_is_sent_back_is_counted() -> None:
    sends, _ = played(
        paused(OpaquePart("p/m", {"data": "x" * 3_000})),
        Reply("There.", stop_reason="stop"),
        max_tokens=100,
    )
    assert sends[1].added_tokens > 1_000
