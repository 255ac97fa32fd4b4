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
        "incomplete_details": None,
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


RESPONSE = {"id": "r", "status": "completed", "incomplete_details": None}
OTHERWISE = {
    "a message that is a text": (
        "openai",
        {"choices": [{"index": 0, "message": TEXT, "finish_reason": "stop"}]},
    ),
    "an item that is a text": ("responses", {**RESPONSE, "output": [TEXT]}),
    "an output that is a text": ("responses", {**RESPONSE, "output": TEXT}),
    "the text beside an empty output": (
        "responses",
        {**RESPONSE, "output": [], "output_text": TEXT},
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
ENDED = {"type": "response.completed", "response": {"status": "completed", "output": []}}
STOPPED = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
PLACED = {"item_id": "i", "output_index": 0, "content_index": 0}
DELTA = {"type": "response.output_text.delta", **PLACED, "delta": TEXT[8:]}
ELSEWHERE = {
    "a delta of chat": (
        {"choices": [{"index": 0, "delta": TEXT[:8]}]},
        {"choices": [{"index": 0, "delta": TEXT[8:], "finish_reason": "stop"}]},
    ),
    "the text of a completion": (
        {"choices": [{"index": 0, "text": TEXT[:8]}]},
        {"choices": [{"index": 0, "text": TEXT[8:], "finish_reason": "stop"}]},
    ),
    "a message of chat": ({"choices": [{"index": 0, "message": TEXT, "finish_reason": "stop"}]},),
    "a block of messages": (
        {"type": "content_block_start", "index": 0, "content_block": TEXT[:8]},
        {"type": "content_block_delta", "index": 0, "delta": TEXT[8:]},
        STOPPED,
    ),
    "a block of messages without a type": (
        {"type": "content_block_start", "index": 0, "content_block": {"text": TEXT[:8]}},
        {"type": "content_block_delta", "index": 0, "delta": {"text": TEXT[8:]}},
        STOPPED,
    ),
    "a part of a response": (
        {"type": "response.content_part.added", **PLACED, "part": TEXT[:8]},
        DELTA | {"delta": {"type": "output_text", "text": TEXT}},
        ENDED,
    ),
    "an item of a response": (
        {"type": "response.output_item.done", "output_index": 0, "item": TEXT},
        ENDED,
    ),
    "an item of a response without a type": (
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"role": "assistant", "content": [TEXT[:8], TEXT[8:]]},
        },
        ENDED,
    ),
    "a response that is its last event": (
        {**ENDED["response"], "type": ENDED["type"], "output": [TEXT]},  # type: ignore[dict-item]
    ),
    "one choice in place of a list": (
        {"choices": {"index": 0, "delta": [{"text": TEXT[:8]}]}},
        {"choices": [{"index": 0, "delta": {"text": TEXT[8:]}, "finish_reason": "stop"}]},
    ),
    "deltas and blocks of other names": (
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "output_text", "text": TEXT[:2]},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text", "text": TEXT[2:8]}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "content": TEXT[8:]},
        },
        STOPPED,
    ),
    "one candidate in place of a list": (
        {"candidates": {"content": [{"parts": [{"text": TEXT[:8]}]}]}},
        {"candidates": [{"content": {"text": TEXT[8:]}, "finishReason": "STOP"}]},
    ),
    "a piece under the name of the whole": (
        {"type": "response.output_text.delta", **PLACED, "text": TEXT[:8]},
        DELTA,
        ENDED,
    ),
}


@pytest.mark.parametrize("way", ELSEWHERE)
def test_a_bare_text_in_an_event_is_read(way: str) -> None:
    for api in ("openai", "anthropic", "responses", "gemini"):
        decoder = backend(api, "http://127.0.0.1:9/v1").decoder({})
        shown = "".join([delta.text for delta in decoder.feed(events(*ELSEWHERE[way]))])
        reply = decoder.close()
        if shown and not reply.interrupted:  # another protocol may understand a part
            assert (shown, reply.text) == (TEXT, TEXT)
            return
    raise AssertionError("no protocol has read it")


@pytest.mark.parametrize("api", STREAMED)
def test_a_stream_is_read_likewise(api: str) -> None:
    kind = "application/x-ndjson" if api == "ollama" else "text/event-stream"
    decoder = backend(api, "http://127.0.0.1:9/v1").decoder({"content-type": kind})
    shown = "".join([delta.text for delta in decoder.feed(STREAMED[api])])
    assert shown == TEXT
    assert decoder.close().text == TEXT


@pytest.mark.parametrize("start", ["text", "bare", "nested", "outside", "all of it"])
def test_a_block_of_converse_may_begin_with_its_text(start: str) -> None:
    starts: dict[str, Any] = {
        "text": {"start": {"text": TEXT[:8]}},
        "bare": {"start": TEXT[:8]},
        "nested": {"start": {"text": {"text": TEXT[:8]}}},
        "outside": {"text": TEXT[:8]},
        "all of it": {"start": {"text": 3 * TEXT}},
    }
    rest = 3 * TEXT if start == "all of it" else TEXT[8:]
    decoder = backend("bedrock", "http://127.0.0.1:9/v1").decoder({})
    stream = b"".join(
        [
            frame("messageStart", {"role": "assistant"}),
            frame("contentBlockStart", {"contentBlockIndex": 0, **starts[start]}),
            frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": rest}}),
            frame("contentBlockStop", {"contentBlockIndex": 0}),
            frame("messageStop", {"stopReason": "end_turn"}),
        ]
    )
    text = 3 * TEXT if start == "all of it" else TEXT
    assert "".join([delta.text for delta in decoder.feed(stream)]) == text
    assert decoder.close().text == text
