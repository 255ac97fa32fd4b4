"""Servers that call every reply whole, as llama.cpp does in its Responses, and LiteLLM in front of
such servers.
"""

import re
from typing import Any

import pytest

import rungwise
from rungwise import Capabilities
from rungwise.testing import ScriptedReply
from support import protocols
from support.modes import EVERY, MODES, ask, options_of
from support.streams import rendered

FIRST = "Herons nest in the reeds of the northern la"
REST = "ke, and in dead trees."
HIDES = Capabilities(hides_cuts=True)


def reply(text: str, output: int) -> ScriptedReply:
    used = {
        "prompt_tokens": 10,
        "completion_tokens": output,
        "input_tokens": 10,
        "output_tokens": output,
    }
    return ScriptedReply(text=text, usage={**used, "total_tokens": 10 + output})


def called(api: str, provider: Any, mode: str, **options: Any) -> rungwise.Result:
    backend = protocols.backend(api, provider.base_url, **options)
    with rungwise.Client(backend, **options_of(mode)) as client:
        result = ask(client, mode, "Where?", max_tokens=100)
    written = result.journal.to_json()
    assert rungwise.replay(rungwise.Journal.from_json(written)).journal.to_json() == written
    return result


@pytest.mark.parametrize("mode", EVERY)
@pytest.mark.parametrize("api", ["openai", "responses"])
@pytest.mark.parametrize(
    ("rest", "output"), [(REST, 7), (REST[:-7], 200), ("", 0)], ids=["rest", "cut again", "none"]
)
def test_a_reply_that_hides_its_cut_is_continued_once(
    serve: Any,
    api: str,
    mode: str,
    rest: str,
    output: int,
) -> None:
    provider = serve(reply(FIRST, 100), reply(rest, output), ScriptedReply(status=500))
    result = called(api, provider, mode, capabilities=HIDES)
    assert (result.outcome, result.text, result.attempts) == ("done", FIRST + rest, 2)
    assert [protocols.cap(request) for request in provider.requests] == [100, 200]
    said = [(one.role, one.text) for one in protocols.said(provider.requests[1])]
    assert said == [
        ("user", "Where?"),
        ("assistant", FIRST),
        ("user", rungwise.Hints().continuation),
    ]


@pytest.mark.parametrize("mode", EVERY)
@pytest.mark.parametrize(
    "options", [{}, {"capabilities": Capabilities(hides_cuts=False)}], ids=["unknown", "no"]
)
@pytest.mark.parametrize("api", ["openai", "responses"])
def test_a_server_that_is_not_known_to_hide_cuts_is_believed(
    serve: Any,
    api: str,
    mode: str,
    options: Any,
) -> None:
    provider = serve(reply(FIRST, 100), ScriptedReply(status=500))
    result = called(api, provider, mode, **options)
    assert (result.outcome, result.text, len(provider.requests)) == ("done", FIRST, 1)


@pytest.mark.parametrize("api", ["openai", "responses"])
def test_a_server_of_gguf_models_is_known_to_hide_cuts(serve: Any, api: str) -> None:
    provider = serve(reply(FIRST, 100), reply(REST, 7))
    result = called(api, provider, "call", model="ggml-org/gpt-oss-20b-GGUF")
    assert (result.outcome, result.text, len(provider.requests)) == ("done", FIRST + REST, 2)
    assert called(
        api,
        serve(reply(FIRST, 100)),
        "call",
        model="m.gguf",
        capabilities=Capabilities(hides_cuts=False),
    )


@pytest.mark.parametrize("mode", EVERY)
def test_a_response_that_cannot_say_that_it_was_cut_is_cut_if_it_fills_its_cap(
    serve: Any, mode: str
) -> None:
    """llama.cpp's have no `incomplete_details`, and are `completed` however they ended."""
    halves = {True: (FIRST, 100), False: (REST, 7)}
    replies = {
        (is_first, streams): speechless(*half, streams=streams)
        for is_first, half in halves.items()
        for streams in (True, False)
    }
    provider = serve(lambda one: replies[len(one.body["input"]) == 1, one.body["stream"]])
    result = called("responses", provider, mode, model="any")
    assert (result.outcome, result.text, result.attempts) == ("done", FIRST + REST, 2)
    events = [step.event for step in result.journal.steps if step.event != "sent"]
    assert events == ["truncated", "answered"]


def speechless(text: str, output: int, *, streams: bool) -> ScriptedReply:
    """Return a reply of Responses in which nothing can say why it ended."""
    backend = protocols.backend("responses", "http://host/v1")
    said = rendered(backend, reply(text, output), streams=streams)
    bare = re.sub(rb'"incomplete_details": ?null, ?', b"", said)
    assert bare != said
    kind = "text/event-stream" if streams else "application/json"
    return ScriptedReply(body=bare.decode(), headers={"content-type": kind})


# a finish reason with each piece

EVERYWHERE = "finish_everywhere"


@pytest.mark.parametrize("mode", MODES)
def test_what_we_cut_at_the_cap_is_cut_whatever_each_piece_says(serve: Any, mode: str) -> None:
    talk = ScriptedReply(FIRST + REST, manner=EVERYWHERE)
    provider = serve(talk)
    limits = rungwise.Limits(continuations=0)
    policy = rungwise.Policy(limits=limits, budget=rungwise.Budget(money=1.0))
    prices = rungwise.Prices(2.0, 10.0)
    backend = protocols.backend("openai", provider.base_url, prices=prices)
    with rungwise.Client(backend, policy=policy, **options_of(mode)) as client:
        try:
            result = ask(client, mode, "Where?", max_tokens=1)
        except rungwise.CallError as error:
            result = error.result
    assert provider.requests[0].body["stream"] is True
    assert result.text != FIRST + REST
    assert (result.outcome, result.journal.last.event) == ("partial", "truncated")


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_that_breaks_off_is_cut_whatever_each_piece_says(serve: Any, mode: str) -> None:
    talk = ScriptedReply(FIRST + REST, manner=EVERYWHERE, chunk_size=4, cut_after=2_000)
    provider = serve(talk, ScriptedReply(" the reeds."))
    result = called("openai", provider, mode)
    assert [step.event for step in result.journal.steps if step.event != "sent"] == [
        "interrupted",
        "answered",
    ]
    assert len(provider.requests) == 2
