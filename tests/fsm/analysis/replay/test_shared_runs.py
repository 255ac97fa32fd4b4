"""Calls that share health, quotas, keys and a store, with verdicts: the journal of each one replays
to the same steps.
"""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import (
    Budget,
    CallError,
    Client,
    Health,
    OpenAIChat,
    Policy,
    Prices,
    Quota,
    SharedBudget,
)
from rungwise.adapters.testing.runner import MemoryProvider
from rungwise.adapters.testing.scripts import scripted_replies
from rungwise.adapters.wires.learned import LEARNED
from rungwise.core import Call, PlainLink, Reply, Request
from rungwise.fsm.analysis.replay.replay import replay
from rungwise.fsm.call.policy import DEFAULT_POLICY
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.run.sending import FULL, OPEN
from rungwise.testing import Clocks, Script, ScriptedReply

CUT = ScriptedReply(text="Herons nest in the reeds", finish="length")
DOWN = ScriptedReply(status=503)
BUSY = ScriptedReply(status=429, headers={"retry-after": "30"})
OFTEN = st.sampled_from([CUT, CUT, DOWN, BUSY, ScriptedReply(text="In the reeds.")])
REPLIES = st.one_of(OFTEN, OFTEN, scripted_replies())

PRICES = Prices(1.0, 2.0)


def says_reeds(reply: Any) -> str | None:
    return None if "reeds" in reply.text else "Say where they nest."


SETTINGS = st.fixed_dictionaries(
    {
        "keys": st.integers(1, 3),
        "quota": st.sampled_from([None, Quota(requests_per_minute=2), Quota(concurrent=1)]),
        "health": st.sampled_from([None, Health(), Health(failures=1, jitter=0.0)]),
        "backends": st.integers(1, 3),
        "verdict": st.sampled_from([None, says_reeds]),
        "is_streaming": st.booleans(),
        "contents": st.booleans(),
        "within": st.booleans(),
        "is_stored": st.booleans(),
    }
)


def journals_of(
    setting: dict[str, Any], script: list[ScriptedReply], redis_url: str
) -> list[Journal]:
    """Make four calls with one client, and return their journals."""
    LEARNED.forget()
    provider = MemoryProvider(Script(script, after="repeat"))
    clock = provider.clock
    keys = [f"sk-of-a-test-{number}" for number in range(setting["keys"])]
    chain = [
        OpenAIChat(
            f"model-{number}",
            name=f"backend-{number}",
            base_url=provider.base_url,
            api_key=keys,
            quota=setting["quota"],
            prices=PRICES,
        )
        for number in range(setting["backends"])
    ]
    options: dict[str, Any] = {}
    if setting["verdict"] is not None:
        options["verdict"] = setting["verdict"]
    if setting["within"]:
        budget = SharedBudget(Budget(attempts=25, money=0.01))
        options["within"] = budget
    found = []
    transport = httpx.MockTransport(provider.respond)
    with (
        httpx.Client(transport=transport, trust_env=False) as http,
        Client(
            chain,
            policy=Policy(budget=Budget(seconds=200.0)),
            health=setting["health"],
            store=redis_url if setting["is_stored"] else None,
            http=http,
            contents=setting["contents"],
            testing=Clocks(clock=clock, sleep=clock.sleep),
        ) as client,
    ):
        for _ in range(4):
            try:
                if setting["is_streaming"]:
                    with client.stream("Where?", **options) as stream:
                        for _ in stream:
                            pass
                    result = stream.result
                else:
                    result = client.call("Where?", **options)
            except CallError as error:
                result = error.result
            found.append(result.journal)
    return found


@pytest.mark.usefixtures("redis_server")
@given(SETTINGS, st.lists(REPLIES, min_size=1, max_size=8))
def test_every_call_that_shares_replays(
    redis_server: Any, setting: dict[str, Any], script: list[ScriptedReply]
) -> None:
    redis_server.flush()
    for journal in journals_of(setting, script, redis_server.url):
        again = replay(Journal.from_json(journal.to_json()))
        assert list(again.journal.steps) == list(journal.steps)
        assert again.outcome == journal.outcome


@pytest.mark.parametrize("contents", [False, True])
def test_a_call_that_leaves_its_last_backend_with_text_replays(contents: bool) -> None:
    """A cut text would go on, but nobody is to be asked by now: the text stays."""
    call = Call(Request("Where?"), DEFAULT_POLICY, (PlainLink("one"),), contents=contents)
    call.begin()
    call.sending()
    call.receive(Reply("Herons nest in", stop_reason="length"))
    assert call.found_open(f"{OPEN}later") is None
    assert call.result.outcome == "partial"
    again = replay(Journal.from_json(call.journal.to_json()))
    assert list(again.journal.steps) == list(call.journal.steps)


def test_who_waited_for_a_quota_in_vain_replays() -> None:
    """The budget leads elsewhere after the wait, which was for the quota of the first backend."""
    policy = Policy(budget=Budget(seconds=200.0))
    chain = (PlainLink("one"), PlainLink("two"))
    call = Call(Request("Where?"), policy, chain, jitter=lambda: 0.0)
    call.begin()
    sent = call.sending(160.0, waited=160.0)
    assert sent is not None
    assert sent.backend == 1
    call.receive(Reply("In the reeds.", stop_reason="stop"), 161.0)
    assert [step.event for step in call.journal.steps] == ["ran_out", "sent", "answered"]
    again = replay(Journal.from_json(call.journal.to_json()))
    assert list(again.journal.steps) == list(call.journal.steps)


def test_a_call_that_no_quota_lets_through_replays_within_a_shared_budget() -> None:
    """Two backends are left for their quotas at one moment: no budget has decided that."""
    budget = SharedBudget(Budget(attempts=25))
    chain = (PlainLink("one"), PlainLink("two"))
    call = Call(Request("Where?"), DEFAULT_POLICY, chain, within=budget)
    call.begin()
    call.sending()
    call.receive(Reply("", stop_reason="stop"))
    assert call.found_open(f"{FULL}; 150 s are too many") is not None
    assert call.found_open(f"{FULL}; 120 s are too many") is None
    again = replay(Journal.from_json(call.journal.to_json()))
    assert list(again.journal.steps) == list(call.journal.steps)
