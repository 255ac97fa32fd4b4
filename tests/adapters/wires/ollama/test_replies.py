"""How replies of Ollama's chat are read: whole and streamed alike, and whatever a server sends."""

import json
from typing import Any

import pytest

from rungwise import Ollama
from rungwise.core import Reply
from support.classified import event_of
from support.streams import followed

OLLAMA: Any = Ollama("m")
ABOUT = {"model": "m", "created_at": "2026-08-21T18:48:22.123Z"}
COUNTS = {
    "prompt_eval_count": 26,
    "eval_count": 298,
    "total_duration": 4883583458,
    "eval_duration": 4799921000,
}
END = {
    **ABOUT,
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "done_reason": "stop",
    **COUNTS,
}
CALL = {"function": {"name": "look", "arguments": {"bird": "heron"}}}


def piece(**message: Any) -> dict[str, Any]:
    return {
        **ABOUT,
        "message": {
            "role": "assistant",
            "content": "",
            **message,
        },
        "done": False,
    }


def lines(*values: Any) -> bytes:
    return b"".join([json.dumps(value).encode() + b"\n" for value in values])


def streamed(body: bytes) -> tuple[Any, str, str]:
    return followed(OLLAMA.decoder({}), [body])


def reply_of(*values: Any) -> Reply:
    reply, said, thought = streamed(lines(*values))
    assert reply.text == said
    assert reply.reasoning == thought
    return reply


def whole(message: dict[str, Any], **members: Any) -> Reply:
    body = {**END, "message": message, **members}
    reply = OLLAMA.decode(200, {}, json.dumps(body).encode())
    assert isinstance(reply, Reply)
    return reply


def test_the_last_line_may_say_something() -> None:
    last = {**END, "message": {"content": " reeds."}}
    assert reply_of(piece(content="In the"), last).text == "In the reeds."


def test_a_stream_without_its_last_line_is_cut() -> None:
    begun = piece(content="In the")
    for last in (begun, {**begun, "done": None}):
        reply, said, _ = streamed(lines(last))
        assert reply.text == said == "In the"
        assert reply.interrupted is True
        assert reply.stop_reason is None


def test_an_end_without_a_reason_is_an_end() -> None:
    reply = reply_of(piece(content="In the reeds."), {**END, "done_reason": ""})
    assert reply.interrupted is False
    assert reply.stop_reason is None


def test_what_comes_after_the_end_is_no_part_of_it() -> None:
    assert reply_of(piece(content="a"), END, piece(content="b"), {"error": "late"}).text == "a"


@pytest.mark.parametrize("reason", ["load", "unload"])
def test_loading_a_model_is_an_empty_reply(reason: str) -> None:
    body = {**piece(), "done": True, "done_reason": reason}
    reply = OLLAMA.decode(200, {}, json.dumps(body).encode())
    assert reply.stop_raw == reason
    assert event_of(reply) == "came_empty"


def test_a_reply_up_to_its_cap_without_a_reason_was_cut_by_it() -> None:
    reply = whole({"content": "In the"}, done_reason="", eval_count=8)
    assert event_of(reply, cap=8) == "truncated"


# ---- tool calls
# --------------------------------------------------------------------------------------------------


def test_distinguishes_calls_without_ids() -> None:
    other = {"function": {"name": "other", "arguments": {}}}
    calls = [CALL, CALL, {"id": "call_x", **CALL}, {"id": "call_x", **other}]
    found = reply_of(piece(tool_calls=calls[:1]), piece(tool_calls=calls[1:]), END).tool_calls
    assert found == whole({"tool_calls": calls}).tool_calls
    assert len({each.id for each in found}) == 4
    assert found[2].id == "call_x"


@pytest.mark.parametrize(
    "other", [{"created_at": "2026-08-21T18:48:23Z"}, {"prompt_eval_count": 27}, {"model": "n"}]
)
def test_the_same_call_of_two_replies_has_two_ids(other: dict[str, Any]) -> None:
    [first] = whole({"tool_calls": [CALL]}).tool_calls
    [again] = whole({"tool_calls": [CALL]}).tool_calls
    [second] = whole({"tool_calls": [CALL]}, **other).tool_calls
    assert first.id == again.id != second.id


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({}, "{}"), (None, "{}"), ('{"bird": "her', '{"bird": "her'), ([1], "[1]"), (5, "5")],
)
def test_arguments_are_handed_over_as_they_came(arguments: Any, expected: str) -> None:
    call = {"function": {"name": "look", "arguments": arguments}}
    for reply in (whole({"tool_calls": [call]}), reply_of(piece(tool_calls=[call]), END)):
        assert [each.arguments for each in reply.tool_calls] == [expected]


@pytest.mark.parametrize(
    "calls",
    [{}, 5, "x", [5, None, {}, {"function": 5}, {"function": {}}, {"function": {"name": 5}}]],
)
def test_what_is_no_call_is_none(calls: Any) -> None:
    assert whole({"content": "a", "tool_calls": calls}).tool_calls == ()
    assert reply_of(piece(content="a", tool_calls=calls), END).tool_calls == ()


# ---- whatever a server sends
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [-1, 0, 1e300, "seven", True, None, [7], 2.5])
def test_counts_that_are_none_count_nothing(count: Any) -> None:
    usage = whole({"content": "a"}, prompt_eval_count=count, eval_count=count).usage
    assert usage.input_tokens == 0
    assert usage.estimated is True


def test_an_unrequested_stream_may_be_cut() -> None:
    cut = OLLAMA.decode(200, {}, lines(piece(content="In the"), piece(content=" reeds.")))
    assert cut.text == "In the reeds."
    assert cut.interrupted is True
