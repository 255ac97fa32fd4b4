"""How responses are read: as OpenAI's own models write them, streamed and not, and whatever else a
server sends.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import Message, OpenAIResponses, TextPart, ToolCall, Usage
from rungwise.adapters.wires.responses.shapes import RESPONSES
from rungwise.core import CitationPart, Failure, OpaquePart, ReasoningPart, Reply
from support.sampling import sampled
from support.streams import followed
from support.work import grows_within

BACKEND: Any = OpenAIResponses("gpt-5", base_url="http://localhost/v1")
OWN = BACKEND.provider
CITED = {
    "type": "url_citation",
    "url": "https://e.org",
    "title": "E",
    "start_index": 0,
    "end_index": 2,
}
LOGPROBS = [
    {
        "token": "In",
        "logprob": -0.1,
        "bytes": [73, 110],
        "top_logprobs": [],
    }
]
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [
        {"type": "summary_text", "text": "First."},
        {"type": "summary_text", "text": "Second."},
    ],
    "encrypted_content": "gAAAA==",
}
SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "x"},
}
SAID = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [
        {
            "type": "output_text",
            "text": "In the reeds.",
            "annotations": [CITED],
            "logprobs": LOGPROBS,
        }
    ],
}
CALLED = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "c1",
    "name": "f",
    "arguments": '{"a": 1}',
}
FREE = {
    "id": "ct_1",
    "type": "custom_tool_call",
    "call_id": "c2",
    "name": "g",
    "input": "free",
}
OUTPUT = [THOUGHT, SEARCH, SAID, CALLED, FREE]
USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 30},
    "total_tokens": 150,
}


def response(output: Any = (), **members: Any) -> dict[str, Any]:
    """Return a response as OpenAI's own model writes it."""
    known = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5-x",
        "status": "completed",
    }
    given = {
        **known,
        "output": [*output],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **members,
    }
    try:
        from openai.types.responses import Response
    except ImportError:  # pragma: no cover
        return given
    dumped: dict[str, Any] = json.loads(
        Response.model_validate(given).model_dump_json(by_alias=True, exclude_unset=True)
    )
    return dumped


def whole(value: Any) -> Any:
    return BACKEND.decode(200, {}, json.dumps(value).encode())


def read(value: Any) -> Reply:
    reply = whole(value)
    assert isinstance(reply, Reply)
    return reply


def event(value: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (
        str(value.get("type")).encode("ascii", "replace").replace(b"\n", b""),
        json.dumps(value).encode(),
    )


def follow(pieces: Iterable[bytes]) -> tuple[Any, str, str]:
    return followed(BACKEND.decoder({}), pieces)


def streamed(*events: dict[str, Any]) -> tuple[Reply, str, str]:
    reply, said, thought = follow(map(event, events))
    assert isinstance(reply, Reply)
    return reply, said, thought


def added(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "response.output_item.added",
        "output_index": index,
        "item": item,
    }


def done(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "response.output_item.done",
        "output_index": index,
        "item": item,
    }


def delta(text: str, index: int = 0, **members: Any) -> dict[str, Any]:
    where = {"item_id": "msg_1", "output_index": index, "content_index": 0}
    return {
        "type": "response.output_text.delta",
        **where,
        "delta": text,
        **members,
    }


BEGIN = {
    "type": "response.created",
    "response": {"id": "resp_1", "status": "in_progress", "output": []},
}
END = {"type": "response.completed", "response": response([SAID], usage=USAGE)}


def test_a_whole_response_is_read_part_by_part() -> None:
    reply = read(response(OUTPUT, usage=USAGE))
    assert reply.text == "In the reeds."
    assert reply.reasoning == "First.\n\nSecond."
    assert reply.model == "gpt-5-x"
    assert reply.tool_calls == (
        ToolCall("c1", "f", '{"a": 1}'),
        ToolCall("c2", "g", '{"input":"free"}'),
    )
    assert reply.usage == Usage(100, 50, 60, 10, reasoning_tokens=30)
    kinds = [ReasoningPart, OpaquePart, OpaquePart, TextPart, CitationPart, ToolCall, ToolCall]
    assert [type(part) for part in reply.parts] == kinds
    envelope = reply.parts[2]
    assert isinstance(envelope, OpaquePart)
    (content,) = envelope.block["content"]
    assert content["annotations"][0]["url"] == "https://e.org"
    assert content["logprobs"][0]["token"] == "In"
    assert "text" not in content


def test_what_came_goes_back_as_it_came_but_for_log_probabilities() -> None:
    for came in (read(response(OUTPUT)), streamed(BEGIN, {**END, "response": response(OUTPUT)})[0]):
        back = RESPONSES.sent_to(OWN, Message("assistant", came.parts))
        kept = {name: value for name, value in SAID["content"][0].items() if name != "logprobs"}  # type: ignore[index]
        assert back == [THOUGHT, SEARCH, {**SAID, "content": [kept]}, CALLED, FREE]


def test_the_last_of_several_messages_is_the_final_text() -> None:
    first = {
        **SAID,
        "id": "msg_0",
        "content": [
            {
                "type": "output_text",
                "text": "I look. ",
                "annotations": [],
            }
        ],
    }
    reply = read(response([first, SAID]))
    assert reply.text == "I look. In the reeds."
    assert reply.final_text == "In the reeds."
    assert read(response([SAID])).final_text is None


def test_a_refusal() -> None:
    refused = {**SAID, "content": [{"type": "refusal", "refusal": "No."}]}
    for reply in (
        read(response([refused])),
        streamed(BEGIN, {**END, "response": response([refused])})[0],
    ):
        assert reply.text == ""
        assert reply.refusal == "No."


def test_empty_responses_are_replies_without_text() -> None:
    for output in (
        [],
        [{**SAID, "content": []}],
        [
            {
                **SAID,
                "content": [
                    {
                        "type": "output_text",
                        "text": "",
                        "annotations": [],
                    }
                ],
            }
        ],
    ):
        reply = read(response(output, usage=USAGE))
        assert reply.text == ""
        assert reply.parts == ()
        assert reply.stop_reason is None


@pytest.mark.parametrize("why", [{}, {"incomplete_details": None}])
def test_a_server_without_a_member_for_cuts_does_not_say_that_a_reply_is_whole(
    why: Mapping[str, Any],
) -> None:
    reply = read({**response([SAID], usage=USAGE), **why})
    assert (reply.stop_reason, reply.text) == ("stop" if why else None, "In the reeds.")


# streams


def test_nothing_is_said_twice_and_the_last_edition_counts() -> None:
    whole = [delta("In the "), delta("reeds."), done(0, SAID)]
    for deltas in (whole, [delta("In the ")], []):
        reply, said, _ = streamed(BEGIN, *deltas, END)
        assert reply.text == said == "In the reeds."
    reply, said, _ = streamed(BEGIN, delta("On the lake."), END)
    assert reply.text == "In the reeds."
    assert said == "On the lake."


def test_pieces_are_kept_where_the_end_holds_no_items() -> None:
    end = {**END, "response": response([], usage=USAGE)}
    thought = {
        "type": "response.reasoning_text.delta",
        "output_index": 0,
        "content_index": 0,
        "delta": "Hm.",
    }
    arguments = {
        "type": "response.function_call_arguments.delta",
        "output_index": 2,
        "delta": '{"a"',
    }
    annotation = {
        "type": "response.output_text.annotation.added",
        "output_index": 1,
        "content_index": 0,
        "annotation": CITED,
    }
    refusal = {
        "type": "response.refusal.delta",
        "output_index": 3,
        "content_index": 0,
        "delta": "No.",
    }
    reply, said, thoughts = streamed(
        BEGIN,
        thought,
        delta("In the reeds.", 1, logprobs=LOGPROBS),
        annotation,
        added(2, {**CALLED, "arguments": ""}),
        arguments,
        {**arguments, "delta": ": 1}"},
        refusal,
        end,
    )
    assert reply.text == said == "In the reeds."
    assert reply.reasoning == thoughts == "Hm."
    assert reply.refusal == "No."
    assert reply.tool_calls == (ToolCall("c1", "f", '{"a": 1}'),)
    (envelope,) = [part for part in reply.parts if isinstance(part, OpaquePart)]
    (content,) = envelope.block["content"]
    assert content["annotations"][0]["url"] == "https://e.org"
    assert content["logprobs"][0]["token"] == "In"


def test_summaries_are_parted_as_the_reply_has_them() -> None:
    where = {"item_id": "rs_1", "output_index": 0}
    events = [added(0, {**THOUGHT, "summary": []})]
    for index, text in enumerate(("First.", "Second.")):
        place = {**where, "summary_index": index}
        part = {"type": "summary_text", "text": ""}
        events += [
            {
                "type": "response.reasoning_summary_part.added",
                **place,
                "part": part,
            },
            {
                "type": "response.reasoning_summary_text.delta",
                **place,
                "delta": text,
            },
        ]
    reply, _, thought = streamed(BEGIN, *events, done(0, THOUGHT), END)
    assert reply.reasoning == thought == "First.\n\nSecond."
    assert reply.parts[0] == ReasoningPart("First.\n\nSecond.", THOUGHT, OWN)


def test_a_stream_without_its_end_was_cut_and_keeps_what_is_whole() -> None:
    for last in ([], [b"data: [DONE]\n\n"]):
        events = [BEGIN, done(0, THOUGHT), done(1, SEARCH), delta("In the", 2)]
        reply, said, _ = follow([*map(event, events), *last])
        assert reply.interrupted is True
        assert reply.text == "In the"
        assert said == "In the"
        assert [type(part) for part in reply.parts] == [
            ReasoningPart,
            OpaquePart,
            OpaquePart,
            TextPart,
        ]


def test_cut_reasoning_has_no_signature_and_a_cut_search_is_dropped() -> None:
    thought = {
        "type": "response.reasoning_summary_text.delta",
        "output_index": 0,
        "summary_index": 0,
        "delta": "Hm.",
    }
    reply, _, _ = streamed(
        BEGIN,
        added(0, {**THOUGHT, "summary": []}),
        thought,
        added(1, {**SEARCH, "status": "in_progress"}),
    )
    assert reply.parts == (ReasoningPart("Hm."),)


def test_half_a_call_is_handed_over_as_it_came() -> None:
    arguments = {
        "type": "response.function_call_arguments.delta",
        "output_index": 0,
        "delta": '{"a',
    }
    reply, _, _ = streamed(BEGIN, added(0, {**CALLED, "arguments": ""}), arguments)
    assert reply.interrupted is True
    assert reply.tool_calls == (ToolCall("c1", "f", '{"a'),)


def test_what_a_providers_own_tool_writes_is_counted() -> None:
    decoder = BACKEND.decoder({})
    code = {
        "type": "response.code_interpreter_call_code.delta",
        "output_index": 0,
        "delta": "x" * 20_000,
    }
    decoder.feed(event(BEGIN) + event(code))
    assert decoder.beside >= 10_000


def test_ids_are_told_apart_and_made_up_where_there_is_none() -> None:
    nameless = {name: value for name, value in CALLED.items() if name not in ("id", "call_id")}
    output = [CALLED, {**CALLED, "arguments": '{"b": 2}'}, nameless]
    reply = read({"status": "completed", "output": output})
    ids = [call.id for call in reply.tool_calls]
    assert ids[0] == "c1"
    assert len({*ids}) == 3
    assert ids == [call.id for call in read({"status": "completed", "output": output}).tool_calls]


# whatever else


GROWING: dict[str, Callable[[int], list[bytes]]] = {
    "items": lambda n: [event(done(k, {**SAID, "id": f"m{k}"})) for k in range(n)],
    "the same item": lambda n: [event(done(0, SAID))] * n,
    "calls": lambda n: [event(done(k, {**CALLED, "id": f"f{k}", "call_id": f"c{k}",})) for k in range(n)],  # noqa: E501
    "deltas of many texts": lambda n: [event({**delta("x"), "content_index": k}) for k in range(n)],
    "short editions of a long text": lambda n: [
        event(delta("x" * 100 * n)), *[event({**delta(""), "type": "response.output_text.done", "text": " y",})] * n  # noqa: E501
    ],
    "arguments": lambda n: [
        event({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "x",})
    ] * n,
    "log probabilities": lambda n: [event(delta("x", logprobs=LOGPROBS))] * n,
    "no place": lambda n: [event({"type": "response.output_text.delta", "delta": "x"})] * n,
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("kind", sampled(GROWING, one_in=4))
def test_the_work_is_linear(kind: str) -> None:
    """Forty times as much takes forty times as long, and not 1600 times."""
    little = GROWING[kind](100)
    much = GROWING[kind](4_000)
    assert grows_within(lambda: follow(little), lambda: follow(much), times=400, floor=0.5)


@pytest.mark.parametrize("kind", GROWING)
def test_what_is_held_is_known(kind: str) -> None:
    decoder = BACKEND.decoder({})
    sizes = []
    for piece in GROWING[kind](200):
        decoder.feed(piece)
        sizes.append(decoder.size)
    assert sizes[-1] >= 100
    known = sizes[2:]  # the second event waits if it may be a copy of the first
    assert known == sorted(known) or kind == "short editions of a long text"


@pytest.mark.parametrize("item", [SAID, CALLED, FREE])
def test_an_item_that_its_provider_calls_incomplete_is_cut(item: dict[str, Any]) -> None:
    told = {"status": "completed", "output": [{**item, "status": "incomplete"}]}
    for reply in (read(told), streamed({"type": "response.completed", "response": told})[0]):
        assert reply.stop_reason == "length"
        assert reply.stop_raw == "completed"


def test_an_item_that_nobody_calls_done_is_whole_in_a_response_that_is() -> None:
    ended = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    reply, _, _ = streamed(added(0, {**SAID, "status": "in_progress"}), ended)
    assert reply.text == "In the reeds."
    assert reply.failure is None


@pytest.mark.parametrize(
    ("reason", "meaning"), [("max_output_tokens", "length"), ("nobody knows", "unknown")]
)
def test_the_details_of_what_is_incomplete_count_whatever_the_status(
    reason: str, meaning: str
) -> None:
    details = {"incomplete_details": {"reason": reason}}
    reply = read({"status": "completed", "output": [SAID], **details})
    assert reply.stop_reason == meaning
    assert reply.stop_raw == reason


TEXTS = st.sampled_from(["", "a", "\ud83d", "message"])
LEAVES = st.none() | st.booleans() | st.integers(-5, 3) | st.just(float("nan")) | TEXTS
NAMES = st.sampled_from(
    ["type", "text", "id", "content", "summary", "arguments", "status", "x"],
)
JSON: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
KINDS = [
    "response.created",
    "response.output_item.added",
    "response.output_item.done",
    "response.content_part.added",
    "response.content_part.done",
    "response.output_text.delta",
    "response.output_text.done",
    "response.refusal.delta",
    "response.refusal.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.delta",
    "response.reasoning_summary_part.added",
    "response.reasoning_text.done",
    "response.reasoning_summary_text.delta",
    "response.output_text.annotation.added",
    "response.web_search_call.x",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "error",
    "gremlin",
]
TYPES = st.sampled_from(["message", "reasoning", "function_call", "custom_tool_call", "x"])
MEMBERS = ("id", "call_id", "content", "summary", "arguments", "input", "name", "status")
ODD_ITEM = st.fixed_dictionaries({"type": TYPES}, optional=dict.fromkeys(MEMBERS, JSON))
ITEM = JSON | st.sampled_from([SAID, THOUGHT, CALLED, FREE, SEARCH]) | ODD_ITEM
RESPONSE = JSON | st.fixed_dictionaries(
    {"output": st.lists(ITEM, max_size=3) | JSON},
    optional=dict.fromkeys(("status", "usage", "error", "incomplete_details", "model", "id"), JSON),
)
INDEX = st.integers(-1, 2) | JSON
EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | JSON},
    optional={
        **dict.fromkeys(("output_index", "content_index", "summary_index"), INDEX),
        **dict.fromkeys(
            ("delta", "text", "arguments", "refusal", "item_id"), st.text(max_size=4) | JSON
        ),
        **dict.fromkeys(("part", "annotation", "logprobs", "error"), JSON),
        "item": ITEM,
        "response": RESPONSE,
        "sequence_number": st.integers(0, 99),
    },
)


@given(st.lists(EVENT, max_size=12), st.integers(1, 40), st.integers(0, 400))
def test_any_events_cut_anywhere_come_to_the_same_reply(
    events: list[Any], size: int, cut: int
) -> None:
    stream = b"".join(event(each) for each in events)
    for body in (stream, stream[:cut]):
        at_once, said, _ = follow([body])
        in_pieces, also, _ = follow(
            body[start : start + size] for start in range(0, len(body), size)
        )
        assert repr(at_once) == repr(in_pieces)
        assert said == also
        if isinstance(at_once, Reply):
            assert repr(at_once.parts) == repr(in_pieces.parts)
            assert at_once.text == in_pieces.text
            at_once.text.encode()
            json.dumps(RESPONSES.sent_to(OWN, Message("assistant", at_once.parts)), default=dict)


@given(RESPONSE, st.integers(0, 300))
def test_any_body_is_read(value: Any, cut: int) -> None:
    body = json.dumps(value).encode()
    for each in (body, body[:cut]):
        assert isinstance(BACKEND.decode(200, {}, each), Reply | Failure)
