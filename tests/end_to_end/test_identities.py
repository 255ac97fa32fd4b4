"""What makes two backends of a chain one: what they send. What they share: host, model and key."""

from typing import Any

import pytest

import rungwise
from rungwise import Client, OpenAIChat, OpenAIResponses, Policy
from rungwise.fsm.analysis.certificate.verify import verify
from rungwise.fsm.analysis.stats.counts import Stats
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply

DOWN = ScriptedReply(status=400)
ANSWER = ScriptedReply(text="In the reeds, mostly.")
KEY = "sk-1"
pytestmark = pytest.mark.sampled(1)


def provider_of(*replies: ScriptedReply) -> EmbeddedProvider:
    return EmbeddedProvider(Script([*replies]))


PAIRS: dict[str, Any] = {
    "another protocol": lambda place: [OpenAIChat(**place), OpenAIResponses(**place)],
    "the same two, the other way round": lambda place: [
        OpenAIResponses(**place),
        OpenAIChat(**place),
    ],
    "flex, then standard": lambda place: [
        OpenAIChat(**place, parameters={"service_tier": "flex"}),
        OpenAIChat(**place),
    ],
    "high effort, then low": lambda place: [
        OpenAIResponses(**place, parameters={"reasoning": {"effort": effort}})
        for effort in ("high", "low")
    ],
    "a member that nobody knows": lambda place: [
        rungwise.Anthropic(**place),
        rungwise.Anthropic(**place, parameters={"x_new": {"a": [1]}}),
    ],
}


@pytest.mark.full
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_links_that_send_something_else_are_two(pair: Any) -> None:
    with provider_of(DOWN, ANSWER) as provider:
        chain = pair({"model": "m", "base_url": provider.base_url, "api_key": KEY})
        with Client(chain) as client:
            result = client.call("Where do herons nest?")
            bodies = [each.body for each in provider.requests]
            paths = [each.path for each in provider.requests]
            names = [backend.name for backend in client.chain]
            seen = client.health()
    assert result.outcome == "done"
    assert len(bodies) == 2
    assert (paths[0], bodies[0]) != (paths[1], bodies[1])
    assert len(set(names)) == 2  # told apart wherever they are named
    assert [step.backend for step in result.journal.steps if step.event == "sent"] == names
    assert result.backend == names[1]
    assert [name for name, _ in result.failures] == names[:1]
    assert set(seen) <= set(names)
    assert rungwise.replay(rungwise.Journal.from_json(result.journal.to_json())).outcome == "done"
    stats = Stats()
    stats.add(result.journal)
    reached = {name for (_, kind, name) in stats.counts if kind == "backends_reached"}
    assert reached == set(names)
    assert verify(Policy(), client.chain).chain == tuple(names)


@pytest.mark.parametrize(
    "same",
    [
        lambda place: [OpenAIChat(**place), OpenAIChat(**place, name="twin")],
        lambda place: [
            OpenAIChat(**place, parameters={"a": 1, "b": {"c": 2, "d": 3}}),
            OpenAIChat(**place, parameters={"b": {"d": 3, "c": 2}, "a": 1}),
        ],
    ],
)
def test_links_that_send_the_same_are_one(same: Any) -> None:
    with provider_of(DOWN) as provider:
        chain = same({"model": "m", "base_url": provider.base_url, "api_key": KEY})
        with Client(chain) as client, pytest.raises(rungwise.Failed) as caught:
            client.call("Where do herons nest?")
        assert len(provider.requests) == 1
    [skipped] = [step for step in caught.value.result.journal.steps if step.event == "skipped"]
    assert "same as" in (skipped.note or "")


def test_names_show_which_parameters_and_none_of_their_values() -> None:
    place: dict[str, Any] = {"base_url": "http://localhost/v1"}
    chain = [
        OpenAIChat("m", **place, parameters={"user": "alice@example.com"}),
        OpenAIChat("m", **place),
        OpenAIChat("m", **place, name="mine"),
    ]
    with Client(chain) as client:
        assert [backend.name for backend in client.chain] == [
            "localhost/m (openai, user)",
            "localhost/m (openai)",
            "mine",
        ]
        assert "alice" not in repr(client.check("hi"))


def test_host_model_and_key_share_health_and_lessons() -> None:
    place: dict[str, Any] = {"base_url": "http://localhost/v1", "api_key": KEY}
    chat = OpenAIChat("m", **place, parameters={"service_tier": "flex"})
    responses = OpenAIResponses("m", **place)
    assert chat.account == responses.account
    assert chat.identities.isdisjoint(responses.identities)
    assert chat.places & responses.places
    assert chat.account.isdisjoint(OpenAIChat("m2", **place).account)
    with Client([chat, responses]) as client:
        store = client.runtime.shared.watch.store  # type: ignore[union-attr]
        assert len({store.key_of(backend) for backend in client.chain}) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_the_next_tier_is_asked_where_the_first_has_no_room(status: int) -> None:
    replies = [ScriptedReply(status=status, headers={"retry-after": "600"}), ANSWER]
    with provider_of(*replies) as provider:
        place: dict[str, Any] = {"model": "m", "base_url": provider.base_url, "api_key": KEY}
        chain = PAIRS["flex, then standard"](place)
        with Client(chain) as client:
            assert client.call("Where do herons nest?").outcome == "done"
        tiers = [each.body.get("service_tier") for each in provider.requests]
    assert tiers == ["flex", None]
