"""A call that hands nothing out is streamed beneath where the backend can: its result is that of a
whole body.
"""

from typing import Any

import pytest

import rungwise
from rungwise import Client, Result, ToolCall
from rungwise.testing import ScriptedReply
from support.clocked import clocked
from support.modes import Caller, ask, options_of, waits_into
from support.plain import bad_request

TEXT = "Herons of the northern lake nest in tall dead trees."
CALL = ToolCall("call_1", "look", '{"city": "Malmö"}')
USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 34,
    "total_tokens": 46,
    "prompt_tokens_details": {"cached_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 6},
}
REPLIES = {
    "text": ScriptedReply(TEXT, usage=USAGE),
    "estimated": ScriptedReply(TEXT, usage={}),
    "reasoning": ScriptedReply(TEXT, reasoning="Herons like trees.", usage=USAGE),
    "inline reasoning": ScriptedReply(f"<think>Herons like trees.</think>\n{TEXT}", usage=USAGE),
    "a tool": ScriptedReply(tool_calls=[CALL], usage=USAGE),
    "text and tools": ScriptedReply(
        "Let me look.", tool_calls=[CALL, ToolCall("call_2", "note", "{}")]
    ),
    "cut": ScriptedReply(TEXT, finish="length", usage=USAGE),
    "refused": ScriptedReply(refusal="I cannot say.", usage=USAGE),
    "filtered": ScriptedReply(TEXT, finish="content_filter", usage=USAGE),
    "empty": ScriptedReply(usage=USAGE),
    "reasoning alone": ScriptedReply(reasoning="Herons like trees.", usage=USAGE),
    "a cut tool": ScriptedReply(
        tool_calls=[ToolCall("call_1", "look", '{"ci')], finish="length", usage=USAGE
    ),
    "an unknown finish": ScriptedReply(TEXT, finish="banana", usage=USAGE),
    "an error": ScriptedReply(status=500),
}
NOT_VERIFIED = bad_request(
    "Your organization must be verified to stream this model.",
    type="invalid_request_error",
    param="stream",
    code="unsupported_value",
)
BOTH = pytest.mark.parametrize("mode", ["call", "acall"])


def made(mode: str, backend: Any) -> Result:
    policy = rungwise.Policy(
        limits=rungwise.Limits(
            retries=1,
            reasks=1,
            continuations=1,
            prefills=1,
            enlargements=1,
        )
    )
    with Caller(
        mode, backend, policy=policy, **clocked({"jitter": lambda: 0.0, **waits_into([])})
    ) as caller:
        try:
            return caller.ask()
        except rungwise.CallError as error:
            return error.result


@pytest.mark.parametrize("kind", REPLIES)
@pytest.mark.parametrize("modes", [("call", "whole"), ("acall", "awhole")], ids=["sync", "async"])
def test_the_result_is_that_of_a_whole_body(
    serve: Any,
    backend_of: Any,
    kind: str,
    modes: Any,
) -> None:
    providers = [serve(REPLIES[kind]), serve(REPLIES[kind])]
    streamed, whole = (
        made(mode, backend_of(each, name="primary"))
        for mode, each in zip(modes, providers, strict=True)
    )
    asked = [[request.body for request in provider.requests] for provider in providers]
    assert {body["stream"] for body in asked[0]} == {True}
    assert {body["stream"] for body in asked[1]} == {False}
    assert [{**body, "stream": False} for body in asked[0] if body.pop("stream_options")] == asked[
        1
    ]
    for name in (
        "outcome",
        "text",
        "final_text",
        "reasoning",
        "tool_calls",
        "parts",
        "usage",
        "attempts",
        "overran",
    ):
        assert getattr(streamed, name) == getattr(whole, name), name
    assert streamed.plain_message_with_reasoning == whole.plain_message_with_reasoning
    paths = [
        [(step.event, step.target) for step in each.journal.steps] for each in (streamed, whole)
    ]
    assert paths[0] == paths[1]


@BOTH
def test_nothing_is_handed_out_and_text_that_came_to_nothing_is_not_salvaged(
    serve: Any, backend_of: Any, mode: str
) -> None:
    nothing = ScriptedReply(TEXT, final_message="<think>That was no answer.</think>")
    result = made(mode, backend_of(serve(nothing, ScriptedReply("In trees."))))
    assert (result.outcome, result.text) == ("done", "In trees.")


def test_a_server_that_may_not_stream_a_model_is_asked_for_a_whole_reply(
    serve: Any, backend_of: Any, mode: str
) -> None:
    provider = serve(NOT_VERIFIED, ScriptedReply(TEXT))
    with Caller(mode, backend_of(provider), **waits_into([])) as caller:
        result = caller.ask()
        assert (result.outcome, result.text) == ("done", TEXT)
        assert [
            step.target for step in result.journal.steps if step.event == "rejected_fixably"
        ] == ["repair"]
        first, second = (request.body for request in provider.requests)
        assert first["stream"] is True
        assert "stream" not in second
        assert "stream_options" not in second
        caller.ask()  # which knows it by now
    assert [request.body.get("stream") for request in provider.requests] == [True, None, None]


def test_what_one_key_may_not_have_streamed_another_may(serve: Any, backend_of: Any) -> None:
    provider = serve(NOT_VERIFIED, ScriptedReply(TEXT))
    chain = [backend_of(provider), backend_of(provider, api_key="sk-57f1", name="second")]
    for backend in chain:
        with Client(backend) as client:
            client.call("Where?")
    assert [request.body.get("stream") for request in provider.requests] == [True, None, True]


def test_what_is_asked_of_a_client_is_true_or_false(backend_of: Any, serve: Any) -> None:
    with pytest.raises(
        rungwise.ConfigurationError, match="stream_calls must be True or False, not 'no'"
    ):
        Client(backend_of(serve(ScriptedReply())), stream_calls="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["call", "whole"])
def test_a_turn_asks_as_its_client_does(serve: Any, backend_of: Any, mode: str) -> None:
    provider = serve(ScriptedReply(TEXT))
    with Client(backend_of(provider), **options_of(mode)) as client:
        assert client.turn("Where?").text == TEXT
        assert ask(client, "stream", "Where?").text == TEXT
    assert [request.body["stream"] for request in provider.requests] == [mode == "call", True]
