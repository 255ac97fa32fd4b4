"""Anthropic's messages are read whole and in pieces of any size, whatever stands in them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import Anthropic, Usage
from rungwise.core import Failure, Reply
from rungwise.fsm.call.conversation.events import Reasoning, Text
from rungwise.fsm.call.conversation.parts import OpaquePart, ReasoningPart, TextPart, ToolCall
from support.sampling import examples, sampled
from support.work import grows_within

BACKEND = Anthropic("claude-opus-5-5", base_url="http://localhost/v1")
ME = BACKEND.provider
CITATION = {"type": "char_location", "cited_text": "reeds", "document_index": 0, "start_char_index": 0}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "herons"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://example.org", "title": "H", "encrypted_content": "e"}],
}
BLOCKS = [
    {"type": "thinking", "thinking": "Herons like reeds.", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "ZW5j"},
    SEARCH,
    FOUND,
    {"type": "text", "text": "In the reeds.", "citations": [CITATION]},
    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"bird": "heron"}, "caller": {"type": "direct"}},
]
PARTS = (
    ReasoningPart("Herons like reeds.", "c2ln", ME),
    OpaquePart(ME, BLOCKS[1]),
    OpaquePart(ME, SEARCH),
    OpaquePart(ME, FOUND),
    OpaquePart(ME, {"citations": [CITATION]}),
    TextPart("In the reeds."),
    ToolCall("toolu_1", "look", '{"bird":"heron"}'),
)
USAGE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 1000,
    "output_tokens": 70,
    "output_tokens_details": {"thinking_tokens": 30},
}
COUNTED = Usage(1110, 70, 100, 1000, 30)
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5"}


def event(kind: str, **members: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json.dumps({"type": kind, **members}).encode())


def delta(index: Any, **members: Any) -> bytes:
    return event("content_block_delta", index=index, delta=members)


def begin(index: Any, **block: Any) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def end(index: Any) -> bytes:
    return event("content_block_stop", index=index)


START = event("message_start", message={**MESSAGE, "content": [], "usage": {**USAGE, "output_tokens": 1}})
STOP = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 70})
END = event("message_stop")
STREAM = [
    START,
    event("ping"),
    begin(0, type="thinking", thinking="", signature=""),
    delta(0, type="thinking_delta", thinking="Herons "),
    delta(0, type="thinking_delta", thinking="like reeds."),
    delta(0, type="signature_delta", signature="c2ln"),
    end(0),
    begin(1, **BLOCKS[1]),
    end(1),
    begin(2, **{**SEARCH, "input": {}}),
    delta(2, type="input_json_delta", partial_json='{"query": '),
    delta(2, type="input_json_delta", partial_json='"herons"}'),
    end(2),
    begin(3, **FOUND),
    end(3),
    begin(4, type="text", text="", citations=[]),
    delta(4, type="citations_delta", citation=CITATION),
    delta(4, type="text_delta", text="In the "),
    delta(4, type="text_delta", text="reeds."),
    end(4),
    begin(5, type="tool_use", id="toolu_1", name="look", input={}, caller={"type": "direct"}),
    delta(5, type="input_json_delta", partial_json=""),
    delta(5, type="input_json_delta", partial_json='{"bird":'),
    delta(5, type="input_json_delta", partial_json='"heron"}'),
    end(5),
    event("message_delta", delta={"stop_reason": "tool_use"}, usage=USAGE),
    END,
]


def read(pieces: Iterable[bytes], failure: Failure | None = None) -> tuple[Any, str, str]:
    decoder, text, reasoning = BACKEND.decoder({}), "", ""
    for piece in pieces:
        for each in decoder.feed(piece):
            if isinstance(each, Text):
                text += each.text
            elif isinstance(each, Reasoning):
                reasoning += each.text
        assert decoder.size >= 0
        assert decoder.beside >= 0
    return decoder.close(failure), text, reasoning


def streamed(*pieces: bytes) -> Reply:
    reply, _, _ = read(pieces)
    assert isinstance(reply, Reply)
    return reply


def whole(**members: Any) -> Any:
    message = {**MESSAGE, "content": BLOCKS, "stop_reason": "tool_use", "usage": USAGE, **members}
    return BACKEND.decode(200, {}, json.dumps(message).encode())


def test_blocks_are_parts_in_their_order() -> None:
    for reply in (whole(), streamed(*STREAM)):
        assert reply.parts == PARTS
        assert (reply.usage, reply.model, reply.stop_raw) == (COUNTED, "claude-opus-5-5", "tool_use")
        assert reply.tool_calls[0].extras == {"caller": {"type": "direct"}}
        assert reply.final_text == ""
    _, text, reasoning = read(STREAM)
    assert (text, reasoning) == ("In the reeds.", "Herons like reeds.")


def test_the_last_text_stands_behind_the_last_tool_and_not_behind_a_citation() -> None:
    cited = {"type": "text", "text": "two.", "citations": [CITATION]}
    reply = whole(content=[{"type": "text", "text": "zero"}, SEARCH, FOUND, {"type": "text", "text": "one, "}, cited])
    assert (reply.text, reply.final_text) == ("zeroone, two.", "one, two.")


def test_thinking_that_is_not_shown_keeps_its_signature() -> None:
    hidden = {"type": "thinking", "thinking": "", "signature": "c2ln"}
    begun = [
        START,
        begin(0, type="thinking", thinking="", signature=""),
        delta(0, type="signature_delta", signature="c2ln"),
    ]
    for reply in (whole(content=[hidden]), streamed(*begun, end(0), STOP, END)):
        assert reply.parts == (ReasoningPart("", "c2ln", ME),)


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (USAGE, COUNTED),
        ({"input_tokens": 9, "output_tokens": 7}, Usage(9, 7)),
        (
            {
                "input_tokens": 1,
                "output_tokens": 2,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
            },
            Usage(8, 2, 0, 7),
        ),
        (
            {
                "input_tokens": 1,
                "output_tokens": 2,
                "iterations": [
                    {"type": "compaction", "input_tokens": 50, "output_tokens": 5, "cache_read_input_tokens": 10},
                    {"type": "message", "input_tokens": 1, "output_tokens": 2},
                ],
            },
            Usage(61, 7, 10),
        ),
    ],
)
def test_all_that_is_paid_for_is_counted(usage: dict[str, Any], counted: Usage) -> None:
    assert whole(usage=usage).usage == counted
    final = event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage)
    assert streamed(event("message_start", message={"usage": {"output_tokens": 1}}), final, END).usage == counted


def test_before_its_end_a_stream_has_counted_its_prompt_alone() -> None:
    reply = streamed(START, begin(0, type="text", text=""), delta(0, type="text_delta", text="x" * 400))
    assert reply.interrupted
    assert reply.usage == Usage(1110, 100, 100, 1000, 1, estimated=True)


def test_the_end_of_a_stream_is_its_stop_reason() -> None:
    text = begin(0, type="text", text="In the reeds.")
    assert not streamed(START, text, end(0), STOP, END).interrupted
    assert not streamed(START, text, end(0), STOP).interrupted
    assert streamed(START, text, end(0), END).interrupted
    assert streamed(START, text, end(0)).interrupted
    late = b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"x"}}\n\n'
    assert streamed(START, text, end(0), STOP, late).failure is None


def test_a_call_without_arguments_is_whole_at_its_end_and_not_before() -> None:
    begun = [
        START,
        begin(0, type="tool_use", id="t", name="look", input={}),
        delta(0, type="input_json_delta", partial_json=""),
    ]
    assert streamed(*begun, end(0), STOP, END).tool_calls == (ToolCall("t", "look", "{}"),)
    assert streamed(*begun).tool_calls == (ToolCall("t", "look", ""),)
    cut = [*begun, delta(0, type="input_json_delta", partial_json='{"bird": "he')]
    assert streamed(*cut, end(0)).tool_calls == (ToolCall("t", "look", '{"bird": "he'),)


def test_what_a_server_sends_in_its_own_way_is_read() -> None:
    """Some send input at once, reuse an index, or leave out where a block begins."""
    one = [begin(0, type="tool_use", id="a", name="look", input={"n": 1}), end(0)]
    other = [begin(0, type="tool_use", id="a", name="look", input={"n": 2}), end(0)]
    text = [delta(0, type="text_delta", text="before"), *one, delta(0, type="text_delta", text="behind"), *other]
    reply = streamed(START, *text, STOP, END)
    assert [part.text if isinstance(part, TextPart) else part.arguments for part in reply.parts] == [
        "before",
        '{"n":1}',
        "behind",
        '{"n":2}',
    ]
    ids = [call.id for call in reply.tool_calls]
    assert ids[0] == "a"
    assert ids[1].startswith("toolu_")
    assert whole(content=[BLOCKS[-1], BLOCKS[-1]]).tool_calls[1].id.startswith("toolu_")
    at_once = streamed(event("message_start", message={**MESSAGE, "content": BLOCKS, "usage": USAGE}), STOP, END)
    assert at_once.parts == PARTS


def test_unknown_blocks_and_their_deltas_go_back_as_they_came() -> None:
    compacted = {"type": "compaction", "content": "They met a heron.", "encrypted_content": None}
    reply = streamed(
        START,
        begin(0, type="compaction", content=None, encrypted_content=None),
        delta(0, type="compaction_delta", content="They met "),
        delta(0, type="compaction_delta", content="a heron."),
        end(0),
        event("message_delta", delta={"stop_reason": "compaction"}, usage=USAGE),
        END,
    )
    assert reply.parts == (OpaquePart(ME, compacted),)
    half = streamed(START, begin(0, **{**SEARCH, "input": {}}), delta(0, type="input_json_delta", partial_json='{"q'))
    assert half.parts == ()


@pytest.mark.parametrize(
    "body", [b"", b"x", b"[]", b"{}", b'{"content": 7}', b'{"content": null, "usage": {}}', b"<html>", b"null"]
)
def test_what_is_no_message_is_malformed(body: bytes) -> None:
    for came in (BACKEND.decode(200, {}, body), read([body])[0]):
        assert isinstance(came, Reply | Failure)
        assert getattr(came, "reason", None) == "malformed" or (isinstance(came, Reply) and came.interrupted)


# anything

SMALL = st.sampled_from([0, 1, 2, -1, True, None, "", "0", 1.5, [], {}])
WORDS = st.sampled_from(
    [
        *("message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta"),
        *("content_block_stop", "ping", "error", "gremlin", "text", "thinking", "tool_use", "redacted_thinking"),
        *("server_tool_use", "text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"),
        *("end_turn", "max_tokens", "look", '{"a": 1}', '{"a', "\ud83d", "\ude00é", ""),
    ]
)
NAMES = st.sampled_from(
    [
        *("type", "index", "delta", "content_block", "message", "usage", "content", "text", "thinking", "signature"),
        *("partial_json", "citation", "citations", "id", "name", "input", "data", "stop_reason", "stop_details"),
        *("output_tokens", "input_tokens", "cache_creation", "iterations", "error", "model", "caller"),
    ]
)
NUMBERS = st.one_of(st.integers(-5, 10**20), st.floats())
LEAF = st.one_of(WORDS, SMALL, NUMBERS)
FLAT = st.one_of(LEAF, st.lists(LEAF, max_size=3), st.dictionaries(NAMES, LEAF, max_size=4))
JSON = st.one_of(FLAT, st.lists(FLAT, max_size=3), st.dictionaries(NAMES, FLAT, max_size=4))
INDEX = st.one_of(st.integers(0, 2), SMALL)
BLOCK = st.fixed_dictionaries(
    {"type": WORDS}, optional=dict.fromkeys(("text", "thinking", "input", "id", "name"), JSON)
)
DELTA = st.fixed_dictionaries(
    {"type": WORDS}, optional=dict.fromkeys(("text", "thinking", "signature", "partial_json", "citation"), WORDS)
)
EVENTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("content_block_start"), "index": INDEX, "content_block": BLOCK}),
    st.fixed_dictionaries({"type": st.just("content_block_delta"), "index": INDEX, "delta": DELTA}),
    st.fixed_dictionaries({"type": st.just("content_block_stop"), "index": INDEX}),
    st.fixed_dictionaries({"type": st.just("message_delta"), "delta": JSON, "usage": JSON}),
    st.fixed_dictionaries({"type": st.just("message_start"), "message": JSON}),
    st.dictionaries(NAMES, JSON, max_size=5),
    JSON,
)


@settings(max_examples=examples(300))
@given(st.lists(EVENTS, max_size=14), st.lists(st.integers(1, 60), min_size=1, max_size=6), st.booleans())
def test_any_stream_is_the_same_reply_however_it_is_cut(values: list[Any], sizes: list[int], ends: bool) -> None:
    body = b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in values) + (STOP + END if ends else b"")
    pieces, place = [], 0
    while place < len(body):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(body[place : place + size])
        place += size
    at_once, in_pieces = read([body]), read(pieces)
    assert repr(at_once[0]) == repr(in_pieces[0])
    if isinstance(at_once[0], Reply):
        assert at_once[0].parts == in_pieces[0].parts
        assert at_once[1:] == in_pieces[1:]
        for said, shown in zip((at_once[0].text, at_once[0].reasoning), at_once[1:], strict=True):
            assert said == shown or "\ufffd" in said, "half a pair at the end is never shown"


@settings(max_examples=examples(200))
@given(JSON, st.lists(st.one_of(BLOCK, JSON), max_size=6))
def test_any_body_is_a_reply_or_a_failure(value: Any, blocks: list[Any]) -> None:
    for body in (value, {"content": blocks, "stop_reason": "end_turn", "usage": value}, {"content": value}):
        came = BACKEND.decode(200, {}, json.dumps(body).encode())
        assert isinstance(came, Reply | Failure)
        if isinstance(came, Reply):
            came.text.encode()


GROWING = {
    "blocks": lambda n: [begin(k, type="text", text="x") for k in range(n)],
    "calls": lambda n: [begin(k, type="tool_use", id="", name="look", input={"n": k}) + end(k) for k in range(n)],
    "one index": lambda n: [
        delta(0, type=kind, **{kind[:-6]: "x"}) for k in range(n) for kind in ("text_delta", "thinking_delta")
    ],
    "pieces of input": lambda n: (
        [begin(0, type="tool_use", id="a", name="b", input={})]
        + [delta(0, type="input_json_delta", partial_json='{"a": ') for _ in range(n)]
    ),
    "citations": lambda n: (
        [begin(0, type="text", text="x")] + [delta(0, type="citations_delta", citation=CITATION) for _ in range(n)]
    ),
    "content at once": lambda n: [event("message_start", message={"content": [{"type": "text", "text": "x"}] * n})],
}


@pytest.mark.parametrize("kind", sampled(GROWING, one_in=4))
def test_the_work_is_linear(kind: str) -> None:
    """Twenty times as much takes twenty times as long, and not 400 times."""
    little, much = (GROWING[kind](n) for n in (250, 5_000))
    assert grows_within(lambda: read(little), lambda: read(much), times=200, floor=1.0)


def test_what_is_held_is_counted() -> None:
    decoder = BACKEND.decoder({})
    decoder.feed(b"".join(begin(k, **FOUND) for k in range(1_000)))
    assert decoder.size > 300_000
    decoder = BACKEND.decoder({})
    decoder.feed(begin(0, type="tool_use", id="a", name="look", input={}))
    decoder.feed(b"".join(delta(0, type="input_json_delta", partial_json="x" * 100) for _ in range(1_000)))
    assert decoder.size > 100_000
    assert decoder.unshown == 100_004


def test_deep_nesting_is_left_out() -> None:
    deep = b'{"content": [{"type": "x", "a": %s1%s}, {"type": "text", "text": "ok"}], "stop_reason": "end_turn"}'
    for depth in (300, 900, 5_000):
        came = BACKEND.decode(200, {}, deep % (b"[" * depth, b"]" * depth))
        assert getattr(came, "text", "ok") == "ok"
