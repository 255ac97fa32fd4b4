"""What gateways and servers of people's own do beyond all manners: it is read as what it means, or
it is no whole answer.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.testing import ScriptedReply
from support import protocols
from support.classified import event_of
from support.streams import events_in, followed

TEXT = "The kingfishers nest in the steep bank."
WORDS = ["The kingfishers ", "nest in ", "the steep ", "bank."]
THOUGHT = "Hm, they dig holes."
DONE = b"data: [DONE]\n\n"
UNCLEAR = "ended_unclearly"
IN_EVENTS = [api for api in protocols.PROTOCOLS if api not in ("ollama", "bedrock")]
IN_PIECES = ["openai", "anthropic", "gemini", "interactions", "ollama", "bedrock"]
"""The protocols that do not say the whole text behind its pieces."""


def pieces_of(api: str, text: str, size: int = 10) -> list[bytes]:
    return events_in(api, ScriptedReply(text, chunk_size=size))


def read(api: str, pieces: Sequence[bytes]) -> Any:
    decoder = protocols.backend(api, "http://host/v1").decoder({})
    came, shown, _ = followed(decoder, pieces)
    assert came.text.startswith(shown) or event_of(came) != "answered"
    return came


def said(api: str, texts: Sequence[str]) -> list[bytes]:
    """Return a stream of a protocol whose pieces are these texts."""
    marks = [f"<{place}>" for place in range(len(texts))]
    events = pieces_of(api, "".join(marks), 3)
    written = []
    for event in events:
        for mark, text in zip(marks, texts, strict=True):
            new = json.dumps(text)[1:-1].encode()
            if api != "bedrock":
                event = event.replace(mark.encode(), new)
            elif mark.encode() in event:
                delta = {"contentBlockIndex": 0, "delta": {"text": text}}
                event = frame("contentBlockDelta", delta)
        written.append(event)
    return written


def chat(*deltas: Any, finish: str = "stop") -> Any:
    values = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    values.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    chunks = [b"data: " + json.dumps(value).encode() + b"\n\n" for value in values]
    return read("openai", [*chunks, DONE])


@pytest.mark.parametrize("at", [1, 3, 5])
@pytest.mark.parametrize("api", ["openai", "anthropic", "gemini"])
def test_events_that_come_again_under_their_ids_are_read_once(api: str, at: int) -> None:
    events = [b"id: %d\n" % number + event for number, event in enumerate(pieces_of(api, TEXT, 5))]
    came = read(api, [*events[: at + 3], *events[at:]])
    assert (came.text, event_of(came)) == (TEXT, "answered")


@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_events_of_interactions_that_come_again_are_read_once(at: int) -> None:
    events = pieces_of("interactions", TEXT, 5)
    came = read("interactions", [*events[: at + 3], *events[at:]])
    assert (came.text, event_of(came)) == (TEXT, "answered")
    same = re.compile(rb'"event_id":"[^"]*"')
    alike = [
        same.sub(b'"event_id":"1"', event) for event in pieces_of("interactions", "ha " * 9, 3)
    ]
    came = read("interactions", alike)
    assert (came.text, event_of(came)) == ("ha " * 9, "answered")


@pytest.mark.parametrize("ids", [[1], [1, 2], [1, 2, 3, 4, 5, 6, 7, 8]])
@pytest.mark.parametrize("api", ["openai", "anthropic", "gemini"])
def test_ids_that_are_none_of_events_say_nothing(api: str, ids: list[int]) -> None:
    events = pieces_of(api, "ha " * 20, 3)
    numbered = [b"id: %d\n" % ids[at % len(ids)] + event for at, event in enumerate(events)]
    came = read(api, numbered)
    if len(ids) < 3:
        assert (came.text, event_of(came)) == ("ha " * 20, "answered")


@pytest.mark.parametrize("cursor", ["\u258c", "|", "_", " \u25cf"])
@pytest.mark.parametrize("api", IN_PIECES)
def test_snapshots_with_a_cursor_are_no_whole_answer(api: str, cursor: str) -> None:
    texts = ["".join(WORDS[:count]) + cursor for count in (1, 2, 3)]
    assert event_of(read(api, said(api, [*texts, TEXT]))) == UNCLEAR


@pytest.mark.parametrize("around", ["{}", "\n\n{}\n", " {}"])
@pytest.mark.parametrize("api", IN_PIECES)
def test_a_whole_text_that_was_tidied_is_the_same(api: str, around: str) -> None:
    first, *words = WORDS
    pieces = [around.replace("{}", first), *words]
    came = read(api, said(api, [*pieces, " ".join(TEXT.split())]))
    assert (" ".join(came.text.split()), event_of(came)) == (TEXT, "answered")


@pytest.mark.parametrize("api", IN_PIECES)
def test_a_text_like_the_one_before_is_another_line(api: str) -> None:
    texts = ["- the heron nests in the reeds\n", "- the herons nest in the reeds\n", "- so it is\n"]
    came = read(api, said(api, texts))
    assert (came.text, event_of(came)) == ("".join(texts), "answered")


@pytest.mark.parametrize(
    "line",
    [
        b"upstream connect error\n\n",
        b"data: [ERROR] upstream timeout\n\n",
        b"data: <html><h1>502 Bad Gateway</h1></html>\n\n",
        b"event: error\n\n",
    ],
)
@pytest.mark.parametrize("api", IN_EVENTS)
def test_an_error_in_words_leaves_no_whole_answer(api: str, line: bytes) -> None:
    events = pieces_of(api, TEXT)
    half = len(events) // 2
    came = read(api, [*events[:half], line, *events[half + 1 :]])
    assert event_of(came) != "answered"


@pytest.mark.parametrize(
    "line", [b"data: : OPENROUTER PROCESSING\n\n", b"data: ping\n\n", b": error\n"]
)
@pytest.mark.parametrize("api", IN_EVENTS)
def test_other_words_between_events_say_nothing(api: str, line: bytes) -> None:
    events = pieces_of(api, TEXT)
    half = len(events) // 2
    came = read(api, [*events[:half], line, *events[half:]])
    assert (came.text, event_of(came)) == (TEXT, "answered")


@pytest.mark.parametrize(
    "mark", [{"channel": "analysis"}, {"type": "thinking"}, {"type": "thought"}]
)
def test_what_is_marked_as_a_thought_is_no_text(mark: dict[str, str]) -> None:
    came = chat({**mark, "content": THOUGHT}, {"channel": "final", "content": TEXT})
    assert came.text == TEXT
    whole = {
        "output": {"message": {"content": [{"type": "reasoning", "text": THOUGHT}, {"text": TEXT}]}}
    }
    body = json.dumps({**whole, "stopReason": "end_turn"}).encode()
    assert protocols.backend("bedrock", "http://host").decode(200, {}, body).text == TEXT
    message = {"role": "assistant", "content": THOUGHT, "thinking": True}
    lines = [json.dumps({"message": message, "done": False}).encode() + b"\n"]
    came = read("ollama", [*lines, *pieces_of("ollama", TEXT)])
    assert came.text == TEXT


def test_a_text_in_a_block_of_reasoning_is_reasoning() -> None:
    events = pieces_of("anthropic", TEXT)
    thinking = {"type": "thinking", "thinking": ""}
    start = {"type": "content_block_start", "index": 7, "content_block": thinking}
    deltas = [
        {"type": "text_delta", "text": THOUGHT},
        {"type": "thinking_delta", "thinking": " So."},
        {"type": "text_delta", "text": " And so."},
    ]
    thought: list[Any] = [start]
    for delta in deltas:
        thought.append({"type": "content_block_delta", "index": 7, "delta": delta})
    thought.append({"type": "content_block_stop", "index": 7})
    lines = [b"data: " + json.dumps(each).encode() + b"\n\n" for each in thought]
    came = read("anthropic", [*events[:1], *lines, *events[1:]])
    assert (came.text, event_of(came)) == (TEXT, "answered")
    assert came.reasoning == THOUGHT + " So. And so."


OWL = '{"bird": "owl"}'
LOOK = {"id": "c1", "function": {"name": "look"}}
NOW = {"id": "c2", "function": {"name": "now"}}
PARALLEL = {
    "place in the list": [
        [LOOK, NOW],
        [{"function": {"arguments": OWL}}, {"function": {"arguments": "{}"}}],
    ],
    "tool_call_id": [
        [LOOK, NOW],
        [{"tool_call_id": "c1", "function": {"arguments": OWL}}],
        [{"tool_call_id": "c2", "function": {"arguments": "{}"}}],
    ],
    "index in the function": [
        [{"id": "c1", "function": {"name": "look", "index": 0}}],
        [{"id": "c2", "function": {"name": "now", "index": 1}}],
        [{"function": {"index": 0, "arguments": OWL}}],
        [{"function": {"index": 1, "arguments": "{}"}}],
    ],
}


@pytest.mark.parametrize("told_by", PARALLEL)
def test_calls_at_once_are_told_apart(told_by: str) -> None:
    came = chat(*({"tool_calls": calls} for calls in PARALLEL[told_by]), finish="tool_calls")
    assert [(call.name, call.arguments) for call in came.tool_calls] == [
        ("look", OWL),
        ("now", "{}"),
    ]


def test_a_second_candidate_without_an_index_is_another_reply() -> None:
    chunks = []
    for word in WORDS:
        parts = [[{"text": word}], [{"text": "Owls."}]]
        candidates = [{"content": {"role": "model", "parts": each}} for each in parts]
        chunks.append(b"data: " + json.dumps({"candidates": candidates}).encode() + b"\n\n")
    end = {"candidates": [{"finishReason": "STOP"}, {"finishReason": "STOP"}]}
    came = read("gemini", [*chunks, b"data: " + json.dumps(end).encode() + b"\n\n"])
    assert (came.text, event_of(came)) == (TEXT, "answered")


@pytest.mark.parametrize("api", IN_EVENTS)
def test_halves_of_a_pair_may_be_bytes_of_their_own(api: str) -> None:
    events = pieces_of(api, "ab", 1)
    halves = [
        event.replace(b'"a"', b'"\xed\xa0\xbd"')
        .replace(b'"b"', b'"\xed\xb8\x80"')
        .replace(b'"ab"', b'"\xed\xa0\xbd\xed\xb8\x80"')
        for event in events
    ]
    assert read(api, halves).text == "\U0001f600"


@pytest.mark.parametrize("api", IN_PIECES)
def test_a_text_that_has_begun_again_is_no_whole_answer(api: str) -> None:
    assert event_of(read(api, said(api, [*WORDS, *WORDS]))) == UNCLEAR


@pytest.mark.parametrize(
    "text", ["ha " * 20, "ABBA" * 16, f"{TEXT}\n{TEXT}", f"{TEXT}{TEXT}{TEXT}", "no, no"]
)
@pytest.mark.parametrize("api", IN_PIECES)
def test_a_text_may_repeat_itself(api: str, text: str) -> None:
    came = read(api, pieces_of(api, text, 7))
    assert (came.text, event_of(came)) == (text, "answered")


@pytest.mark.parametrize("first", ["", "The king"])
def test_a_message_that_begins_again_amid_its_text_is_no_whole_answer(first: str) -> None:
    opening = {"role": "assistant", "content": first}
    again = [opening, {"content": "Another "}, {"content": "answer."}]
    assert event_of(chat(opening, {"content": "fishers "}, {"content": "nest "}, *again)) == UNCLEAR


def test_a_role_beside_many_pieces_says_nothing() -> None:
    role = {"role": "assistant"}
    pieces = [{**role, "content": word} for word in WORDS]
    assert event_of(chat(*pieces, {**role, "content": ""})) == "answered"
    thoughts = [{"reasoning_content": "Hm, "}, {"reasoning_content": "holes."}]
    came = chat({**role, "content": ""}, *thoughts, *pieces)
    assert (came.text, event_of(came)) == ("".join(WORDS), "answered")
    bare = [{"content": word} for word in WORDS]
    came = chat({**role, "content": ""}, *bare, {**role, "content": ""})
    assert (came.text, event_of(came)) == ("".join(WORDS), "answered")


@pytest.mark.parametrize("first", ["The", "The ", "The king"])
def test_a_piece_that_begins_with_the_announced_one_is_doubt(first: str) -> None:
    event, *pieces = pieces_of("anthropic", TEXT, 8)
    while b'"content_block_start"' not in event:
        event, *pieces = pieces
    before = pieces_of("anthropic", TEXT, 8)
    at = before.index(event)
    before[at] = event.replace(b'"text": ""', json.dumps({"text": first})[1:-1].encode())
    before[at] = before[at].replace(b'"text":""', json.dumps({"text": first})[1:-1].encode())
    assert before[at] != event
    assert event_of(read("anthropic", before)) == UNCLEAR


@pytest.mark.parametrize("id", [{}, {"id": "call_1"}])
def test_arguments_that_were_mended_at_each_piece_are_those_of_one_call(id: Any) -> None:
    grown = [{"path": ""}, {"path": "a.t"}, {"path": "a.txt"}, {"path": "a.txt", "lines": [1, 2]}]

    def pieces(*each: Any) -> list[Any]:
        calls = [
            {"index": 0, **id, "function": {"name": "look", "arguments": json.dumps(value)}}
            for value in each
        ]
        return [{"tool_calls": [call]} for call in calls]

    bare = pieces(*grown)
    for delta in bare[1:]:
        del delta["tool_calls"][0]["function"]["name"]
    for deltas in (pieces(*grown), bare) if id else (bare,):
        came = chat(*deltas, finish="tool_calls")
        assert [json.loads(call.arguments) for call in came.tool_calls] == [grown[-1]]
    first, second = pieces(*grown[1:3])
    del second["tool_calls"][0]["function"]["name"]
    (two,) = chat(first, second, finish="tool_calls").tool_calls
    with pytest.raises(json.JSONDecodeError):
        json.loads(two.arguments)  # the call asks for others


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_bytes_that_are_no_text_leave_no_whole_answer(api: str) -> None:
    if api == "bedrock":
        return
    events = pieces_of(api, "The nest of the k\u00e4mpe", 60)
    latin = [event.replace("\u00e4".encode(), b"\xe4") for event in events]
    latin = [event.replace(b"\\u00e4", b"\xe4") for event in latin]
    assert latin != events
    assert event_of(read(api, latin)) == UNCLEAR
    body = b'{"choices": [{"message": {"content": "The k\xe4mpe"}, "finish_reason": "stop"}]}'
    if api == "openai":
        assert event_of(protocols.backend(api, "http://host/v1").decoder({}).whole(body)) == UNCLEAR
