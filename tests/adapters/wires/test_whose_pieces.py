"""What comes twice, or is of another reply or another role, is never a whole answer: it is left out
where that is sure, and doubt where it is not.
"""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.fsm.replies.parts import ToolCall
from rungwise.testing import ScriptedReply
from support import protocols
from support.classified import event_of
from support.streams import events_in, followed

TEXT = "The kingfishers nest in the steep bank."
WORDS = ("The king", "fishers nest", " in the", " steep bank.")
OWL = {"bird": "owl"}
POND = {"place": "pond"}
DONE = b"data: [DONE]\n\n"
UNCLEAR = "ended_unclearly"
IN_CHUNKS = ("openai", "gemini", "ollama")
"""The protocols whose every event names its reply and its role."""


def read(api: str, pieces: Sequence[bytes]) -> tuple[Any, str]:
    """Return what a stream amounts to, and the text that it has shown."""
    came, shown, _ = followed(protocols.backend(api, "http://host/v1").decoder({}), pieces)
    return came, shown


def whole(api: str, value: Any) -> Any:
    return protocols.backend(api, "http://host/v1").decode(200, {}, json.dumps(value).encode())


def calls(reply: Any) -> list[Any]:
    return [(call.name, json.loads(call.arguments)) for call in reply.tool_calls]


def chunk(api: str, *, id: str = "", role: str = "", ends: bool = False, **said: Any) -> bytes:
    """Return an event of a protocol in chunks, with a text or calls: names with arguments."""
    listed = said.get("calls", ())
    if api == "gemini":
        parts = [{"text": said["text"]}] if "text" in said else []
        for name, args in listed:
            parts.append({"functionCall": {"name": name, "args": args}})
        candidate: dict[str, Any] = {"content": {"role": role or "model", "parts": parts}}
        if ends:
            candidate["finishReason"] = "STOP"
        value: dict[str, Any] = {"candidates": [candidate]}
        if id:
            value["responseId"] = id
        return framed(value)
    if api == "ollama":
        made = [{"function": {"name": name, "arguments": args}} for name, args in listed]
        message: dict[str, Any] = {"role": role or "assistant", "content": said.get("text", "")}
        if made:
            message["tool_calls"] = made
        value = {"message": message, "done": ends}
        if ends:
            value["done_reason"] = "stop"
        return json.dumps(value).encode() + b"\n"
    delta: dict[str, Any] = {}
    if role:
        delta["role"] = role
    if "text" in said:
        delta["content"] = said["text"]
    if listed:
        delta["tool_calls"] = [
            {"function": {"name": name, "arguments": written(args)}} for name, args in listed
        ]
    finish = ("tool_calls" if listed else "stop") if ends else None
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    value = {"choices": [choice]}
    if id:
        value["id"] = id
    return framed(value)


def framed(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def written(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def ended(api: str, chunks: Sequence[bytes]) -> Any:
    came, _ = read(api, [*chunks, DONE] if api == "openai" else chunks)
    return came


# every event twice

LOOK = ToolCall("c", "look", json.dumps(OWL))
SCRIPTS = {
    "text": ScriptedReply(TEXT, chunk_size=6),
    "short": ScriptedReply("Hi."),
    "repeats": ScriptedReply("Oh, ha ha ha ha ha", chunk_size=3),
    "reasoning": ScriptedReply(TEXT, reasoning="They dig. " * 4, chunk_size=7),
    "call": ScriptedReply(tool_calls=[LOOK], chunk_size=5),
    "calls": ScriptedReply(TEXT, tool_calls=[LOOK, ToolCall("d", "find", "{}")], chunk_size=9),
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("api", protocols.PROTOCOLS)
@pytest.mark.parametrize("size", [1, 50, 100_000])
def test_a_stream_that_sends_each_event_twice_is_read_once(
    api: str, script: str, size: int
) -> None:
    events = events_in(api, SCRIPTS[script])
    once, _ = read(api, events)
    data = b"".join([event * 2 for event in events])
    twice, shown = read(api, [data[at : at + size] for at in range(0, len(data), size)])
    assert twice == once
    assert twice.text.startswith(shown)


@pytest.mark.parametrize("text", ["haha", "hahaho", "hahahoho", "hahahohohehe", "ha" * 50])
@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_a_text_that_repeats_itself_is_not_shortened(api: str, text: str) -> None:
    events = events_in(api, ScriptedReply(text, chunk_size=2))
    came, _ = read(api, events)
    assert (came.text, event_of(came)) == (text, "answered")


@pytest.mark.parametrize("api", ["openai", "anthropic", "gemini", "ollama", "bedrock"])
def test_a_text_of_which_every_piece_comes_twice_is_no_whole_answer(api: str) -> None:
    """[openclaw/openclaw#1284]"""
    events = events_in(api, ScriptedReply(TEXT, chunk_size=6))
    words = [TEXT[at : at + 6].encode() for at in range(0, len(TEXT), 6)]
    doubled = [each for event in events for each in [event] * (1 + any(w in event for w in words))]
    came, _ = read(api, doubled)
    assert came.text == TEXT or event_of(came) == UNCLEAR


def test_events_that_come_once_among_others_that_come_twice_are_doubt() -> None:
    events = events_in("anthropic", SCRIPTS["text"])
    doubled = [event * 2 for event in events]
    came, _ = read("anthropic", [*doubled[:6], events[6], *doubled[7:]])
    assert event_of(came) == UNCLEAR


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_two_replies_of_which_the_cap_has_cut_the_second_are_no_beginning(finish: str) -> None:
    chunks = [chunk("openai", **each) for each in [*BEGUN, *ANEW]]
    last = framed({"id": "b", "choices": [{"delta": {}, "finish_reason": finish}]})
    assert event_of(ended("openai", [*chunks, last])) == UNCLEAR


def test_one_object_of_gemini_and_its_copy_are_doubt() -> None:
    assert event_of(ended("gemini", [chunk("gemini", text="ha", ends=True)] * 2)) == UNCLEAR


def test_an_error_that_waits_is_an_error_still() -> None:
    """Its name stands in a line of its own, which is long over when it is known for no copy."""
    piece = chunk("openai", text="ha")
    error = b'event: error\ndata: {"note": "busy"}\n\n'
    for behind in ([], [chunk("openai", text="ho"), chunk("openai", ends=True)]):
        assert ended("openai", [piece, piece, error, *behind]).interrupted


def test_what_is_held_is_there_when_the_stream_breaks_off() -> None:
    for count in range(2, 9):
        came = ended("gemini", [chunk("gemini", text=text) for text in "aabbccdd"[:count]])
        assert came.interrupted
        assert came.text[:1] == "a"
        assert len(came.text) >= count // 2


# another reply in the middle

BEGUN = [{"id": "a", "role": "assistant"}, *({"id": "a", "text": word} for word in WORDS[:2])]
ANEW = [{"id": "b", "role": "assistant"}, *({"id": "b", "text": word} for word in WORDS)]


@pytest.mark.parametrize("api", ["openai", "gemini"])
@pytest.mark.parametrize("names_role", [True, False])
def test_a_stream_that_goes_on_under_another_id_is_no_whole_answer(
    api: str, names_role: bool
) -> None:
    pieces = [each for each in [*BEGUN, *ANEW] if names_role or "text" in each]
    if api == "gemini":
        pieces = [{**each, "role": "model"} for each in pieces if "text" in each]
    chunks = [chunk(api, **each) for each in pieces]
    assert event_of(ended(api, [*chunks, chunk(api, id="b", ends=True)])) == UNCLEAR


@pytest.mark.parametrize("api", ["openai", "gemini"])
@pytest.mark.parametrize(
    "ids",
    [
        ["a", "b", "c", "d", "e", "f"],
        ["", "", "", "", "", ""],
        ["a", "b", "b", "b", "b", "b"],
        ["a", "a", "a", "a", "a", "b"],
        ["", "a", "a", "a", "a", ""],
        [1, 1, 1, 2, 2, 2],
    ],
)
def test_ids_that_are_none_of_a_reply_are_no_doubt(api: str, ids: list[Any]) -> None:
    """[microsoft/foundry-local#144, BerriAI/litellm#1571, ggml-org/llama.cpp#5876]"""
    first, *others = ids
    chunks = [chunk(api, id=first, text="", role="" if api == "gemini" else "assistant")]
    chunks += [chunk(api, id=id, text=word) for id, word in zip(others, WORDS, strict=False)]
    came = ended(api, [*chunks, chunk(api, id=ids[-1], ends=True)])
    assert (came.text, event_of(came)) == (TEXT, "answered")


@pytest.mark.parametrize("api", ["openai", "gemini"])
@pytest.mark.parametrize("at", range(1, 12))
def test_an_id_of_an_event_without_a_text_says_nothing(api: str, at: int) -> None:
    words = [f"word{number} " for number in range(12)]
    chunks = [chunk(api, id="a", text=word) for word in words]
    chunks.insert(at, framed({"id": "z", "responseId": "z", "trace": {"steps": 1}}))
    came = ended(api, [*chunks, chunk(api, id="a", ends=True)])
    assert (came.text, event_of(came)) == ("".join(words), "answered")


# a list of all calls so far

LISTS = {
    "whole": [[("look", OWL)], [("look", OWL), ("find", POND)]],
    "grown": [
        [("look", {"bird": "o"})],
        [("look", OWL), ("find", {})],
        [("look", OWL), ("find", {"place": "p"})],
        [("look", OWL), ("find", POND)],
    ],
    "of one tool": [
        [("look", OWL)],
        [("look", OWL), ("look", {"bird": "c"})],
        [("look", OWL), ("look", {"bird": "crow"})],
    ],
}


@pytest.mark.parametrize("lists", LISTS)
@pytest.mark.parametrize("api", IN_CHUNKS)
def test_a_list_of_all_calls_so_far_is_read_once(api: str, lists: str) -> None:
    chunks = [chunk(api, text="I look.")]
    chunks += [chunk(api, calls=each) for each in LISTS[lists]]
    came = ended(api, [*chunks, chunk(api, ends=True)])
    assert calls(came) == [(name, args) for name, args in LISTS[lists][-1]]
    assert event_of(came) == "called_tools"


def test_a_list_of_calls_whose_arguments_are_cut() -> None:
    cut = written(OWL)[:12]
    look = ("look", written(OWL))
    lists = [[("look", cut)], [look, ("find", '{"pl')], [look, ("find", POND)]]
    came = ended("openai", [chunk("openai", calls=each) for each in lists])
    assert calls(came) == [("look", OWL), ("find", POND)]


@pytest.mark.parametrize("api", IN_CHUNKS)
def test_calls_that_may_be_others_are_doubt(api: str) -> None:
    lists = [[("look", {"bird": "o"})], [("look", OWL), ("find", POND)]]
    chunks = [chunk(api, calls=each) for each in lists]
    assert event_of(ended(api, [*chunks, chunk(api, ends=True)])) == "malformed"
    chunks.insert(0, chunk(api, text="I look."))
    assert event_of(ended(api, [*chunks, chunk(api, ends=True)])) == UNCLEAR


@pytest.mark.parametrize("api", IN_CHUNKS)
def test_calls_one_after_another_are_all_read(api: str) -> None:
    made = [("look", {"bird": "o"}), ("look", OWL), ("find", POND), ("find", POND)]
    if api == "openai":
        del made[-1]  # a copy there
    chunks = [chunk(api, calls=[each]) for each in made]
    came = ended(api, [*chunks, chunk(api, ends=True)])
    assert (calls(came), event_of(came)) == (made, "called_tools")


# another role

ROLES = ("user", "system", "developer", "tool", "function")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("api", IN_CHUNKS)
def test_a_chunk_of_another_role_is_no_piece_of_the_answer(api: str, role: str) -> None:
    own_role = "model" if api == "gemini" else "assistant"
    own = [chunk(api, text=word, role=own_role) for word in WORDS]
    other = chunk(api, text="Where do they nest?", role=role)
    for at in (0, 2, 4):
        came = ended(api, [*own[:at], other, *own[at:], chunk(api, ends=True)])
        assert (came.text, event_of(came)) == (TEXT, "answered")
    alone, shown = read(api, [other, other, chunk(api, ends=True)])
    assert (alone.text, shown) == ("", "")


@pytest.mark.parametrize("role", ROLES[:3])
def test_a_completion_that_begins_with_another_role_is_no_answer(role: str) -> None:
    chunks = [chunk("openai", role=role), *(chunk("openai", text=word) for word in WORDS)]
    assert event_of(ended("openai", [*chunks, chunk("openai", ends=True)])) == UNCLEAR
    own = chunk("openai", role="assistant", text=WORDS[0])
    came = ended("openai", [*chunks[:1], own, *chunks[2:], chunk("openai", ends=True)])
    assert (came.text, event_of(came)) == (TEXT, "answered")


@pytest.mark.parametrize("role", ROLES)
def test_a_message_of_another_role_is_no_answer(role: str) -> None:
    said = {"role": role, "content": [{"type": "text", "text": TEXT}]}
    assert event_of(whole("anthropic", {**said, "stop_reason": "end_turn"})) == UNCLEAR
    message = {"role": role, "content": [{"text": TEXT}]}
    body = {"output": {"message": message}, "stopReason": "end_turn"}
    assert event_of(whole("bedrock", body)) == UNCLEAR
    events = events_in("anthropic", SCRIPTS["text"])
    other = [event.replace(b'"assistant"', b'"%b"' % role.encode()) for event in events]
    assert event_of(read("anthropic", other)[0]) == UNCLEAR
    delta = {"contentBlockIndex": 0, "delta": {"text": TEXT}}
    frames = [frame("messageStart", {"role": role}), frame("contentBlockDelta", delta)]
    frames.append(frame("messageStop", {"stopReason": "end_turn"}))
    assert event_of(read("bedrock", frames)[0]) == UNCLEAR
    choice = {"message": {"role": role, "content": TEXT}, "finish_reason": "stop"}
    assert whole("openai", {"choices": [choice]}).text == ""
    body = {"message": {"role": role, "content": TEXT}, "done": True, "done_reason": "stop"}
    assert whole("ollama", body).text == ""
    content = {"role": role, "parts": [{"text": TEXT}]}
    body = {"candidates": [{"content": content, "finishReason": "STOP"}]}
    assert whole("gemini", body).text == ""


@pytest.mark.parametrize("role", ROLES)
def test_an_item_of_another_role_is_no_part_of_a_response(role: str) -> None:
    asked = {"type": "message", "role": role, "content": "Where?"}
    said = {"type": "message", "role": "assistant", "content": TEXT}
    response = {"status": "completed", "output": [asked, said], "incomplete_details": None}
    came = whole("responses", response)
    assert (came.text, event_of(came)) == (TEXT, "answered")
    came, _ = read("responses", [framed({"type": "response.completed", "response": response})])
    assert came.text == TEXT


@pytest.mark.parametrize("role", ["assistant", "model", "Assistant", "bot", "ai", None, ""])
def test_any_other_word_for_the_model_is_read(role: Any) -> None:
    choice = {"message": {"role": role, "content": TEXT}, "finish_reason": "stop"}
    assert whole("openai", {"choices": [choice]}).text == TEXT
    content = {"role": role, "parts": [{"text": TEXT}]}
    body = {"candidates": [{"content": content, "finishReason": "STOP"}]}
    assert whole("gemini", body).text == TEXT


def test_an_answer_that_is_json_is_an_answer() -> None:
    text = json.dumps({"role": "assistant", "content": "Hello"})
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    assert whole("openai", {"choices": [choice]}).text == text
