"""How replies of Gemini's are read: their parts in their places, whole and streamed, and whatever
hostile bytes say.
"""

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from rungwise import Gemini, MediaPart, Message, TextPart, ToolCall, Usage
from rungwise.adapters.wires.gemini.shapes import GEMINI as FORM
from rungwise.adapters.wires.gemini.stream import GeminiDecoder
from rungwise.core import Failure, OpaquePart, Part, ReasoningPart, Reply
from support.sampling import sampled
from support.streams import followed
from support.work import grows_within

GEMINI: Any = Gemini("gemini-3-pro-preview", base_url="http://localhost:1/v1beta")
ME = GEMINI.provider
SIGNATURE = "c2lnbmVk"
PIXEL = "iVBORw0KGgo="


def chunk(*parts: Any, **fields: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [*parts]}, "index": 0}
    for name in ("finishReason", "groundingMetadata", "logprobsResult"):
        if name in fields:
            candidate[name] = fields.pop(name)
    return {"candidates": [candidate], **fields}


def event(value: Any) -> bytes:
    return b"data: %b\r\n\r\n" % json.dumps(value).encode()


LAST = chunk({"text": ""}, finishReason="STOP")


def whole(*parts: Any, **fields: Any) -> Reply:
    body = {"finishReason": "STOP", **chunk(*parts, finishReason="STOP", **fields)}
    reply = GEMINI.decode(200, {}, json.dumps(body).encode())
    assert isinstance(reply, Reply)
    return reply


def read(*pieces: bytes) -> Any:
    reply, _, _ = followed(GEMINI.decoder({}), pieces)
    return reply


def streamed(*chunks: Any) -> Reply:
    reply, text, reasoning = followed(GEMINI.decoder({}), map(event, chunks))
    assert isinstance(reply, Reply)
    assert text == reply.text
    assert reasoning == reply.reasoning
    return reply


def texts_of(*pieces: str) -> list[Any]:
    return [chunk({"text": piece}) for piece in pieces]


def as_sent(parts: tuple[Part, ...]) -> list[Any]:
    [content] = FORM.sent_to(ME, Message("assistant", parts))
    parts_sent: list[Any] = content["parts"]
    return parts_sent


# parts and their places

PARTS: list[list[dict[str, Any]]] = [
    [{"text": "Herons.", "thought": True}, {"text": "In the reeds."}],
    [
        {"text": "Herons.", "thought": True, "thoughtSignature": SIGNATURE},
        {"text": "In the reeds."},
    ],
    [{"text": "In the "}, {"text": "reeds.", "thoughtSignature": SIGNATURE}],
    [{"text": "In the reeds."}, {"text": "", "thoughtSignature": SIGNATURE}],
    [{"text": "", "thoughtSignature": SIGNATURE}, {"text": "In the reeds."}],
    [
        {"text": "a", "thoughtSignature": "QQ=="},
        {"text": "b", "thoughtSignature": "Qg=="},
        {"text": "c"},
    ],
    [
        {
            "functionCall": {
                "id": "1",
                "name": "look",
                "args": {"a": [1, {"b": None}]},
            },
            "thoughtSignature": SIGNATURE,
        }
    ],
    [
        {"text": "I look."},
        {"functionCall": {"name": "look", "args": {"b": 1}}, "thoughtSignature": SIGNATURE},
        {"functionCall": {"name": "look", "args": {"b": 1}}},
        {
            "functionCall": {
                "id": "7",
                "name": "look",
                "args": {},
            },
            "partMetadata": {"x": 1},
        },
    ],
    [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {
            "codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"},
            "thoughtSignature": SIGNATURE,
        },
        {"text": "One."},
    ],
    [
        {"text": "See."},
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}, "thoughtSignature": SIGNATURE},
    ],
    [{"inlineData": {"mimeType": "image/png", "data": PIXEL}, "thought": True}, {"text": "See."}],
    [
        {"toolCall": {"toolType": "GOOGLE_SEARCH", "args": {}}},
        {"text": "See."},
        {"toolResponse": {"id": "1"}},
    ],
]


@pytest.mark.parametrize("parts", PARTS)
def test_parts_go_back_as_they_came_and_in_their_order(parts: list[dict[str, Any]]) -> None:
    assert as_sent(whole(*parts).parts) == parts
    assert as_sent(streamed(*map(chunk, parts), LAST).parts) == parts
    assert as_sent(streamed(chunk(*parts, finishReason="STOP")).parts) == parts


def test_pieces_of_a_stream_are_one_part_until_another_begins() -> None:
    """Also where they are so many and so alike that not all of them are parsed."""
    thoughts = [{"text": piece, "thought": True} for piece in ("Herons ", "like ", "reeds.")]
    words = [f"word{number} " for number in range(50)]
    reply = streamed(
        *map(chunk, thoughts),
        *texts_of(*words),
        chunk({"functionCall": {"name": "look", "args": {}}}),
        *texts_of(*words, "again.\n"),
        LAST,
    )
    assert [type(part) for part in reply.parts] == [ReasoningPart, TextPart, ToolCall, TextPart]
    assert reply.reasoning == "Herons like reeds."
    assert reply.parts[1] == TextPart("".join(words))
    assert reply.final_text == "".join([*words, "again.\n"])


def test_a_signature_is_no_boundary_of_the_answer() -> None:
    signature = chunk({"text": "", "thoughtSignature": SIGNATURE})
    reply = streamed(chunk({"text": "In the reeds."}), signature, LAST)
    assert reply.text == "In the reeds."
    assert reply.final_text is None
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    assert whole({"text": "First."}, code, {"text": "One."}).final_text == "One."


def test_a_picture_is_a_part_of_the_answer() -> None:
    reply = streamed(chunk({"inlineData": {"mimeType": "image/png", "data": PIXEL}}), LAST)
    assert reply.parts == (MediaPart("image", PIXEL, "image/png"),)
    found = whole({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}})
    assert found.parts == (MediaPart("video", url="gs://b/v", media_type="video/mp4"),)


def test_ids_are_made_up_where_there_are_none_and_no_two_are_alike() -> None:
    call = {"functionCall": {"name": "look", "args": {"b": 1}}}
    other_call = {"functionCall": {"id": "1", "name": "look", "args": {}}}
    under_its_id = {"functionCall": {"id": "1", "name": "look", "args": {"b": 2}}}
    calls = (call, call, other_call, under_its_id)
    first = whole(*calls, responseId="r1")
    again = whole(*calls, responseId="r1")
    in_stream = streamed(chunk(*calls, responseId="r1"), LAST)
    other = whole(call, responseId="r2")
    ids = [each.id for each in first.tool_calls]
    assert len({*ids, other.tool_calls[0].id}) == 5
    assert [id.startswith("call_gemini_") for id in ids] == [True, True, False, True]
    assert [each.id for each in again.tool_calls] == ids
    assert [each.id for each in in_stream.tool_calls] == ids


def test_arguments_that_come_in_pieces_are_put_together() -> None:
    def piece(*partial: Any, goes_on: bool = True, **call: Any) -> Any:
        call["partialArgs"] = [*partial]
        if goes_on:
            call["willContinue"] = True
        return chunk({"functionCall": call})

    name = {"name": "look", "willContinue": True}
    start = chunk({"functionCall": name, "thoughtSignature": SIGNATURE})
    bird = {"jsonPath": "$.bird", "stringValue": "on"}
    number = {"jsonPath": "$.seen[0].at", "numberValue": 3}
    truth = {"jsonPath": "$.seen[1]", "boolValue": True}
    out_of_place = {"jsonPath": "$.seen[9]", "boolValue": True}
    pieces = [
        start,
        piece({"jsonPath": "$.bird", "stringValue": "her", "willContinue": True}),
        piece(bird, number),
        piece(truth, out_of_place),
    ]
    end = piece({"jsonPath": "$.nest", "nullValue": "NULL_VALUE"}, goes_on=False)
    [call] = streamed(*pieces, end, LAST).tool_calls
    assert json.loads(call.arguments) == {
        "bird": "heron",
        "seen": [{"at": 3}, True],
        "nest": None,
    }
    assert call.extras["thoughtSignature"] == SIGNATURE
    [cut] = streamed(*pieces, LAST).tool_calls
    with pytest.raises(json.JSONDecodeError):
        json.loads(cut.arguments)
    note = piece({"jsonPath": "$.a", "numberValue": 1}, goes_on=False, name="note")
    one, two = streamed(start, end, note, LAST).tool_calls
    assert one.name == "look"
    assert two.name == "note"
    assert json.loads(two.arguments) == {"a": 1}


@pytest.mark.parametrize("path", ["$", "", "$.", "nonsense[", "$[]", "$..a"])
def test_a_piece_of_arguments_without_a_place_is_left_out(path: str) -> None:
    parts = [{"jsonPath": path, "numberValue": 1}, {"jsonPath": "$.bird", "stringValue": "heron"}]
    piece = {"functionCall": {"name": "look", "partialArgs": parts}}
    [call] = streamed(chunk(piece), LAST).tool_calls
    assert json.loads(call.arguments)["bird"] == "heron"


@pytest.mark.parametrize("args", [[1], "x", 1, True])
def test_arguments_of_another_type_are_no_call(args: Any) -> None:
    [call] = whole({"functionCall": {"name": "look", "args": args}}).tool_calls
    assert not isinstance(json.loads(call.arguments), dict)


def test_only_the_first_candidate_counts() -> None:
    other = {"content": {"parts": [{"text": "Elsewhere."}]}, "index": 1, "finishReason": "SAFETY"}
    [first] = chunk({"text": "In the reeds."}, finishReason="STOP")["candidates"]
    value = {"candidates": [other, first]}
    assert streamed(value).text == "In the reeds."
    reply = GEMINI.decode(200, {}, json.dumps(value).encode())
    assert reply.text == "In the reeds."
    assert reply.stop_raw == "STOP"
    decoder = GEMINI.decoder({})
    long = {**other, "content": {"parts": [{"text": "x" * 20_000}]}}
    decoder.feed(event({"candidates": [long]}))
    assert decoder.beside > 10_000


# what is said beside the parts


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (
            {
                "promptTokenCount": 10,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 7,
                "totalTokenCount": 22,
            },
            Usage(10, 12, reasoning_tokens=7),
        ),
        (
            {
                "promptTokenCount": 10,
                "toolUsePromptTokenCount": 4,
                "candidatesTokenCount": 5,
                "cachedContentTokenCount": 8,
            },
            Usage(14, 5, cache_read_tokens=8),
        ),
        (
            {
                "promptTokenCount": 10,
                "cachedContentTokenCount": 80,
                "candidatesTokenCount": 1,
            },
            Usage(10, 1, 10),
        ),
        ({"promptTokenCount": 10}, Usage(10, 4, estimated=True)),
        ({"promptTokenCount": "ten", "candidatesTokenCount": -1}, Usage(0, 4, estimated=True)),
        ({}, Usage(0, 4, estimated=True)),
    ],
)
def test_usage_has_one_meaning(counts: dict[str, Any], usage: Usage) -> None:
    assert whole({"text": "In the reeds."}, usageMetadata=counts).usage == usage
    if counts:  # what the first event has counted stays
        first = {"promptTokenCount": 1, "candidatesTokenCount": 1}
        expected = evolve(usage, input_tokens=max(usage.input_tokens, 1))
    else:
        first = {}
        expected = usage
    early = chunk({"text": "In the "}, usageMetadata=first)
    late = chunk({"text": "reeds."}, usageMetadata=counts)
    end = {"usageMetadata": {"trafficType": "ON_DEMAND"}}
    assert streamed(early, late, LAST, end).usage == expected


@pytest.mark.parametrize(
    "end",
    [
        b"",
        b'data: {"candidates": [{"content": {"par',
        event({"error": {"code": 503}}),
        b"data: [DONE]\n\n",
        b"data: {]\n\n",
    ],
    ids=["none", "half an event", "an error", "a word", "a broken event"],
)
def test_what_was_counted_before_a_cut_is_used(end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Any] = []
    piece_in = GeminiDecoder.piece_in

    def counting(decoder: GeminiDecoder, value: Any) -> Any:
        parsed.append(value)
        return piece_in(decoder, value)

    monkeypatch.setattr(GeminiDecoder, "piece_in", counting)
    body = b""
    for number in range(1, 100):
        counts = {"promptTokenCount": 10, "candidatesTokenCount": number}
        body += event(chunk({"text": "word "}, usageMetadata=counts))
    reply = read(body, end)
    assert reply.interrupted is True
    assert reply.text == "word " * 99
    assert reply.usage == Usage(10, 99)
    assert len(parsed) < 10, "events that differ in text and counts alone are not parsed"


def test_citations_and_probabilities_are_kept_beside_the_reply() -> None:
    def logged(token: str) -> dict[str, Any]:
        return {"chosenCandidates": [{"token": token, "logProbability": -0.1}]}

    grounds = {
        "webSearchQueries": ["herons"],
        "groundingChunks": [{"web": {"uri": "https://birds.test"}}],
    }
    reply = streamed(
        chunk({"text": "In the "}, logprobsResult=logged("In")),
        chunk({"text": "reeds."}, logprobsResult=logged("reeds")),
        chunk({"text": ""}, finishReason="STOP", groundingMetadata=grounds),
    )
    tokens = [*logged("In")["chosenCandidates"], *logged("reeds")["chosenCandidates"]]
    [candidate] = reply.raw["candidates"]
    assert reply.raw.keys() == {"candidates"}
    assert candidate == {
        "logprobsResult": {"chosenCandidates": tokens},
        "groundingMetadata": grounds,
    }
    found = whole({"text": "In the reeds."}, groundingMetadata=grounds)
    assert found.raw["candidates"][0]["groundingMetadata"] == grounds
    for each in (reply, found):
        assert [type(part) for part in each.parts] == [TextPart]


def test_the_model_and_the_end_are_told() -> None:
    reply = streamed(chunk({"text": "a"}, modelVersion="gemini-3-pro-001"), LAST)
    assert reply.model == "gemini-3-pro-001"
    assert reply.stop_reason == "stop"
    assert reply.stop_raw == "STOP"
    text = {"text": "In the reeds"}
    counts = event({"usageMetadata": {}})  # which says nothing of the reply
    for end in (b"", b"data: [DONE]\n\n", counts):
        cut = read(event(chunk(text)), end)
        assert cut.text == "In the reeds"
        assert cut.interrupted is True
        assert cut.stop_reason is None
    done = read(event(chunk(text, finishReason="STOP")), counts)
    assert not done.interrupted


def test_a_stream_may_come_as_a_list() -> None:
    """So the API answers where nobody asks for events, and so do some proxies."""
    chunks = [*texts_of("In the ", "reeds."), LAST]
    flat = json.dumps(chunks)
    for text in (flat, json.dumps(chunks, indent=2), flat.replace("}, {", "},\r\n{")):
        body = text.encode()
        in_pieces = read(*[body[start : start + 7] for start in range(0, len(body), 7)])
        for reply in (in_pieces, GEMINI.decode(200, {}, body)):
            assert reply.text == "In the reeds."
            assert reply.interrupted is False


def test_a_refusal_in_mid_stream_has_its_words() -> None:
    end = {"finishReason": "PROHIBITED_CONTENT", "finishMessage": "Not this.", "index": 0}
    reply = streamed(chunk({"text": "In the reeds."}), {"candidates": [end]})
    assert reply.text == "In the reeds."
    assert reply.refusal == "Not this."
    assert reply.stop_raw == "PROHIBITED_CONTENT"


# hostile input


def nested(depth: int) -> Any:
    return json.loads("[" * depth + "]" * depth)


def test_deep_nesting_is_no_harm() -> None:
    for part in (
        {"functionCall": {"name": "look", "args": {"a": nested(300)}}},
        {"executableCode": nested(300)},
    ):
        reply = whole({"text": "a"}, part)
        assert reply.text == "a"
        assert all(not isinstance(each, OpaquePart) for each in reply.parts)
        assert streamed(chunk({"text": "a"}, part), LAST).text == "a"
    for deep in (
        {"thoughtSignature": nested(300), "text": "b"},
        {"x": nested(300), "text": "b", "thoughtSignature": "s"},
    ):
        assert whole(deep).text == streamed(chunk(deep), LAST).text == "b"
        assert as_sent(whole(deep).parts) == [{"text": "b"}]
    thought = {"text": "Hm.", "thought": True}
    assert as_sent(whole({**thought, "thoughtSignature": {"x": 1}}).parts) == [thought]


@pytest.mark.full
@pytest.mark.parametrize(
    "unit",
    [b'{"functionCall":{}},', b'{"text":"a"},{"text":"b","thought":true},', b'{"x":{}},', b"{},"],
)
def test_no_body_takes_more_than_32_times_the_largest_reply(unit: bytes) -> None:
    largest = 8 * 2**20
    body = b'{"candidates":[{"content":{"parts":[%b{}]},"finishReason":"STOP"}]}' % (
        unit * (largest // len(unit) - 5)
    )
    tracemalloc.start()
    try:
        outcome = GEMINI.decode(200, {}, body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 * largest
    assert isinstance(outcome, Failure) or outcome.interrupted


PIECE_OF_CALL = {
    "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}],
    "willContinue": True,
}
GROWING: dict[str, Callable[[int], list[Any]]] = {
    "signed texts": lambda n: [chunk({"text": "a", "thoughtSignature": SIGNATURE})] * n,
    "pieces of a call": lambda n: [
        chunk({"functionCall": {"name": "look", "willContinue": True}}),
        *[chunk({"functionCall": PIECE_OF_CALL})] * n,
    ],
    "parts in one": lambda n: [chunk(*[{"executableCode": {"code": "1"}}, {"text": "a"}] * n)],
    "probabilities": lambda n: (
        [chunk({"text": "a"}, logprobsResult={"chosenCandidates": [{"token": "a"}]})] * n
    ),
}


@pytest.mark.parametrize("kind", sampled(GROWING, one_in=4))
def test_the_work_is_linear_and_what_is_held_is_told(kind: str) -> None:
    little = [event(each) for each in GROWING[kind](200)]
    much = [event(each) for each in GROWING[kind](4_000)]
    assert grows_within(lambda: read(*little), lambda: read(*much), times=200, floor=0.5)
    decoder = GEMINI.decoder({})
    for each in much:
        decoder.feed(each)
    assert decoder.size >= 4_000
