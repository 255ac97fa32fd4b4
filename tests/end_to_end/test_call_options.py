"""Options of a call by name and a policy of its own, over HTTP: what is sent is what that call was
given.
"""

import time
from typing import Any

import pytest

import rungwise
from rungwise import Client, Policy, testing
from rungwise.testing import ReceivedRequest, ScriptedReply
from support import modes, ways

ANSWER = ScriptedReply(text="In the reeds.")
STREAMS = pytest.mark.parametrize("streams", [False, True])
NAMED: dict[str, Any] = {
    "temperature": 0.2,
    "top_p": 0.9,
    "stop": ["END"],
    "seed": 7,
    "response_format": {"type": "text"},
    "reasoning_effort": "low",
    "tool_choice": "auto",
    "parallel_tool_calls": False,
}
TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}


def test_every_named_option_reaches_the_body(run: Any) -> None:
    ended = run([ANSWER], tools=[TOOL], parameters={"top_k": 5}, **NAMED)
    ended.was("done")
    [body] = ended.bodies
    assert {name: body.get(name) for name in [*NAMED, "top_k"]} == {**NAMED, "top_k": 5}


def question(request: ReceivedRequest) -> str:
    return str(request.body["messages"][0]["content"])


@STREAMS
def test_two_calls_at_once_have_each_its_own_policy(way: str, streams: bool, serve: Any) -> None:
    half = ScriptedReply(text="The bittern booms by night in", finish="length")
    rest = ScriptedReply(text=" the reeds.")

    def answer(request: ReceivedRequest) -> ScriptedReply:
        return half if len(request.body["messages"]) == 1 else rest

    policies: dict[str, Policy] = {
        name: Policy(hints=rungwise.Hints(continuation=f"Proceed, {name}."), base_cap=cap)
        for name, cap in (("one", 100), ("two", 300))
    }
    provider = serve(answer)
    client = ways.client_for(way, ways.backend(provider.base_url), policy=Policy())
    asked = [
        {"messages": name, "policy": policy, "streams": streams}
        for name, policy in policies.items()
    ]
    for (name, policy), made in zip(
        policies.items(), ways.at_once(way, client, asked), strict=True
    ):
        assert made.text == "The bittern booms by night in the reeds."
        sent = [request.body for request in provider.requests if question(request) == name]
        assert [len(body["messages"]) for body in sent] == [1, 3]
        assert sent[1]["messages"][-1]["content"] == f"Proceed, {name}."
        assert sent[1]["max_tokens"] == 2 * policy.base_cap
        journal = made.result.journal
        assert journal.setting.policy is policy
        replayed = rungwise.replay(rungwise.Journal.from_json(journal.to_json()))
        assert replayed.journal.setting.policy == policy


@pytest.mark.full
@STREAMS
def test_the_timeouts_of_a_calls_own_policy_hold_on_the_wire(
    way: str, streams: bool, serve: Any
) -> None:
    once = rungwise.Limits(retries=0)
    hasty = Policy(timeouts=rungwise.Timeouts(total=0.3), limits=once)
    provider = serve(ScriptedReply(text="In the reeds.", delay=1.5))
    client = ways.client_for(way, ways.backend(provider.base_url), policy=Policy())
    asked = [
        {"messages": "hasty", "policy": hasty, "streams": streams},
        {"messages": "patient", "streams": streams},
    ]
    began = time.monotonic()
    short, long = ways.at_once(way, client, asked)
    assert (short.outcome, long.outcome) == ("failed", "done")
    assert [failure.reason for failure in short.failures] == ["timeout"]
    assert short.result.seconds < 1.4
    assert time.monotonic() - began < 20
    assert long.result.journal.setting.policy == Policy()
    assert len(provider.requests) == 2


def test_both_calls_go_through_one_pool(serve: Any, backend_of: Any) -> None:
    provider = serve(ANSWER)
    with Client(backend_of(provider), max_connections=1) as client:
        client.call("one")
        client.call("two", policy=Policy.interactive())
        assert provider.open_connections == 1
    assert len(provider.requests) == 2


def test_a_budget_of_money_needs_prices_and_nothing_is_sent_without(
    mode: str, serve: Any, backend_of: Any
) -> None:
    provider = serve(ANSWER)
    priced = Policy(budget=rungwise.Budget(money=1.0))
    with Client(backend_of(provider)) as client:
        with pytest.raises(
            rungwise.ConfigurationError,
            match=r"Budget\.money needs prices on every backend; 'primary'",
        ):
            modes.ask(client, mode, policy=priced)
        assert provider.requests == []
        assert modes.ask(client, mode).outcome == "done"
    backend = backend_of(provider, prices=rungwise.Prices(1, 2))
    with Client(backend) as client:
        assert modes.ask(client, mode, policy=priced).cost is not None


def test_what_a_test_overrides_holds_for_the_policy_of_a_call(serve: Any, backend_of: Any) -> None:
    provider = serve(ScriptedReply(status=500))
    testing.set_testing(True, attempts=2)
    try:
        with Client(backend_of(provider)) as client, pytest.raises(rungwise.CallError) as caught:
            client.call("Where?", policy=Policy(limits=rungwise.Limits(retries=9)))
    finally:
        testing.set_testing(False)
    assert caught.value.result.attempts == len(provider.requests) == 2


def test_a_policy_of_its_own_may_have_a_table_of_its_own(serve: Any, backend_of: Any) -> None:
    short = Policy(table=rungwise.CALL.without("reask"))
    provider = serve(ScriptedReply(text=""))
    with Client(
        backend_of(provider), testing=rungwise.testing.Clocks(sleep=lambda seconds: None)
    ) as client:
        with pytest.raises(rungwise.EmptyResponse) as caught:
            client.call("Where?", policy=short)
        assert caught.value.result.attempts == 1
        with pytest.raises(rungwise.EmptyResponse) as caught:
            client.call("Where?")
        assert caught.value.result.attempts > 1
