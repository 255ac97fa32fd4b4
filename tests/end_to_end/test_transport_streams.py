"""Streams over `rungwise.Transport`: what a program has gathered begins the answer, or its stream
ends in an error.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rungwise import CallError, Client, Limits, Policy, Result, ToolCall, Transport
from rungwise.adapters.gateway.answers import text_of
from rungwise.adapters.gateway.gateway import Gateway
from rungwise.adapters.provider.server import render
from rungwise.testing import ReceivedRequest, ScriptedReply
from support import sdks
from support.gateways import TOOLS, asked, asking_for, chained, client_over, post, written
from support.protocols import PROTOCOLS
from support.runs import Scripted, Stages
from support.sampling import examples
from support.sdks import APIS, FINISHES
from support.waiting import auntil, until

TEXT: Final = (
    "In the reeds, mostly; some of them in the alders behind the boathouse, where nobody goes."
)
STREAMS: Final = ("stream", "astream")
CUT_CALL: Final = ScriptedReply(
    "I look.", tool_calls=(ToolCall("c", "look", '{"bi'),), finish="length"
)
ENDS: Final = {
    "openai": ('"finish_reason":"stop"', "data: [DONE]"),
    "responses": ("event: response.completed", ""),
    "anthropic": ('"stop_reason":"end_turn"', "event: message_stop"),
    "gemini": ('"finishReason":"STOP"', ""),
    "interactions": ('"status":"completed"', "data: [DONE]"),
}


every = pytest.mark.parametrize("api", APIS)
few = pytest.mark.sampled(8)


def hanging(after: str) -> Callable[[ReceivedRequest], ScriptedReply]:
    """Fall silent for ever behind the event that holds some text."""
    reply = ScriptedReply(TEXT, chunk_size=4, hang=True)

    def answer(request: ReceivedRequest) -> ScriptedReply:
        pieces = render(reply, request.body, path=request.path).pieces
        before = 0
        for piece in pieces:
            before += len(piece)
            if json.dumps(after)[1:-1].encode() in piece:
                return attrs.evolve(reply, cut_after=before)
        raise AssertionError(pieces)

    return answer


held_or_not = pytest.mark.parametrize("hold", [False, True])


@few
@held_or_not
@every
def test_a_stream_ends_with_its_end_marker(api: str, hold: bool, stages: Stages) -> None:
    with chained(stages, ("openai", [ScriptedReply(TEXT)]), hold=hold) as transport:
        response = post(transport, api, written(api), streams=True)
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["x-rungwise-journal"]
    assert "x-rungwise-outcome" not in response.headers, "the head has gone before"
    finish, marker = ENDS[api]
    assert finish in response.text
    assert response.text.rstrip().splitlines()[-1 if "DONE" in marker else -2].startswith(marker)
    comment = ": x-rungwise-outcome: done\n"
    assert (comment in response.text) is (api != "gemini"), "its SDK takes comments for JSON"
    assert response.text.index(finish) > response.text.index("reeds")


always = pytest.mark.parametrize("way", STREAMS)


@held_or_not
@always
@every
def test_a_stream_that_has_to_be_taken_back_makes_the_sdk_raise_unless_it_is_held(
    api: str, way: str, hold: bool, stages: Stages
) -> None:
    whole = ScriptedReply(tool_calls=(ToolCall("c", "look", '{"bird": "heron"}'),))
    link = ("openai", [CUT_CALL, whole])
    seen = asked(stages, api, way, link, hold=hold, tools=TOOLS[api])
    if hold:
        assert (seen.error, seen.text, seen.calls) == (None, "", [("look", {"bird": "heron"})])
    else:
        assert seen.error is not None
        assert (seen.text, seen.calls, seen.finish) == ("I look.", [], None)
        assert "hold=True" in seen.message


UNCLEAR: Final = ScriptedReply(TEXT, finish="a_new_word", chunk_size=7)


@held_or_not
@always
@every
@pytest.mark.parametrize(
    ("second", "finish"),
    [
        (UNCLEAR, "length"),
        (ScriptedReply(TEXT), "stop"),
        (ScriptedReply(f"{TEXT} Or in trees.", chunk_size=5), "stop"),
        (ScriptedReply(status=400), "length"),
    ],
    ids=["the same", "clear", "more", "nothing"],
)
def test_text_that_comes_again_is_not_taken_back(
    api: str, way: str, hold: bool, second: ScriptedReply, finish: str, stages: Stages
) -> None:
    seen = asked(stages, api, way, ("openai", [UNCLEAR, second]), hold=hold)
    assert seen.error is None
    assert seen.text == (second.text or TEXT)
    assert seen.finish == FINISHES[api][finish]
    assert len(stages[0].requests) == 2


@held_or_not
@always
@every
@pytest.mark.parametrize("other", ["In trees.", "Herons of the north nest in"])
def test_other_text_ends_the_stream_unless_it_is_held(
    api: str, way: str, hold: bool, other: str, stages: Stages
) -> None:
    seen = asked(stages, api, way, ("openai", [UNCLEAR, ScriptedReply(other)]), hold=hold)
    if hold:
        assert (seen.error, seen.text) == (None, other)
    else:
        assert seen.error is not None
        assert (seen.text, seen.finish) == (TEXT, None)
        assert "hold=True" in seen.message


@always
@every
def test_reasoning_alone_and_then_failure_is_an_error(api: str, way: str, stages: Stages) -> None:
    """What was shown is no answer: the stream has begun, so its status is gone, and only an event
    can tell.
    """
    script = [ScriptedReply(reasoning="Where do they nest?"), ScriptedReply(status=400)]
    policy = Policy(limits=Limits(reasks=1, prefills=0, nudges=0))
    seen = asked(stages, api, way, ("openai", script), policy=policy)
    assert seen.error is not None
    assert (seen.text, seen.finish) == ("", None)


@pytest.mark.own_connections
@always
@every
def test_leaving_a_stream_ends_the_call_and_keeps_what_came(
    api: str, way: str, stages: Stages
) -> None:
    kept: list[Result] = []
    stages[0].play([hanging("he r")])
    with client_over(["openai"], stages[:1]) as client:
        transport = Transport(client)
        transport._gateway = Gateway(client, False, lambda id, result: kept.append(result))
        seen = sdks.ask(api, way, transport=transport, take=1)
        assert seen.error is None
        assert TEXT.startswith(seen.text)
        until(lambda: stages[0].provider.open_connections == 0)
    assert len(stages[0].requests) == 1
    assert [result.outcome for result in kept] == ["cancelled"]


@pytest.mark.own_connections
@few
def test_leaving_a_stream_before_its_first_event_ends_the_call(stages: Stages) -> None:
    import httpx

    body = {**written("openai"), "stream": True}
    with chained(stages, ("openai", [hanging("he r")])) as transport:
        with httpx.Client(transport=transport).stream(
            "POST", f"{sdks.HOST}/v1/chat/completions", json=body
        ) as head:
            assert head.status_code == 200
        until(lambda: stages[0].provider.open_connections == 0)


@few
@pytest.mark.parametrize("way", sdks.WAYS)
@every
def test_halves_of_characters_break_nothing(api: str, way: str, stages: Stages) -> None:
    first = {"content": "a\ud800", "reasoning_content": "r\udc00"}
    deltas = [first, {"content": "b\ud83d"}, {"content": "\ude00!"}]
    chunks = [
        {
            "id": "1",
            "model": "m\ud800",
            "choices": [{"index": 0, "delta": delta}],
        }
        for delta in deltas
    ]
    chunks[-1]["choices"][0]["finish_reason"] = "stop"  # type: ignore[index]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    seen = asked(stages, api, way, ("openai", [ScriptedReply(body=body)]))
    assert (seen.error, seen.text) == (None, "a\ufffdb\U0001f600!")


@pytest.mark.own_connections
@pytest.mark.parametrize("way", ["awhole", "astream"])
@every
def test_cancelling_the_task_ends_the_call(api: str, way: str, stages: Stages) -> None:
    stages[0].play([hanging("he r")])

    async def main(client: Client) -> None:
        sdk = sdks.sdk_of(api, way, transport=Transport(client))
        task = asyncio.create_task(sdks.agather(api, sdk, way, sdks.asking(api)))
        await auntil(lambda: stages[0].requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await auntil(lambda: stages[0].provider.open_connections == 0)
        await client.aclose()

    asyncio.run(main(client_over(["openai"], stages[:1])))
    assert len(stages[0].requests) == 1


# whatever happens


TROUBLES: Final[dict[str, Any]] = {
    "answer": lambda text: ScriptedReply(text, chunk_size=5),
    "answer with reasoning": lambda text: ScriptedReply(
        text, reasoning="Let me see.", signature="c2ln"
    ),
    "length": lambda text: ScriptedReply(text[: len(text) // 2], finish="length"),
    "empty": lambda text: ScriptedReply(),
    "only reasoning": lambda text: ScriptedReply(reasoning="Let me see."),
    "busy": lambda text: ScriptedReply(status=503),
    "refused": lambda text: ScriptedReply(refusal="I will not."),
    "filtered": lambda text: ScriptedReply(text[:9], finish="content_filter"),
    "cut call": lambda text: CUT_CALL,
    "error inside": lambda text: ScriptedReply(text[:20], error_event={"message": "Overloaded"}),
    "no end": lambda text: ScriptedReply(text, done=False, finish=""),
    "wrong JSON": lambda text: ScriptedReply('{"name": 5}'),
    "half of JSON": lambda text: ScriptedReply('{"name": "her'),
    "bad request": lambda text: ScriptedReply(status=400),
    "no JSON": lambda text: ScriptedReply(body="<html>"),
}
SCHEMA: Final = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}
JSON: Final = '{"name": "heron, or egret, or bittern"}'


@attrs.frozen
class Play:
    """A request over a chain whose backends play the troubles in order and then answer."""

    api: str
    way: str
    hold: bool
    has_schema: bool
    has_tools: bool
    links: tuple[tuple[str, tuple[tuple[str, float | None], ...]], ...]

    @property
    def text(self) -> str:
        return JSON if self.has_schema else TEXT

    def script(self, troubles: tuple[tuple[str, float | None], ...]) -> list[Scripted]:
        return [self._scripted(name, cut) for name, cut in (*troubles, ("answer", None))]

    def _scripted(self, name: str, cut: float | None) -> Scripted:
        reply: ScriptedReply = TROUBLES[name](self.text)
        if cut is None:
            return reply

        def answer(request: ReceivedRequest) -> ScriptedReply:
            size = len(render(reply, request.body, path=request.path).body)
            return attrs.evolve(reply, cut_after=int(size * cut))

        return answer


@st.composite
def plays(draw: st.DrawFn) -> Play:
    """Draw a play."""
    cut = st.none() | st.floats(0, 1)
    trouble = st.tuples(st.sampled_from([*TROUBLES]), cut)
    link = st.tuples(st.sampled_from(PROTOCOLS), st.lists(trouble, max_size=3).map(tuple))
    flags = [draw(st.booleans()) for _ in range(3)]
    links = tuple(draw(st.lists(link, min_size=1, max_size=2)))
    return Play(draw(st.sampled_from(APIS)), draw(st.sampled_from(STREAMS)), *flags, links)


@pytest.mark.sampled(2)
@few
@settings(
    max_examples=examples(300),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(play=plays())
def test_what_an_sdk_has_gathered_begins_the_result_or_its_stream_ended_in_an_error(
    play: Play, stages: Stages
) -> None:
    used = stages[: len(play.links)]
    for stage, (_, troubles) in zip(used, play.links, strict=True):
        stage.play(play.script(troubles))
    kept: list[Result] = []
    with client_over([api for api, _ in play.links], used) as client:
        transport = Transport(client)
        transport._gateway = Gateway(client, play.hold, lambda id, result: kept.append(result))
        fields = asking_for(SCHEMA)[play.api] if play.has_schema else {}
        if play.has_tools:
            fields["tools"] = TOOLS[play.api]
        seen = sdks.ask(play.api, play.way, transport=transport, **fields)
    [result] = kept
    if seen.error is None:
        assert result.outcome in ("done", "salvaged", "partial", "refused")
        if result.outcome != "refused":
            assert seen.text == text_of(result, is_json_wanted=play.has_schema)
        assert len(seen.calls) == len(result.tool_calls)
        if result.outcome == "partial":
            assert seen.finish == FINISHES[play.api]["length"]
        else:
            assert seen.finish is not None
            assert (seen.finish == FINISHES[play.api]["length"]) is False
    else:
        assert not isinstance(seen.error, AssertionError | CallError | TypeError), repr(seen.error)
        assert seen.finish is None
        assert seen.calls == []
        if play.hold:
            assert seen.events == []
            assert seen.status in (400, 503, 504)
