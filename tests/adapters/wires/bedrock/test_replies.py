"""Converse's replies are read whole and in frames cut anywhere, whatever stands in them."""

import base64
import json
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import pytest

from rungwise import Bedrock, TextPart, ToolCall, Usage
from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.core import CitationPart, Failure, OpaquePart, ReasoningPart
from support.sampling import sampled
from support.streams import followed
from support.work import grows_within

BACKEND: Any = Bedrock(
    "anthropic.claude-opus-5-5", region="eu-north-1", base_url="http://localhost/v1", api_key="k9d2"
)
ME = BACKEND.provider
SEALED = base64.b64encode(b"sealed").decode()
CITATION = {
    "title": "Birds",
    "location": {"documentPage": {"documentIndex": 0, "start": 1, "end": 2}},
}
SERVER = {
    "toolUseId": "srv_1",
    "name": "nova_grounding",
    "type": "server_tool_use",
}
BLOCKS = [
    {"reasoningContent": {"reasoningText": {"text": "Herons like reeds.", "signature": "c2ln"}}},
    {"reasoningContent": {"redactedContent": SEALED}},
    {"toolUse": {**SERVER, "input": {"query": "herons"}}},
    {
        "citationsContent": {
            "content": [{"text": "In the "}, {"text": "reeds."}],
            "citations": [CITATION],
        }
    },
    {
        "toolUse": {
            "toolUseId": "tooluse_1",
            "name": "look",
            "input": {"bird": "heron"},
        }
    },
]
PARTS = (
    ReasoningPart("Herons like reeds.", "c2ln", ME),
    OpaquePart(ME, BLOCKS[1]),
    OpaquePart(ME, BLOCKS[2]),
    TextPart("In the reeds."),
    CitationPart("", "", "Birds", ("pages", 1, 2), CITATION, ME),
    ToolCall("tooluse_1", "look", '{"bird":"heron"}'),
)
USAGE = {
    "inputTokens": 10,
    "outputTokens": 70,
    "totalTokens": 1180,
    "cacheReadInputTokens": 100,
    "cacheWriteInputTokens": 1000,
}


def delta(index: Any, **what: Any) -> bytes:
    return frame(
        "contentBlockDelta",
        {
            "contentBlockIndex": index,
            "delta": what,
            "p": "abcdefgh",
        },
    )


def begin(index: Any, **what: Any) -> bytes:
    return frame("contentBlockStart", {"contentBlockIndex": index, "start": what})


def end(index: Any) -> bytes:
    return frame("contentBlockStop", {"contentBlockIndex": index})


START = frame("messageStart", {"role": "assistant"})
STOP = frame("messageStop", {"stopReason": "end_turn"})
LAST = frame("metadata", {"usage": USAGE, "metrics": {"latencyMs": 1}})
STREAM = [
    START,
    delta(0, reasoningContent={"text": "Herons "}),
    delta(0, reasoningContent={"text": "like reeds."}),
    delta(0, reasoningContent={"signature": "c2ln"}),
    end(0),
    delta(1, reasoningContent={"redactedContent": base64.b64encode(b"seal").decode()}),
    delta(1, reasoningContent={"redactedContent": base64.b64encode(b"ed").decode()}),
    end(1),
    begin(2, toolUse=SERVER),
    delta(2, toolUse={"input": '{"query": "herons"}'}),
    end(2),
    delta(3, text="In the "),
    delta(3, citation=CITATION),
    delta(3, text="reeds."),
    end(3),
    begin(4, toolUse={"toolUseId": "tooluse_1", "name": "look"}),
    delta(4, toolUse={"input": '{"bird":'}),
    delta(4, toolUse={"input": '"heron"}'}),
    end(4),
    frame("messageStop", {"stopReason": "tool_use"}),
    LAST,
]


def read(pieces: Iterable[bytes]) -> tuple[Any, str, str]:
    return followed(BACKEND.decoder({}), pieces)


def whole(**members: Any) -> Any:
    told = {
        "output": {"message": {"role": "assistant", "content": BLOCKS}},
        "stopReason": "tool_use",
        "usage": USAGE,
    }
    return BACKEND.decode(200, {}, json.dumps({**told, **members}).encode())


def test_blocks_are_parts_in_their_order() -> None:
    for reply in (whole(), read(STREAM)[0]):
        assert reply.parts == PARTS
        assert reply.usage == Usage(1110, 70, 100, 1000)
        assert reply.stop_raw == "tool_use"
    assert read(STREAM)[1:] == ("In the reeds.", "Herons like reeds.")


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (USAGE, Usage(1110, 70, 100, 1000)),
        (
            {
                "inputTokens": 9,
                "outputTokens": 7,
                "totalTokens": 16,
            },
            Usage(9, 7),
        ),
        (
            {
                "inputTokens": 1200,
                "outputTokens": 7,
                "totalTokens": 1207,
                "cacheReadInputTokens": 1000,
            },
            Usage(1200, 7, 1000),
        ),
    ],
)
def test_all_that_is_paid_for_is_counted(usage: dict[str, Any], counted: Usage) -> None:
    assert whole(usage=usage).usage == counted
    assert read([START, STOP, frame("metadata", {"usage": usage})])[0].usage == counted


def test_a_stream_has_ended_with_its_stop_reason() -> None:
    text = delta(0, text="In the reeds.")
    assert not read([START, text, end(0), STOP, LAST])[0].interrupted
    assert not read([START, text, end(0), STOP])[0].interrupted
    assert read([START, text, end(0), LAST])[0].interrupted
    assert read([START, text])[0].interrupted
    decoder = BACKEND.decoder({})
    decoder.feed(START + text + STOP)
    assert not decoder.finished, "the usage is still to come"
    decoder.feed(LAST)
    assert decoder.finished


def test_half_a_call_is_half_a_call() -> None:
    use = begin(0, toolUse={"toolUseId": "t", "name": "look"})
    assert read([START, use, end(0), STOP])[0].tool_calls == (ToolCall("t", "look", "{}"),)
    assert read([START, use])[0].tool_calls == (ToolCall("t", "look", ""),)
    cut = delta(0, toolUse={"input": '{"bird": "he'})
    assert read([START, use, cut, end(0), STOP])[0].tool_calls == (
        ToolCall("t", "look", '{"bird": "he'),
    )
    assert (
        read([START, begin(0, toolUse=SERVER), delta(0, toolUse={"input": '{"q'})])[0].parts == ()
    )


@pytest.mark.parametrize("kind", [None, "tool_use", "server_tool_use"])
def test_only_a_call_of_the_servers_own_tools_is_the_servers(kind: str | None) -> None:
    use = {"toolUseId": "t", "name": "look"}
    if kind is not None:
        use["type"] = kind
    body = whole(
        output={"message": {"content": [{"toolUse": {**use, "input": {"bird": "heron"}}}]}}
    )
    for reply in (
        body,
        read(
            [START, begin(0, toolUse=use), delta(0, toolUse={"input": '{"bird":"heron"}'}), end(0)]
        )[0],
    ):
        is_servers = kind == "server_tool_use"
        assert reply.tool_calls == (
            () if is_servers else (ToolCall("t", "look", '{"bird":"heron"}'),)
        )
        assert isinstance(reply.parts[0], OpaquePart) is is_servers


def test_a_body_in_the_place_of_a_stream_is_read() -> None:
    told = {
        "output": {"message": {"content": [{"text": "In the reeds."}]}},
        "stopReason": "end_turn",
    }
    body = json.dumps(told).encode()
    assert read([body[:5], body[5:]])[0].text == "In the reeds."
    failure, _, _ = read([b'{"__type": "ThrottlingException", "message": "Too many requests"}'])
    assert failure.reason == "rate_limit"


def crafted(length: int, headers: int, rest: bytes) -> bytes:
    """Return a frame whose checksums hold, whatever its lengths say."""
    prelude = length.to_bytes(4, "big") + headers.to_bytes(4, "big")
    message = prelude + crc32(prelude).to_bytes(4, "big") + rest
    return message + crc32(message).to_bytes(4, "big")


BROKEN = {
    "no length": b"\x00" * 100,
    "a length below that of a frame": crafted(3, 0, b""),
    "endless": crafted(2**31, 0, b""),
    "another checksum": STREAM[1][:-1] + b"\x00",
    "another prelude": STREAM[1][:9] + b"\x00\x00\x00" + STREAM[1][12:],
    "headers beyond the end": crafted(20, 900, b"abcd"),
    "headers that are none": crafted(20, 4, b"\xff\xff\xff\xff"),
    "an unknown type of header": crafted(21, 5, b"\x01a\x63\x00\x00"),
    "a payload that is not JSON": b"".join(
        [
            crafted(16 + len(each), len(each), each)
            for each in (b"\x0d:message-type\x07\x00\x05event",)
        ]
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_frame_ends_the_reply_and_keeps_its_text(kind: str) -> None:
    for pieces in ([*STREAM[:1], delta(0, text="In the"), BROKEN[kind]], [BROKEN[kind]]):
        data = b"".join(pieces)
        at_once = read([data])
        in_pieces = read([data[n : n + 1] for n in range(len(data))])
        assert repr(at_once) == repr(in_pieces)
        came = at_once[0]
        failure = came if isinstance(came, Failure) else came.failure
        assert failure is None or failure.reason == "malformed"
        assert isinstance(came, Failure) or came.interrupted
        if len(pieces) > 1:
            assert came.text == "In the"


GROWING = {
    "blocks": lambda n: [delta(k, text="x") for k in range(n)],
    "one index": lambda n: [delta(0, text="x"), delta(0, reasoningContent={"text": "x"})] * n,
    "frames in one piece": lambda n: [b"".join([delta(0, text="x")] * n)],
    "a frame byte by byte": lambda n: [bytes([byte]) for byte in delta(0, text="x" * 20 * n)],
}


@pytest.mark.parametrize("kind", sampled(GROWING, one_in=4))
def test_the_work_is_linear(kind: str) -> None:
    """Twenty times as much takes twenty times as long, and not 400 times."""
    little = GROWING[kind](250)
    much = GROWING[kind](5_000)
    assert grows_within(lambda: read(little), lambda: read(much), times=200, floor=1.0)
