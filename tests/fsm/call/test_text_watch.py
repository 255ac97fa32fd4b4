"""When an attempt has brought enough visible text to go on from."""

import pytest

import rungwise
from rungwise import Reasoning, Text
from rungwise.core import Call, IllegalEvent, PlainLink, Reply, Request

THOUGHT = "Herons like reeds."


def watch(*replies: Reply, prefills: bool = False) -> rungwise.fsm.call.conversation.reading.TextWatch:
    """Return the watch of the attempt behind some replies."""
    call = Call(Request("Where?"), chain=[PlainLink(prefills=prefills)])
    call.begin()
    call.sending()
    for reply in replies:
        call.receive(reply)
        call.sending()
    return call.text_watch()


@pytest.mark.parametrize(
    ("pieces", "has_text"),
    [
        (["Herons"], True),
        (["He", "r", "on", "s"], True),
        (["Hero"], False),
        (["      ", "\n\n", "    "], False),
        (["<think>", THOUGHT], False),
        (["<th", "ink>", THOUGHT, "</think>In the reeds"], True),
        (["<think>", THOUGHT, "</think>\n\n"], False),
        ([Reasoning(THOUGHT)], False),
        ([Reasoning(THOUGHT), "In the reeds"], True),
    ],
)
def test_visible_text_is_what_a_consumer_would_be_shown(pieces: list[str | Reasoning], has_text: bool) -> None:
    watching = watch()
    told = [watching.has_text(Text(piece) if isinstance(piece, str) else piece) for piece in pieces]
    assert told[-1] is has_text
    assert not any(told[:-1])


def test_behind_an_echo_of_what_was_gathered_any_more_is_enough() -> None:
    part = Reply("Herons nest in tall dead trees, ", stop_reason="length")
    watching = watch(part)
    assert not watching.has_text(Text("Herons nest in "))
    assert not watching.has_text(Text("tall dead trees, "))
    assert watching.has_text(Text("as"))


def test_a_few_letters_behind_text_that_was_gathered_may_be_its_beginning_again() -> None:
    watching = watch(Reply("Herons nest in tall dead trees, ", stop_reason="length"))
    assert not watching.has_text(Text("as"))
    assert watching.has_text(Text(" well"))


def test_text_that_turns_out_to_be_reasoning_is_no_text() -> None:
    watching = watch()
    assert not watching.has_text(Text("Hm. "))
    assert not watching.has_text(Text("\n</think>\n"))
    assert watching.has_text(Text("In the reeds."))


def test_there_is_none_of_what_is_not_in_flight() -> None:
    call = Call(Request("Where?"))
    with pytest.raises(IllegalEvent, match="nothing is in flight"):
        call.text_watch()
