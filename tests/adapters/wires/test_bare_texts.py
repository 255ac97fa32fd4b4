"""A bare text, or a single block, where a protocol has a list of blocks."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.fsm.replies.reply import Reply
from support.protocols import backend

TEXT = "They nest in reeds."

Content = Callable[[Any], dict[str, Any]]

WHOLE: dict[str, Content] = {
    "openai": lambda content: {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "stop",
            }
        ]
    },
    "responses": lambda content: {
        "id": "r",
        "status": "completed",
        "output": [{"type": "message", "role": "assistant", "content": content}],
    },
    "anthropic": lambda content: {
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "end_turn",
    },
    "gemini": lambda content: {
        "candidates": [{"content": {"role": "model", "parts": content}, "finishReason": "STOP"}]
    },
    "bedrock": lambda content: {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "end_turn",
    },
    "ollama": lambda content: {
        "message": {"role": "assistant", "content": content},
        "done": True,
        "done_reason": "stop",
    },
}
BLOCK: dict[str, dict[str, str]] = {
    "openai": {"type": "text"},
    "responses": {"type": "output_text"},
    "anthropic": {"type": "text"},
    "gemini": {},
    "bedrock": {},
    "ollama": {"type": "text"},
}


def read(api: str, body: Any, *, kind: str = "application/json") -> Reply:
    """Read a whole body, and hold that it ended well."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = backend(api, "http://127.0.0.1:9/v1").decode(200, {"content-type": kind}, data)
    assert isinstance(reply, Reply)
    assert (reply.stop_reason, reply.interrupted) == ("stop", False)
    return reply


@pytest.mark.parametrize("api", WHOLE)
def test_a_bare_text_is_the_text(api: str) -> None:
    first, second = TEXT[:8], TEXT[8:]
    block = {**BLOCK[api], "text": second}
    for content in (TEXT, [first, second], [first, block], {**block, "text": TEXT}):
        assert read(api, WHOLE[api](content)).text == TEXT


@pytest.mark.parametrize("api", WHOLE)
def test_what_is_no_text_is_none(api: str) -> None:
    for content in ("", [], [""], [None, 3, True]):
        assert read(api, WHOLE[api](content)).text == ""


OTHERWISE = {
    "a message that is a text": (
        "openai",
        {"choices": [{"index": 0, "message": TEXT, "finish_reason": "stop"}]},
    ),
    "an item that is a text": ("responses", {"id": "r", "status": "completed", "output": [TEXT]}),
    "an output that is a text": ("responses", {"id": "r", "status": "completed", "output": TEXT}),
    "the text beside an empty output": (
        "responses",
        {"id": "r", "status": "completed", "output": [], "output_text": TEXT},
    ),
    "contents without parts": (
        "gemini",
        {"candidates": [{"content": TEXT, "finishReason": "STOP"}]},
    ),
    "another endpoint of Ollama": (
        "ollama",
        {"response": TEXT, "done": True, "done_reason": "stop"},
    ),
    "a message of Ollama that is a text": (
        "ollama",
        {"message": TEXT, "done": True, "done_reason": "stop"},
    ),
}


@pytest.mark.parametrize("way", OTHERWISE)
def test_a_text_elsewhere_is_read(way: str) -> None:
    api, body = OTHERWISE[way]
    assert read(api, body).text == TEXT


def events(*values: Any) -> bytes:
    """Write events."""
    return b"".join([b"data: " + json.dumps(value).encode() + b"\n\n" for value in values])


STREAMED = {
    "ollama": b"".join(
        json.dumps({"response": piece, "done": piece == TEXT[8:]}).encode() + b"\n"
        for piece in (TEXT[:8], TEXT[8:])
    ),
    "responses": events(
        {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
        {
            "type": "response.completed",
            "response": {"id": "r", "status": "completed", "output": [TEXT]},
        },
    ),
    "gemini": events(
        {"candidates": [{"content": {"role": "model", "parts": [TEXT[:8]]}}]},
        {"candidates": [{"content": {"role": "model", "parts": TEXT[8:]}, "finishReason": "STOP"}]},
    ),
    "openai": events(
        {"choices": [{"index": 0, "delta": {"content": [TEXT[:8]]}}]},
        {"choices": [{"index": 0, "delta": {"content": {"type": "text", "text": TEXT[8:]}}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ),
}


@pytest.mark.parametrize("api", STREAMED)
def test_a_stream_is_read_likewise(api: str) -> None:
    kind = "application/x-ndjson" if api == "ollama" else "text/event-stream"
    decoder = backend(api, "http://127.0.0.1:9/v1").decoder({"content-type": kind})
    shown = "".join([delta.text for delta in decoder.feed(STREAMED[api])])
    assert shown == TEXT
    assert decoder.close().text == TEXT


def test_a_block_of_converse_may_begin_with_its_text() -> None:
    decoder = backend("bedrock", "http://127.0.0.1:9/v1").decoder({})
    stream = b"".join(
        [
            frame("messageStart", {"role": "assistant"}),
            frame("contentBlockStart", {"contentBlockIndex": 0, "start": {"text": TEXT[:8]}}),
            frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": TEXT[8:]}}),
            frame("contentBlockStop", {"contentBlockIndex": 0}),
            frame("messageStop", {"stopReason": "end_turn"}),
        ]
    )
    assert "".join([delta.text for delta in decoder.feed(stream)]) == TEXT
    assert decoder.close().text == TEXT
