"""What servers say otherwise than their protocol is read as what they mean: every wire, whole and
streamed, wherever the network cuts it.

The issues that each row comes from stand beside the code that reads it.
"""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rungwise import ToolCall
from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.adapters.http.encodings import encoding_of, plain
from rungwise.adapters.wires.draft import NAMES
from rungwise.adapters.wires.json_text import mended
from rungwise.fsm.replies.assembly.arguments import Arguments
from rungwise.fsm.replies.assembly.gathered import GatheredText
from rungwise.fsm.replies.failures.bare import is_bare_error
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reasoning, Reply, Text
from rungwise.testing import ScriptedReply
from support import protocols
from support.streams import rendered

EVENTS = ("openai", "responses", "anthropic", "gemini", "interactions")
"""The protocols whose streams are server-sent events."""
SIZES = [1, 7, 100_000]


def backend(api: str) -> Any:
    return protocols.backend(api, "http://host/v1")


def body(api: str, *, streams: bool = True, **script: Any) -> bytes:
    return rendered(backend(api), ScriptedReply(**script), streams=streams)


def read(api: str, data: bytes, size: int = 100_000) -> Any:
    decoder = backend(api).decoder({})
    for start in range(0, len(data), size):
        decoder.feed(data[start : start + size])
    return decoder.close()


def whole(api: str, value: Any) -> Any:
    return backend(api).decode(200, {}, json.dumps(value).encode())


def events(*values: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


# framing


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("frames", ["data: ", "data:", "data: data: ", "  data:\t"])
@pytest.mark.parametrize("api", EVENTS)
def test_events_that_are_framed_twice(api: str, frames: str, size: int) -> None:
    data = body(api, text="In the reeds.", reasoning="Hm.")
    again = data.replace(b"data: ", b"data: " + frames.encode())
    assert read(api, again, size) == read(api, data, size)


def test_a_line_of_frames_alone_is_read_in_time_that_grows_with_it() -> None:
    assert read("openai", b"data: " * 300_000 + b"\n\n").text == ""


@pytest.mark.parametrize(
    ("said", "beginning", "is_plain"),
    [
        ("gzip", b'{"id": 1}', True),
        ("br", b"data: {}", True),
        ("zstd", b"\xef\xbb\xbf\n: ping", True),
        ("deflate", b'[{"a": 1}]', True),
        ("deflate", b"x\x9c", False),
        ("gzip", b"\x1f\x8b", False),
        ("", b"\x1f\x8b", False),
        ("", b"In the reeds", True),
    ],
)
def test_the_first_bytes_say_how_a_body_is_packed(
    said: str, beginning: bytes, is_plain: bool
) -> None:
    assert (encoding_of({"content-encoding": said}, beginning) is plain) is is_plain


def test_an_encoding_that_nobody_asked_for_is_not_guessed_at() -> None:
    assert encoding_of({"content-encoding": "br"}, b"\x0b\x02\x80") is None


# errors


SPENT = {"code": "insufficient_balance", "message": "Insufficient balance, please recharge"}
LIMITED = {"status": "449", "msg": "You exceeded your current rate limit", "body": None}


@pytest.mark.parametrize(("error", "reason"), [(SPENT, "billing"), (LIMITED, "rate_limit")])
@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_an_error_that_stands_in_no_member_of_its_own(api: str, error: Any, reason: str) -> None:
    replies = [whole(api, error)]
    if api in EVENTS:
        replies.append(read(api, events(error)))
    for reply in replies:
        assert isinstance(reply, Failure)
        assert reply.reason == reason
        assert reply.message in (error.get("message"), error.get("msg"))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("api", EVENTS)
def test_an_error_behind_the_events(api: str, indent: int | None) -> None:
    error = {"error": {"code": 503, "message": "Try again later.", "status": "UNAVAILABLE"}}
    data = body(api, text="In the reeds.").partition(b"reeds")[0].rpartition(b"data:")[0]
    reply = read(api, data + b"\n\n" + json.dumps(error, indent=indent).encode())
    failure = reply.failure if isinstance(reply, Reply) else reply
    assert failure is not None
    assert failure.reason == "overloaded"


@pytest.mark.parametrize(
    "value",
    [
        {"code": 0, "message": "success"},
        {"status": "completed", "message": "x"},
        {"code": 500},
        {"code": "0000", "message": "x"},
        {"code": None, "message": "x"},
        {"code": True, "message": "x"},
        {"status": "processing", "message": "the third in the queue"},
        {"status": 200, "message": "x"},
        {"status": "9" * 5000, "message": "x"},
        {"message": "In the reeds."},
        {"type": "response.created", "code": 1, "message": "x"},
        {"code": 1, "message": "x", "choices": [{}]},
        [],
        None,
    ],
)
def test_what_is_no_bare_error(value: Any) -> None:
    assert not is_bare_error(value)


# calls


LOOK = ToolCall("c1", "look", '{"bird":"owl"}')


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("api", [each for each in protocols.PROTOCOLS if each != "ollama"])
def test_a_call_that_is_delivered_twice_is_one(api: str, size: int) -> None:
    """Ollama gives its calls no ids, so that two alike are two."""
    twice = {"tool_calls": (LOOK, LOOK)}
    for reply in (
        read(api, body(api, **twice), size),
        backend(api).decode(200, {}, body(api, streams=False, **twice)),
    ):
        assert [(each.name, each.arguments) for each in reply.tool_calls] == [
            ("look", '{"bird":"owl"}')
        ]


def chat(*calls: Any, finish: str | None = "tool_calls") -> Any:
    deltas = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
    return read("openai", events(*deltas, {"choices": [{"delta": {}, "finish_reason": finish}]}))


def piece(arguments: Any = "", **members: Any) -> dict[str, Any]:
    id = {"id": members.pop("id")} if "id" in members else {}
    return {"index": 0, **id, "function": {"arguments": arguments, **members}}


WHOLE = '{"city": "Oslo", "unit": "C"}'


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        ([WHOLE[:8], WHOLE[:17], WHOLE], WHOLE),
        ([WHOLE[:8], WHOLE[8:], WHOLE], WHOLE),
        ([WHOLE, WHOLE], WHOLE),
        ([{"city": "Oslo"}, {"unit": "C"}], '{"city":"Oslo","unit":"C"}'),
        (['{"a": ', '{"a": 1}', "}"], '{"a": {"a": 1}}'),
        (['{"a": ', '{"b": 1', '{"c": 2}'], '{"a": {"b": 1{"c": 2}'),
        ([""], "{}"),
        ([None], "{}"),
    ],
)
def test_arguments_that_come_again_or_as_objects(pieces: list[Any], arguments: str) -> None:
    reply = chat(piece(id="a", name="get"), *map(piece, pieces))
    assert [each.arguments for each in reply.tool_calls] == [arguments]


def test_a_call_without_arguments_in_a_reply_that_was_cut_stays_without() -> None:
    reply = chat(piece(id="a", name="get"), finish="length")
    assert [each.arguments for each in reply.tool_calls] == [""]


def test_a_name_in_fragments() -> None:
    reply = chat(piece(id="a", name="get_wea"), piece("{}", name="ther"))
    assert [(each.name, each.arguments) for each in reply.tool_calls] == [("get_weather", "{}")]
    two = chat(piece(id="a", name="ls"), piece(id="b", name="pwd"))
    assert [each.name for each in two.tool_calls] == ["ls", "pwd"]


def opened(index: int, **block: Any) -> dict[str, Any]:
    return {
        "type": "content_block_start",
        "index": index,
        "content_block": {"type": "tool_use", "id": "t", "name": "get", **block},
    }


def brought(index: int, text: str) -> dict[str, Any]:
    delta = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": index, "delta": delta}


ENDED = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}


@pytest.mark.parametrize(
    "said",
    [
        [opened(0, input={}), brought(1, '{"a":'), brought(1, "1}")],
        [opened(0, input={}), brought(7, '{"a":1}')],
        [opened(0, input={"a": 1}), brought(0, "")],
        [opened(0, input={"a": 1})],
    ],
)
def test_input_under_another_index_or_at_the_start(said: list[Any]) -> None:
    reply = read("anthropic", events({"type": "message_start", "message": {}}, *said, ENDED))
    assert [json.loads(each.arguments) for each in reply.tool_calls] == [{"a": 1}]


def test_input_without_a_call_is_a_broken_reply() -> None:
    reply = read("anthropic", events({"type": "message_start", "message": {}}, brought(0, "{}")))
    assert isinstance(reply, Failure)


# texts


SO_FAR = ["The capital", "The capital of Norway", "The capital of Norway is Oslo, on the fjord."]


def texts(api: str, pieces: list[str], kind: str = "text") -> bytes:
    """Write a stream with these pieces."""
    joined = body(api, **{kind: "@"})
    line = next(each for each in joined.split(b"\n\n") if b"@" in each)
    lines = [line.replace(b"@", json.dumps(each)[1:-1].encode()) for each in pieces]
    return joined.replace(line, b"\n\n".join(lines), 1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["text", "reasoning"])
@pytest.mark.parametrize("api", ["openai", "gemini", "anthropic"])
def test_text_that_comes_as_all_so_far(api: str, kind: str, size: int) -> None:
    assert getattr(read(api, texts(api, SO_FAR, kind), size), kind) == SO_FAR[-1]


@pytest.mark.parametrize("api", ["openai", "gemini", "anthropic"])
def test_all_text_once_more_at_the_end(api: str) -> None:
    text = "The capital of Norway is Oslo, which lies at the end of a fjord."
    assert read(api, texts(api, [text[:9], text[9:30], text[30:], text])).text == text


@given(st.lists(st.text("ha \n-", min_size=1, max_size=12), max_size=8))
@example(["ha", "haha"])
@example(["-", "--", "---"])
@example([" ", " ", " a"])
def test_a_text_that_repeats_itself_is_never_shortened(pieces: list[str]) -> None:
    gathered = GatheredText()
    said = "".join(gathered.add([each]) for each in pieces) + gathered.end()
    whole = "".join(pieces)
    if gathered.sends == "snapshots":
        assert len(pieces) >= 3
        assert max(map(len, pieces)) >= 30
    else:
        assert said == whole


@given(
    st.text(min_size=31, max_size=300),
    st.sets(st.integers(1, 299), min_size=3, max_size=6),
    st.booleans(),
)
@example("The capital of Norway is Oslo, on the fjord.", {11, 21, 44}, True)
@example("The capital of Norway is Oslo, on the fjord.", {11, 21, 44}, False)
def test_snapshots_come_to_the_last_of_them(text: str, cuts: set[int], at_once: bool) -> None:
    ends = sorted({cut for cut in cuts if cut < len(text)} | {len(text)})
    snapshots = [text[:end] for end in ends]
    gathered = GatheredText()
    for pieces in [snapshots] if at_once else [[each] for each in snapshots]:
        gathered.add(pieces)
    gathered.end()
    begins_blank = not snapshots[0].strip()
    if len(snapshots) > 2 and not begins_blank:
        assert gathered.text == mended(text)


def test_what_is_held_is_bounded_and_handed_out() -> None:
    gathered = GatheredText()
    assert gathered.add(["a" * 40]) == "a" * 40
    assert gathered.add(["a" * 60]) == ""
    assert gathered.text == "a" * 100
    assert gathered.add(["b"]) == "a" * 60 + "b"
    assert gathered.sends == "pieces"


def test_a_snapshot_that_is_too_long_to_be_held_is_taken_back() -> None:
    gathered = GatheredText()
    assert gathered.add(["x" * 40, "x" * 39 + "xy" + "z" * 60]) == "x" * 80 + "y" + "z" * 60
    assert gathered.add(["x" * 40 + "y" + "z" * 60 + "!"]) == "!"
    assert gathered.text == "x" * 40 + "y" + "z" * 60 + "!"


def test_a_copy_at_the_end_is_long_and_exact() -> None:
    for pieces, said in (
        (["a" * 9, "b" * 9, "a" * 9 + "b" * 9], "a" * 9 + "b" * 9 + "a" * 9 + "b" * 9),
        (["x", "x" * 30, "y" * 31], "x" * 31 + "y" * 31),
        (["x" * 15, "y" * 16, "x" * 15 + "y" * 16], "x" * 15 + "y" * 16),
        (["x" * 31, "x" * 31], "x" * 62),
    ):
        gathered = GatheredText()
        gathered.add(pieces)
        gathered.end()
        assert gathered.text == said


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (['{"a"', ":1}"], '{"a":1}'),
        (['{"a"', '{"a":1}'], '{"a":1}'),
        (['{"a"', ":1}", '{"a": 1}'], '{"a": 1}'),
        (["{}", '{"a"', ":1}"], '{"a":1}'),
        (["{}", '{"a"', '{"a":1}'], '{"a":1}'),
        (['{"a":1}', '{"b":2}'], '{"a":1}{"b":2}'),
        (['{"a":', '{"b":2}', "}"], '{"a":{"b":2}}'),
        (["x", '{"a":1}', '{"a":1}'], 'x{"a":1}{"a":1}'),
    ],
)
def test_arguments_are_one_object_however_they_come(pieces: list[str], whole: str) -> None:
    arguments = Arguments()
    for piece in pieces:
        arguments.add(piece)
    assert arguments.text == whole


LINE = "All work and no play makes Jack a dull boy.\n"


@pytest.mark.parametrize("pieces", [[LINE, LINE], [LINE * 2], [LINE, LINE, "The end."]])
@pytest.mark.parametrize("api", ["openai", "gemini", "anthropic"])
def test_a_line_that_stands_there_twice_stays(api: str, pieces: list[str]) -> None:
    assert read(api, texts(api, pieces)).text == "".join(pieces)


def test_a_copy_that_the_final_form_confirms_stays() -> None:
    data = body("responses", text=LINE * 2, chunk_size=len(LINE))
    parts = data.split(b"\n\n")
    first, second = (each for each in parts if b"output_text.delta" in each)
    halves = [first.replace(LINE[:9].encode(), b""), first.replace(LINE[9:-1].encode(), b"")]
    at = parts.index(first)
    halves = [halves[1].replace(b"\\n", b""), halves[0]]
    data = b"\n\n".join([*parts[:at], *halves, second, *parts[at + 2 :]])
    for size in SIZES:
        assert read("responses", data, size).text == LINE * 2


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("api", ["openai", "gemini", "anthropic"])
def test_what_is_handed_out_is_what_the_reply_says(api: str, size: int) -> None:
    decoder = backend(api).decoder({})
    data = texts(api, SO_FAR)
    found: list[Text | Reasoning] = []
    for start in range(0, len(data), size):
        found += decoder.feed(data[start : start + size])
    assert "".join(each.text for each in found) == SO_FAR[-1]


@pytest.mark.parametrize("pieces", [["ha", "haha"], ["ha", "haha", "ha"], ["a", "ab"]])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("api", EVENTS)
def test_a_short_text_that_may_be_either_is_that_of_its_protocol(
    api: str, pieces: list[str], size: int
) -> None:
    expected = "@" if api == "responses" else "".join(pieces)  # whose final form decides
    assert read(api, texts(api, pieces), size).text == expected


@pytest.mark.parametrize("size", SIZES)
def test_the_whole_text_at_the_end_decides(size: int) -> None:
    data = body("responses", text="hahahaha", chunk_size=2)
    parts = data.split(b"\n\n")
    deltas = [each for each in parts if b"output_text.delta" in each]
    last = deltas[1].replace(b'"delta":"ha"', b'"delta":"haha"')
    assert last != deltas[1]
    kept = [each for each in parts if each not in deltas[2:]]
    kept[kept.index(deltas[1])] = last
    assert read("responses", b"\n\n".join(kept), size).text == "hahahaha"


# counts


@pytest.mark.parametrize(
    ("usage", "output"),
    [
        ({"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 623}, 603),
        ({"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 218}, 198),
        ({"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 10}, 198),
        ({"prompt_tokens": 20, "completion_tokens": 198}, 198),
    ],
)
def test_tokens_that_only_the_total_shows_are_output(usage: Any, output: int) -> None:
    message = {"message": {"content": "Hm."}, "finish_reason": "stop"}
    for value in (
        {"choices": [message], "usage": usage},
        {"choices": [{**message, "usage": usage}]},
    ):
        assert whole("openai", value).usage.output_tokens == output
        assert read("openai", events(value) + b"data: [DONE]\n\n").usage.output_tokens == output


def test_so_are_those_of_gemini() -> None:
    counts = {"promptTokenCount": 20, "candidatesTokenCount": 198, "totalTokenCount": 623}
    candidate = {"content": {"parts": [{"text": "Hm."}]}, "finishReason": "STOP"}
    value = {"candidates": [candidate], "usageMetadata": counts}
    assert whole("gemini", value).usage.output_tokens == 603
    assert read("gemini", events(value)).usage.output_tokens == 603


@pytest.mark.parametrize("api", ["openai", "gemini"])
def test_a_reply_without_choices_is_paid_for(api: str) -> None:
    value: dict[str, Any] = {"choices": [], "usage": {"prompt_tokens": 5000, "total_tokens": 5000}}
    if api == "gemini":
        counts = {"promptTokenCount": 5000, "totalTokenCount": 5000}
        value = {"candidates": [], "usageMetadata": counts}
    for reply in (whole(api, value), read(api, events(value) + b"data: [DONE]\n\n")):
        assert isinstance(reply, Reply)
        assert reply.usage.input_tokens == 5000
        assert not reply.text


# what gateways in front of another protocol leave under its names, or in its places


CUT = "In the"
FINISHES = [
    *[{"choices": [{"index": 0, "delta": {"content": CUT}, name: "length"}]} for name in NAMES],
    {"choices": [{"index": 0, "delta": {"content": CUT, "finish_reason": "length"}}]},
    {"choices": [{"index": 0, "delta": {"content": CUT}}], "finish_reason": "length"},
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", FINISHES)
def test_a_finish_word_of_chat_counts_wherever_it_stands(chunk: Any) -> None:
    before = {"choices": [{"index": 0, "delta": {"content": "Herons. "}}]}
    came = read("openai", events(before, before, chunk) + b"data: [DONE]\n\n")
    assert came.stop_reason == "length"
    assert came.text == "Herons. Herons. In the"
    [choice] = chunk["choices"]
    [message] = [choice.pop("delta")]
    assert whole("openai", {**chunk, "choices": [{**choice, "message": message}]}).stop_reason == (
        "length"
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "ends",
    [
        [{"type": "message_delta", "delta": {}, "stop_reason": "max_tokens"}],
        [{"type": "message_delta", "delta": {"stopReason": "max_tokens"}}],
        [{"type": "message_delta", "delta": {"finish_reason": "max_tokens"}}],
        [{"type": "message_stop", "stop_reason": "max_tokens"}],
        [{"type": "message_stop", "message": {"stop_reason": "max_tokens"}}],
    ],
)
def test_a_stop_reason_of_messages_counts_wherever_it_stands(ends: Any) -> None:
    said = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": CUT}}
    came = read("anthropic", events(said, *ends, {"type": "message_stop"}))
    assert (came.stop_reason, came.text) == ("length", CUT)


@pytest.mark.parametrize(
    "stray", [b"data: Internal Server Error\n\n", b'data: {"detail": "worker died"}\n\n']
)
def test_an_end_without_a_word_behind_what_nobody_can_read_is_a_cut(stray: bytes) -> None:
    said = events({"choices": [{"index": 0, "delta": {"content": CUT}}]})
    done = b"data: [DONE]\n\n"
    assert read("openai", said + stray + done).interrupted
    assert not read("openai", said + b"data: : PROCESSING\n\n" + done).interrupted
    word = events({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    assert not read("openai", said + stray + word + done).interrupted


OWL = {"bird": "owl"}
USE = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
END = [
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    {"type": "message_stop"},
]


def block(*values: Any, **ends: Any) -> list[Any]:
    start = {"type": "content_block_start", "index": 0, "content_block": USE}
    return [start, *values, {"type": "content_block_stop", "index": 0, **ends}, *END]


def input_delta(**delta: Any) -> Any:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "said",
    [
        block(input_delta(partial_json='{"bird":"owl"}')),
        block(input_delta(type="input_json_delta", text='{"bird":"owl"}')),
        block(content_block={**USE, "input": OWL}),
    ],
)
def test_the_input_of_a_call_in_messages_is_found(said: Any) -> None:
    [call] = read("anthropic", events(*said)).tool_calls
    assert json.loads(call.arguments) == OWL


def test_a_call_without_input_whose_block_never_ends_has_an_empty_object() -> None:
    start, _, *rest = block()
    [call] = read("anthropic", events(start, *rest)).tool_calls
    assert call.arguments == "{}"
    [call] = read("anthropic", events(start)).tool_calls
    assert call.arguments == ""


def test_texts_of_messages_without_a_type_and_at_the_end_of_their_block() -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    whole_block = {"type": "text", "text": CUT}
    stop = {"type": "content_block_stop", "index": 0, "content_block": whole_block}
    assert read("anthropic", events(start, input_delta(text=CUT), *END)).text == CUT
    assert read("anthropic", events(start, stop, *END)).text == CUT
    assert read("anthropic", events(start, input_delta(text=CUT), stop, *END)).text == CUT


@pytest.mark.parametrize("name", ["functionCall", "function_call"])
@pytest.mark.parametrize("member", ["args", "arguments"])
def test_a_call_of_gemini_under_other_names(name: str, member: str) -> None:
    parts = [{"text": "Look."}, {name: {"name": "look", member: OWL}}]
    value = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    for came in (whole("gemini", value), read("gemini", events(value))):
        [call] = came.tool_calls
        assert (call.name, json.loads(call.arguments)) == ("look", OWL)


def test_the_input_of_a_call_in_converse_at_its_start() -> None:
    start = {"toolUse": {"toolUseId": "c1", "name": "look", "input": OWL}}
    frames = (
        frame("contentBlockStart", {"contentBlockIndex": 0, "start": start}),
        frame("contentBlockStop", {"contentBlockIndex": 0}),
        frame("messageStop", {"stopReason": "tool_use"}),
    )
    [call] = read("bedrock", b"".join(frames)).tool_calls
    assert json.loads(call.arguments) == OWL


def test_one_call_in_both_members_of_a_message_is_one() -> None:
    function = {"name": "look", "arguments": '{"bird":"owl"}'}
    calls = [{"id": "c1", "type": "function", "function": function}]
    message = {"role": "assistant", "tool_calls": calls, "function_call": function}
    value = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    assert [call.id for call in whole("openai", value).tool_calls] == ["c1"]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("own", ["stop", "tool_calls"])
def test_the_calls_of_another_choice_belong_to_a_reply_that_has_none(
    own: str, indexed: bool
) -> None:
    call = {"id": "c1", "function": {"name": "look", "arguments": json.dumps(OWL)}}
    texts: dict[str, Any] = {"message": {"content": CUT}, "finish_reason": own}
    calls: dict[str, Any] = {"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    if indexed:
        texts["index"], calls["index"] = 0, 1
    came = whole("openai", {"choices": [texts, calls]})
    assert (came.text, [each.id for each in came.tool_calls]) == (CUT, ["c1"])
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": CUT}}]},
        {"choices": [{"index": 1, "delta": {"tool_calls": [{"index": 0, **call}]}}]},
        {"choices": [{"index": 1, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": own}]},
    ]
    came = read("openai", events(*chunks) + b"data: [DONE]\n\n")
    assert (came.text, [each.id for each in came.tool_calls]) == (CUT, ["c1"])


def test_another_answer_is_no_part_of_a_reply() -> None:
    call = {"id": "c1", "function": {"name": "look", "arguments": "{}"}}
    mine = {"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    other = {"index": 1, "message": {"tool_calls": [{**call, "id": "c2"}], "content": "B"}}
    came = whole("openai", {"choices": [mine, {**other, "finish_reason": "tool_calls"}]})
    assert ([each.id for each in came.tool_calls], came.text) == (["c1"], "")
    mine = {"index": 0, "message": {"content": CUT}, "finish_reason": "stop"}
    assert not whole("openai", {"choices": [mine, {**other, "finish_reason": "stop"}]}).tool_calls


def of_gemini(*parts: Any, finish: str | None = None) -> Any:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [*parts]}}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate]}


def of_ollama(text: str, *calls: Any, done: bool = False) -> bytes:
    tool_calls = [{"function": {"name": name, "arguments": args}} for name, args in calls]
    message = {"role": "assistant", "content": text, "tool_calls": tool_calls}
    return json.dumps({"message": message, "done": done}).encode() + b"\n"


@pytest.mark.parametrize(
    ("text", "names"), [(CUT, ["look"]), ("", ["look", "see"]), (CUT, ["look", "look"])]
)
def test_a_reply_that_stands_once_more_in_the_last_event_is_one(
    text: str, names: list[str]
) -> None:
    parts: list[Any] = [{"functionCall": {"name": name, "args": OWL}} for name in names]
    if text:
        parts.insert(0, {"text": text})
    came = read("gemini", events(*map(of_gemini, parts), of_gemini(*parts, finish="STOP")))
    assert (came.text, [call.name for call in came.tool_calls]) == (text, names)

    calls = [(name, OWL) for name in names]
    lines = [of_ollama(text), *(of_ollama("", call) for call in calls)]
    came = read("ollama", b"".join([*lines, of_ollama(text, *calls, done=True)]))
    assert (came.text, [call.name for call in came.tool_calls]) == (text, names)


def test_a_call_that_is_meant_twice_is_two() -> None:
    roll = {"functionCall": {"name": "roll", "args": {}}}
    came = read("gemini", events(of_gemini(roll), of_gemini(roll, finish="STOP")))
    assert len(came.tool_calls) == 2
    line = of_ollama("", ("roll", {}))
    assert len(read("ollama", line + of_ollama("", ("roll", {}), done=True)).tool_calls) == 2


def message(id: str) -> Any:
    return {"type": "message_start", "message": {"id": id, "role": "assistant"}}


def said(text: str) -> list[Any]:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    return [start, *(input_delta(type="text_delta", text=each) for each in text.split("|"))]


def of_responses(text: str) -> list[Any]:
    created = {"type": "response.created", "response": {"id": "r1"}}
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0}
    return [created, *({**delta, "delta": each} for each in text.split("|"))]


@pytest.mark.parametrize("size", SIZES)
def test_a_reply_that_begins_again_replaces_what_had_come(size: int) -> None:
    events_ = [message("a"), *said("Herons |stand |st"), message("b"), *said(f"{CUT}| reeds"), *END]
    assert read("anthropic", events(*events_), size).text == f"{CUT} reeds"
    completed = {"type": "response.completed", "response": {"status": "completed"}}
    events_ = [*of_responses("Herons |stand |st"), *of_responses(f"{CUT}| reeds"), completed]
    assert read("responses", events(*events_), size).text == f"{CUT} reeds"


def test_a_message_that_is_announced_twice_goes_on() -> None:
    events_ = [message("a"), *said("Herons |stand"), message("a"), input_delta(text=" still")]
    assert read("anthropic", events(*events_, *END)).text == "Herons stand still"


def test_finish_reasons_in_other_places() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": CUT}}]}
    details = {"finish_details": {"type": "max_tokens"}, "index": 0, "delta": {}}
    end = {"choices": [details]}
    assert read("openai", events(chunk, end) + b"data: [DONE]\n\n").stop_reason == "length"
    value = {**of_gemini({"text": CUT}), "finish_reason": "MAX_TOKENS"}
    assert read("gemini", events(value)).stop_reason == "length"
    message = {"content": CUT, "done_reason": "length"}
    assert whole("ollama", {"message": message, "done": True}).stop_reason == "length"
    written = {"type": "output_text", "text": CUT}
    item = {"type": "message", "status": "incomplete", "content": [written]}
    assert whole("responses", {"output": [item]}).stop_reason == "length"


def test_errors_in_other_places() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": CUT}}]}
    failed = {"choices": [{"index": 0, "delta": {"error": {"message": "No.", "code": 503}}}]}
    came = read("openai", events(chunk, failed) + b"data: [DONE]\n\n")
    assert (came.interrupted, came.failure.reason) == (True, "overloaded")
    value = {"error_code": 336501, "error_msg": "Rate limit reached"}
    for failure in (whole("openai", value), read("openai", events(value))):
        assert isinstance(failure, Failure)
        assert (failure.reason, failure.message) == ("rate_limit", "Rate limit reached")
    delta = {"contentBlockIndex": 0, "delta": {"text": CUT}}
    frames = frame("contentBlockDelta", delta) + frame("throttlingException", {"message": "Slow."})
    came = read("bedrock", frames)
    assert (came.interrupted, came.failure.reason) == (True, "rate_limit")


LINE = "Herons stand in the reeds, and wait."


def test_a_text_at_the_start_of_its_block_and_in_pieces_is_one() -> None:
    opening = {"type": "text", "text": LINE}
    start = {"type": "content_block_start", "index": 0, "content_block": opening}
    pieces = [input_delta(text=LINE[:9]), input_delta(text=LINE[9:])]
    stop = {"type": "content_block_stop", "index": 0}
    assert read("anthropic", events(start, *pieces, stop, *END)).text == LINE
    assert read("anthropic", events(start, stop, *END)).text == LINE
    more = [start, input_delta(text=" Still."), stop, *END]
    assert read("anthropic", events(*more)).text == f"{LINE} Still."


def test_blocks_in_the_announcement_of_a_message_that_come_again_are_the_same() -> None:
    announced = message("a")
    announced["message"]["content"] = [{"type": "text", "text": LINE}]
    stop = {"type": "content_block_stop", "index": 0}
    assert read("anthropic", events(announced, *END)).text == LINE
    assert read("anthropic", events(announced, *said(LINE), stop, *END)).text == LINE
    later = {"type": "content_block_start", "index": 1, "content_block": {"type": "text"}}
    goes_on = {**input_delta(type="text_delta", text=" Still."), "index": 1}
    assert read("anthropic", events(announced, later, goes_on, *END)).text == f"{LINE} Still."


@given(st.lists(st.sampled_from(["Herons ", "stand ", "still. ", "x"]), min_size=1))
@example(["Herons ", "stand ", "still. ", "Herons ", "stand "])
def test_a_text_that_was_announced_is_said_once(pieces: list[str]) -> None:
    text = "".join(pieces)
    gathered = GatheredText()
    shown = gathered.announce(text, is_settled=True)
    shown += "".join([gathered.add([piece]) for piece in pieces])
    assert (gathered.text, shown + gathered.end()) == (text, text)

    gathered = GatheredText()
    shown = gathered.announce(text, is_settled=True)
    shown += gathered.add(["And "]) + gathered.add(["on."])
    assert (gathered.text, shown + gathered.end()) == (f"{text}And on.", f"{text}And on.")

    gathered = GatheredText()
    shown = gathered.announce(text, is_settled=True) + gathered.add([*pieces, "And "])
    assert (gathered.text, shown + gathered.end()) == (f"{text}And ", f"{text}And ")


def test_a_text_that_begins_as_its_announcement_does_is_whole() -> None:
    gathered = GatheredText()
    shown = gathered.announce(f"{LINE} ", is_settled=False)
    shown += gathered.add([LINE[:7]]) + gathered.add([LINE[7:20]])
    assert gathered.text == f"{LINE} {LINE[:20]}"
    assert shown + gathered.end() == gathered.text


@pytest.mark.parametrize("size", SIZES)
def test_an_announced_text_of_responses_is_shown_once(size: int) -> None:
    item = {"id": "m", "type": "message", "content": [{"type": "output_text", "text": LINE}]}
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    delta = {"type": "response.output_text.delta", **place}
    part = {"type": "response.content_part.added", **place, "part": item["content"][0]}
    events_ = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        part,
        *({**delta, "delta": LINE[start : start + 9]} for start in range(0, len(LINE), 9)),
        {"type": "response.output_text.done", **place, "text": LINE},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"status": "completed", "output": [item]}},
    ]
    decoder = backend("responses").decoder({})
    data = events(*events_)
    shown: list[Any] = []
    for start in range(0, len(data), size):
        shown += decoder.feed(data[start : start + size])
    assert "".join([each.text for each in shown]) == LINE
    reply: Any = decoder.close()
    assert reply.text == LINE


def test_what_was_written_before_a_reply_begins_again_is_counted() -> None:
    text = "Herons stand. " * 1_000
    decoder = backend("anthropic").decoder({})
    for number in range(5):
        decoder.feed(events(message(f"m{number}"), *said(text)))
    assert decoder.beside >= 3 * len(text)
    assert decoder.size < 3 * len(text)


def test_an_announced_block_that_comes_again_is_replaced_once() -> None:
    announced = message("a")
    announced["message"]["content"] = [{"type": "text", "text": LINE}]
    stop = {"type": "content_block_stop", "index": 0}
    again = [*said(LINE), stop, *said(" Still."), stop]
    assert read("anthropic", events(announced, *again, *END)).text == f"{LINE} Still."
