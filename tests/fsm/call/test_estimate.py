"""What a prompt is taken to hold, by the bytes that go out."""

import json
from typing import Any

import pytest

import rungwise
from rungwise.core import Call, PlainLink, Request
from rungwise.fsm.call.budget.estimate import (
    BYTES_A_TOKEN,
    MESSAGE_TOKENS,
    PICTURE_TOKENS,
    estimate_tokens,
    measures_of,
    tokens_in,
)
from rungwise.fsm.replies.parts import (
    MediaPart,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCall,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {f"p{number}": {"type": "string"} for number in range(500)},
}
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": 'Say "hello".\n' * 50,
        "parameters": SCHEMA,
    },
}
ODD = {"enum": ["é", "\ud83d", "", None, True, 1.5, -(2**70), {}, []] * 100, 5: "text"}
CALLS = [
    {
        "id": str(number),
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
    }
    for number in range(50)
]
PICTURE = "data:image/png;base64," + "A" * 9_000


@pytest.mark.parametrize(
    "sent",
    [
        [TOOL],
        [{"name": "f", "input_schema": SCHEMA}],
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": SCHEMA},
            }
        },
        {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"response_schema": ODD},
        [
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool_use",
                        "id": "1",
                        "name": "f",
                        "input": SCHEMA,
                    }
                ],
            }
        ],
        [{"role": "model", "parts": [{"functionResponse": {"name": "f", "response": SCHEMA}}]}],
        [{"role": "assistant", "content": None, "tool_calls": CALLS}],
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "1",
                        "content": [SCHEMA],
                    }
                ],
            }
        ],
    ],
)
def test_what_is_json_counts_by_all_of_its_bytes(sent: Any) -> None:
    written = json.dumps(sent, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
    envelope = 60
    assert (
        len(written) - envelope
        <= estimate_tokens(sent) * BYTES_A_TOKEN
        <= len(written) * 1.3 + envelope
    )


@pytest.mark.parametrize("content", ["heron " * 100, [{"type": "text", "text": "heron " * 100}]])
def test_a_text_counts_by_its_own_bytes(content: Any) -> None:
    assert estimate_tokens([{"role": "user", "content": content}]) <= 200 + 2 + 2 + MESSAGE_TOKENS
    assert (
        estimate_tokens([{"role": "user", "parts": [{"text": "heron " * 100}]}])
        == 200 + 2 + MESSAGE_TOKENS
    )


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": PICTURE}},
        {"type": "input_image", "image_url": PICTURE},
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": "image/png",
                "data": PICTURE,
            },
        },
        {"inlineData": {"mimeType": "image/png", "data": PICTURE}},
        {
            "type": "tool_result",
            "tool_use_id": "1",
            "content": [{"type": "image", "data": PICTURE}],
        },
        {
            "functionResponse": {
                "name": "f",
                "parts": [{"inlineData": {"mimeType": "image/png", "data": PICTURE}}],
            }
        },
    ],
)
def test_a_picture_counts_alike_wherever_it_stands(part: dict[str, Any]) -> None:
    assert (
        PICTURE_TOKENS
        <= estimate_tokens([{"role": "user", "content": [part]}])
        <= PICTURE_TOKENS + 40
    )


def test_a_part_counts_by_what_is_sent_of_it() -> None:
    picture = MediaPart("image", "A" * 9_000, "image/png")
    assert estimate_tokens(picture) == PICTURE_TOKENS
    assert estimate_tokens(MediaPart("audio", "A" * 9_000, "audio/wav")) != PICTURE_TOKENS
    assert estimate_tokens([None, 1, True]) == 3


def test_what_stands_beside_a_picture_counts_too() -> None:
    """So does a schema in which something is called like one."""
    assert (
        estimate_tokens(
            [
                {
                    "type": "image",
                    "source": {},
                    "properties": SCHEMA,
                }
            ]
        )
        > PICTURE_TOKENS + 4_000
    )


def test_what_is_measured_piece_by_piece_is_estimated_like_the_whole() -> None:
    parts = [
        ReasoningPart("It nests in reeds.", signature={"data": "abc"}, provider="anthropic"),
        OpaquePart(
            "anthropic", {"type": "server_tool_use", "input": {"query": "Wo nisten Reiher? \ud83e"}}
        ),
        ToolCall("1", "look", '{"a": 1}', extras={"b": [1, None, 2.5]}),
        MediaPart("image", data="aGVyb24="),
        TextPart("Sie nisten im Schilf, ganz früh."),
    ]
    measures = [measures_of(part) for part in parts]
    assert estimate_tokens(parts) == sum(tokens for tokens, _ in measures) + tokens_in(
        sum(size for _, size in measures)
    )


class Counted(dict[str, int]):
    """A counter with a memory, which is empty, and so false, when the call is made."""

    def __call__(self, value: Any) -> int:
        return self.setdefault(repr(value), 7)


def test_a_counter_that_has_counted_nothing_yet_is_a_counter_all_the_same() -> None:
    counted = Counted()
    policy = rungwise.Policy(budget=rungwise.Budget(money=1.0))
    chain = [PlainLink(prices=rungwise.Prices(1, 1))]
    Call(Request("Where?"), policy, chain, estimate=counted).begin()
    assert counted
