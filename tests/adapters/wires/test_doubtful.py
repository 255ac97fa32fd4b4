"""What a server says beside its protocol may be a piece of the reply: then it is read, or the reply
is no whole answer.
"""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.testing import ScriptedReply
from support import protocols
from support.classified import event_of
from support.streams import events_in, followed

TEXT = "The kingfishers nest in the steep bank."
UNCLEAR = "ended_unclearly"
IN_EVENTS = [api for api in protocols.PROTOCOLS if api not in ("ollama", "bedrock")]
IN_PIECES = ["openai", "anthropic", "gemini", "interactions", "ollama"]
"""The protocols in JSON that do not say the whole text behind its pieces."""


def read(api: str, pieces: Sequence[bytes]) -> Any:
    came, _, _ = followed(protocols.backend(api, "http://host/v1").decoder({}), pieces)
    return came


def said(api: str, texts: Sequence[str]) -> list[bytes]:
    """Return a stream of a protocol whose pieces are these texts."""
    marks = [f"<{place}>" for place in range(len(texts))]
    events = events_in(api, ScriptedReply("".join(marks), chunk_size=3))
    for mark, text in zip(marks, texts, strict=True):
        new = json.dumps(text)[1:-1].encode()
        events = [event.replace(mark.encode(), new) for event in events]
    return events


def with_text_at(events: Sequence[bytes], text: str) -> int:
    (at,) = [place for place, event in enumerate(events) if json.dumps(text).encode() in event]
    return at


PREFIXES = [b" data: ", b"DATA: ", b"data : ", b"ta: ", b"message: ", b""]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("api", [api for api in IN_EVENTS if api != "responses"])
def test_an_event_in_a_line_of_another_name_is_no_lost_piece(api: str, prefix: bytes) -> None:
    events = said(api, ["The owl ", "sleeps ", "now."])
    at = with_text_at(events, "sleeps ")
    events[at] = events[at].replace(b"data: ", prefix)
    came = read(api, events)
    assert (came.text, event_of(came)) == ("The owl sleeps now.", "answered") or (
        event_of(came) != "answered"
    )


@pytest.mark.parametrize("prefix", PREFIXES[:-1])
@pytest.mark.parametrize("place", [2, 4])
def test_no_call_and_no_piece_of_its_arguments_is_lost_so(prefix: bytes, place: int) -> None:
    calls = [
        {"id": f"call_{number}", "name": "look", "arguments": f'{{"n": {number}4}}'}
        for number in (1, 2)
    ]
    events = events_in("openai", ScriptedReply(tool_calls=calls, chunk_size=4))
    events[place] = events[place].replace(b"data: ", prefix)
    assert event_of(read("openai", events)) != "called_tools"


@pytest.mark.parametrize("prefix", [b"data: ", b",", b"] ", b"\0"])
def test_an_object_behind_other_bytes_of_its_line_is_no_lost_piece(prefix: bytes) -> None:
    events = said("ollama", ["The owl ", "sleeps ", "now."])
    at = with_text_at(events, "sleeps ")
    events[at] = prefix + events[at]
    assert event_of(read("ollama", events)) == UNCLEAR


@pytest.mark.parametrize(
    "line", [b': {"choices": []}\n\n', b'note: {"seconds": 3}\n\n', b"ok: {\n\n"]
)
@pytest.mark.parametrize("api", IN_EVENTS)
def test_other_lines_with_an_object_say_nothing(api: str, line: bytes) -> None:
    events = events_in(api, ScriptedReply(TEXT, chunk_size=9))
    came = read(api, [*events[:3], line, *events[3:]])
    assert (came.text, event_of(came)) == (TEXT, "answered")


@pytest.mark.parametrize("api", IN_PIECES)
def test_pieces_that_are_numbers_are_not_lost(api: str) -> None:
    events = said(api, ["Answer: ", "4", "2", "."])
    for digit in (b"4", b"2"):
        events = [event.replace(b'"' + digit + b'"', digit) for event in events]
    assert event_of(read(api, events)) == UNCLEAR


@pytest.mark.parametrize(
    "texts",
    [
        ["The king", "The kingfishers nset", "The kingfishers nest in", TEXT],
        ["The owl \ufffd", "The owl \U0001f989 sl", "The owl \U0001f989 sleeps in the tree"],
        ["The kinf", "The kingfishrs", "The kingfishers nset", TEXT],
    ],
)
@pytest.mark.parametrize("api", IN_PIECES)
def test_snapshots_that_are_revised_are_no_pieces(api: str, texts: list[str]) -> None:
    came = read(api, said(api, texts))
    assert (came.text, event_of(came)) == (texts[-1], "answered") or event_of(came) == UNCLEAR


@pytest.mark.parametrize(
    ("marked", "bare"),
    [
        (
            "The owl \u30101\u2020a\u3011sleeps in the tall old tree.",
            "The owl sleeps in the tall old tree.",
        ),
        (
            "The owl's nest & tree are tall and old.",
            "The owl&#39;s nest &amp; tree are tall and old.",
        ),
        (
            "The owl's nest and tree are tall and old.",
            "The owl\u2019s nest and tree are tall and old.",
        ),
    ],
)
@pytest.mark.parametrize("api", IN_PIECES)
def test_a_whole_text_that_comes_again_a_little_changed_is_doubt(
    api: str, marked: str, bare: str
) -> None:
    assert event_of(read(api, said(api, [marked[:9], marked[9:20], marked[20:], bare]))) == UNCLEAR


def events_of(*values: dict[str, Any]) -> list[bytes]:
    return [b"data: " + json.dumps(value).encode() + b"\n\n" for value in values]


def anthropic(content: list[Any], *, last: Any = None) -> list[bytes]:
    delta = {"type": "text_delta", "text": "sleeps now."}
    message = {"id": "m", "role": "assistant", "content": content, "usage": {"input_tokens": 3}}
    return events_of(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop", **({"message": {"content": last}} if last else {})},
    )


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "The owl "},
        {"type": "tool_use", "id": "t", "name": "look", "input": {}},
        {"type": "thinking", "thinking": "Hm.", "text": "Hm."},
    ],
)
def test_what_the_first_event_holds_is_part_of_a_message(block: dict[str, Any]) -> None:
    assert event_of(read("anthropic", anthropic([block]))) == UNCLEAR
    assert event_of(read("anthropic", anthropic([], last=[block]))) in (UNCLEAR, "called_tools")
    whole = {"type": "text", "text": "sleeps now."}
    for events in (anthropic([whole]), anthropic([], last=[whole]), anthropic([])):
        came = read("anthropic", events)
        assert (came.text, event_of(came)) == ("sleeps now.", "answered")


@pytest.mark.parametrize("api", ["responses", "interactions", "bedrock"])
def test_what_the_first_event_holds_is_part_of_a_reply(api: str) -> None:
    events = events_in(api, ScriptedReply("sleeps now.", manner=MANNERS_OF.get(api, ())))
    text = [{"type": "output_text", "text": "The owl "}]
    if api == "responses":
        message = [{"type": "message", "role": "assistant", "content": text}]
        put = {"type": "response.created", "response": {"output": message}}
    elif api == "interactions":
        steps = [{"type": "model_output", "content": [{"type": "text", "text": "The owl "}]}]
        put = {"event_type": "interaction.created", "interaction": {"id": "i", "steps": steps}}
    else:
        content = [{"text": "The owl "}]
        events[0] = frame("messageStart", {"role": "assistant", "content": content})
    if api != "bedrock":
        events[0] = events_of(put)[0]
    assert event_of(read(api, events)) == UNCLEAR


MANNERS_OF = {"responses": ("output_empty_at_end",)}


def test_a_block_that_begins_again_while_it_is_open_is_doubt() -> None:
    start = {"type": "content_block_start", "index": 0}
    start["content_block"] = {"type": "text", "text": ""}
    pieces = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        for text in ("The owl sle", "The owl sleeps in the tree.")
    ]
    events = anthropic([])
    events[1:3] = events_of(start, pieces[0], start, pieces[1])
    assert event_of(read("anthropic", events)) == UNCLEAR


LEFT = [
    '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>',
    'I look.\n<tool_call>{"name": "look", "arguments": {}}</tool_call>',
    '[TOOL_CALLS][{"name": "look", "arguments": {}}]',
    "<|python_tag|>look()",
    "<function=look>{}</function>",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0",
    "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function",
    "\u25c1think\u25b7Hm.\u25c1/think\u25b7They sleep.",
    "[THINK]Hm.[/THINK]They sleep.",
    "<|channel>thought\nHm.<channel|>They sleep.",
    "analysisHm.\nHm.assistantfinalThey sleep.",
    "I look. [TOOL_CALLS]look[ARGS]{}",
    "I look.\n<minimax:tool_call>look</minimax:tool_call>",
    "functools[{}]",
    "Hm, I think.[/THINK]They sleep.",
    "Hm, I think.\u25c1/think\u25b7They sleep.",
    "They sleep.<|im_end|>\n<|im_start|>user\nWhere?<|im_end|>",
]


@pytest.mark.parametrize("text", LEFT)
@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_a_call_or_reasoning_in_the_words_of_a_model_is_no_answer(api: str, text: str) -> None:
    assert event_of(read(api, events_in(api, ScriptedReply(text, chunk_size=7)))) == UNCLEAR
    body = {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
    }
    whole = (
        protocols.backend("openai", "http://host/v1").decoder({}).whole(json.dumps(body).encode())
    )
    assert event_of(whole) == UNCLEAR


@pytest.mark.parametrize(
    "text",
    [
        "Hermes writes a call so:\n```\n<tool_call>\n{}\n</tool_call>\n```",
        "The tag <tool_call> begins a call.",
        "Analysis of the nest: it is final.",
        "[THINKING] is a word in brackets.",
        "ChatML ends a turn so: `<|im_end|>\n<|im_start|>user`, and `[/THINK]` ends a thought.",
        "Mistral writes [TOOL_CALLS] before a call.",
    ],
)
def test_an_answer_about_such_words_is_an_answer(text: str) -> None:
    came = read("openai", events_in("openai", ScriptedReply(text, chunk_size=7)))
    assert (came.text, event_of(came)) == (text, "answered")


def test_a_text_of_interactions_that_is_marked_as_a_thought_is_no_answer() -> None:
    events = events_in("interactions", ScriptedReply("The owl sleeps.", chunk_size=9))
    at = with_text_at(events, "The owl s")
    events[at] = events[at].replace(b'"The owl s"', b'"The owl s", "thought": true')
    assert event_of(read("interactions", events)) == UNCLEAR


def test_a_cut_that_stands_in_an_earlier_line_counts() -> None:
    lines = [
        {"message": {"role": "assistant", "content": "The owl "}, "done": False},
        {
            "message": {"role": "assistant", "content": "slee"},
            "done": False,
            "done_reason": "length",
        },
        {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
    ]
    came = read("ollama", [json.dumps(line).encode() + b"\n" for line in lines])
    assert event_of(came) == "truncated"
