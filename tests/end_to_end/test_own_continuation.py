"""A provider's own continuation: Gemini's token goes out with the same request, and what comes is
joined to what came, whatever that was.
"""

import json
from typing import Any, Final

import pytest

from rungwise import Discard, Gemini
from rungwise.adapters.durable.forms import plain_reply, read_reply
from rungwise.testing import ScriptedReply
from support import sdks
from support.gateways import asked
from support.modes import EVERY, follow, streams
from support.runs import Run, Stage, Stages

pytestmark = pytest.mark.sampled(4)

JSON: Final = {"content-type": "application/json"}
SSE: Final = {"content-type": "text/event-stream"}
MODES: Final = pytest.mark.parametrize("mode", EVERY)
COUNTS: Final = {"promptTokenCount": 9, "candidatesTokenCount": 7}
TOOLS: Final = [{"name": "look", "parameters": {"type": "object"}}]


@pytest.fixture
def play(stages: tuple[Stage, ...], caplog: pytest.LogCaptureFixture, mode: str) -> Run:
    return Run(mode, stages, caplog, "gemini")


def value(*parts: Any, end: str | None = None, token: str | None = None) -> dict[str, Any]:
    held = [{"text": part} if isinstance(part, str) else part for part in parts]
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": held}}
    if end:
        candidate["finishReason"] = end
    if token:
        candidate["continuationToken"] = token
    return {"candidates": [candidate], "usageMetadata": COUNTS}


def hop(*parts: Any, end: str = "CONTINUATION", token: str | None = None) -> ScriptedReply:
    return ScriptedReply(body=json.dumps(value(*parts, end=end, token=token)), headers=JSON)


def broken(*values: dict[str, Any]) -> ScriptedReply:
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in values)
    return ScriptedReply(body=body, headers=SSE)


def tokens(ended: Any) -> list[str | None]:
    """Return the token of each request, all of which are the same besides."""
    first = ended.bodies[0]
    sent = []
    for body in ended.bodies:
        sent.append(body.get("continuationToken"))
        assert {**body, "continuationToken": None} == {**first, "continuationToken": None}
    return sent


@MODES
@pytest.mark.parametrize("cap", [None, 5000])
def test_the_same_request_goes_out_with_the_token(play: Run, cap: int | None) -> None:
    script = [hop("Herons n", token="t1"), hop("est ", token="t2"), hop("in reeds.", end="STOP")]
    ended = play(script, max_tokens=cap)
    ended.was("done", "Herons nest in reeds.", path="continuation continuation done")
    assert tokens(ended) == [None, "t1", "t2"]
    assert ended.result.usage.input_tokens == 27
    assert [step.event for step in ended.steps if step.event != "sent"] == [
        "paused",
        "paused",
        "answered",
    ]


@MODES
def test_what_would_be_an_echo_elsewhere_is_joined(play: Run) -> None:
    echo = "Herons nest in the reeds of the northern lake. "
    ended = play([hop(echo, token="t1"), hop(" \n", token="t2"), hop(echo, end="STOP")])
    ended.was("done", f"{echo} \n{echo}")
    assert not streams(play.mode) or follow(ended.events) == ended.text


@MODES
def test_a_cut_at_the_cap_goes_on_with_a_larger_one(play: Run) -> None:
    script = [hop("Herons ", end="MAX_TOKENS", token="t1"), hop("nest.", end="STOP")]
    ended = play(script, max_tokens=1000)
    ended.was("done", "Herons nest.", caps=[1000, 2000])
    assert ended.bodies[1]["contents"] == ended.bodies[0]["contents"]
    assert ended.bodies[1]["continuationToken"] == "t1"


def piece(path: str, text: str, *, more: bool = True, **members: Any) -> dict[str, Any]:
    args = [{"jsonPath": path, "stringValue": text}]
    return {"functionCall": {"partialArgs": args, "willContinue": more, **members}}


@MODES
def test_half_a_call_is_joined(play: Run) -> None:
    whole = {"functionCall": {"name": "look", "args": {"bird": "egret"}}}
    begun = {"functionCall": {"name": "look", "willContinue": True}}
    script = [
        hop({"text": "Hm.", "thought": True}, token="t1"),
        hop(whole, begun, piece("$.bird", "her"), token="t2"),
        hop(piece("$.bird", "on"), piece("$.places[0]", "re"), token="t3"),
        hop(piece("$.places[0]", "eds"), {"functionCall": {}}, end="STOP"),
    ]
    ended = play(script, tools=TOOLS)
    ended.was("done", "", counts=[4])
    assert tokens(ended) == [None, "t1", "t2", "t3"]
    found = [json.loads(call.arguments) for call in ended.result.tool_calls]
    assert found == [{"bird": "egret"}, {"bird": "heron", "places": ["reeds"]}]
    assert [call.name for call in ended.result.tool_calls] == ["look", "look"]
    assert len({call.id for call in ended.result.tool_calls}) == 2


@MODES
@pytest.mark.parametrize("then", [0, 1])
def test_a_dropped_stream_resumes_from_its_last_checkpoint(play: Run, then: int) -> None:
    dropped = broken(
        value("Herons "),
        value("nest ", token="t1"),
        value("in "),
        value("the ", token="t2"),
        value("reeds, some"),
    )
    again = broken(value("reeds, m"))  # and not even to a checkpoint
    ended = play([dropped, *[again] * then, hop("reeds, mostly.", end="STOP")])
    ended.was("done", "Herons nest in the reeds, mostly.", counts=[2 + then])
    assert tokens(ended) == [None, *["t2"] * (1 + then)]
    if streams(play.mode):
        assert follow(ended.events) == ended.text
        assert any(isinstance(event, Discard) for event in ended.events)


@MODES
def test_a_checkpoint_of_a_reply_that_ends_is_none(play: Run) -> None:
    ended = play([broken(value("Herons ", token="t1"), value("nest.", end="STOP", token="t2"))])
    ended.was("done", "Herons nest.", counts=[1])


@MODES
def test_the_same_token_twice_ends_it(play: Run) -> None:
    ended = play([hop("Herons ", token="t1"), hop("nest ", token="t1")])
    ended.was("partial", "Herons nest ", counts=[2])
    assert tokens(ended) == [None, "t1"]
    other = ScriptedReply("Egrets nest.")
    ended = play([hop("Herons ", token="t1"), hop("nest ", token="t1")], [other])
    ended.was("done", counts=[2, 1])
    assert "continuationToken" not in ended.bodies[-1]


@MODES
def test_the_cap_of_continuations_holds(play: Run) -> None:
    script = [hop(f"{number} ", token=f"t{number}") for number in range(9)]
    play(script).was("partial", "0 1 2 3 ", counts=[4])


@MODES
def test_a_hop_that_fails_goes_out_again_with_its_token(play: Run) -> None:
    script = [hop("Herons ", token="t1"), ScriptedReply(status=503), hop("nest.", end="STOP")]
    ended = play(script)
    ended.was("done", "Herons nest.", path="continuation retry done")
    assert tokens(ended) == [None, "t1", "t1"]


@MODES
def test_without_a_token_it_goes_on_as_ever(play: Run) -> None:
    ended = play([hop("Herons nest in the reeds, "), hop("mostly.", end="STOP")])
    ended.was("done", "Herons nest in the reeds, mostly.", counts=[2])
    assert "continuationToken" not in ended.bodies[1]
    assert ended.bodies[1] != ended.bodies[0]


@pytest.mark.parametrize("way", sdks.WAYS)
def test_an_sdk_on_the_transport_sees_one_answer(way: str, stages: Stages) -> None:
    script = [hop("Herons ", token="t1"), hop("nest.", end="STOP")]
    seen = asked(stages, "gemini", way, ("gemini", script))
    assert (seen.error, seen.text, seen.finish) == (None, "Herons nest.", "STOP")
    sent = [request.body.get("continuationToken") for request in stages[0].requests]
    assert sent == [None, "t1"]


@MODES
def test_json_is_joined_and_checked_as_a_whole(play: Run) -> None:
    asked_for = {"response_format": {"type": "json_object"}}
    script = [hop('{"nests": ', token="t1"), hop('"three', token="t2"), hop('"}', end="STOP")]
    ended = play(script, **asked_for)
    ended.was("done", '{"nests": "three"}', counts=[3])


@MODES
def test_another_backend_goes_on_without_the_token(play: Run) -> None:
    failing = [hop("Herons nest in the northern ", token="t1"), ScriptedReply(status=401)]
    ended = play(failing, [ScriptedReply("reeds, mostly.")])
    ended.was("done", "Herons nest in the northern reeds, mostly.", counts=[2, 1])
    assert [body.get("continuationToken") for body in ended.bodies] == [None, "t1", None]


@MODES
@pytest.mark.parametrize(
    ("end", "outcome"), [("SAFETY", "refused"), ("MAX_TOKENS", "partial"), ("STOP", "done")]
)
def test_a_token_changes_no_other_end(play: Run, end: str, outcome: str) -> None:
    ended = play([hop("Herons", end=end, token="t1")], max_tokens=5)
    ended.was(outcome, counts=[1])


@MODES
def test_tokens_of_usage_are_those_of_every_hop(play: Run) -> None:
    script = [hop({"text": "Hm.", "thought": True}, token="t1"), hop("Reeds.", end="STOP")]
    ended = play(script)
    ended.was("done", "Reeds.")
    usage = ended.result.usage
    assert (usage.input_tokens, usage.output_tokens) == (18, 14)


def test_what_goes_on_is_kept_in_a_database() -> None:
    begun = {"functionCall": {"name": "look", "willContinue": True}}
    body = json.dumps(value(begun, piece("$.bird", "her\ud800"), end="CONTINUATION", token="t"))
    reply: Any = Gemini("g", api_key="k").decode(200, {}, body.encode())
    read: Any = read_reply(json.loads(json.dumps(plain_reply(reply)).encode("utf-8").decode()))
    assert read.continuation == reply.continuation == "t"
    assert [each[1] for each in read.pieces] == [each[1] for each in reply.pieces]
    assert len(read.pieces) == 2
