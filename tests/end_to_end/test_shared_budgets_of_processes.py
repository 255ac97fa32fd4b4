"""A budget with a name, kept in Redis: many processes together never spend more, and none of it
twice.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

import rungwise
from rungwise import Budget, Client, Limits, OpenAIChat, OverBudget, Policy, Prices, SharedBudget
from rungwise.testing import ReceivedRequest, ScriptedReply
from support.modes import Caller
from support.processes import SPAWN, run_in_processes
from support.redis_server import RedisServer

ANSWER = ScriptedReply("In the reeds.", usage={"prompt_tokens": 10, "completion_tokens": 20})
ONCE = Policy(limits=Limits(retries=0, resends=0))
PRICES = Prices(1.0, 10.0)
COST = (10 * 1.0 + 20 * 10.0) / 1_000_000


def within_its_cap(request: ReceivedRequest) -> ScriptedReply:
    """Answer as a provider does that keeps to caps."""
    return ScriptedReply("In", usage={"prompt_tokens": 10, "completion_tokens": tokens_of(request)})


def tokens_of(request: ReceivedRequest) -> int:
    return min(
        20, request.body.get("max_completion_tokens") or request.body.get("max_tokens") or 20
    )


def spent(server: Any) -> dict[str, float]:
    """Count as the provider does."""
    tokens = sum(map(tokens_of, server.requests))
    attempts = len(server.requests)
    return {
        "attempts": attempts,
        "output_tokens": tokens,
        "money": (10 * attempts + 10 * tokens) / 1_000_000,
    }


def nightly(**ceilings: Any) -> SharedBudget:
    return SharedBudget(
        Budget(
            **{
                "attempts": 1000,
                "seconds": None,
                **ceilings,
            }
        ),
        name="nightly",
    )


@pytest.fixture
def server(serve: Any) -> Any:
    return serve(ANSWER)


@pytest.fixture
def client(server: Any, backend_of: Any, redis_url: str) -> Client:
    return Client([backend_of(server)], store=redis_url, policy=ONCE)


def test_a_second_client_goes_on_where_the_first_ended(
    mode: str,
    server: Any,
    backend_of: Any,
    redis_url: str,
) -> None:
    for done in (2, 1, 0):
        budget = nightly(attempts=3)
        with Caller(mode, [backend_of(server)], store=redis_url, policy=ONCE) as caller:
            for _ in range(min(done, 2)):
                caller.ask(within=budget)
            if done < 2:
                with pytest.raises(OverBudget, match="all 3 attempts of nightly are used"):
                    caller.ask(within=budget)
    assert len(server.requests) == 3


def test_a_call_waits_for_what_another_process_holds(
    serve: Any, backend_of: Any, redis_url: str
) -> None:
    def answer(request: ReceivedRequest) -> ScriptedReply:
        time.sleep(0.2)
        return ANSWER

    server = serve(answer)
    clients = [Client([backend_of(server)], store=redis_url, policy=ONCE) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        ask = lambda client: client.call("Where?", within=nightly(output_tokens=150), max_tokens=80)  # noqa: E731
        assert [result.text for result in pool.map(ask, clients)] == [ANSWER.text] * 2
    first, second = server.requests
    assert second.at - first.at >= 0.2


def test_seconds_count_from_the_first_of_them(server: Any, client: Client) -> None:
    client.call("Where?", within=nightly(seconds=0.4))
    time.sleep(0.5)
    with pytest.raises(OverBudget, match=r"after the 0.4 s of nightly"):
        client.call("Where?", within=nightly(seconds=0.4))
    assert len(server.requests) == 1


def test_every_level_is_held_or_none(client: Client) -> None:
    outer = nightly(attempts=1)
    inner = SharedBudget(Budget(attempts=5), within=outer, name="a session")
    client.call("Where?", within=inner)
    with pytest.raises(OverBudget, match="all 1 attempts of nightly"):
        client.call("Where?", within=inner)
    client.call("Where?", within=SharedBudget(Budget(attempts=2), name="a session"))
    with pytest.raises(OverBudget, match="all 2 attempts of a session"):
        client.call("Where?", within=SharedBudget(Budget(attempts=2), name="a session"))


def test_without_the_store_calls_are_refused_unless_the_budget_says_otherwise(
    mode: str,
    server: Any,
    backend_of: Any,
    redis_server: RedisServer,
    redis_url: str,
) -> None:
    strict = nightly(attempts=4)
    lax = SharedBudget(Budget(attempts=4), name="nightly", without_store="continue")
    with Caller(mode, [backend_of(server)], store=redis_url, policy=ONCE) as caller:
        caller.ask(within=strict)
        redis_server.kill()
        for _ in range(2):
            with pytest.raises(OverBudget, match="the store that keeps nightly cannot be reached"):
                caller.ask(within=strict)
        caller.ask(within=lax)
        assert caller.ask().text == ANSWER.text  # of which no budget is kept
        redis_server.start()
        time.sleep(1.0)
        caller.ask(within=strict)
    assert len(server.requests) == 4


def test_what_a_killed_process_held_is_counted_in_full(
    server: Any, backend_of: Any, redis_url: str
) -> None:
    policy = Policy(limits=Limits(retries=0), timeouts=rungwise.Timeouts(total=0.2))
    backend = backend_of(server)

    def ask() -> None:
        client = Client([backend], store=redis_url, policy=policy)
        client.call("Where?", within=nightly(attempts=3))

    ask()
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        (name,) = client.keys("rungwise:budget:*")
        assert "nightly" not in name
        assert 0 < client.ttl(name) <= 7 * 86_400
        kept = client.get(name)
        client.set(name, str(kept).replace('"holds":{}', '"holds":[["gone", 1, 50, 0]]'))
    ask()
    with pytest.raises(OverBudget, match="all 3 attempts of nightly"):
        ask()
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "foreign", ["nonsense", "[3]", '{"attempts": "x", "holds": [[1], 3, ["a", "b", "c", "d"]]}']
)
def test_a_value_that_is_none_of_ours_counts_as_nothing(
    foreign: str,
    server: Any,
    client: Client,
    redis_url: str,
) -> None:
    client.call("Where?", within=nightly(attempts=1))
    with redis.Redis.from_url(redis_url) as server_itself:
        (name,) = server_itself.keys("rungwise:budget:*")
        server_itself.set(name, foreign)
    client.call("Where?", within=nightly(attempts=1))
    assert len(server.requests) == 2


def call_until_it_ends(
    base_url: str,
    store: str,
    ceilings: dict[str, Any],
    made: Any,
) -> None:
    client = Client(
        [
            OpenAIChat(
                "model",
                base_url=base_url,
                api_key="key",
                prices=PRICES,
            )
        ],
        store=store,
        policy=ONCE,
    )
    budget = nightly(**ceilings)

    def ask(_: int) -> int:
        try:
            client.call("Where?", within=budget, max_tokens=25)
        except OverBudget as error:
            if "of nightly" not in str(error):
                raise
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        count = sum(pool.map(ask, range(20)))
    with made.get_lock():
        made.value += count


@pytest.mark.dear(4)
@pytest.mark.full
@pytest.mark.parametrize(
    "ceilings", [{"attempts": 60}, {"output_tokens": 1200}, {"money": 60 * COST}]
)
@pytest.mark.parametrize("many", [3, pytest.param(8, marks=pytest.mark.full)])
def test_many_processes_spend_it_together_and_no_more(
    many: int,
    ceilings: Any,
    serve: Any,
    redis_server: Any,
    redis_url: str,
) -> None:
    server = serve(within_its_cap)
    made = SPAWN.Value("i", 0)
    run_in_processes(many, call_until_it_ends, server.base_url, redis_url, ceilings, made)
    name, most = next(iter(ceilings.items()))
    assert 0.9 * most <= spent(server)[name] <= most
    assert made.value == len(server.requests)


@pytest.mark.parametrize("without_store", ["refused", None, True])
def test_what_to_do_without_it_is_one_of_two(without_store: Any) -> None:
    with pytest.raises(
        rungwise.ConfigurationError, match="without_store must be 'refuse' or 'continue'"
    ):
        SharedBudget(Budget(), without_store=without_store)


def test_the_budget_of_a_turn_is_its_own(server: Any, backend_of: Any, redis_url: str) -> None:
    client = Client([backend_of(server)], store=redis_url)
    for _ in range(3):
        result = client.turn("Where?", policy=rungwise.TurnPolicy(budget=Budget(attempts=1)))
        assert result.text == ANSWER.text
    assert len(server.requests) == 3
    with redis.Redis.from_url(redis_url) as kept:
        assert kept.keys("rungwise:budget:*") == []
