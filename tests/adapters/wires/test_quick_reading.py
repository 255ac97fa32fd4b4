"""What is taken from a line by its likeness to an earlier one is what parsing it would have
said.
"""

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rungwise import Reasoning, Text, ToolCall
from rungwise.adapters.wires.reading.alike_lines import AlikeLines
from rungwise.testing import ScriptedReply
from support import protocols
from support.growth import calls_made
from support.streams import rendered

Said = tuple[Any, list[Any], int]


def backend(name: str) -> Any:
    return protocols.backend(name, "http://host/v1")


def body(name: str, *, streams: bool = True, **script: Any) -> bytes:
    return rendered(backend(name), ScriptedReply(**script), streams=streams)


def read(name: str, data: bytes, size: int) -> Said:
    """Return what a body amounts to that comes in pieces of a size, its deltas, and the letters
    that no delta shows.
    """
    decoder = backend(name).decoder({})
    deltas = []
    for start in range(0, len(data), size):
        deltas += decoder.feed(data[start : start + size])
    return decoder.close(), deltas, decoder.unshown


def parsed(name: str, data: bytes, size: int) -> Said:
    """Return the same of a decoder that parses every line."""
    with patch.object(AlikeLines, "text_in", lambda self, line: None):
        return read(name, data, size)


TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(
        ['"', "\\", "\n", "\t", "é", "\u2028", "😀", "\x7f", "word ", '{"a": "b"}', '"}']
    )
).map("".join)


@pytest.mark.parametrize("name", protocols.PROTOCOLS)
@settings(max_examples=25)
@given(TEXTS, TEXTS, st.integers(1, 9), st.integers(1, 900))
@example('["a", "b", "c", "d"] ' * 3, "", 2, 10_000)
def test_a_text_says_the_same(
    name: str,
    text: str,
    reasoning: str,
    chunk: int,
    size: int,
) -> None:
    data = body(name, text=text, reasoning=reasoning, chunk_size=chunk)
    assert read(name, data, size) == parsed(name, data, size)


@pytest.mark.parametrize("name", protocols.PROTOCOLS)
@pytest.mark.parametrize("said", ["text", "reasoning"])
def test_events_that_differ_in_their_text_alone_are_not_parsed_again(name: str, said: str) -> None:
    data = body(name, **{said: "some words " * 300}, chunk_size=8)
    decoder = type(backend(name).decoder({}))
    parsed: list[Any] = []
    piece_in = decoder.piece_in

    def counting(self: Any, value: Any) -> Any:
        parsed.append(value)
        return piece_in(self, value)

    with patch.object(decoder, "piece_in", counting):
        reply, _, _ = read(name, data, 400)
    assert getattr(reply, said) == "some words " * 300
    assert len(parsed) < 20


SCRIPTED = [
    {"text": "In the reeds, mostly. " * 9, "reasoning": "They like reeds. " * 5},
    {
        "text": "I look.",
        "tool_calls": [ToolCall("c1", "f", '{"a":1}'), ToolCall("c2", "f", "{}")],
    },
    {"refusal": "I will not do that."},
    {"text": "In the", "finish": "length"},
    {"text": 'Ünïcödé 🐦 "quotes" \\ and\nlines', "chunk_size": 1},
    {"text": 'a "sequence_number":7, "obfuscation":"x" b ' * 5, "chunk_size": 29},
    {"text": '"sequence_number":7' * 20, "chunk_size": 19},
    {},
]


@pytest.mark.parametrize("script", SCRIPTED)
@pytest.mark.parametrize("name", protocols.PROTOCOLS)
@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_a_stream_says_what_the_whole_body_says(
    name: str, script: dict[str, Any], size: int
) -> None:
    stream = body(name, **script)
    came, deltas, _ = read(name, stream, size)
    whole = backend(name).decode(200, {}, body(name, streams=False, **script))
    if name != "gemini":  # whose streams are signed at their end
        assert came.parts == whole.parts
    if name != "bedrock":
        assert backend(name).decode(200, {}, stream) == came, "also where nobody asked for one"
    assert came.text == whole.text
    assert came.reasoning == whole.reasoning
    assert came.tool_calls == whole.tool_calls
    assert came.refusal == whole.refusal
    assert came.stop_reason == whole.stop_reason
    assert came.stop_raw == whole.stop_raw
    assert came.usage.input_tokens == whole.usage.input_tokens
    if script or name == "responses":
        assert came.usage == whole.usage
    assert came.interrupted is whole.interrupted is False
    for kind, said in ((Text, came.text), (Reasoning, came.reasoning)):
        assert "".join([each.text for each in deltas if isinstance(each, kind)]) == said


# whose frames have checksums
@pytest.mark.parametrize("name", [name for name in protocols.PROTOCOLS if name != "bedrock"])
def test_a_control_character_that_a_server_does_not_escape_costs_no_text(name: str) -> None:
    data = body(name, text="they " * 20 + "nest " + "here " * 20, chunk_size=5)
    _, deltas, _ = read(name, data.replace(b"nest ", b"nest\x01", 1), 10_000)
    assert "".join(delta.text for delta in deltas) == "they " * 20 + "nest\x01" + "here " * 20


@pytest.mark.parametrize("name", protocols.PROTOCOLS)
@settings(max_examples=25)
@given(st.lists(TEXTS, min_size=1, max_size=3), st.integers(1, 9), st.integers(1, 900))
def test_tool_calls_say_the_same(name: str, values: list[str], chunk: int, size: int) -> None:
    calls = []
    for number, value in enumerate(values):
        arguments = json.dumps({"q": value}, ensure_ascii=bool(number % 2))
        calls.append({"id": f"c{number}", "name": "look_up", "arguments": arguments})
    data = body(name, text="So", tool_calls=calls, chunk_size=chunk)
    assert read(name, data, size) == parsed(name, data, size)


INDICES = st.sampled_from([0, 1, "0", None, True])
FUNCTION = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["", "f", "g"]),
        "arguments": TEXTS,
    },
)
CALL = st.fixed_dictionaries(
    {"function": FUNCTION},
    optional={
        "index": INDICES,
        "id": st.sampled_from(["", "a", "b"]),
        "extra_content": st.just({"x": 1}),
    },
)
DELTA = st.fixed_dictionaries(
    {},
    optional={
        "tool_calls": st.lists(CALL, max_size=2),
        "content": st.sampled_from(["", "text", None]),
    },
)
CHOICE = st.fixed_dictionaries(
    {"delta": DELTA},
    optional={
        "index": st.sampled_from([0, 1]),
        "logprobs": st.sampled_from([None, {}, {"content": []}]),
    },
)
CHUNK = st.fixed_dictionaries(
    {"choices": st.lists(CHOICE, min_size=1, max_size=1)},
    optional={
        "model": st.sampled_from(["m", None]),
        "usage": st.sampled_from([None, {"completion_tokens": 3}]),
    },
)
WHOLE_CALL = {"id": "w", "function": {"name": "f"}}
WHOLE = {"choices": [{"message": {"content": "all", "tool_calls": [WHOLE_CALL]}}]}
FIRST_CALL = {"index": 0, "id": "a", "function": {"name": "f"}}
FIRST = {"choices": [{"delta": {"tool_calls": [FIRST_CALL]}}]}


def goes_on(arguments: str, **members: Any) -> dict[str, Any]:
    call = {"index": 0, "function": {"arguments": arguments}}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}], **members}


@settings(max_examples=100)
@given(st.lists(CHUNK | st.just(WHOLE) | TEXTS.map(goes_on), max_size=24), st.integers(1, 2_000))
@example([FIRST, FIRST], 99)
@example(
    [{"choices": [{"delta": {}}]}, {"choices": [{"delta": {"content": "a"}}], "model": "m"}], 9
)
@example([goes_on("{"), goes_on("}"), goes_on("{}"), WHOLE, goes_on("{}")], 2_000)
def test_chunks_of_chat_with_calls_say_the_same(chunks: list[Any], size: int) -> None:
    data = b""
    for chunk in chunks:
        data += b"data: %s\n\n" % json.dumps(chunk, ensure_ascii=False).encode()
    decoder = type(backend("openai").decoder({}))
    with patch.object(decoder, "piece_in", lambda self, value: None):
        expected = read("openai", data, size)
    assert read("openai", data, size) == expected


@pytest.mark.parametrize("is_call", [False, True])
@pytest.mark.parametrize("name", protocols.PROTOCOLS)
def test_an_event_asks_little_of_each_layer(name: str, is_call: bool) -> None:
    def count(number: int) -> int:
        rows = json.dumps({"rows": ["word"] * number})
        if is_call:
            call = {"id": "c", "name": "f", "arguments": rows}
            data = body(name, chunk_size=8, tool_calls=[call])
        else:
            data = body(name, chunk_size=8, text=rows)
        return calls_made(lambda: read(name, data, 400))

    calls_an_event = 70 if is_call else 30
    if name == "bedrock" and is_call:
        calls_an_event = 80  # its frames are binary
    count(10)
    assert count(400) - count(200) < 200 * calls_an_event
