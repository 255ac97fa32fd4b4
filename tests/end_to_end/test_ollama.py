"""Calls over Ollama's native chat, in every mode: what was sent, and what became of it."""

from typing import Any

import pytest

import rungwise
from rungwise import Client, Ollama
from rungwise.adapters.http.exchange import Exchange
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.fsm.replies.parts import ToolCall, ToolResult
from rungwise.testing import EmbeddedProvider, ScriptedReply
from support import ways
from support.modes import EVERY, WHOLE, ask, options_of, streams, waits_into
from support.runs import Serve

WELL = ScriptedReply("In the reeds, mostly.")
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "",
        "parameters": {"type": "object"},
    },
}
CALL = ToolCall("call_1", "look", '{"bird":"heron"}')
USER = {"role": "user", "content": "Where?"}


@pytest.fixture(
    params=[
        pytest.param(mode, marks=[pytest.mark.full] * (mode in ("acall", "awhole")))
        for mode in EVERY
    ]
)
def mode(request: pytest.FixtureRequest) -> str:
    """Run each test that takes it in every mode."""
    return str(request.param)


class Made:
    """A call that was made: what came of it, and the bodies that were sent."""

    def __init__(self, mode: str, chain: Any, asked: Any = "Where?", **options: Any) -> None:
        self.events: list[Any] = []
        client = Client(chain, **options_of(mode), **waits_into([]))
        self.result = ask(client, mode, asked, events=self.events, **options)
        self.path = [step.target for step in self.result.journal.steps if step.target != "await"]


def backend(provider: EmbeddedProvider, **options: Any) -> Ollama:
    return Ollama("llama3.2", **{"base_url": provider.base_url, **options})


def bodies(provider: EmbeddedProvider) -> list[Any]:
    return [request.body for request in provider.requests]


def test_an_answer(serve: Serve, mode: str) -> None:
    provider = serve(ScriptedReply("In the reeds, mostly.", reasoning="Herons like reeds."))
    made = Made(
        mode,
        [backend(provider)],
        max_tokens=50,
        parameters={"temperature": 0.5, "reasoning_effort": "high"},
    )
    result = made.result
    assert (result.outcome, result.text, result.reasoning) == (
        "done",
        WELL.text,
        "Herons like reeds.",
    )
    assert min(result.usage.input_tokens, result.usage.output_tokens) > 0
    assert not result.usage.estimated
    assert bodies(provider) == [
        {
            "model": "llama3.2",
            "messages": [USER],
            "stream": mode not in WHOLE,
            "think": "high",
            "options": {"temperature": 0.5, "num_predict": 50},
        }
    ]
    assert provider.requests[0].path.endswith("/api/chat")
    if streams(mode):
        assert (
            "".join([event.text for event in made.events if isinstance(event, rungwise.Text)])
            == WELL.text
        )


def test_nothing_is_asked_for_again(serve: Serve, mode: str) -> None:
    provider = serve(ScriptedReply(finish="load"), ScriptedReply(), WELL)
    made = Made(mode, [backend(provider)])
    assert (made.result.text, made.path[-3:]) == (WELL.text, ["reask", "reask", "done"])
    assert bodies(provider)[0] == bodies(provider)[1] == bodies(provider)[2]


def test_a_round_of_tools_goes_back_with_its_thinking(serve: Serve, mode: str) -> None:
    provider = serve(
        ScriptedReply(reasoning="I should look.", text="I look.", tool_calls=(CALL, CALL)), WELL
    )
    chain = [backend(provider)]
    first = Made(mode, chain, tools=[TOOL]).result
    assert [(call.name, call.arguments) for call in first.tool_calls] == [
        ("look", CALL.arguments)
    ] * 2
    assert len({call.id for call in first.tool_calls}) == 2
    results = [ToolResult(call.id, call.name, "A heron.") for call in first.tool_calls]
    Made(mode, chain, [USER, first.message, rungwise.Message("tool", results)], tools=[TOOL])
    call = {"function": {"name": "look", "arguments": {"bird": "heron"}}}
    assert bodies(provider)[1]["tools"] == [TOOL]
    assert bodies(provider)[1]["messages"] == [
        USER,
        {
            "role": "assistant",
            "content": "I look.",
            "thinking": "I should look.",
            "tool_calls": [call, call],
        },
        *[{"role": "tool", "tool_name": "look", "content": "A heron."}] * 2,
    ]


def test_a_stream_that_only_stops_is_no_answer(serve: Serve, mode: str) -> None:
    provider = serve(ScriptedReply("In the reeds, ", done=False), ScriptedReply("mostly."))
    made = Made(mode, [backend(provider)])
    assert (made.result.text, made.path[-2:]) == (WELL.text, ["continuation", "done"])


def test_a_model_that_cannot_think_is_asked_without(serve: Serve, mode: str) -> None:
    provider = serve(
        ScriptedReply(status=400, error={"message": '"llama3.2" does not support thinking'}), WELL
    )
    made = Made(mode, [backend(provider)], parameters={"reasoning_effort": "high"})
    assert (made.result.outcome, made.path) == ("done", ["repair", "done"])
    assert [body.get("think") for body in bodies(provider)] == ["high", None]


def test_a_whole_body_in_the_place_of_a_stream_is_read(serve: Serve, way: str) -> None:
    body = (
        '{\n  "model": "m",\n  "message": {"role": "assistant", "content": "In the '
        'reeds."},\n  "done": true\n}'
    )
    asked = ways.ask(way, ways.client_for(way, [backend(serve(ScriptedReply(body=body)))]))
    assert (asked.outcome, asked.text) == ("done", "In the reeds.")


@pytest.mark.parametrize("mode", ["stream", "astream"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_lines_may_come_in_pieces_of_any_size(serve: Serve, mode: str, size: int) -> None:
    reply = ScriptedReply(
        "In the reeds, 🐦 mostly.", reasoning="Herons?", chunk_size=1, write_sizes=(size,)
    )
    made = Made(mode, [backend(serve(reply))])
    assert (made.result.text, made.result.reasoning) == (reply.text, reply.reasoning)


@pytest.mark.parametrize(
    ("status", "kind"), [(200, "text/plain"), (201, "application/x-ndjson; charset=utf-8")]
)
def test_lines_are_read_as_they_come(status: int, kind: str) -> None:
    exchange = Exchange(Ollama("m"), AttemptLimits(), is_streaming=True)
    exchange.begin(status, {"content-type": kind})
    line = b'{"model":"m","message":{"role":"assistant","content":"In the"},"done":false}\n'
    assert [[delta.text for delta in deltas] for deltas in exchange.feed(line)] == [["In the"]]
