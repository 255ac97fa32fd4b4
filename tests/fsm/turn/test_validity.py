"""What is wrong with a conversation, and the results that make a broken one valid."""

from typing import Any

import pytest
from hypothesis import Phase, assume, find, given, settings
from hypothesis import strategies as st

from rungwise import Message, TextPart, ToolCall, ToolResult
from rungwise.core import PlainMessage, ReasoningPart, Request
from rungwise.fsm.testing.conversations import FORMS
from rungwise.fsm.turn.validity import problems_of, read
from rungwise.testing import conversations

Conversation = tuple[PlainMessage | Message, ...]

SECRET = "kingfisher"
SYSTEM = {"role": "system", "content": SECRET}
USER = {"role": "user", "content": SECRET}
ANSWER = {"role": "assistant", "content": SECRET}


def asks(*ids: str, name: str = "look_up", arguments: Any = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
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


def says(each: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": each, "content": SECRET}


def uses(*ids: str) -> dict[str, Any]:
    blocks = [
        {
            "type": "tool_use",
            "id": each,
            "name": "look_up",
            "input": {},
        }
        for each in ids
    ]
    return {"role": "assistant", "content": blocks}


def blocks(*ids: str) -> dict[str, Any]:
    content = [
        {
            "type": "tool_result",
            "tool_use_id": each,
            "content": SECRET,
        }
        for each in ids
    ]
    return {"role": "user", "content": content}


def calling(*ids: str) -> Message:
    return Message("assistant", [ToolCall(each, "look_up", "{}") for each in ids])


def results(*ids: str) -> Message:
    return Message("tool", [ToolResult(each, "look_up", SECRET) for each in ids])


NEUTRAL_CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "a", "name": "look_up", "arguments": "{}"}],
}
CUSTOM = {
    "id": "a",
    "type": "custom",
    "custom": {"name": "look_up", "input": SECRET},
}
FREE_CALL = {"role": "assistant", "tool_calls": [CUSTOM]}

BEHIND = "has no result right after it"
BEFORE = "has no call right before it"
EMPTY = "an assistant's message has neither text nor tool calls"
IN_A_ROW = "a second assistant's message in a row"
BAD_NAME = "has a name that is not made of 1 to 64 letters, digits, '_' and '-'"
BAD_ARGUMENTS = "has arguments that are no JSON object"
ORDER = "stands in another order than the calls"
AGAIN = "is not the first one of its call"


@pytest.mark.parametrize(
    ("messages", "problems"),
    [
        ([USER, asks("a", "b"), says("a"), says("b"), ANSWER], []),
        ([USER, calling("a", "b"), says("a"), results("b")], []),
        ([SYSTEM, {**SYSTEM, "role": "developer"}, ANSWER, USER], []),
        (
            [
                USER,
                NEUTRAL_CALL,
                {
                    "role": "tool",
                    "id": "a",
                    "content": SECRET,
                },
            ],
            [],
        ),
        ([USER, FREE_CALL, says("a")], [(1, f"tool call 0 {BAD_ARGUMENTS}")]),
        ([USER, asks("a"), says("a"), asks("a"), says("a"), USER, USER], []),
        (
            [USER, asks("a"), USER, says("a")],
            [(1, f"tool call 0 {BEHIND}"), (3, f"tool result 0 {BEFORE}")],
        ),
        ([USER, asks("a", "b"), says("b")], [(1, f"tool call 0 {BEHIND}")]),
        ([USER, calling("a", "b"), results("a")], [(1, f"tool call 1 {BEHIND}")]),
        ([says("a"), USER], [(0, f"tool result 0 {BEFORE}")]),
        ([USER, results("a", "b")], [(1, f"tool result {number} {BEFORE}") for number in (0, 1)]),
        (
            [USER, asks("a"), says("b")],
            [(1, f"tool call 0 {BEHIND}"), (2, f"tool result 0 {BEFORE}")],
        ),
        ([USER, asks("a", "b"), says("b"), says("a")], [(3, f"tool result 0 {ORDER}")]),
        ([USER, calling("a", "b", "c"), results("a", "c", "b")], [(2, f"tool result 2 {ORDER}")]),
        ([USER, asks("a"), says("a"), says("a")], [(3, f"tool result 0 {AGAIN}")]),
        (
            [USER, asks("a", "a"), says("a")],
            [(1, "tool call 1 has the id of another one of this message")],
        ),
        ([USER, asks(""), says("")], [(1, "tool call 0 has no id")]),
        ([USER, {"role": "assistant", "content": " \n"}], [(1, f"{EMPTY}")]),
        ([USER, {"role": "assistant"}], [(1, f"{EMPTY}")]),
        ([USER, Message("assistant", [ReasoningPart(SECRET)])], [(1, f"{EMPTY}")]),
        (
            [USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": SECRET}]}],
            [(1, f"{EMPTY}")],
        ),
        ([USER, {"role": "assistant", "content": [{"type": "text", "text": SECRET}]}], []),
        ([USER, Message("tool", ())], [(1, "a tool's message holds no result")]),
        ([USER, ANSWER, ANSWER], [(2, f"{IN_A_ROW}")]),
        ([USER, ANSWER, Message("assistant", [TextPart(SECRET)])], [(2, f"{IN_A_ROW}")]),
        ([USER, SYSTEM, ANSWER], [(1, "a system message in the middle that is not the caller's")]),
        (
            [USER, {"role": SECRET}, 5],
            [(place, "is no message of a known role") for place in (1, 2)],
        ),
        ([USER, asks("a", name="look up"), says("a")], [(1, f"tool call 0 {BAD_NAME}")]),
        ([USER, asks("a", name="x" * 65), says("a")], [(1, f"tool call 0 {BAD_NAME}")]),
        ([USER, asks("a", name="look\n"), says("a")], [(1, f"tool call 0 {BAD_NAME}")]),
        ([USER, asks("a", name=""), says("a")], [(1, f"tool call 0 {BAD_NAME}")]),
        *[
            (
                [USER, asks("a", arguments=arguments), says("a")],
                [(1, f"tool call 0 {BAD_ARGUMENTS}")],
            )
            for arguments in (
                "",
                "[]",
                "null",
                '{"a": ',
                '{"a": NaN}',
                "{'a': 1}",
                '{"a": "\ud800"}',
                None,
                5,
                "[" * 9_999,
            )
        ],
        ([USER, uses("a", "b"), blocks("a", "b"), ANSWER], []),
        ([USER, uses("a", "b"), blocks("a"), blocks("b")], []),
        ([USER, uses("a", "b"), blocks("b", "a")], [(2, f"tool result 1 {ORDER}")]),
        (
            [USER, uses("a"), says("a")],
            [(1, f"tool call 0 {BEHIND}"), (2, f"tool result 0 {BEFORE}")],
        ),
        (
            [USER, uses("a"), {"role": "user", "content": ["so", *blocks("a")["content"]]}],
            [(2, "something else stands before the results of tools")],
        ),
        (
            [USER, {**uses("a"), "content": uses("a")["content"] + blocks("a")["content"]}],
            [
                (1, "an assistant's message holds the result of a tool"),
                (1, f"tool call 0 {BEHIND}"),
            ],
        ),
        (
            [
                {"role": "assistant", "function_call": {"name": "look", "arguments": "{}"}},
                {"role": "function", "name": "look"},
            ],
            [],
        ),
        (
            [
                {"role": "assistant", "function_call": {"name": "look", "arguments": "{}"}},
                {"role": "function", "name": "note"},
            ],
            [(0, f"tool call 0 {BEHIND}"), (1, f"tool result 0 {BEFORE}")],
        ),
    ],
)
def test_each_problem_is_told_with_its_place(
    messages: Any, problems: list[tuple[int, str]]
) -> None:
    assert problems_of(messages) == tuple(
        f"messages[{place}]: {problem}" for place, problem in problems
    )
    assert SECRET not in str(problems)


def test_a_system_message_of_the_callers_may_stand_anywhere() -> None:
    messages = [USER, SYSTEM, ANSWER]
    assert problems_of(messages, callers=[dict(SYSTEM)]) == ()
    assert problems_of(messages, callers=[{**SYSTEM, "content": "another"}]) != ()


@given(conversations())
def test_what_the_kit_calls_valid_has_no_problem(messages: Conversation) -> None:
    assert problems_of(messages) == ()
    assert problems_of(Request(messages).messages) == ()


@given(conversations(scattered=True), st.data())
def test_a_lost_message_of_a_pair_is_found(messages: Conversation, data: st.DataObject) -> None:
    pairs = [
        place
        for place, message in enumerate(messages)
        if read(message).calls or read(message).results
    ]
    assume(pairs)
    lost = data.draw(st.sampled_from(pairs))
    assert problems_of((*messages[:lost], *messages[lost + 1 :]), callers=messages) != ()


@pytest.mark.parametrize("form", FORMS)
def test_each_form_occurs(form: str) -> None:
    find(
        conversations(forms=[form]),
        lambda messages: any(read(each).calls for each in messages),
        settings=settings(phases=[Phase.generate]),
    )
