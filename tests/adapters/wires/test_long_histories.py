"""A long conversation is written in time that grows as it does, in any protocol; and so that it can
always be sent.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rungwise import Message, ToolCall, ToolResult
from rungwise.core import Request
from support import protocols
from support.sampling import sampled
from support.work import grows_within

pytestmark = pytest.mark.sampled(4)


def encode(api: str, messages: Any, *, is_portable: bool) -> bytes:
    request = Request(messages)
    send = protocols.sending(request, max_tokens=1000, portable=is_portable)
    written: bytes = protocols.backend(api, "http://localhost:1/v1").encode(send, stream=True).body
    return written


def call(number: int) -> dict[str, Any]:
    return protocols.chat_call(f"call_{number}", "look")


def result(number: int) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": f"call_{number}",
        "content": "Three.",
    }


def neutral_result(number: int) -> Message:
    return Message("tool", (ToolResult(f"call_{number}", "look", "Three."),))


QUESTION = {"role": "user", "content": "Where?"}
LONG: dict[str, Callable[[int], list[Any]]] = {
    "calls one after another": lambda n: [
        each
        for k in range(n)
        for each in (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [call(k)],
            },
            result(k),
        )
    ],
    "calls at once": lambda n: [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call(k) for k in range(n)],
        },
        *[result(k) for k in range(n)],
    ],
    "calls at once, in parts": lambda n: [
        Message("assistant", [ToolCall(f"call_{k}", "look", "{}") for k in range(n)]),
        *[neutral_result(k) for k in range(n)],
    ],
    "results without calls": lambda n: [each for k in range(n) for each in (result(k), QUESTION)],
    "items": lambda n: [
        *[
            {
                "type": "function_call",
                "call_id": f"c{k}",
                "name": "look",
                "arguments": "{}",
            }
            for k in range(n)
        ],
        *[
            {
                "type": "function_call_output",
                "call_id": f"c{k}",
                "output": "Three.",
            }
            for k in range(n)
        ],
    ],
    "questions": lambda n: [QUESTION] * n,
    "questions in parts": lambda n: [Message.saying("user", "Where?")] * n,
}


@pytest.mark.dear(4)
@pytest.mark.full
@pytest.mark.sampled(4)
@pytest.mark.parametrize("api", sampled(protocols.PROTOCOLS, one_in=3))
@pytest.mark.parametrize("kind", LONG)
def test_the_work_is_linear(kind: str, api: str) -> None:
    """Sixteen times as much takes sixteen times as long, and not 256 times."""
    for is_portable in (True, False):
        written = partial(encode, api, is_portable=is_portable)
        little = partial(written, [QUESTION, *LONG[kind](250)])
        much = partial(written, [QUESTION, *LONG[kind](4_000)])
        assert grows_within(little, much, times=100, floor=1.0)


def test_what_a_provider_says_in_numbers_too_large_for_json_goes_back_all_the_same() -> None:
    """`NaN` beside such a number hands the body to another reader, which knows no limit."""
    body = b"""{"responseId": "r", "modelVersion": "m", "candidates": [{"index": 0, "finishReason": "STOP", "x": NaN,
        "content": {"parts": [{"functionCall": {"name": "look", "args": {"k": 1000000000000000000000000}}}]}}]}"""  # noqa: E501
    reply = protocols.backend("gemini", "http://localhost:1/v1").decode(200, {}, body)
    assert [each.arguments for each in reply.tool_calls] == ['{"k":1000000000000000000000000}']
    messages = [QUESTION, Message("assistant", reply.parts), QUESTION]
    for api in protocols.PROTOCOLS:
        assert b"1000000000000000000000000" in encode(api, messages, is_portable=False)
