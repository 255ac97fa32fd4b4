"""One reader finds the ids of tool calls and results, in every form, for pairing and for counting
alike.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise.adapters.wires.chat.shapes import CHAT
from rungwise.adapters.wires.pairing import answered
from rungwise.adapters.wires.plain.messages import ids_in, read_message

Body = Mapping[str, Any]

CALL: Body = {
    "role": "assistant",
    "content": None,
    "function_call": {"name": "look_up", "arguments": "{}"},
}
RESULT: Body = {"role": "function", "name": "look_up", "content": "reeds"}


@pytest.mark.parametrize(
    ("messages", "lacking"),
    [
        ([CALL, RESULT], 0),
        ([CALL, RESULT, CALL, RESULT], 0),
        ([CALL], 1),
        ([CALL, RESULT, CALL], 1),
        ([CALL, {**RESULT, "name": "other"}], 1),
    ],
)
def test_calls_of_the_older_form_are_paired_by_their_names(
    messages: list[Body], lacking: int
) -> None:
    assert CHAT.unanswered(messages) == lacking
    assert len(answered(messages, CHAT)) == len(messages) + lacking
    if not lacking:
        assert answered(messages, CHAT) is messages


# Blocks that look like calls or results where no reader takes them for any.
@pytest.mark.parametrize(
    "message",
    [
        {
            "role": "user",
            "content": "?",
            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
        },
        {
            "role": "assistant",
            "content": [
                {
                    "functionCall": {
                        "id": "c1",
                        "name": "f",
                        "args": {},
                    }
                }
            ],
        },
        {
            "role": "assistant",
            "content": [
                {
                    "toolUse": {
                        "toolUseId": "c1",
                        "name": "f",
                        "type": "server_tool_use",
                    }
                }
            ],
        },
        {
            "role": "assistant",
            "content": [
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "name": "f",
                    "arguments": "{}",
                }
            ],
        },
    ],
)
def test_what_is_read_as_no_call_needs_no_result(message: Body) -> None:
    assert ids_in(message) == ([], [])
    assert answered([message], CHAT) == [message]


@given(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool", "function", "system"])},
        optional={
            "content": st.sampled_from(["", "text", None, [], ["text"]]),
            "tool_call_id": st.sampled_from(["c1", "", None, 5]),
            "id": st.just("c2"),
            "name": st.just("f"),
            "tool_calls": st.sampled_from(
                [None, [], [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]]
            ),
            "function_call": st.just({"name": "f", "arguments": "{}"}),
            "parts": st.just(
                [
                    {
                        "functionResponse": {
                            "id": "c3",
                            "name": "f",
                            "response": {},
                        }
                    }
                ]
            ),
        },
    )
)
def test_the_shortcuts_find_what_reading_finds(message: Body) -> None:
    read = read_message(message)
    calls = [call.id for each in read for call in each.tool_calls]
    assert ids_in(message) == (calls, [result.id for each in read for result in each.tool_results])
