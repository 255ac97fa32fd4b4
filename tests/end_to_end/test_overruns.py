"""The eight ways in which programs overran their budgets, each against a provider that counts.

The clusters are those of `docs/pages/overruns.md`, which says what rules each of them out.
"""

import asyncio
import base64
import json
import re
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

import rungwise
from rungwise import Budget, Client, ConfigurationError, Policy, Prices, SharedBudget, TurnPolicy
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply
from support.modes import waits_into
from support.plain import user
from support.turn_modes import calling
from support.ways import backend

PRICES = Prices(1_000.0, 10_000.0)
PAGE = Path(__file__).parents[2] / "docs" / "pages" / "overruns.md"
BUSY = ScriptedReply(status=429)
BROKEN = ScriptedReply(status=500)
EMPTY = ScriptedReply("")
CUT = ScriptedReply("Herons nest in", finish="length")
OF_NO_USE = {
    "busy": BUSY,
    "broken": BROKEN,
    "empty": EMPTY,
    "cut": CUT,
    "dead": ScriptedReply(cut_after=0),
}


class Meter:
    """A provider that bills a token for four bytes of a request, and all but one of its cap."""

    def __init__(self, *replies: Any, **options: Any) -> None:
        self.replies = replies or (ScriptedReply("By the lake."),)
        self.options = options
        self.bodies: list[Any] = []
        self.input: list[int] = []
        self.output = 0
        self._lock = threading.Lock()

    def __call__(self, request: ReceivedRequest) -> ScriptedReply:
        body = request.body
        with self._lock:
            reply = self.replies[min(len(self.bodies), len(self.replies) - 1)]
            self.bodies.append(body)
            if callable(reply):
                reply = reply(body)
            if reply.status != 200:
                return reply  # errors cost nothing
            size = len(json.dumps(body["messages"])) // 4
            written = (body.get("max_completion_tokens") or body.get("max_tokens")) - 1
            self.input.append(size)
            self.output += written
        usage = {"prompt_tokens": size, "completion_tokens": written}
        return attrs.evolve(reply, **{"usage": usage, **self.options})

    @property
    def money(self) -> float:
        """What all requests cost."""
        spent = sum(self.input) * PRICES.input + self.output * PRICES.output
        return spent / 1_000_000


def client_of(provider: EmbeddedProvider, **options: Any) -> Client:
    """Return a client with prices that does not wait."""
    return Client(
        backend(provider.base_url, prices=PRICES),
        **{
            **waits_into([]),
            **options,
        },
    )


def outcome_of(call: Any) -> rungwise.Result:
    """Return the result of a call, whether it raises or not."""
    try:
        return call()  # type: ignore[no-any-return]
    except rungwise.CallError as error:
        return error.result


# retry loops


@pytest.mark.parametrize("kind", OF_NO_USE)
def test_a_loop_of_attempts_ends_within_what_was_proved_before(kind: str) -> None:
    policy = Policy(budget=Budget(attempts=9, money=2.0))
    most = rungwise.verify(policy, chain=1, max_tokens=50).worst_of("attempts").value
    meter = Meter(OF_NO_USE[kind])
    with EmbeddedProvider(meter) as provider:
        client = client_of(provider, policy=policy)
        result = outcome_of(lambda: client.call("Where?", max_tokens=50))
    assert result.outcome in {"failed", "exhausted", "partial", "over_budget"}
    assert 1 < len(meter.bodies) == result.attempts <= most <= 9
    assert meter.money <= 2.0


def test_a_loop_of_tools_ends_by_the_ceiling_of_its_turn() -> None:
    """Each time the model calls the tool with other arguments, so that no two calls are alike."""

    def again(body: Any) -> ScriptedReply:
        if "tools" not in body:
            return ScriptedReply("Nobody says where.")
        return calling(("look", json.dumps({"lake": str(len(body["messages"]))})))

    meter = Meter(again)
    with EmbeddedProvider(meter) as provider:
        client = client_of(provider)
        policy = TurnPolicy(auto_continues=5)
        result = client.turn("Where?", tools={"look": look}, policy=policy, max_tokens=50)
    assert (result.outcome, result.text) == ("limit_reached", "Nobody says where.")
    assert len(meter.bodies) == 7  # the first, five more with tools, and one for a summary


def look(lake: str) -> str:
    """Look which birds nest by a lake."""
    return f"nobody by {lake}"


# delegation


def test_thirty_children_at_once_stay_within_the_budget_of_their_parent() -> None:
    meter = Meter()
    parent = SharedBudget(Budget(attempts=100, money=5.0))
    children = [SharedBudget(Budget(attempts=9, money=4.0), within=parent) for _ in range(30)]

    async def ask(client: Client, child: SharedBudget) -> str:
        try:
            return (await client.acall("Where?", max_tokens=50, within=child)).outcome
        except rungwise.CallError as error:
            return error.result.outcome

    async def main(provider: EmbeddedProvider) -> list[str]:
        async with client_of(provider) as client:
            return await asyncio.gather(*(ask(client, child) for child in children))

    with EmbeddedProvider(meter) as provider:
        outcomes = asyncio.run(main(provider))
    assert set(outcomes) == {"done", "over_budget"}
    assert meter.money == pytest.approx(parent.cost)
    assert 0 < parent.cost <= 5.0


# context that grows, and state that is kept


def test_results_that_grow_the_prompt_are_paid_for_before_they_are_sent() -> None:
    def doubling(body: Any) -> ScriptedReply:
        return calling(("read", json.dumps({"pages": len(body["messages"])})))

    def read(pages: int) -> str:
        return "herons " * 200 * pages

    meter = Meter(doubling)
    session = SharedBudget(Budget(attempts=100, money=20.0))
    with EmbeddedProvider(meter) as provider:
        client = client_of(provider)
        with pytest.raises(rungwise.TurnError) as raised:
            client.turn("Where?", tools={"read": read}, max_tokens=50, within=session)
    assert raised.value.result.outcome == "over_budget"
    assert meter.input == sorted(meter.input)
    assert meter.input[-1] > 5 * meter.input[0]
    assert meter.money == pytest.approx(session.cost)
    assert session.cost <= 20.0


def test_a_history_that_its_owner_lets_grow_ends_at_the_budget_of_the_day() -> None:
    meter = Meter()
    team = SharedBudget(Budget(attempts=1_000, seconds=None, money=10.0), name="team", per="day")
    history: list[Any] = []
    outcomes: list[str] = []
    with EmbeddedProvider(meter) as provider, client_of(provider) as client:
        while not outcomes or outcomes[-1] == "done":
            history.append(user("And where do herons nest? " * 20))
            asked = list(history)
            result = outcome_of(lambda asked=asked: client.call(asked, max_tokens=20, within=team))
            outcomes.append(result.outcome)
        meter.bodies.clear()
        client.call("Where?", max_tokens=20)
    assert outcomes[-1] == "over_budget"
    assert len(outcomes) > 3
    assert team.cost <= 10.0
    assert len(meter.bodies[0]["messages"]) == 1, "a client keeps nothing of the calls before"


# pictures


def test_a_picture_is_reserved_as_a_picture_before_it_is_sent() -> None:
    data = base64.b64encode(bytes(120_000)).decode()
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    message = {"role": "user", "content": [{"type": "text", "text": "Which bird?"}, picture]}
    meter = Meter(usage={"prompt_tokens": 1_600, "completion_tokens": 10})
    with EmbeddedProvider(meter) as provider:
        client = client_of(provider)
        small = Policy(budget=Budget(money=1.5))
        refused = outcome_of(lambda: client.call([message], max_tokens=10, policy=small))
        assert (refused.outcome, meter.bodies) == ("over_budget", [])
        large = Policy(budget=Budget(money=2.5))
        result = client.call([message], max_tokens=10, policy=large)
    assert result.outcome == "done"
    assert len(meter.bodies) == 1
    assert result.cost == pytest.approx(1.7)


# options that are dropped


def test_a_cap_that_is_refused_is_sent_under_its_other_name_and_never_dropped() -> None:
    refusal = ScriptedReply(
        status=400,
        error={
            "message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            "param": "max_tokens",
            "code": "unsupported_parameter",
        },
    )
    meter = Meter(refusal, ScriptedReply("By the lake."))
    with EmbeddedProvider(meter) as provider:
        result = client_of(provider).call("Where?", max_tokens=50)
    caps = [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in meter.bodies]
    assert result.outcome == "done"
    assert [sum(filter(None, pair)) for pair in caps] == [50, 50]
    assert caps[0] != caps[1]


def test_an_option_that_nobody_knows_is_an_error_before_the_first_request() -> None:
    meter = Meter()
    with EmbeddedProvider(meter) as provider:
        client = client_of(provider)
        with pytest.raises((TypeError, ConfigurationError), match="max_token"):
            client.call("Where?", max_token=50)  # type: ignore[call-overload]
        with pytest.raises(ConfigurationError, match="mony"):
            Budget(mony=1.0)  # type: ignore[call-arg]
    assert meter.bodies == []


# costs that nobody sees


def test_an_attempt_without_usage_is_counted_and_marked() -> None:
    meter = Meter(CUT, ScriptedReply(" the reeds."), usage={})
    with EmbeddedProvider(meter) as provider:
        result = client_of(provider).call("Where?", max_tokens=50)
    assert len(meter.bodies) == result.attempts == 2
    assert result.usage.estimated
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0
    assert result.cost > 0


def test_money_is_not_limited_where_no_price_is_known() -> None:
    meter = Meter()
    with EmbeddedProvider(meter) as provider:
        client = Client(backend(provider.base_url))
        with pytest.raises(ConfigurationError, match="price"):
            client.call("Where?", max_tokens=50, policy=Policy(budget=Budget(money=1.0)))
    assert meter.bodies == []


# no limit at all


def test_a_call_has_a_ceiling_when_nobody_has_set_one() -> None:
    certificate = rungwise.verify(Policy(), chain=1, max_tokens=50)
    ceilings = {
        name: certificate.worst_of(name).value for name in ("attempts", "seconds", "output tokens")
    }
    assert all(ceilings.values()), ceilings
    meter = Meter(EMPTY)
    with EmbeddedProvider(meter) as provider:
        result = outcome_of(lambda: client_of(provider).call("Where?", max_tokens=50))
    assert result.attempts == len(meter.bodies) <= ceilings["attempts"]
    assert meter.output <= ceilings["output tokens"]


def test_the_page_names_a_test_of_each_cluster_that_is_here() -> None:
    named = re.findall(r"`(test_\w+)`", PAGE.read_text())
    here = {name for name in globals() if name.startswith("test_")}
    assert set(named) == here - {"test_the_page_names_a_test_of_each_cluster_that_is_here"}
