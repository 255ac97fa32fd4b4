"""What the attempts of a process hold in a store lives by its heartbeat, and ends soon after its
last one.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from attrs import evolve, frozen

from rungwise import Budget, Client, Health, OpenAIChat, Quota, SharedBudget
from rungwise.adapters.durable.budgets import BesideBudgets, DatabaseBudgets
from rungwise.adapters.stores import heart as heart_module
from rungwise.adapters.stores.heart import BEAT, LEASE, Heart
from rungwise.adapters.stores.memory import MemoryStore
from rungwise.adapters.stores.redis_store import RedisStore
from rungwise.adapters.stores.store import perform
from rungwise.core import Backend, BackendHealth, PlainLink
from rungwise.fsm.call.budget.costs import Paid
from rungwise.fsm.health.health import HealthChoice, Symptom
from rungwise.fsm.health.quota import Claim, Settlement
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply
from support.processes import SPAWN
from support.waiting import patience, until

ALONE = Quota(concurrent=1)
LONG = 600.0  # seconds that an attempt may last
LEDGERS = SharedBudget(Budget(attempts=1, seconds=None), name="all")._ledgers
HALF = Paid(1, 50, 0)


class Plain(PlainLink, Backend):
    """A backend that says no more of itself than its name."""


@frozen
class Holding:
    """Hold something in a store, as an attempt of one process does, and look at what is held."""

    store: Any
    place: str  # of the database, or of the server

    @property
    def heart(self) -> Heart:
        return self.store._heart  # type: ignore[no-any-return]


class Places(Holding):
    """Places of a quota in Redis."""

    def hold(self, attempt: str) -> bool:
        key = self.store.key_of(Plain("first"))
        claim = Claim(attempt, 0, longest=60.0, lease=LONG)
        return perform(self.store, self.store.take(key, ALONE, claim))[1]

    def pay(self, attempt: str) -> None:
        key = self.store.key_of(Plain("first"))
        perform(self.store, self.store.pay(key, ALONE, Settlement(attempt)))

    def change(self, ends: float | None = None) -> list[Any]:
        with redis.Redis.from_url(self.place, decode_responses=True) as server:
            [name] = server.keys("rungwise:*")
            value = json.loads(str(server.get(name)))
            held = list(value.get("leases") or value.get("holds") or [])
            if ends is not None:
                for each in held:
                    each[1] = ends
                server.set(name, json.dumps(value))
        return held


class Amounts(Places):
    """Amounts of a budget in Redis."""

    def hold(self, attempt: str) -> bool:
        answer = perform(self.store, self.store.hold(attempt, LONG, HALF, LEDGERS))
        return bool(answer and answer[0])

    def pay(self, attempt: str) -> None:
        perform(self.store, self.store.paid(attempt, Paid(), LEDGERS))


class Rows(Amounts):
    """Amounts of a budget in a database."""

    @property
    def heart(self) -> Heart:
        return self.store.budgets._heart  # type: ignore[no-any-return]

    def change(self, ends: float | None = None) -> list[Any]:
        with sqlite3.connect(self.place) as connection:
            [text] = connection.execute("SELECT value FROM rungwise_budgets").fetchone()
            value = json.loads(text)
            for each in value["holds"] if ends is not None else ():
                each[1] = ends
            connection.execute("UPDATE rungwise_budgets SET value = ?", [json.dumps(value)])
        connection.close()
        return list(value["holds"])


@pytest.fixture(params=["places", "amounts", "rows"])
def processes(request: pytest.FixtureRequest, tmp_path: Path) -> list[Any]:
    """Return what two processes hold with, of one kind."""
    if request.param == "rows":
        file = str(tmp_path / "calls.sqlite")
        budgets = [DatabaseBudgets(f"sqlite:///{file}") for _ in range(2)]
        return [Rows(BesideBudgets(MemoryStore(time.monotonic), each), file) for each in budgets]
    url = request.getfixturevalue("redis_url")
    kind = Places if request.param == "places" else Amounts
    return [kind(RedisStore(url, time.monotonic), url) for _ in range(2)]


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let no heart beat by itself, unless a test says otherwise."""
    if request.node.get_closest_marker("full") is None:
        monkeypatch.setattr(heart_module, "BEAT", 1e6)


def test_what_is_held_lives_for_less_than_15_s_and_two_beats_may_be_lost() -> None:
    assert 3 * BEAT <= LEASE < 15.0


def test_a_beat_renews_what_is_held(processes: list[Any]) -> None:
    one, other = processes
    assert one.hold("a")
    [before] = one.change()
    time.sleep(0.01)
    one.heart.beat()
    [after] = one.change()
    assert after[0] == "a"
    assert after[1] > before[1]
    assert after[2:] == before[2:]
    assert not other.hold("b")


def test_what_nobody_renews_is_over_when_its_lease_is(processes: list[Any]) -> None:
    one, other = processes
    assert one.hold("a")
    one.change(ends=1.0)
    if isinstance(other, Amounts):  # it has used up all that it held
        answer = perform(other.store, other.store.hold("b", LONG, HALF, LEDGERS))
        assert answer is not None
        assert (answer[0], answer[1][0][0]) == (False, HALF)
    else:
        assert other.hold("b")


def test_a_beat_brings_nothing_back(processes: list[Any]) -> None:
    one, other = processes
    assert one.hold("a")
    one.change(ends=1.0)
    one.heart.beat()
    assert [each[0] for each in one.change() if each[1] > 1.0] == []
    other.hold("b")
    one.pay("a")  # which counts no second time
    one.heart.beat()
    assert "a" not in [each[0] for each in one.change()]


def test_what_was_paid_is_renewed_no_more(processes: list[Any]) -> None:
    one, _ = processes
    assert one.hold("a")
    one.pay("a")
    one.heart.beat()
    assert one.change() == []
    assert one.hold("b")


def test_no_value_of_another_kind_is_touched(redis_url: str) -> None:
    store = RedisStore(redis_url, time.monotonic)
    with redis.Redis.from_url(redis_url, decode_responses=True) as server:
        for value in ("nonsense", "[3]", '{"leases": 3, "holds": [[1]]}'):
            server.set("a", value)
            store._renew(("a", "nothing"), ["an attempt"])
            assert server.get("a") == value
        assert server.get("nothing") is None


def test_a_probe_lives_by_the_heart_of_its_process(redis_url: str) -> None:
    rules = Health(jitter=0.0)
    stores = [RedisStore(redis_url, time.monotonic) for _ in range(2)]
    one, other = stores
    key = one.key_of(Plain("first"))
    limited = Symptom("limited", 0.01, "429")
    perform(one, one.note(key, limited, rules, sent_at=one.now(), was_probe=False))

    def chosen(store: RedisStore) -> tuple[HealthChoice, BackendHealth]:
        choice, [health] = perform(store, store.choose([key], rules, LONG))
        return choice, health

    def known() -> BackendHealth:
        [health] = perform(other, other.read([key]))
        return health

    until(lambda: chosen(one)[0].is_probe)
    before = known()
    assert before.tried_until <= other.now() + LEASE
    time.sleep(0.01)
    one._heart.beat()
    after = known()
    assert after.tried_until > before.tried_until
    assert evolve(after, tried_until=before.tried_until) == evolve(
        before, since=after.since, until=after.until
    )
    assert after.since == pytest.approx(before.since, abs=0.001)
    assert not chosen(other)[0].is_probe
    perform(one, one.note(key, Symptom("failed"), rules, sent_at=0.0, was_probe=False))
    one._heart.beat()  # what an earlier attempt shows does not end the probe
    assert known().tried_until > after.tried_until
    perform(one, one.note(key, Symptom("answered"), rules, sent_at=one.now(), was_probe=True))
    one._heart.beat()
    assert known().state == "closed"


# the heart itself


class Renewals:
    """Note what was renewed, on a clock of the test's own."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(heart_module, "monotonic", self.time)
        self.now = 0.0
        self.seen: list[tuple[tuple[str, ...], list[str]]] = []
        self.heart = Heart(lambda names, attempts: self.seen.append((names, [*attempts])))

    def time(self) -> float:
        return self.now


def test_one_command_renews_all_that_is_held_of_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    renewals = Renewals(monkeypatch)
    for attempt, names in (("a", ("x",)), ("b", ("x",)), ("c", ("x", "y"))):
        renewals.heart.hold(attempt, names, 60.0)
    renewals.heart.drop("a")
    renewals.heart.drop("never held")
    renewals.heart.beat()
    assert renewals.seen == [(("x",), ["b"]), (("x", "y"), ["c"])]


def test_an_attempt_that_nobody_ends_is_lost_when_none_lasts_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renewals = Renewals(monkeypatch)
    renewals.heart.hold("a", ("x",), 60.0)
    renewals.now = 59.0
    renewals.heart.beat()
    renewals.now = 60.0
    renewals.heart.beat()
    assert renewals.seen == [(("x",), ["a"])]


def test_a_forked_child_renews_nothing_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    renewals = Renewals(monkeypatch)
    renewals.heart.hold("a", ("x",), 60.0)
    renewals.heart.begin_anew()
    renewals.heart.beat()
    assert renewals.seen == []


def beating() -> int:
    return sum(thread.name == "rungwise heartbeat" for thread in threading.enumerate())


def test_one_thread_beats_while_something_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heart_module, "BEAT", 0.01)
    before = beating()
    renewals = Renewals(monkeypatch)
    for _ in range(2):
        renewals.seen.clear()
        renewals.heart.hold("a", ("x",), 60.0)
        renewals.heart.hold("b", ("x",), 60.0)
        assert beating() == before + 1
        until(lambda: len(renewals.seen) > 2)
        renewals.heart.drop("a")
        renewals.heart.drop("b")
        until(lambda: beating() == before)


def test_a_beat_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heart_module, "BEAT", 0.01)
    beats: list[Sequence[str]] = []
    others: list[Sequence[str]] = []

    def renew(names: heart_module.Names, attempts: Sequence[str]) -> None:
        if names == ("y",):
            others.append(attempts)
            return
        beats.append(attempts)
        if len(beats) < 3:
            raise OSError("the store is away")

    heart = Heart(renew)
    heart.hold("a", ("x",), 60.0)
    heart.hold("b", ("y",), 60.0)
    until(lambda: len(beats) > 3)
    heart.drop("a")
    heart.drop("b")
    assert len(others) >= 3  # what fails for one place is no matter of another


# processes that die


def ask_and_wait(base_url: str, store: str) -> None:
    client, budget = of_process(base_url, store)
    client.call("Hang!", within=budget, max_tokens=40)


def of_process(base_url: str, store: str) -> tuple[Client, SharedBudget]:
    backend = OpenAIChat("model", base_url=base_url, api_key="key", quota=ALONE)
    ceilings = Budget(attempts=9, seconds=None, output_tokens=100)
    return Client(backend, store=store), SharedBudget(ceilings, name="nightly")


@pytest.mark.full
def test_what_a_killed_process_held_is_settled_within_15_s(redis_url: str) -> None:
    hanging = threading.Event()

    def answer(request: ReceivedRequest) -> ScriptedReply:
        if "Hang!" in str(request.body):
            hanging.set()
            return ScriptedReply("Late.", delay=600.0)
        return ScriptedReply("In reeds.", usage={"prompt_tokens": 10, "completion_tokens": 5})

    with EmbeddedProvider(answer) as provider:
        child = SPAWN.Process(target=ask_and_wait, args=(provider.base_url, redis_url))
        child.start()
        assert hanging.wait(patience())
        time.sleep(LEASE + BEAT)  # it lives longer than a lease
        assert child.pid is not None
        client, budget = of_process(provider.base_url, redis_url)
        with client:
            threading.Timer(1.0, os.kill, (child.pid, signal.SIGKILL)).start()
            began = time.monotonic()
            result = client.call("Where?", within=budget, max_tokens=40)
            waited = time.monotonic() - began
        child.join()
    assert result.text == "In reeds."
    assert LEASE - BEAT <= waited <= 16.0 * patience(1.0)
    with redis.Redis.from_url(redis_url, decode_responses=True) as server:
        [name] = server.keys("rungwise:budget:*")
        kept = json.loads(str(server.get(name)))
    assert kept["attempts"] == 2
    assert kept["tokens"] >= 40 + 5  # the one that died is counted at its cap
