"""How a wrong reply goes back to the model."""

from typing import Any

import pytest

from rungwise import Policy, ToolCall
from rungwise.core import Call, Reply, Request
from support import protocols

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
        },
    }
]
HALF = "\ud83d"
WRONG = f'{{"a": "{HALF}"}}'


def corrected(reply: Reply, api: str = "openai", **options: Any) -> Any:
    """Return what is sent after a wrong reply; each protocol can write it."""
    backend = protocols.backend(api, "http://localhost:1/v1", model="m")
    call = Call(Request("Look.", tools=TOOLS), Policy(), [backend], **options)
    call.begin()
    call.sending()
    send = call.receive(reply)
    assert send is not None
    assert send.rung == "correct"
    assert backend.encode(send, stream=True).body
    return send


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
@pytest.mark.parametrize(
    ("id", "name", "is_call"),
    [
        ("c1", "look", True),
        (HALF, "look", False),
        ("x" * 65, "look", False),
        ("", "look", False),
        ("c1", HALF, False),
    ],
)
def test_a_call_with_an_odd_id_or_name_goes_back_in_words(
    api: str,
    id: str,
    name: str,
    is_call: bool,
) -> None:
    send = corrected(Reply(tool_calls=[ToolCall(id, name, WRONG)], stop_reason="tool_calls"), api)
    assert bool(send.messages[-1].tool_results) is is_call
    assert send.messages[-1].role == ("tool" if is_call else "user")


def test_more_than_eight_calls_go_back_in_words() -> None:
    calls = [ToolCall(f"c{number}", "look", '{"a": "x"}') for number in range(9)]
    assert corrected(Reply(tool_calls=calls, stop_reason="tool_calls")).messages[-1].role == "user"
    assert (
        corrected(Reply(tool_calls=calls[:8], stop_reason="tool_calls")).messages[-1].role == "tool"
    )


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_an_answer_with_half_a_character_goes_back(api: str) -> None:
    assert (
        corrected(Reply(f"Herons {HALF}", stop_reason="stop"), api, returns={"type": "object"})
        .messages[-1]
        .role
        == "user"
    )
