"""A conversation that goes to another protocol is valid there, and loses nothing that anyone could
miss.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import MediaPart, Message, TextPart, ToolCall, ToolResult
from rungwise.adapters.wires.form import Rules
from rungwise.adapters.wires.pairing import NO_RESULT
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.adapters.wires.portability import BEGINNING, NO_TEXT, portable
from rungwise.core import OpaquePart, Part, ReasoningPart
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.testing import conversations

STRICT = Rules(
    call_id=re.compile(r"[a-zA-Z0-9]{9}"),
    id_length=9,
    alternates=True,
    begins_with_user=True,
    keeps_reasoning=False,
)
LOOSE = Rules()
RULES = pytest.mark.parametrize("rules", [STRICT, LOOSE], ids=["strict", "loose"])

_IDS = st.sampled_from(("call_1", "call_1", "call 2", "", "abcdefgh1", "x" * 300, "ü"))
_TEXTS = st.sampled_from(("", " ", "Where?", "In the reeds.\n", "\ud83d"))
_CALLS = st.builds(
    ToolCall,
    _IDS,
    st.sampled_from(("look", "note")),
    st.sampled_from(("{}", '{"a": 1}', '{"a"', "")),
)
_RESULTS = st.builds(
    ToolResult, _IDS, st.sampled_from(("", "look")), st.sampled_from(("Three.", "", "Four."))
)
_PLACES = st.sampled_from(("here/m", "there/m"))
_SIGNATURES = st.sampled_from((None, "sig"))
_THOUGHTS = st.builds(ReasoningPart, _TEXTS, _SIGNATURES, st.just("") | _PLACES)
_OPAQUE = st.builds(OpaquePart, _PLACES, st.just({"type": "x"}))
_SAID = st.builds(TextPart, _TEXTS)
_SHOWN = st.one_of(_SAID, st.just(MediaPart("image", "AAAA", "image/png")))
_ANSWERED: st.SearchStrategy[Part] = st.one_of(_SHOWN, _CALLS, _THOUGHTS, _OPAQUE)


def _messages(role: str, parts: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[Message]:
    return st.builds(Message, st.just(role), st.lists(parts, max_size=most))


MESSAGES = st.one_of(
    _messages("system", _SAID, 2),
    _messages("user", _SHOWN, 3),
    _messages("assistant", _ANSWERED, 4),
    _messages("tool", _RESULTS, 3),
)
ANYTHING = st.lists(MESSAGES, max_size=9)


def texts(messages: Sequence[Message]) -> list[str]:
    """Return what is to be read in a conversation, blank texts and what was put into gaps apart."""
    shown = [part.text for each in messages for part in each.parts if isinstance(part, TextPart)]
    return [text for text in shown if not is_blank(text) and text not in (BEGINNING, NO_TEXT)]


def calls(messages: Sequence[Message]) -> list[tuple[str, str]]:
    found = [call for each in messages for call in each.tool_calls]
    return [(call.name, call.arguments) for call in found]


def pictures(messages: Sequence[Message]) -> list[Part]:
    parts = [part for each in messages for part in each.parts]
    return [part for part in parts if isinstance(part, MediaPart)]


def results(messages: Sequence[Message]) -> list[ToolResult]:
    return [result for each in messages for result in each.tool_results]


def check_valid(messages: Sequence[Message], rules: Rules) -> None:
    said = [message for message in messages if message.role != "system"]
    assert said, "there is nothing to answer"
    ids: list[str] = []
    for index, message in enumerate(messages):
        assert message.parts, "an empty turn"
        for before, part in pairwise((None, *message.parts)):
            is_own = isinstance(before, OpaquePart) or (
                isinstance(before, ReasoningPart) and before.provider
            )
            assert is_own or not (isinstance(part, TextPart) and is_blank(part.text))
        calls = [call.id for call in message.tool_calls]
        ids += calls
        behind = messages[index + 1] if index + 1 < len(messages) else None
        if calls:
            assert [result.id for result in behind.tool_results] == calls
        if message.role == "tool":
            assert messages[index - 1].tool_calls
    assert all(rules.call_id.fullmatch(each) for each in ids)
    assert len(ids) == len({*ids}), "an id twice"
    assert not rules.begins_with_user or said[0].role == "user"
    if rules.alternates:
        assert not any(one.role == other.role != "system" for one, other in pairwise(messages))


@RULES
@given(ANYTHING)
def test_any_conversation_becomes_a_valid_one_and_loses_nothing(
    rules: Rules, messages: list[Message]
) -> None:
    made = portable(messages, rules, "here/m")
    check_valid(made, rules)

    assert [each for each in texts(made) if not each.startswith("The tool")] == texts(messages)
    assert calls(made) == calls(messages)
    told = Counter(result.text for result in results(made) if result.text != NO_RESULT)
    told += Counter(
        text.partition(": ")[2].replace(NO_TEXT, "")
        for text in texts(made)
        if text.startswith("The tool")
    )
    assert told == Counter(result.text for result in results(messages))
    assert pictures(made) == pictures(messages)


@RULES
@given(ANYTHING)
def test_nothing_of_another_provider_is_left(rules: Rules, messages: list[Message]) -> None:
    for message in portable(messages, rules, "here/m"):
        for part in message.parts:
            if isinstance(part, OpaquePart | ReasoningPart):
                assert part.provider == "here/m" or (rules.keeps_reasoning and not part.signature)


@RULES
@given(ANYTHING)
def test_a_valid_conversation_stays_as_it_is(rules: Rules, messages: list[Message]) -> None:
    made = portable(messages, rules, "here/m")
    assert portable(made, rules, "here/m") == made


@RULES
@given(conversations(forms=("call", "message", "block"), scattered=True))
def test_what_any_provider_takes_is_hardly_touched(rules: Rules, messages: Any) -> None:
    made = portable(messages, rules, "here/m")
    check_valid(made, rules)
    assert not any(result.text == NO_RESULT for result in results(made))
    assert not any(text.startswith("The tool") for text in texts(made))
    assert texts(made) == texts(read_messages(messages))


def test_results_go_to_the_call_that_was_meant() -> None:
    def result(id: str, name: str, text: str) -> Message:
        return Message("tool", (ToolResult(id, name, text),))

    look = ToolCall("0", "look", "{}")
    note = ToolCall("1", "note", "{}")
    both = [
        Message("assistant", (look, note)),
        result("1", "", "noted"),
        Message.saying("user", "And?"),
        result("0", "", "seen"),
    ]
    again = [
        Message("assistant", (look,)),  # a server that counts in each reply
        result("", "look", "seen again"),  # one without ids
        result("9", "", "lost"),
        Message("assistant", (look,)),
    ]
    made = portable([*both, *again], LOOSE, "here/m")
    turns = [message.tool_results for message in made if message.role == "tool"]
    assert [[(each.name, each.text) for each in turn] for turn in turns] == [
        [("look", "seen"), ("note", "noted")],
        [("look", "seen again")],
        [("look", NO_RESULT)],
    ]
    assert [message.text for message in made if message.role == "user"] == [
        "And?",
        "The tool returned: lost",
    ]
    assert made[-1].tool_results[0].is_fault


def test_long_conversations_take_their_length_and_no_more() -> None:
    """Count the comparisons of ids: twice the rounds may not take four times as many."""

    class Id(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Id.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    def compared(rounds: int) -> int:
        messages = []
        for number in range(rounds):
            messages += [
                Message("assistant", (ToolCall(Id(f"call_{number}"), "look", "{}"),)),
                Message("tool", (ToolResult(Id(f"call_{number}"), "look", "seen"),)),
            ]
        Id.compared = 0
        portable(messages, LOOSE, "here/m")
        return Id.compared

    assert compared(400) < 3 * compared(200)
