"""How replies are read: in work and memory that grow no faster than their bytes, and as their
providers meant them.
"""

import json
import tracemalloc
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rungwise import OpenAIChat
from rungwise.adapters.wires.json_text import is_heavy, mended
from rungwise.core import Failure, Reply
from rungwise.fsm.replies.text.held import HalfHolder
from rungwise.fsm.replies.text.scanning import ObjectScanner
from rungwise.testing import ScriptedReply
from support import protocols
from support.error_bodies import minimax
from support.sampling import sampled
from support.streams import followed, rendered
from support.texts import cut
from support.work import grows_within, seconds

MEGABYTE = 2**20
URL = "http://localhost/v1"
CHAT: Any = OpenAIChat("m", base_url=URL)
END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def chunk(**delta: Any) -> bytes:
    return b"data: %s\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()


def tools(*calls: dict[str, Any]) -> bytes:
    return chunk(tool_calls=list(calls))


def call(arguments: str, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"name": "f", "arguments": arguments}}


def read(*pieces: bytes) -> tuple[Any, str]:
    """Return what a stream amounts to, and the text that it handed out."""
    reply, said, _ = followed(CHAT.decoder({}), pieces)
    return reply, said


def streamed(*pieces: bytes) -> Reply:
    reply, _ = read(*pieces, END)
    assert isinstance(reply, Reply)
    return reply


def whole(message: dict[str, Any], **fields: Any) -> Reply:
    body = {
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": "stop",
            }
        ],
        **fields,
    }
    reply = CHAT.decode(200, {}, json.dumps(body).encode())
    assert isinstance(reply, Reply)
    return reply


# work


GROWING: dict[str, Callable[[int], list[bytes]]] = {
    "calls without an index": lambda n: [tools(call("{}", id=f"c{k}")) for k in range(n)],
    "calls without an index in one delta": lambda n: [
        tools(*[call("{}", id=f"c{k}") for k in range(n)])
    ],
    "pieces of arguments that name their call": lambda n: [
        tools(call(piece, index=0)) for piece in ('{"x": "', *['{"a": "b"}' * 10] * n, '"}')
    ],
    "pieces that end as objects do": lambda n: [
        tools(call(piece)) for piece in ('{"x": {', *['"k": {}, '] * n, '"z": 1}}')
    ],
    "a line byte by byte": lambda n: [bytes([byte]) for byte in chunk(content="x" * n)],
    "an event of many lines": lambda n: [
        b'data: {"choices": [\n',
        *[b"data: 1,\n"] * n,
        b"data: 1]}\n\n",
    ],
    "messages": lambda n: [
        json_event(choices=[{"message": {"content": f"word{k} "}}]) for k in range(n)
    ],
    "messages after deltas": lambda n: [
        chunk(content="x" * 100 * n),
        *[json_event(choices=[{"message": {"content": " "}, "finish_reason": "stop"}])] * n,
    ],
    "halves": lambda n: [rb'data: {"choices":[{"delta":{"content":"\ud83d"}}]}' + b"\n\n"] * n,
    "many choices": lambda n: [b'data: {"choices": [%s1]}\n\n' % (b'{"index":1},' * n)],
    "strays": lambda n: [b"{x\n"] * n,
    "no line": lambda n: [b"x"] * n,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", sampled(reversed(GROWING), one_in=3))
def test_the_work_is_linear(kind: str) -> None:
    """Forty times as much takes forty times as long, and not 1600 times; timed, for bytes that C
    code looks at too.
    """
    little = GROWING[kind](500)
    much = GROWING[kind](20_000)
    assert grows_within(lambda: read(*little, END), lambda: read(*much, END), times=400, floor=0.5)


# A stream of Bedrock's has checksums.
@pytest.mark.parametrize(
    ("api", "streams"),
    [
        *((api, False) for api in protocols.PROTOCOLS),
        *((api, True) for api in protocols.PROTOCOLS if api != "bedrock"),
    ],
)
def test_deep_nesting_and_endless_integers_are_read(api: str, streams: bool) -> None:
    backend = protocols.backend(api, URL)
    said = rendered(backend, ScriptedReply(text="a"), streams=streams)

    def read(digits: bytes, depth: int) -> Any:
        odd = b'{"odd": %s1%s, "long": %s, ' % (b"[" * depth, b"]" * depth, digits)
        body = said.replace(b"{", odd, 1)
        if not streams:
            return backend.decode(200, {}, body)
        decoder = backend.decoder({})
        decoder.feed(body)
        return decoder.close()

    assert read(b"1" * 5_000, 500).text == "a"
    assert read(b"-" + b"9" * 500_000, 10).text == "a"
    assert read(b"1", 100_000).reason == "malformed"


PIECES = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", '"', "\\", "a", ":", ",", " ", "1", '{"a": "b"}', "\n", "é"]
    )
)


@given(PIECES, PIECES)
def test_a_whole_object_is_known_by_its_brackets_wherever_it_was_cut(
    some: list[str], more: list[str]
) -> None:
    scanner = ObjectScanner()
    at_once = ObjectScanner()
    for piece in some + more:
        scanner.feed(piece)
    text = "".join(some + more)
    at_once.feed(text)
    assert scanner.is_whole is at_once.is_whole
    try:
        is_object = isinstance(json.loads(text, strict=False), dict)
    except ValueError:
        is_object = False
    assert scanner.is_whole or not is_object


LONG = {
    "begun": "{" * 200_000,
    "flat": '{"a": [' + "{}, " * 50_000 + "1]}",
    "strings": '{"a": [' + '"}", ' * 50_000 + "1]}",
    "a string": '{"a": "' + "}" * 200_000 + '"}',
    "deep": '{"a":' * 30_000 + "[]" + "}" * 30_000,
    "ended too soon": "{" * 20_000 + "}" * 180_000,
    "more behind it": '{"a": [' + "{}, " * 50_000 + "1]}x",
    "blanks behind it": '{"a": [' + "{}, " * 50_000 + "1]}" + " " * 100_000,
}


@pytest.mark.parametrize("kind", LONG)
def test_a_long_object_is_known_as_a_short_one_is_and_soon(kind: str) -> None:
    text = LONG[kind]
    at_once = ObjectScanner()
    by_letters = ObjectScanner()
    assert seconds(lambda: at_once.feed(text)) < 0.5
    for letter in text:
        by_letters.feed(letter)
    is_whole = kind not in ("begun", "ended too soon", "more behind it")
    assert at_once.is_whole is by_letters.is_whole is is_whole


OBJECTS = st.dictionaries(
    st.text(max_size=5), st.recursive(st.text(max_size=5), st.lists, max_leaves=5), max_size=4
)


@given(OBJECTS, st.data())
def test_an_object_is_whole_at_its_end_and_no_sooner(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value)
    place = data.draw(st.integers(0, len(text) - 1))
    scanner = ObjectScanner()
    scanner.feed(text[:place])
    assert not scanner.is_whole
    scanner.feed(text[place:])
    assert scanner.is_whole
    scanner.feed(" \n")
    assert scanner.is_whole
    scanner.feed("x")
    assert not scanner.is_whole


# memory

HEAVY = [
    b"{},",
    b"[],",
    b'{"a":1},',
    b'"\xc4\x80",',
    b'"\\ud800",',
    b'"":1,',
    b"1.5,",
    b"x",
    b" ",
    b"[" * 900 + b"]" * 900,
]


@pytest.mark.dear(5)
@pytest.mark.full
@pytest.mark.parametrize("unit", HEAVY, ids=lambda unit: unit[:8].decode())
@pytest.mark.parametrize(
    "size", [pytest.param(1, marks=pytest.mark.full), 6, pytest.param(8, marks=pytest.mark.full)]
)
@pytest.mark.parametrize(
    "status", [200, pytest.param(500, marks=pytest.mark.full), "stream", "event"]
)
def test_no_body_takes_more_than_32_times_the_largest_reply(
    unit: bytes, size: int, status: Any
) -> None:
    body = b'{"choices": [' + unit * (size * MEGABYTE // len(unit) - 10) + b"1]}"
    tracemalloc.start()
    try:
        if isinstance(status, int):
            outcome = CHAT.decode(status, {}, body)
        else:
            start = b"data: " if status == "event" else b""
            pieces = [body[n : n + 65536] for n in range(0, len(body), 65536)]
            outcome, _ = read(start, *pieces, b"\n\n")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 * 8 * MEGABYTE
    assert isinstance(outcome, Failure) or outcome.interrupted


@settings(max_examples=20)
@given(
    st.lists(
        st.sampled_from(['"', "\\", ",", "{", "[", "a", '","', "\\\\", '\\"']), max_size=30
    ).map("".join)
)
def test_marks_within_texts_weigh_nothing(text: str) -> None:
    assert not is_heavy(json.dumps([text * (MEGABYTE // (len(text) + 1)), text]).encode())


def test_marks_beside_long_texts_weigh_as_ever() -> None:
    text = json.dumps("{[," * 1_000_000).encode()
    assert not is_heavy(b"[%s]" % text)
    assert is_heavy(b"[%s%s]" % (text, b",{}" * 600_000))
    assert is_heavy(b"[%s%s]" % (b"{}," * 600_000, text))


def test_a_large_body_is_not_kept_as_objects() -> None:
    assert whole({"content": "x" * 10}, created=1).raw["created"] == 1
    assert whole({"content": "x" * 100_000}).raw is None


def test_what_goes_into_a_journal_is_short() -> None:
    model = "m" * 5_000
    end = {"finish_reason": "f" * 5_000}
    body = {"model": model, "choices": [{"message": {"content": "x"}, **end}]}
    at_once = CHAT.decode(200, {}, json.dumps(body).encode())
    in_pieces, _ = read(chunk(content="x"), json_event(model=model, choices=[end]))
    for reply in (at_once, in_pieces):
        assert isinstance(reply, Reply)
        assert len(reply.model or "") == len(reply.stop_raw or "") == 80


def json_event(**fields: Any) -> bytes:
    return b"data: %s\n\n" % json.dumps(fields).encode()


# halves of surrogate pairs

HALVES = st.text(st.sampled_from("a\ud83d\ude00é😀"), max_size=6)


@given(st.lists(HALVES, max_size=8))
def test_held_halves_change_nothing_but_the_time(pieces: list[str]) -> None:
    holder = HalfHolder()
    said = "".join(map(holder.feed, pieces))
    total = mended("".join(pieces))
    assert total == said or total == said + "\N{REPLACEMENT CHARACTER}"


@given(
    st.lists(
        st.tuples(st.sampled_from(["content", "reasoning", "arguments"]), HALVES), max_size=10
    ),
    st.booleans(),
)
@example([("content", "a"), ("content", "aa")], False)
@example(2 * [("content", "")] + 2 * [("content", "a")] + [("content", "\ud83d")], False)
def test_halves_that_come_apart_are_joined_everywhere(
    pieces: list[tuple[str, str]], at_once: bool
) -> None:
    events = []
    texts = {"content": "", "reasoning": "", "arguments": ""}
    for name, text in pieces:
        texts[name] += text
        if name == "arguments":
            events.append(tools(call(text, index=0, id="a")))
        else:
            events.append(chunk(**{name: text}))
    body = [b"".join(events)] if at_once else events
    outcome, said = read(*body, END)
    assert outcome.text == mended(texts["content"])
    assert outcome.reasoning == mended(texts["reasoning"])
    arguments = "".join(each.arguments for each in outcome.tool_calls)
    brought = mended(texts["arguments"])
    assert arguments == (brought if brought.strip() or not outcome.tool_calls else "{}")
    assert outcome.text in (said, said + "\N{REPLACEMENT CHARACTER}")


def test_halves_in_two_parts_of_a_whole_message_are_joined() -> None:
    parts = [{"type": "text", "text": "\ud83d"}, {"type": "text", "text": "\ude00"}]
    assert whole({"content": parts}).text == "\N{GRINNING FACE}"


# tool calls


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"custom": {}, "function": {"name": "f", "arguments": "{}"}}, ("f", "{}")),
        (
            {
                "custom": {"name": "", "input": ""},
                "function": {"name": "f", "arguments": '{"x":1}'},
            },
            ("f", '{"x":1}'),
        ),
        ({"custom": {"name": None}, "function": {"name": "f", "arguments": ""}}, ("f", "{}")),
        ({"function": {}, "custom": {"name": "f", "input": "x"}}, ("f", '{"input":"x"}')),
        (
            {"function": {"name": "", "arguments": "{}"}, "custom": {"name": "f", "input": "x"}},
            ("f", '{"input":"x"}'),
        ),
    ],
)
def test_an_empty_kind_of_call_beside_a_real_one_counts_for_nothing(
    call: dict[str, Any], expected: tuple[str, str]
) -> None:
    for reply in (
        whole({"tool_calls": [{"id": "a", **call}]}),
        streamed(tools({"index": 0, "id": "a", **call})),
    ):
        assert [(one.id, one.name, one.arguments) for one in reply.tool_calls] == [("a", *expected)]


@pytest.mark.parametrize("ids", [["", ""], [None, None], [" ", "a"], ["a", "a"], ["a", ""]])
def test_every_call_has_an_id_of_its_own(ids: list[Any]) -> None:
    calls = [call(f'{{"n":{n}}}', index=n, id=one) for n, one in enumerate(ids)]
    replies = [
        whole({"tool_calls": calls}, id="r1"),
        whole({"tool_calls": calls}, id="r2"),
        streamed(*map(tools, calls)),
        streamed(tools(*calls)),
    ]
    ids_of_replies = [{each.id for each in reply.tool_calls} for reply in replies]
    for found in ids_of_replies:
        assert len(found) == 2
        assert all(found)
        assert ("a" in found) is ("a" in ids)
    if "a" not in ids:
        assert ids_of_replies[0].isdisjoint(ids_of_replies[1])


def test_the_id_of_a_reply_is_looked_at_once_however_many_calls_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[int] = []

    def counting(data: bytes) -> Any:
        hashed.append(len(data))
        return sha256(data)

    monkeypatch.setattr("rungwise.adapters.wires.json_text.sha256", counting)
    calls = [call("{}")] * 500
    long_id = "x" * 100_000
    at_once = whole({"tool_calls": calls}, id=long_id)
    in_pieces = streamed(json_event(id=long_id, choices=[{"delta": {}}]), tools(*calls))
    for reply in (at_once, in_pieces):
        assert len({each.id for each in reply.tool_calls}) in (1, 500)
    assert 200_000 < sum(hashed) < 400_000


@pytest.mark.parametrize(
    "other", [{"created": 2}, {"usage": {"prompt_tokens": 7}}, {"model": "n"}, {"content": "b"}]
)
def test_the_same_call_of_two_replies_without_ids_has_two_ids(other: dict[str, Any]) -> None:
    found: list[set[str]] = []
    for members in ({}, other):
        fields = {"created": 1, "model": "m", **members}
        message = {"content": fields.pop("content", "a"), "tool_calls": [call("{}", index=0)]}
        event = json_event(choices=[{"delta": message}], **fields)
        at_once = {whole(message, **fields).tool_calls[0].id for _ in range(2)}
        in_pieces = {streamed(event).tool_calls[0].id for _ in range(2)}
        assert len(at_once) == len(in_pieces) == 1
        found.append(at_once | in_pieces)
    assert found[0].isdisjoint(found[1])


@pytest.mark.parametrize("first", [0, "0", 0.0, None])
def test_the_first_choice_may_be_told_by_an_index_of_any_kind(first: Any) -> None:
    others = [{"index": index, "delta": {"content": "b"}} for index in (1, "1")]
    reply = streamed(json_event(choices=[*others, {"index": first, "delta": {"content": "a"}}]))
    assert reply.text == "a"


# usage and refusals


@pytest.mark.parametrize("where", ["message", "choice"])
def test_a_refusal_beside_what_a_proxy_knows(where: str) -> None:
    aside = {"provider_specific_fields": {"refusal": "no"}}
    message = aside if where == "message" else {}
    choice = aside if where == "choice" else {}
    end = {"message": {"content": "", **message}, "finish_reason": "stop", **choice}
    reply = CHAT.decode(200, {}, json.dumps({"choices": [end]}).encode())
    assert reply.refusal == "no"
    piece = {"delta": {"content": "a", **message}, **choice}
    assert streamed(chunk(content="b"), json_event(choices=[piece])).refusal == "no"


# what stands beside a choice


@pytest.mark.parametrize(
    "aside",
    [minimax(0, ""), {"x_groq": {"id": "r"}}, {"x_groq": {"error": None}}, {"base_resp": 5}],
)
def test_an_envelope_without_an_error_is_none(aside: dict[str, Any]) -> None:
    text = {"index": 0, "delta": {"content": "In the reeds."}}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    reply, _ = read(json_event(choices=[text], **aside), json_event(choices=[end], **aside))
    assert reply.text == "In the reeds."
    assert reply.failure is None


def test_what_azures_filters_found_is_no_part_of_a_reply() -> None:
    found = {
        "hate": {"filtered": False, "severity": "safe"},
        "error": {"code": "content_filter_error", "message": "x"},
    }
    filtered = {"content_filter_results": found}
    prompt = {"prompt_index": 0, **filtered}
    text = {"index": 0, "delta": {"content": "In the reeds."}, **filtered}
    end = {"index": 0, "delta": {}, "finish_reason": "stop", **filtered}
    first = json_event(choices=[], prompt_filter_results=[prompt])
    reply, _ = read(first, json_event(choices=[text]), json_event(choices=[end]))
    assert reply.text == "In the reeds."
    assert reply.stop_reason == "stop"
    assert reply.failure is None


# lines

PARTS = {
    b": keepalive\n\n": "",
    b"event: x\n": "",
    b"event: ping\ndata: {}\n\n": "",
    b"id: 1\nretry: 10\n": "",
    b"\n": "",
    b"data: ping\n\n": "",
    b"data:\n\n": "",
    b'data: {"choices":\ndata: []}\n\n': "",
    b'data: {"choices":\ndata: [{"delta":{"content":"a"}}]}\n\n': "a",
    b'data:{"choices":[{"delta":{"content":"b"}}]}\n\n': "b",
    chunk(content="c"): "c",
}
"""Lines of a stream, and the text in each."""
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(
    st.lists(st.tuples(st.sampled_from([*PARTS]), ENDS), max_size=8),
    st.lists(st.integers(0, 600), max_size=6),
)
def test_lines_may_end_in_any_way_and_be_cut_anywhere(
    parts: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    body = b""
    expected = ""
    for part, end in parts:
        body += part.replace(b"\n", end)
        expected += PARTS[part]
    reply, said = read(*cut(body + END, places))
    assert reply.text == said == expected


@pytest.mark.parametrize(
    "start",
    [b": keepalive\n\n", b"\n\n", b"\xef\xbb\xbf: x\n", b"event: y\n", b"id: 1\n", b"retry: 1\n"],
)
def test_a_stream_that_nobody_asked_for_may_begin_in_any_way(start: bytes) -> None:
    begun = start + chunk(content="a")
    reply = CHAT.decode(200, {}, begun + END)
    assert reply.text == "a"
    assert reply.interrupted is False
    reply = CHAT.decode(200, {}, begun)
    assert reply.text == "a"
    assert reply.interrupted is True
    nothing = CHAT.decode(200, {}, start)
    assert nothing.reason == "malformed"


# what is no reply

NOTHINGS = [
    b"",
    b" ",
    b"<html><body>Bad gateway</body></html>",
    b"null",
    b"[]",
    b"[null]",
    b"42",
    b'"x"',
    b"x",
    b"{}",
    b"{",
    b'{"a": 1}',
    b"\xff\xfe",
    b"[" * 100_000,
    b"data: x\n\n",
    b"data: {}\n\n",
    b'{"candidates": []}',
    b'{"output": 5}',
    b'{"id": "resp_1"}',
    b'{"choices": []}',
    b'{"choices": null}',
    b'{"choices": [null]}',
    b'{"choices": [{}]}',
    b'{"choices": {"0": 1}}',
    b'{"choices": [{"message": null}]}',
    b'{"choices": [{"message": {"content": "he',
]


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
@pytest.mark.parametrize("body", NOTHINGS, ids=lambda body: repr(body[:20]))
def test_a_200_without_a_usable_shape_is_malformed(api: str, body: bytes) -> None:
    backend = protocols.backend(api, URL)
    failure = backend.decode(200, {}, body)
    assert failure.reason == "malformed"
    assert failure.status == 200
    decoder = backend.decoder({})
    assert decoder.feed(body) == []
    outcome = decoder.close()
    if isinstance(outcome, Reply):
        assert outcome.interrupted
        failure = outcome.failure
        assert failure is None or failure.reason == "malformed"
    else:
        assert outcome.reason == "malformed"
