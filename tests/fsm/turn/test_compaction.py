"""Compaction: the plain compactor, the rule that judges any, and how much room is asked for."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import ConfigurationError, Message, OldestFirst, ToolResult
from rungwise.core import PlainMessage, Request
from rungwise.fsm.call.budget.estimate import estimate_tokens
from rungwise.fsm.turn.compaction import STUB, helps, room_for
from rungwise.fsm.turn.conversation import prompt_tokens
from rungwise.fsm.turn.validity import problems_of, read
from rungwise.testing import conversations

Conversation = tuple[PlainMessage | Message, ...]

ALL = 10**9
"""More room than any conversation has."""
LONG = "The river rose by two inches. " * 50


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def asks(*ids: str) -> dict[str, Any]:
    function = {"name": "look_up", "arguments": "{}"}
    return {
        "role": "assistant",
        "tool_calls": [
            {
                "id": each,
                "type": "function",
                "function": function,
            }
            for each in ids
        ],
    }


def says(each: str, text: str = LONG) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": each, "content": text}


SYSTEM = {"role": "system", "content": "You know the birds."}
FIRST, SECOND, THIRD = user("Which birds live here?"), user("Where?"), user("When?")
AGENT = (
    SYSTEM,
    FIRST,
    asks("a", "b"),
    says("a"),
    says("b"),
    asks("c"),
    says("c"),
    answer("Kingfishers."),
    SECOND,
    asks("d"),
    says("d"),
    asks("e"),
    says("e"),
    answer("In the bank."),
    THIRD,
    asks("f"),
    says("f"),
)
STUBBED = [{**each, "content": STUB} if each["role"] == "tool" else each for each in AGENT]


def without(messages: Sequence[Any], *places: int) -> tuple[Any, ...]:
    return tuple(each for place, each in enumerate(messages) if place not in places)


# what goes, step by step

STEPS = (
    (*AGENT[:3], STUBBED[3], *AGENT[4:]),
    (*AGENT[:3], *STUBBED[3:5], *AGENT[5:]),
    (*AGENT[:3], *STUBBED[3:7], *AGENT[7:]),
    (*STUBBED[:11], *AGENT[11:]),
    (*STUBBED[:13], *AGENT[13:]),
    without([*STUBBED[:13], *AGENT[13:]], 2, 3, 4),
    without([*STUBBED[:13], *AGENT[13:]], 2, 3, 4, 5, 6),
    without([*STUBBED[:13], *AGENT[13:]], 2, 3, 4, 5, 6, 9, 10),
    without([*STUBBED[:13], *AGENT[13:]], 2, 3, 4, 5, 6, 9, 10, 11, 12),
    (SYSTEM, FIRST, answer("Kingfishers."), *AGENT[14:]),
)


@pytest.mark.parametrize("taken", range(len(STEPS)))
def test_results_give_way_first_then_exchanges_then_whole_rounds(taken: int) -> None:
    room = estimate_tokens(AGENT) - estimate_tokens(STEPS[taken])
    assert OldestFirst(keep=2)(AGENT, room) == STEPS[taken]
    assert OldestFirst(keep=2)(AGENT, room - 1) == STEPS[taken]
    assert problems_of(STEPS[taken]) == ()


def test_no_more_goes_than_can() -> None:
    assert OldestFirst(keep=2)(AGENT, ALL) == STEPS[-1]
    assert OldestFirst(keep=2)(STEPS[-1], ALL) == STEPS[-1]
    assert OldestFirst(keep=len(AGENT))(AGENT, ALL) is AGENT
    assert OldestFirst(keep=2)(AGENT, 0) is AGENT


def test_the_question_of_a_turn_in_progress_stays_while_its_first_exchanges_go() -> None:
    long_turn = (FIRST, answer("Kingfishers."), SECOND, asks("a"), says("a"), asks("b"), says("b"))
    assert OldestFirst(keep=1)(long_turn, ALL) == (*long_turn[:3], *long_turn[5:])


def test_the_last_question_and_answer_stay_beside_system_messages() -> None:
    messages = (FIRST, answer("x"), SECOND, answer("y"), THIRD, answer("z"), SYSTEM)
    assert OldestFirst(keep=1)(messages, ALL) == without(messages, 2, 3)


def test_a_greeting_of_the_assistant_may_go() -> None:
    greeted = (SYSTEM, answer(LONG), FIRST, answer("Kingfishers."))
    assert OldestFirst(keep=1)(greeted, ALL) == without(greeted, 1)


@pytest.mark.parametrize(
    "messages",
    [
        (FIRST, asks("a"), SECOND, answer("x")),
        (FIRST, says("a"), SECOND, answer("x")),
        (FIRST, asks("a", "b"), says("a"), answer("x"), SECOND, answer("y")),
        (FIRST, asks("a"), says("a"), says("a"), answer("x"), SECOND),
        (FIRST, asks("a"), SYSTEM, says("a"), answer("x")),
        (FIRST, asks("a", "a"), says("a"), says("a"), answer("x"), SECOND),
        (FIRST, answer("x"), SECOND, asks("a", "b"), says("a"), answer("y"), THIRD),
    ],
)
def test_leaves_results_alone_that_were_unpaired_before(messages: Conversation) -> None:
    assert OldestFirst(keep=1)(messages, ALL) is messages


def test_a_result_of_blocks_gives_way_to_a_block() -> None:
    long = [{"type": "text", "text": LONG}]
    used = {"type": "tool_use", "id": "a", "name": "look_up", "input": {}}
    block = {"type": "tool_result", "tool_use_id": "a", "content": long}
    beside = {"type": "text", "text": "And?"}
    messages = (
        FIRST,
        {"role": "assistant", "content": [used]},
        {"role": "user", "content": [block, beside]},
        asks("a"),
        {**says("a"), "content": long * 2},
        answer("So."),
    )
    shorter = OldestFirst(keep=1)(messages, 2 * estimate_tokens(LONG))
    stub = [{"type": "text", "text": STUB}]
    assert shorter[2::2] == (
        {"role": "user", "content": [{**block, "content": stub}, beside]},
        {**says("a"), "content": stub},
    )
    assert shorter[1::2] == messages[1::2]


def test_a_short_result_stays() -> None:
    messages = (FIRST, asks("a"), says("a", "two"), asks("b"), says("b"), answer("So."))
    assert OldestFirst(keep=1)(messages, 1)[:3] == messages[:3]


# what holds for every conversation


@given(conversations(scattered=True), st.integers(1, 8), st.integers(0, 4_000) | st.just(ALL))
def test_what_is_left_is_valid_shorter_and_in_order(
    messages: Conversation, keep: int, room: int
) -> None:
    before = deepcopy(messages)
    compactor = OldestFirst(keep)
    shorter = compactor(messages, room)
    assert messages == before
    assert problems_of(shorter, callers=messages) == ()
    assert shorter[-keep:] == messages[-keep:]
    assert [each for each in shorter if read(each).role == "system"] == systems_of(messages)
    assert first_user_of(shorter) == first_user_of(messages)
    assert is_made_of(shorter, messages)
    assert not has_users_in_a_row(shorter)
    gained = estimate_tokens(messages) - estimate_tokens(shorter)
    assert gained >= room or shorter == compactor(messages, ALL)
    assert gained > 0 or shorter is messages


@given(conversations(), st.integers(1, 8), st.lists(st.integers(1, 3_000), min_size=2, max_size=3))
def test_it_works_again_and_again(messages: Conversation, keep: int, rooms: list[int]) -> None:
    compactor = OldestFirst(keep)
    left = messages
    for room in rooms:
        shorter = compactor(left, room)
        assert problems_of(shorter) == ()
        assert estimate_tokens(left) - estimate_tokens(shorter) >= room or shorter == compactor(
            left, ALL
        )
        left = shorter
    assert compactor(left, ALL) == compactor(messages, ALL)


@given(conversations())
def test_hardly_anything_stays_where_everything_must_go(messages: Conversation) -> None:
    shorter = OldestFirst(keep=1)(messages, ALL)
    reads = [read(each) for each in shorter]
    assert [each.role for each in reads].count("user") <= 2
    assert [each.role for each in reads].count("assistant") <= 2
    # The results behind the first answer, where a turn broke off, have given way; those of the last
    # call may not.
    last = max((place for place, each in enumerate(reads) if each.role != "tool"), default=0)
    for stays, was_read in zip(shorter[:last], reads[:last], strict=True):
        assert not was_read.results or len(str(stays)) < 1_000


@given(conversations(), st.data())
def test_a_broken_conversation_does_not_get_worse(
    messages: Conversation, data: st.DataObject
) -> None:
    broken = tuple(data.draw(st.permutations(messages))[: data.draw(st.integers(0, len(messages)))])
    shorter = OldestFirst(data.draw(st.integers(1, 4)))(broken, ALL)
    assert kinds_of(shorter, broken) <= kinds_of(broken, broken)
    assert is_made_of(shorter, broken)


@given(conversations(), st.integers(1, 4), st.integers(1, 3_000))
def test_what_a_request_holds_is_compacted_alike(
    messages: Conversation, keep: int, room: int
) -> None:
    shorter = OldestFirst(keep)(Request(messages).messages, room)
    assert shorter == OldestFirst(keep)(messages, room)
    assert Request(shorter).messages == shorter


@given(conversations(), st.integers(1, 20))
def test_the_callers_own_counter_counts(messages: Conversation, room: int) -> None:
    shorter = OldestFirst(keep=1, counter=len)(messages, room)
    assert len(messages) - len(shorter) >= room or shorter == OldestFirst(keep=1, counter=len)(
        messages, ALL
    )
    # no message is the shorter for a note within it
    assert len(shorter) < len(messages) or shorter is messages


def test_a_counter_that_is_never_content_gets_everything_back() -> None:
    assert OldestFirst(keep=1, counter=lambda messages: 5)(AGENT, 3) is AGENT


def test_without_a_figure_a_quarter_goes() -> None:
    shorter = OldestFirst(keep=1)(AGENT)
    assert shorter == OldestFirst(keep=1)(AGENT, room_for(AGENT))
    assert estimate_tokens(AGENT) * 3 // 4 >= estimate_tokens(shorter) > estimate_tokens(STEPS[-1])


@pytest.mark.parametrize(
    "fields", [{"keep": 0}, {"keep": True}, {"keep": 2.0}, {"keep": None}, {"counter": 5}]
)
def test_refuses_what_is_no_compactor(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"OldestFirst.{next(iter(fields))} must be"):
        OldestFirst(**fields)


def systems_of(messages: Conversation) -> list[PlainMessage | Message]:
    return [each for each in messages if read(each).role == "system"]


def first_user_of(messages: Conversation) -> PlainMessage | Message | None:
    return next((each for each in messages if read(each).role == "user"), None)


def is_made_of(shorter: Conversation, messages: Conversation) -> bool:
    """Tell whether each message is one of the conversation's, in their order, or one whose results
    have given way.
    """
    rest = iter(messages)
    return all(any(each in (other, *stubs_of(other)) for other in rest) for each in shorter)


def stubs_of(message: PlainMessage | Message) -> list[Any]:
    if isinstance(message, Message):
        return [
            Message(
                message.role,
                [
                    ToolResult(each.id, each.name, STUB, each.is_fault)
                    for each in message.tool_results
                ],
            )
        ]
    if not read(message).results:
        return []
    if message["role"] == "user":
        blocks = [
            {**each, "content": STUB} if "tool_use_id" in each else each
            for each in message["content"]
        ]
        return [{**message, "content": blocks}]
    return [{**message, "content": STUB}, {**message, "content": [{"type": "text", "text": STUB}]}]


def has_users_in_a_row(messages: Conversation) -> bool:
    roles = [role for role in (read(each).role for each in messages) if role != "system"]
    return ("user", "user") in pairwise(roles)


def kinds_of(messages: Conversation, given_: Conversation) -> Counter[str]:
    return Counter(told.partition(": ")[2] for told in problems_of(messages, callers=given_))


# the rule for any compactor


@pytest.mark.parametrize(
    ("before", "after", "is_help"),
    [(100, 95, True), (100, 96, False), (1, 0, True), (0, 0, False), (10, 20, False)],
)
def test_less_than_five_percent_is_no_help(before: int, after: int, is_help: bool) -> None:
    messages = (FIRST,) * before, (FIRST,) * after
    assert helps(*messages, counter=len) is is_help


def test_the_estimate_judges_where_there_is_no_counter() -> None:
    assert helps(AGENT, STEPS[-1])
    assert not helps(AGENT, (*AGENT[:-1], says("f", LONG[:-30])))


@pytest.mark.parametrize(
    ("size", "window", "cap", "room"),
    [
        (100, None, None, 25),
        (101, None, 50, 26),
        (100, 100, 10, 25),
        (100, 100, 60, 60),
        (100, 40, None, 60),
        (100, 1_000, 10, 25),
        (1, 100, 10, 1),
        (0, None, None, 1),
    ],
)
def test_the_room_is_what_is_beyond_the_window_and_a_quarter_at_least(
    size: int,
    window: int | None,
    cap: int | None,
    room: int,
) -> None:
    assert room_for((FIRST,) * size, window, cap, len) == room


# the tokens of later prompts: what the caller has counted goes on as long as its messages stand
# there


COUNTED = Request("Do it." * 100, input_tokens=50)
SAID = Message.saying("assistant", "incomprehensible " * 20)
TOLD = Message.saying("user", "found")


def test_what_nobody_has_counted_is_not_known() -> None:
    assert prompt_tokens(Request("Do it."), Request("Do it.").messages, "", 5) is None


def test_compacted_messages_count_as_densely_as_the_caller_counted_them() -> None:
    long = [{"role": "user", "content": "heron " * 300}]
    left = [{"role": "user", "content": "heron " * 100}]
    share = estimate_tokens(left) / estimate_tokens(long)
    assert prompt_tokens(Request(long, input_tokens=10**6), left, "", 5) == ceil(10**6 * share)
    # the larger one
    assert prompt_tokens(Request(long, input_tokens=400), left, "", 5) == estimate_tokens(left)
    # and no more than there was
    assert prompt_tokens(Request(long, input_tokens=30), left, "", 5) == 30
    assert prompt_tokens(Request(long), left, "", 5) is None


def test_what_was_written_counts_as_the_larger_of_estimate_and_report() -> None:
    messages = (*COUNTED.messages, SAID, TOLD)
    said = estimate_tokens(SAID)
    told = estimate_tokens(TOLD)
    assert prompt_tokens(COUNTED, messages, "", said + 9) == 50 + said + 9 + told
    assert prompt_tokens(COUNTED, messages, "", said - 9) == 50 + said + told
    assert prompt_tokens(COUNTED, messages, "", 0) == 50 + said + told


def test_the_call_counts_the_text_that_it_goes_on_from_itself() -> None:
    text = "incomprehensible " * 20
    counted = Request("Do it.", input_tokens=500)
    assert prompt_tokens(counted, counted.messages, text, 21) == 500
    assert prompt_tokens(counted, counted.messages, text, 300) == 500 + 300 - estimate_tokens(text)
