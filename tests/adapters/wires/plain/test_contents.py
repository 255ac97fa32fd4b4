"""Gemini's contents as callers write them, in either spelling, are read whole."""

from typing import Any

import pytest

from rungwise import MediaPart, TextPart, ToolCall, ToolResult
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.core import OpaquePart, ReasoningPart

PIXEL = "iVBORw0KGgo="
SHOWN = MediaPart("image", PIXEL, "image/png")


@pytest.mark.parametrize(
    ("part", "read"),
    [
        ("Where?", TextPart("Where?")),
        ({"text": "Where?"}, TextPart("Where?")),
        (
            {
                "text": "Hm.",
                "thought": True,
                "thoughtSignature": "c2ln",
            },
            ReasoningPart("Hm."),
        ),
        ({"inlineData": {"mimeType": "image/png", "data": PIXEL}}, SHOWN),
        ({"inline_data": {"mime_type": "image/png", "data": PIXEL}}, SHOWN),
        (
            {"fileData": {"fileUri": "gs://b/v", "mimeType": "video/mp4"}},
            MediaPart("video", "", "video/mp4", "gs://b/v"),
        ),
        (
            {"executableCode": {"language": "PYTHON", "code": "a()"}},
            TextPart("\n```python\na()\n```\n"),
        ),
        ({"executable_code": {"code": "'```'"}}, TextPart("\n````\n'```'\n````\n")),
        (
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "5\n"}},
            TextPart("\n```\n5\n```\n"),
        ),
        (
            {"codeExecutionResult": {"outcome": "OK"}},
            OpaquePart("", {"codeExecutionResult": {"outcome": "OK"}}),
        ),
    ],
)
def test_each_part(part: Any, read: Any) -> None:
    [message] = read_messages([{"role": "model", "parts": [part]}])
    assert message.role == "assistant"
    assert message.parts == (read,)


def test_a_part_that_is_empty_but_for_its_signature_says_nothing() -> None:
    [message] = read_messages(
        [{"role": "model", "parts": [{"text": "a"}, {"text": "", "thoughtSignature": "c2ln"}]}]
    )
    assert message.parts == (TextPart("a"),)


def test_calls_and_results_with_what_they_show() -> None:
    blob = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    result = {
        "id": "1",
        "name": "look",
        "response": {"output": "See."},
        "parts": [blob, {"text": "not shown"}],
    }
    call = {"id": "1", "name": "look", "args": {"bird": "heron"}}
    error = {"response": {"error": "No."}}
    parts = [{"functionResponse": result}, {"functionResponse": error}]
    model = {"role": "model", "parts": [{"functionCall": call}]}
    calls, results = read_messages([model, {"role": "user", "parts": parts}])
    assert calls.parts == (ToolCall("1", "look", '{"bird":"heron"}'),)
    assert results.role == "tool"
    assert results.parts == (
        ToolResult("1", "look", "See.", media=(SHOWN,)),
        ToolResult("", "", "No.", is_fault=True),
    )
