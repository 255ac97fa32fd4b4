"""Hostile streams of all wires: halves of surrogate pairs wherever a text may stand, and pieces
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
from support.classified import event_of as classified
from support.sampling import examples
from support.spoiling import spoilt
from support.streams import followed, rendered
from support.texts import cut

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
    body = rendered(backend(api), script, streams=streams)
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
    if api == "interactions":
        deltas = {
            "text": {"type": "text", "text": text},
            "thought": {"type": "thought_summary", "content": {"type": "text", "text": text}},
            "signature": {"type": "thought_signature", "signature": text},
        }
        delta = deltas.get(kind, {"type": "arguments_delta", "arguments": text})
        call = {"type": "function_call", "id": "c", "name": "f", "arguments": {}}
        start = {"event_type": "step.start", "index": index, "step": call}
        begins = event_of(api, start) if kind == "blocks" else b""
        said = {"event_type": "step.delta", "index": index, "delta": delta}
        return begins + event_of(api, said)
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


@pytest.mark.dear(5)
@pytest.mark.full
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


# whatever else


MORE: dict[str, list[Any]] = {
    "openai": [
        {
            "choices": [{"delta": {"function_call": {"name": "f", "arguments": "{}"}}}],
            "x_groq": {"usage": {"prompt_tokens": 3}, "error": None},
        },
        {"choices": [{"message": {"content": [{"type": "text", "text": "Herons."}]}}]},
        {
            "choices": [
                {"delta": {"tool_calls": [{"index": 0, "custom": {"name": "g", "input": "x"}}]}}
            ],
            "base_resp": {"status_code": 0},
        },
        {"error": {"message": "Sorry.", "code": 503}},
    ],
    "responses": [
        {
            "type": "response.output_text.annotation.added",
            "output_index": 0,
            "content_index": 0,
            "annotation": {"type": "url_citation", "url": "https://e.org"},
        },
        {
            "type": "response.output_item.done",
            "output_index": 3,
            "item": {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "free"},
        },
        {
            "type": "response.output_item.done",
            "output_index": 4,
            "item": {"id": "ws_1", "type": "web_search_call", "status": "completed"},
        },
        {"type": "error", "code": "server_error"},
    ],
    "anthropic": [
        {
            "type": "content_block_start",
            "index": 3,
            "content_block": {"type": "server_tool_use", "id": "s", "name": "n", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "citations_delta", "citation": {"cited_text": "x"}},
        },
        {"type": "error", "error": {"type": "overloaded_error", "message": "Sorry."}},
    ],
    "gemini": [
        {
            "candidates": [
                {
                    "content": {
                        "parts": [
                            {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                            {"executableCode": {"code": "1"}},
                            {
                                "functionCall": {
                                    "name": "f",
                                    "partialArgs": [{"jsonPath": "$.a[0]", "stringValue": "x"}],
                                    "willContinue": True,
                                }
                            },
                        ]
                    },
                    "logprobsResult": {"chosenCandidates": [{"token": "a"}]},
                    "groundingMetadata": {"webSearchQueries": ["herons"]},
                }
            ]
        },
        {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "No."}},
        {"error": {"code": 503, "status": "UNAVAILABLE"}},
    ],
    "interactions": [
        {
            "event_type": "step.start",
            "index": 3,
            "step": {"type": "google_search_call", "id": "s", "arguments": {}},
        },
        {
            "event_type": "step.delta",
            "index": 3,
            "delta": {"type": "google_search_call", "arguments": {"queries": ["herons"]}},
        },
        {
            "event_type": "step.delta",
            "index": 0,
            "delta": {"type": "image", "mime_type": "image/png", "data": "aGk="},
        },
        {
            "event_type": "step.delta",
            "index": 0,
            "delta": {"type": "text_annotation_delta", "annotations": [{"type": "url_citation"}]},
        },
        {
            "event_type": "interaction.status_update",
            "interaction_id": "v1_00000001",
            "status": "in_progress",
            "continuation_token": "t",
        },
        {
            "event_type": "interaction.completed",
            "interaction": {
                "id": "v1_00000001",
                "status": "completed",
                "steps": [
                    {"type": "thought", "summary": [{"type": "text", "text": "So."}]},
                    {"type": "model_output", "content": [{"type": "text", "text": "Reeds."}]},
                    {"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1}},
                ],
            },
        },
        {"event_type": "error", "error": {"code": "UNAVAILABLE", "message": "Sorry."}},
    ],
    "ollama": [{"message": {"content": "a"}, "logprobs": [{"token": "a"}]}, {"error": "Sorry."}],
    "bedrock": [
        {"contentBlockIndex": 3, "delta": {"reasoningContent": {"redactedContent": "aGk="}}},
        {"contentBlockIndex": 0, "delta": {"citation": {"title": "Birds"}}},
        {
            "contentBlockIndex": 4,
            "start": {"toolUse": {"toolUseId": "s", "name": "n", "type": "server_tool_use"}},
        },
    ],
}
"""Events that the embedded provider does not write."""


STRAYS = [
    b"",
    b"\n",
    b"\r",
    b": ping\n\n",
    b"event: error\n",
    b'event: error\ndata: "upstream timeout"\n\n',
    b"event: x\n",
    b"data: {\ndata: }\n\n",
    b"data: {\n\n",
    b"data: [DONE]\n\n",
    b"data: \xff\n\n",
    b"data:",
    b"<html>\n",
    b"{",
    b"\xef\xbb\xbf",
]
"""What may stand between two events."""


IN_EVENTS = [api for api in protocols.PROTOCOLS if api not in ("ollama", "bedrock")]


@pytest.mark.parametrize("value", ['"upstream timeout"', '["too late"]', "[1]", "null", "17", ""])
@pytest.mark.parametrize("api", IN_EVENTS)
def test_an_error_may_be_any_value(api: str, value: str) -> None:
    whole = rendered(backend(api), ScriptedReply("Herons nest in reeds."), streams=True)
    events = whole.split(b"\n\n")
    half = len(events) // 2
    error = b"event: error\ndata: %s" % value.encode()
    data = b"\n\n".join([*events[:half], error, *events[half:]])
    came, _, _ = followed(backend(api).decoder({}), [data])
    if value.startswith(("[", '"')):
        assert classified(came) != "answered"


def answers(api: str, *, streams: bool) -> list[bytes]:
    return [rendered(backend(api), script, streams=streams) for script in SCRIPTS[:3]]


STREAMED = {api: answers(api, streams=True) for api in protocols.PROTOCOLS}
WHOLE = {api: answers(api, streams=False) for api in protocols.PROTOCOLS}


@st.composite
def events_like(draw: st.DrawFn, api: str) -> list[tuple[str, Any]]:
    """Draw the events of a reply, of which some are wrong, missing, late or repeated."""
    events = list(events_in(api, draw(st.sampled_from(STREAMED[api]))))
    place = draw(st.integers(0, len(events)))
    more = draw(st.sampled_from([None, *MORE[api]]))
    if more is not None:
        name = "contentBlockStart" if "start" in more else "contentBlockDelta"
        events.insert(place, (name, more))
    names = [name for name, _ in events]
    values = draw(spoilt([value for _, value in events]))
    return list(zip(names, values, strict=False))


@ALL
@settings(max_examples=examples(100))
@given(
    st.data(),
    st.lists(st.integers(0, 4_000), max_size=6),
    st.sampled_from(STRAYS),
    st.booleans(),
    st.sampled_from([None, NO_END]),
)
def test_any_events_cut_anywhere_come_to_the_same_reply(
    api: str,
    data: st.DataObject,
    places: list[int],
    stray: bytes,
    is_long_ended: bool,
    failure: Failure | None,
) -> None:
    events = [event_of(api, value, name) for name, value in data.draw(events_like(api))]
    events.insert(data.draw(st.integers(0, len(events))), stray)
    body = b"".join(events)
    if is_long_ended:
        body = body.replace(b"\n", b"\r\n")
    for stream in (body, body[: data.draw(st.integers(0, len(body)))]):
        decoders = [backend(api).decoder({}) for _ in range(2)]
        shown = [decoders[0].feed(stream), []]
        for piece_of_it in cut(stream, places):
            shown[1] += decoders[1].feed(piece_of_it)
            assert decoders[1].size >= 0
        at_once, in_pieces = [decoder.close(failure) for decoder in decoders]
        assert repr(at_once) == repr(in_pieces)
        said = ["".join([each.text for each in deltas]) for deltas in shown]
        assert said[0] == said[1]
        check_usable(api, at_once)
        if isinstance(at_once, Reply):
            assert repr(at_once.parts) == repr(in_pieces.parts)
        asked = backend(api)
        for status in (200, 500):
            assert isinstance(asked.decode(status, {}, stream), Reply | Failure)


@ALL
@settings(max_examples=examples(100))
@given(st.data())
def test_any_body_is_a_reply_or_a_failure(api: str, data: st.DataObject) -> None:
    whole = json.loads(data.draw(st.sampled_from(WHOLE[api])))
    body = json.dumps(data.draw(spoilt(whole) | spoilt([whole, *MORE[api]]))).encode()
    came = backend(api).decode(200, {}, body)
    check_usable(api, came)
    if api == "ollama" and isinstance(came, Reply):  # whose stream may be one line
        assert getattr(came, "parts", ()) == getattr(read(api, body), "parts", ())
    odd = data.draw(st.binary(max_size=60)) + body[data.draw(st.integers(0, len(body))) :]
    for each in (odd, body[: data.draw(st.integers(0, len(body)))]):
        assert isinstance(backend(api).decode(200, {}, each), Reply | Failure)
        assert isinstance(read(api, each), Reply | Failure)
