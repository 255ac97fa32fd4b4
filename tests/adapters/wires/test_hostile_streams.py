"""Hostile streams of all six wires: halves of surrogate pairs wherever a text may stand, and pieces
without end.
"""

import gc
import json
import time
from collections.abc import Iterator
from random import Random
from typing import Any
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.adapters.provider.server import render
from rungwise.adapters.wires.draft import NO_END
from rungwise.core import Call, Failure, Reply, Request
from rungwise.fsm.replies.parts import (
    MediaPart,
    Message,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from rungwise.testing import ScriptedReply
from support import protocols
from support.sampling import examples

ALL = pytest.mark.parametrize("api", protocols.PROTOCOLS)
HALVES = ("\ud83d", "\udc00", "a\ud83db", "\udc00\ud83d", "\ud83d" * 40)


def backend(api: str) -> Any:
    return protocols.backend(api, "http://localhost/v1")


def event_of(api: str, value: Any, name: str = "") -> bytes:
    """Write an event with any JSON in it, halves of surrogate pairs too."""
    if api != "bedrock":
        text = json.dumps(value).encode() + b"\n"
        return text if api == "ollama" else b"data: " + text + b"\n"
    made = frame(name, {})
    payload = json.dumps(value).encode()
    headers = made[12 : 12 + int.from_bytes(made[4:8], "big")]
    whole = 16 + len(headers) + len(payload)
    lengths = whole.to_bytes(4, "big") + len(headers).to_bytes(4, "big")
    message = lengths + crc32(lengths).to_bytes(4, "big") + headers + payload
    return message + crc32(message).to_bytes(4, "big")


def events_in(api: str, body: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the events of a stream: the name, in Bedrock's, and the JSON."""
    if api == "bedrock":
        parser = EventStreamBuffer()
        parser.add_data(body)
        for each in parser:
            yield each.headers[":event-type"], json.loads(each.payload)
        return
    for line in body.split(b"\n"):
        text = line.removeprefix(b"data: ")
        if text.startswith(b"{"):
            yield "", json.loads(text)


def read(api: str, data: bytes) -> Reply | Failure:
    decoder = backend(api).decoder({})
    for start in range(0, len(data), 1_000):
        decoder.feed(data[start : start + 1_000])
    came: Reply | Failure = decoder.close(NO_END)
    return came


# halves of surrogate pairs


def poisoned(value: Any, rolls: Random) -> Any:
    """Return JSON in which some texts end in half a surrogate pair."""
    if isinstance(value, str):
        return value + rolls.choice(HALVES) if rolls.random() < 0.5 else value
    if isinstance(value, list):
        return [poisoned(item, rolls) for item in value]
    if not isinstance(value, dict):
        return value
    spoiled = {}
    for name, item in value.items():
        is_spared = name in ("type", "object", "role", "done")
        spoiled[name] = item if is_spared else poisoned(item, rolls)
    return spoiled


SCRIPTS = (
    ScriptedReply(text="Herons nest in reeds.", reasoning="Hm.", chunk_size=4),
    ScriptedReply(tool_calls=[ToolCall("c1", "look", '{"bird": "heron"}')], reasoning="I look."),
    ScriptedReply(refusal="No."),
    ScriptedReply(status=400, error={"message": "no", "type": "odd"}),
    ScriptedReply(status=429),
)


def check_usable(api: str, came: Reply | Failure) -> None:
    """Take what came into a call, write it down, and send it back: nothing in it is half a
    surrogate pair.
    """
    asked = backend(api)
    call = Call(Request("Where?"), chain=[asked], contents=True)
    call.begin()
    call.receive(came)
    call.journal.to_json().encode()
    result = call.cancel()
    repr((came, result)).encode()
    if isinstance(came, Failure):
        for text in (came.code, came.message, came.parameter, came.found):
            (text or "").encode()
        return
    json.dumps(result.plain_message, ensure_ascii=False).encode()
    for text in (came.text, came.reasoning, came.stop_raw, came.model, came.refusal):
        (text or "").encode()
    first = Message.saying("user", "Where?")
    again = Request([first, result.message, Message.saying("user", "And?")])
    json.loads(protocols.encoded(asked, *again.messages).body)


@ALL
@settings(max_examples=examples(60))
@given(st.integers(0, 10**6))
def test_halves_in_a_reply_are_read_recorded_and_sent_back(api: str, seed: int) -> None:
    rolls = Random(seed)
    script = rolls.choice(SCRIPTS)
    streams = rolls.random() < 0.7
    request = protocols.encoded(backend(api), {"role": "user", "content": "Where?"}, stream=streams)
    path = request.url.removeprefix("http://localhost")
    body = render(script, json.loads(request.body), path=path).body
    if streams and script.status == 200:
        spoiled = b""
        for name, value in events_in(api, body):
            spoiled += event_of(api, poisoned(value, rolls), name)
        came = read(api, spoiled)
    else:
        spoiled = json.dumps(poisoned(json.loads(body), rolls)).encode()
        came = backend(api).decode(script.status, {}, spoiled)
    check_usable(api, came)


MESSAGES = (
    {"role": "system", "content": "Short."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Where?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
            },
        ],
    },
    {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Hm.",
        "tool_calls": [protocols.chat_call("c1", "look", '{"a": "b"}')],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "In the reeds."},
    {"role": "user", "content": [{"text": "And when?"}]},
)
SCHEMA = {"type": "object", "properties": {"bird": {"type": "string", "description": "which"}}}
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "look", "parameters": SCHEMA},
}


@ALL
@settings(max_examples=examples(60))
@given(st.integers(0, 10**6))
def test_halves_in_a_request_are_sent_whole_or_refused(api: str, seed: int) -> None:
    rolls = Random(seed)
    asked = backend(api)
    half = rolls.choice(HALVES)
    messages = [poisoned(dict(each), rolls) for each in MESSAGES]
    shown = (
        TextPart(half),
        MediaPart("image", data="aGk=", media_type=half),
        MediaPart("file", url=half),
    )
    answer = (
        ReasoningPart(half, half, asked.provider),
        OpaquePart(asked.provider, {"x": half}),
        ToolCall(half, half, "{}"),
    )
    neutral = [
        Message("user", shown),
        Message("assistant", answer),
        Message("tool", (ToolResult(half, half, half),)),
        Message.saying("user", half),
    ]
    request = Request(
        rolls.choice([messages, neutral, [*messages, *neutral]]),
        tools=[poisoned(TOOL, rolls)],
        parameters=poisoned({"user": "ann", "stop": ["x"]}, rolls),
    )
    assert asked.lost(request) == asked.lost(request)
    for is_portable in (False, True):
        send = protocols.sending(request, max_tokens=10, portable=is_portable)
        assert isinstance(json.loads(asked.encode(send, stream=True).body), dict)


# pieces without end


def piece(
    api: str,
    kind: str,
    number: int,
    text: str,
) -> bytes:
    """Write an event with a piece of a reply in a protocol's own form."""
    index = number if kind == "blocks" else 0
    if api == "openai":
        call = {
            "index": index,
            "id": f"c{index}",
            "function": {"name": "f", "arguments": text},
        }
        delta = {
            "text": {"content": text},
            "thought": {"reasoning_content": text},
            "signature": {
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "index": 0,
                        "signature": text,
                    }
                ]
            },
        }.get(kind, {"tool_calls": [call]})
        return event_of(api, {"choices": [{"index": 0, "delta": delta}]})
    if api == "responses":
        names = {
            "text": "output_text",
            "thought": "reasoning_summary_text",
            "signature": "refusal",
        }
        place = {
            "output_index": index if kind != "thought" else 1,
            "content_index": 0,
            "summary_index": 0,
        }
        return event_of(
            api,
            {
                "type": f"response.{names.get(kind, 'function_call_arguments')}.delta",
                **place,
                "delta": text,
            },
        )
    if api == "anthropic":
        begun = {
            "type": "content_block_start",
            "index": index,
            "content_block": {"type": "tool_use", "name": "f"},
        }
        deltas = {
            "text": {"type": "text_delta", "text": text},
            "thought": {"type": "thinking_delta", "thinking": text},
            "signature": {"type": "signature_delta", "signature": text},
        }
        delta = deltas.get(kind, {"type": "input_json_delta", "partial_json": text})
        begins = event_of(api, begun) if kind == "blocks" else b""
        return begins + event_of(
            api,
            {
                "type": "content_block_delta",
                "index": index,
                "delta": delta,
            },
        )
    if api == "gemini":
        parts = {"text": {"text": text}, "thought": {"text": text, "thought": True}}
        part = parts.get(kind) or {
            "signature": {"text": "", "thoughtSignature": text},
            "blocks": {"functionCall": {"name": "f", "args": {"a": text}}},
        }.get(
            kind,
            {
                "functionCall": {
                    "name": "f",
                    "partialArgs": [{"jsonPath": "$.a", "stringValue": text}],
                }
            },
        )
        return event_of(api, {"candidates": [{"content": {"role": "model", "parts": [part]}}]})
    if api == "ollama":
        call = {"function": {"name": "f", "arguments": {"a": text}}}
        message = {"text": {"content": text}, "thought": {"thinking": text}}.get(
            kind, {"tool_calls": [call]}
        )
        return event_of(
            api,
            {
                "model": "m",
                "message": {"role": "assistant", **message},
                "done": False,
            },
        )
    begun = {
        "contentBlockIndex": index,
        "start": {"toolUse": {"toolUseId": f"c{index}", "name": "f"}},
    }
    deltas = {
        "text": {"text": text},
        "thought": {"reasoningContent": {"text": text}},
        "signature": {"reasoningContent": {"signature": text}},
    }
    delta = deltas.get(kind, {"toolUse": {"input": text}})
    begins = event_of(api, begun, "contentBlockStart") if kind == "blocks" else b""
    return begins + event_of(api, {"contentBlockIndex": index, "delta": delta}, "contentBlockDelta")


STREAMS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "thoughts": ("thought",),
    "signatures": ("signature",),
    "thoughts and signatures": ("thought", "signature"),
    "text and thoughts in turn": ("text", "thought"),
    "text, thoughts and signatures in turn": ("text", "thought", "signature"),
    "arguments": ("arguments",),
    "text and arguments in turn": ("text", "arguments"),
    "blocks": ("blocks",),
}


def seconds_for(api: str, kinds: tuple[str, ...], size: int) -> float:
    """Return the least processor time of three readings of a stream, without the collector of
    garbage.
    """
    text = "a" * 300
    data = b"".join([piece(api, kind, number, text) for number in range(size) for kind in kinds])
    least = float("inf")
    gc.disable()
    try:
        for _ in range(3):
            begun = time.process_time()
            came = read(api, data)
            least = min(least, time.process_time() - begun)
            assert isinstance(came, (Reply, Failure))
    finally:
        gc.enable()
    return least


@pytest.mark.sampled(12)
@ALL
@pytest.mark.parametrize("kind", STREAMS)
def test_sixteen_times_the_pieces_take_no_fifty_times_as_long(api: str, kind: str) -> None:
    """What is copied with each piece takes more than a hundred times as long; nothing but a clock
    sees copies.
    """
    small = seconds_for(api, STREAMS[kind], 500)
    large = seconds_for(api, STREAMS[kind], 8_000)
    assert large < 50 * small
