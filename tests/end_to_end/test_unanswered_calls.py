"""A history that ends on a tool call without a result: the call gets one that says so, and nothing more is made up."""

import json
from typing import Any

import pytest

import rungwise
from rungwise import Budget, Capabilities, Client, Hints, Message, Policy, Prices, ToolCall
from rungwise.adapters.wires.pairing import NO_RESULT
from rungwise.core import Request
from rungwise.fsm.call.budget.estimate import MESSAGE_TOKENS, MISSING_RESULT_TOKENS
from rungwise.testing import ScriptedReply
from support import protocols
from support.modes import waits_into

HINT = "Go on."
POLICY = Policy(hints=Hints(continuation=HINT))
ASKED: list[Any] = [Message.saying("user", "Where?")]
SAID: list[Any] = [Message.saying("assistant", "In the")]
CALLED: list[Any] = [Message("assistant", (ToolCall("c1", "look_up", "{}"),))]
ANSWER = ScriptedReply(text="In the reeds.")
CUT = ScriptedReply(text="In the reeds of", finish="length")


def sent(api: str, provider: Any, messages: list[Any], **known: Any) -> list[tuple[Message, ...]]:
    """Return the conversation of each request of a call."""
    options = {"capabilities": Capabilities(**known)} if known else {}
    with Client(protocols.backend(api, provider.base_url, **options), policy=POLICY, **waits_into([])) as client:
        client.call(messages)
    return [protocols.said(request) for request in provider.requests]


@pytest.mark.parametrize("prefill", [False, True])
@pytest.mark.parametrize("whose", ["caller", "neutral"])
@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_nobody_is_told_that_a_reply_broke_off_which_ended_on_a_call(
    api: str, whose: str, prefill: bool, serve: Any
) -> None:
    provider = serve(ANSWER)
    tail = protocols.OPEN[api] if whose == "caller" else CALLED
    [said] = sent(api, provider, [*ASKED, *tail], prefill=prefill)
    assert [result.text for result in said[-1].tool_results] == [NO_RESULT]
    body = json.dumps(provider.requests[0].body)
    assert HINT not in body
    assert not any(mark in body for mark in ('"prefix"', '"partial"', "continue_final_message"))


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_an_answer_that_broke_off_in_words_is_gone_on_with(api: str, serve: Any) -> None:
    [said] = sent(api, serve(ANSWER), [*ASKED, *SAID], prefill=False)
    assert [(message.role, message.text) for message in said[-2:]] == [("assistant", "In the"), ("user", HINT)]


@pytest.mark.parametrize("prefill", [False, True])
@pytest.mark.parametrize("whose", ["caller", "neutral"])
@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_the_call_has_its_result_in_each_later_attempt_too(api: str, whose: str, prefill: bool, serve: Any) -> None:
    provider = serve(CUT, ANSWER)
    tail = protocols.OPEN[api] if whose == "caller" else CALLED
    _, said = sent(api, provider, [*ASKED, *tail], prefill=prefill)
    [place] = [place for place, message in enumerate(said) if message.tool_calls]
    assert [result.text for result in said[place + 1].tool_results] == [NO_RESULT]
    assert said[place + 2].text == CUT.text
    bodies = [json.dumps(request.body) for request in provider.requests]
    assert [body.count(HINT) for body in bodies] == [0, 0 if said[-1].role == "assistant" else 1]


@pytest.mark.parametrize("whose", ["caller", "neutral"])
@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_the_results_that_stand_in_count_beside_given_tokens(api: str, whose: str, serve: Any) -> None:
    """Under a budget of money too, which is what they would pass."""
    provider = serve(ScriptedReply(text="In the reeds.", usage={}))
    tail = protocols.OPEN[api] if whose == "caller" else CALLED
    used = []
    for messages, money in (([*ASKED, *tail], 1000.0), ([*ASKED, *SAID, *ASKED], 1000.0), ([*ASKED, *tail], 20.0)):
        backend = protocols.backend(api, provider.base_url, prices=Prices(input=1_000_000.0, output=0.0))
        with Client(backend, policy=Policy(budget=Budget(money=money))) as client:
            try:
                used.append(client.call(Request(messages, input_tokens=10)).usage.input_tokens)
            except rungwise.OverBudget:
                assert money == 20.0
    assert len(provider.requests) == len(used) == 2
    assert used == [10 + MISSING_RESULT_TOKENS, 10]
    assert json.dumps(provider.requests[0].body).count(NO_RESULT) == 1
    assert len(NO_RESULT) // 3 + MESSAGE_TOKENS < MISSING_RESULT_TOKENS
