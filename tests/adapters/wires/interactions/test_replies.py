"""What is read of an interaction: whole, streamed, and cut."""

import json
from typing import Any, Final

import pytest

from rungwise import GeminiInteractions, MediaPart, Message
from rungwise.core import OpaquePart, ReasoningPart, Reply
from rungwise.fsm.replies.parts import CitationPart, TextPart
from rungwise.fsm.replies.reply import Text
from support import official
from support.protocols import body_of

BACKEND: Any = GeminiInteractions("gemini-3-pro", base_url="http://localhost:1/v1beta")
OWNER: Final = BACKEND.provider
PIXEL: Final = "iVBORw0KGgo="
USAGE: Final = {
    "total_input_tokens": 100,
    "total_cached_tokens": 60,
    "total_tool_use_tokens": 5,
    "total_output_tokens": 20,
    "total_thought_tokens": 7,
    "total_tokens": 132,
    "grounding_tool_count": [{"type": "google_search", "count": 2}],
}
THOUGHT: Final = {
    "type": "thought",
    "signature": "c2ln",
    "summary": [{"type": "text", "text": "Let me look."}],
}
CITED: Final = {
    "type": "url_citation",
    "url": "https://birds.example",
    "title": "Birds",
    "start_index": 0,
    "end_index": 6,
}
OUTPUT: Final = {
    "type": "model_output",
    "content": [
        {"type": "text", "text": "Herons ", "annotations": [CITED]},
        {"type": "text", "text": "nest."},
        {"type": "image", "mime_type": "image/png", "data": PIXEL},
        {"type": "text", "text": "There."},
    ],
}
SEARCH: Final = {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["herons"]}}
FOUND: Final = {"type": "google_search_result", "call_id": "s1", "result": [], "signature": "x"}
LOOK: Final = {"type": "function_call", "id": "c1", "name": "look", "arguments": {"bird": "heron"}}
NOTE: Final = {"type": "function_call", "id": "c2", "name": "note", "arguments": {}}
STEPS: Final = [THOUGHT, SEARCH, FOUND, OUTPUT, LOOK, NOTE]


def interaction(*steps: Any, status: str = "requires_action", **members: Any) -> dict[str, Any]:
    return {"id": "v1_a", "status": status, "model": "g", "steps": [*steps], **members}


def whole(*steps: Any, **members: Any) -> Any:
    return BACKEND.decode(200, {}, json.dumps(interaction(*steps, **members)).encode())


def event(kind: str, **members: Any) -> dict[str, Any]:
    return {"event_type": kind, **members}


def delta(index: int, kind: str, **members: Any) -> dict[str, Any]:
    return event("step.delta", index=index, delta={"type": kind, **members})


def begun(**members: Any) -> dict[str, Any]:
    return event("interaction.created", interaction=interaction(status="in_progress", **members))


def completed(*steps: Any, **members: Any) -> dict[str, Any]:
    ended = interaction(*steps, **members)
    if not steps:
        del ended["steps"]
    return event("interaction.completed", interaction=ended)


def framed(*values: Any) -> bytes:
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (each["event_type"].encode(), json.dumps(each).encode())
        for each in values
    )


def read(*values: Any, size: int = 10_000) -> tuple[Any, list[Any]]:
    decoder = BACKEND.decoder({})
    body = framed(*values)
    deltas: list[Any] = []
    for start in range(0, len(body), size):
        deltas += decoder.feed(body[start : start + size])
    return decoder.close(), deltas


STREAM: Final = (
    begun(),
    event("step.start", index=0, step={"type": "thought"}),
    delta(0, "thought_summary", content={"type": "text", "text": "Let me "}),
    delta(0, "thought_summary", content={"type": "text", "text": "look."}),
    delta(0, "thought_signature", signature="c2ln"),
    event("step.stop", index=0),
    event("step.start", index=1, step={**SEARCH, "arguments": {}}),
    delta(1, "google_search_call", arguments={"queries": ["herons"]}),
    event("step.stop", index=1),
    event("step.start", index=2, step={"type": "google_search_result", "call_id": "s1"}),
    delta(2, "google_search_result", result=[], signature="x"),
    event("step.stop", index=2),
    event("step.start", index=3, step={"type": "model_output"}),
    delta(3, "text", text="Herons "),
    delta(3, "text_annotation_delta", annotations=[CITED]),
    delta(3, "text", text="nest."),
    delta(3, "image", mime_type="image/png", data=PIXEL),
    delta(3, "text", text="There."),
    event("step.stop", index=3),
    event("step.start", index=4, step={**LOOK, "arguments": {}}),
    delta(4, "arguments_delta", arguments='{"bird": '),
    delta(4, "arguments_delta", arguments='"heron"}'),
    event("step.start", index=5, step={**NOTE, "arguments": {}}),
    event("step.stop", index=4),
    event("step.stop", index=5),
)


@pytest.mark.parametrize("came", ["whole", "streamed", "streamed, and whole at the end", "bytes"])
def test_each_step_is_a_part(came: str) -> None:
    if came == "whole":
        reply = whole(*STEPS, usage=USAGE)
    elif came == "streamed":
        reply, _ = read(*STREAM, completed(usage=USAGE))
    else:
        size = 3 if came == "bytes" else 10_000
        reply, _ = read(*STREAM, completed(*STEPS, usage=USAGE), size=size)
    assert isinstance(reply, Reply)
    assert reply.parts[:7] == (
        ReasoningPart("Let me look.", THOUGHT, OWNER),
        OpaquePart(OWNER, SEARCH),
        OpaquePart(OWNER, FOUND),
        TextPart("Herons nest."),
        CitationPart("", "https://birds.example", "Birds", ("answer", 0, 6), CITED, OWNER),
        MediaPart("image", PIXEL, "image/png"),
        TextPart("There."),
    )
    assert [(each.id, each.name) for each in reply.tool_calls] == [("c1", "look"), ("c2", "note")]
    assert [json.loads(each.arguments) for each in reply.tool_calls] == [{"bird": "heron"}, {}]
    assert reply.text == "Herons nest.There."
    assert reply.stop_reason == "tool_calls"
    usage = reply.usage
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (105, 27, 7)
    assert usage.cache_read_tokens == 60
    assert usage.units == {"google_search": 2}


def test_what_the_provider_sent_goes_back_in_its_place_and_its_order() -> None:
    for reply in (whole(*STEPS), read(*STREAM, completed())[0]):
        asked = (Message.saying("user", "Where?"), Message("assistant", reply.parts))
        body = body_of(BACKEND, *asked)
        official.check("interactions", body)
        sent = body["input"]
        assert [each["type"] for each in sent[1:]] == [
            *(each["type"] for each in STEPS),
            "function_result",
            "function_result",
        ]
        assert sent[1:4] == STEPS[:3]
        text = {"type": "text", "text": "Herons nest.", "annotations": [CITED]}
        assert sent[4]["content"] == [text, *OUTPUT["content"][2:]]
        assert sent[5:7] == [LOOK, NOTE]


def test_another_provider_gets_neither_signature_nor_step() -> None:
    other = GeminiInteractions("gemini-3-flash", base_url="http://localhost:1/v1beta")
    asked = (Message.saying("user", "Where?"), Message("assistant", whole(*STEPS[:4]).parts))
    body = body_of(other, *asked)
    assert [each["type"] for each in body["input"]] == ["user_input", "model_output"]
    assert "c2ln" not in json.dumps(body)


def test_the_interaction_at_the_end_decides() -> None:
    said = {"type": "model_output", "content": [{"type": "text", "text": "In the reeds."}]}
    call = {**LOOK, "arguments": {"bird": "egret"}}
    stream = [*STREAM[12:14], *STREAM[19:22]]
    reply, deltas = read(begun(), *stream, completed(said, call, status="completed"))
    assert reply.text == "In the reeds."
    assert [json.loads(each.arguments) for each in reply.tool_calls] == [{"bird": "egret"}]
    assert deltas[0] == Text("Herons ")


def test_steps_that_the_caller_sent_are_no_part_of_the_answer() -> None:
    asked = {"type": "user_input", "content": [{"type": "text", "text": "Where?"}]}
    result = {"type": "function_result", "call_id": "c0", "result": "Reeds."}
    said = {"type": "model_output", "content": [{"type": "text", "text": "There."}]}
    for reply in (
        whole(asked, result, said, status="completed"),
        read(begun(), completed(asked, result, said, status="completed"))[0],
    ):
        assert reply.parts == (TextPart("There."),)


def test_a_recording_comes_in_pieces() -> None:
    pieces = [delta(0, "audio", mime_type="audio/wav", data=each) for each in ("AAAA", "AQID")]
    start = event("step.start", index=0, step={"type": "model_output"})
    reply, _ = read(begun(), start, *pieces, completed(status="completed"))
    assert reply.parts == (MediaPart("audio", "AAAAAQID", "audio/wav"),)
    assert reply.stop_reason == "stop"


def test_a_block_that_nobody_knows_goes_back_within_an_output() -> None:
    block = {"type": "hologram", "mime_type": "model/gltf", "data": "aGk="}
    reply = whole({"type": "model_output", "content": [block]}, status="completed")
    assert reply.has_own_answer
    body = body_of(BACKEND, Message.saying("user", "Show."), Message("assistant", reply.parts))
    assert body["input"][1] == {"type": "model_output", "content": [block]}


@pytest.mark.parametrize("end", range(1, len(STREAM)))
def test_a_stream_that_is_cut_is_a_beginning(end: int) -> None:
    reply, _ = read(*STREAM[:end])
    assert reply.interrupted
    assert "Herons nest.There.".startswith(reply.text)
    signed = [each.signature for each in reply.parts if isinstance(each, ReasoningPart)]
    assert signed in ([], [None], [THOUGHT])


def test_a_status_ends_a_stream_whose_last_event_is_missing() -> None:
    update = event("interaction.status_update", interaction_id="v1_a", status="completed")
    reply, _ = read(*STREAM[:1], *STREAM[12:19], update)
    assert (reply.text, reply.interrupted, reply.stop_reason) == (
        "Herons nest.There.",
        False,
        "stop",
    )
    assert reply.usage.estimated


@pytest.mark.parametrize("status", ["queued", "in_progress", "idle"])
def test_one_that_is_not_there_yet_is_no_answer(status: str) -> None:
    failure = whole(status=status)
    assert (failure.reason, failure.code) == ("server_error", status)


CHECKPOINT: Final = event(
    "interaction.status_update", interaction_id="v1_a", status="in_progress", continuation_token="t"
)


@pytest.mark.parametrize("more", [(), ("in ", "the "), ("reeds",)])
def test_a_cut_stream_goes_on_from_its_last_checkpoint(more: tuple[str, ...]) -> None:
    said = [delta(3, "text", text=each) for each in more]
    reply, _ = read(*STREAM[:14], CHECKPOINT, *said)
    assert (reply.text, reply.continuation) == ("Herons ", "t\nv1_a")
    assert reply.reasoning == "Let me look."
    reply, _ = read(*STREAM[:14], CHECKPOINT, *STREAM[14:], completed())
    assert (reply.text, reply.continuation) == ("Herons nest.There.", None)


def test_a_checkpoint_within_a_call_is_none() -> None:
    reply, _ = read(*STREAM[:1], *STREAM[19:21], CHECKPOINT)
    assert reply.continuation is None


@pytest.mark.parametrize(
    ("status", "stop"), [("requires_continuation", "paused"), ("incomplete", "length")]
)
def test_a_token_at_the_end_goes_on(status: str, stop: str) -> None:
    members = {"status": status, "continuation_token": "t"}
    for reply in (whole(OUTPUT, **members), read(begun(), completed(OUTPUT, **members))[0]):
        assert (reply.continuation, reply.stop_reason) == ("t\nv1_a", stop)
    assert whole(OUTPUT, status="completed", continuation_token="t").continuation is None


def test_counts_come_in_several_events_and_only_grow() -> None:
    counts = [{"total_input_tokens": 9, "total_output_tokens": each} for each in (1, 5)]
    metered = {**STREAM[13], "metadata": {"total_usage": counts[0]}}
    stopped = event("step.stop", index=3, usage=counts[1])
    update = event("interaction.status_update", status="completed", usage={"total_tokens": 0})
    for events in ([metered, stopped, update], [metered, stopped, completed(status="completed")]):
        reply, _ = read(begun(), *STREAM[12:13], *events)
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (9, 5)


def test_another_interaction_in_the_midst_of_one_begins_anew() -> None:
    again = begun(id="v1_b")
    reply, _ = read(*STREAM[:14], again, *STREAM[12:14], completed(status="completed", id="v1_b"))
    assert (reply.text, reply.reasoning) == ("Herons ", "")


def test_indexes_may_be_missing() -> None:
    bare = [{name: each for name, each in one.items() if name != "index"} for one in STREAM[12:14]]
    reply, _ = read(begun(), *bare, completed(status="completed"))
    assert reply.text == "Herons "


# steps that end before they begin


def event_line(**members: Any) -> bytes:
    return b"data: %b\n\n" % json.dumps(members).encode()


def test_ends_of_steps_that_never_began_count_as_held() -> None:
    decoder = BACKEND.decoder({})
    begun = decoder.size
    for number in range(1_000):
        decoder.feed(event_line(event_type="step.stop", index=number))
    assert decoder.size - begun > 1_000 * 20


def test_what_came_before_another_interaction_leaves_no_doubt_about_it() -> None:
    def created(id: str) -> bytes:
        return event_line(event_type="interaction.created", interaction={"id": id})

    start = {"type": "model_output"}
    decoder = BACKEND.decoder({})
    for data in (
        created("a"),
        event_line(event_type="step.stop", index=0),
        event_line(event_type="step.delta", index=1, delta={"type": "text", "text": "No."}),
        created("b"),
        event_line(event_type="step.delta", index=0, delta={"type": "text", "text": "Herons "}),
        event_line(event_type="step.start", index=0, step=start),
        event_line(event_type="step.delta", index=0, delta={"type": "text", "text": "nest."}),
        event_line(
            event_type="interaction.completed", interaction={"id": "b", "status": "completed"}
        ),
    ):
        decoder.feed(data)
    reply = decoder.close()
    assert (reply.text, reply.stop_reason) == ("Herons nest.", "stop")
