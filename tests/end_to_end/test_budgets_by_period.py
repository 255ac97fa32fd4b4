"""Budgets by day: a client takes the period from its wall clock; stores keep a ledger of each."""

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis

from rungwise import (
    Budget,
    Client,
    ConfigurationError,
    Limits,
    OverBudget,
    Policy,
    SharedBudget,
    TurnOverBudget,
    TurnPolicy,
)
from rungwise.adapters.durable.budgets import BesideBudgets, DatabaseBudgets
from rungwise.adapters.stores.memory import MemoryStore
from rungwise.adapters.stores.redis_store import RedisStore
from rungwise.adapters.stores.store import perform
from rungwise.fsm.call.budget.costs import Paid
from rungwise.testing import Clocks, ScriptedReply
from support.durable import killed_after, same

DAY = 86_400.0
ANSWER = ScriptedReply("In the reeds.", usage={"prompt_tokens": 10, "completion_tokens": 20})
ONCE = Policy(limits=Limits(retries=0, resends=0))
USED = r"of team \(day of 20..-..-..; the next begins on 20..-..-.., UTC\) are used"


class Process:
    """A client with a budget and a clock of its own."""

    def __init__(self, backend: Any, attempts: int, store: str | None = None) -> None:
        self.today = time.time()
        self.days = 0.0  # by which its clock is ahead
        self.budget = SharedBudget(Budget(attempts=attempts, seconds=None), name="team", per="day")
        clocks = Clocks(wall_clock=lambda: self.today + self.days * DAY)
        self.client = Client([backend], store=store, policy=ONCE, testing=clocks)

    def ask(self, days: float) -> None:
        self.days = days
        self.client.call("Where?", within=self.budget)

    def is_refused(self, days: float) -> None:
        with pytest.raises(OverBudget, match=USED):
            self.ask(days)


def test_calls_streams_and_turns_take_the_period_from_the_wall_clock(
    serve: Any, backend_of: Any
) -> None:
    process = Process(backend_of(serve(ANSWER)), attempts=3)
    process.ask(0)
    with process.client.stream("Where?", within=process.budget) as stream:
        list(stream)
    turns = TurnPolicy(budget=Budget(attempts=5))
    process.client.turn("Where?", within=process.budget, policy=turns)
    process.is_refused(0)
    with pytest.raises(TurnOverBudget, match=USED):
        process.client.turn("Where?", within=process.budget, policy=turns)
    process.ask(1)
    assert process.budget.attempts == 1
    process.is_refused(0)
    assert process.budget.attempts == 3


def test_other_ceilings_hold_at_once_and_what_is_spent_stays_spent(
    serve: Any, backend_of: Any
) -> None:
    process = Process(backend_of(serve(ANSWER)), attempts=1)
    process.ask(0)
    process.is_refused(0)

    def ceilings(attempts: int, **other: Any) -> SharedBudget:
        budget = Budget(attempts=attempts, seconds=None)
        return SharedBudget(budget, **{"name": "team", "per": "day", **other})

    process.budget.adopt(ceilings(2))
    process.ask(0)
    process.is_refused(0)
    process.ask(1)
    process.budget.adopt(ceilings(1))
    process.is_refused(1)
    for other in ({"name": "other"}, {"per": "week"}):
        with pytest.raises(ConfigurationError, match="of its own name and period"):
            process.budget.adopt(ceilings(9, **other))


def test_processes_share_each_day_by_a_store_and_a_clock_that_jumps_reopens_none(
    serve: Any, backend_of: Any, redis_url: str
) -> None:
    backend = backend_of(serve(ANSWER))
    one, other = Process(backend, 1, redis_url), Process(backend, 1, redis_url)
    one.ask(0)
    other.is_refused(0)
    other.ask(1)
    one.is_refused(1)
    one.is_refused(0)
    Process(backend, 1, redis_url).is_refused(0)
    # a day so long ago that its ledger would be forgotten
    other.is_refused(-9)
    with redis.Redis.from_url(redis_url) as server:
        kept = sorted([server.ttl(name) / DAY for name in server.keys("rungwise:budget:*")])
    # a week, and what is left of the day
    assert len(kept) == 3
    assert 6.9 < kept[0] < 7.1 <= kept[1] + 0.1 < 8.2 <= kept[2] + 0.2 < 9.3


@pytest.mark.parametrize("kind", ["redis", "sqlite"])
def test_no_day_in_a_store_spends_more_than_its_ceilings(
    kind: str, redis_url: str, tmp_path: Path
) -> None:
    draw = random.Random(kind)
    ceilings = Budget(attempts=4, output_tokens=300, seconds=None)
    today = time.time()
    processes: Any = []
    for _ in range(2):
        store: Any = RedisStore(redis_url, time.monotonic)
        if kind == "sqlite":
            rows = DatabaseBudgets(f"sqlite:///{tmp_path / 'calls.sqlite'}")
            store = BesideBudgets(MemoryStore(time.monotonic), rows)
        processes.append((store, SharedBudget(ceilings, name="team", per="day")))
    spent = Counter[int]()
    attempts = Counter[int]()
    in_flight: list[Any] = []
    for number in range(40):
        store, budget = draw.choice(processes)
        day = draw.choice((-1, 0, 0, 1, 2))
        ledgers = budget.at(today + day * DAY)._ledgers
        reserved = Paid(1, draw.randint(1, 150))
        is_held, _ = perform(store, store.hold(str(number), 60.0, reserved, ledgers))
        if is_held:
            in_flight.append((store, str(number), reserved, ledgers, day))
        if in_flight and draw.random() < 0.7:
            payer, attempt, held, of_day, begun = in_flight.pop(draw.randrange(len(in_flight)))
            paid = Paid(1, draw.randint(0, held.tokens))
            perform(payer, payer.paid(attempt, paid, of_day))
            attempts[begun] += 1
            spent[begun] += paid.tokens
        for each in (-1, 0, 1, 2):
            holding = [tokens.tokens for *_, tokens, _, at in in_flight if at == each]
            assert attempts[each] + len(holding) <= 4
            assert spent[each] + sum(holding) <= 300
    assert sum(attempts.values()) + len(in_flight) >= 10
    for store, attempt, _, of_day, _ in in_flight:
        perform(store, store.paid(attempt, Paid(), of_day))


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_durable_calls_share_each_day_by_their_database(
    serve: Any, opened: Any, backend_of: Any
) -> None:
    now = time.time()
    budget = SharedBudget(Budget(attempts=1, seconds=None), name="team", per="day")
    with opened(backend_of(serve(ANSWER)))(policy=ONCE, wall_clock=lambda: now) as durable:
        durable.call("one", "Where?", within=budget)
        with pytest.raises(OverBudget, match=USED):
            durable.call("two", "Where?", within=budget)
        now += DAY
        durable.call("three", "Where?", within=budget)


@pytest.mark.full
def test_a_durable_call_stays_with_the_day_in_which_it_began(
    serve: Any, opened: Any, database: str
) -> None:
    server = serve(ScriptedReply(hang=True), ANSWER)
    within = {"attempts": 2, "seconds": None}
    killed_after(1, server, database, "one", messages="Where?", within=within, per="day")
    budget = SharedBudget(Budget(**within), name="everything", per="day")
    tomorrow = time.time() + DAY
    with opened(same(server))(policy=Policy(), wall_clock=lambda: tomorrow) as durable:
        assert durable.call("one", "Where?", within=budget).attempts == 2
        for id in ("two", "three"):
            durable.call(id, "Where?", within=budget)
        with pytest.raises(OverBudget, match="of everything"):
            durable.call("four", "Where?", within=budget)
    assert len(server.requests) == 4
