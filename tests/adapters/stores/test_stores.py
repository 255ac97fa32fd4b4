"""What both stores do, and what the one in Redis does while its server is away, or holds what is
none of ours.

What passes here is real time: the clock that counts is the server's, which nobody can set.
"""

import logging
import multiprocessing
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import redis
from attrs import evolve

from rungwise import ConfigurationError, Health, OpenAIChat, Quota
from rungwise.adapters.stores.memory import MemoryStore
from rungwise.adapters.stores.redis_overview import RedisOverview
from rungwise.adapters.stores.redis_store import AWAY, RedisStore
from rungwise.adapters.stores.redis_values import opened_in
from rungwise.adapters.stores.store import perform
from rungwise.core import Backend, BackendHealth, PlainLink
from rungwise.fsm.health.health import NO_SYMPTOM, HealthChoice, Symptom
from rungwise.fsm.health.quota import POLL, Claim, Settlement
from support.redis_server import RedisServer
from support.waiting import patience, until

pytestmark = pytest.mark.usefixtures("redis_server")

RULES = Health(jitter=0.0, first=0.6, longest=5.0)
ANSWERED = Symptom("answered")
FAILED = Symptom("failed", why="503")
LIMITED = Symptom("limited", 60.0, "429")
LEASE = 100.0


class Plain(PlainLink, Backend):
    """A backend that says no more of itself than its name."""


FIRST = Plain("first")
SECOND = Plain("second")


class Process:
    """Do what the calls of one process do with a store."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.keys = [store.key_of(FIRST), store.key_of(SECOND)]

    def choose(self) -> HealthChoice:
        choice: HealthChoice = perform(self.store, self.store.choose(self.keys, RULES, LEASE))[0]
        return choice

    def note(
        self,
        symptom: Symptom,
        *,
        was_probe: bool = False,
        place: int = 0,
    ) -> None:
        now = self.store.now()
        work = self.store.note(self.keys[place], symptom, RULES, sent_at=now, was_probe=was_probe)
        perform(self.store, work)

    @property
    def first(self) -> BackendHealth:
        known: list[BackendHealth] = perform(self.store, self.store.read(self.keys))
        return known[0]


def process_at(url: str) -> Process:
    return Process(RedisStore(url, time.monotonic))


def two_of(url: str) -> tuple[Process, Process]:
    return process_at(url), process_at(url)


def all_at_once(works: list[Callable[[], object]]) -> None:
    """Do pieces of work, each in a thread of its own, none of which begins before the others."""
    begin = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        begin.wait()
        work()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def wait_until_due(*processes: Process) -> None:
    """Wait until the first backend may be tried again, by what each process knows of the server's
    clock. Each answer of the server moves its estimate a little, which the margin covers.
    """
    for each in processes:
        until(lambda: each.first.until + 0.01 <= each.store.now())  # noqa: B023  (called at once)


@pytest.fixture(params=["memory", "redis"])
def process(request: pytest.FixtureRequest) -> Process:
    if request.param == "memory":
        return Process(MemoryStore(time.monotonic))
    return process_at(request.getfixturevalue("redis_url"))


def test_a_backend_is_passed_over_from_its_second_failure_on_and_tried_once(
    process: Process,
) -> None:
    assert process.choose() == HealthChoice(0)
    process.note(FAILED)
    assert process.choose().place == 0
    process.note(FAILED)
    assert process.first.state == "open"
    assert process.first.why == "503, 2 in a row"
    assert process.choose().place == 1
    time.sleep(RULES.first)
    tried = process.choose()
    assert tried.place == 0
    assert tried.is_probe is True
    assert process.choose().place == 1
    process.note(ANSWERED, was_probe=True)
    assert process.first.state == "closed"
    assert process.choose().place == 0


def test_a_probe_that_showed_nothing_leaves_the_next_one_to(process: Process) -> None:
    process.note(evolve(LIMITED, asked_wait=0.01))
    wait_until_due(process)
    assert process.choose().is_probe
    process.note(NO_SYMPTOM, was_probe=True)
    assert process.choose().is_probe


def test_backends_are_apart_and_the_first_to_come_due_is_asked_when_all_are_open(
    process: Process,
) -> None:
    process.note(evolve(LIMITED, asked_wait=70.0))
    process.note(LIMITED, place=1)
    choice = process.choose()
    assert choice.place == 1
    assert choice.is_probe is False


def test_threads_send_one_probe(process: Process) -> None:
    process.note(evolve(LIMITED, asked_wait=0.01))
    wait_until_due(process)
    choices: list[HealthChoice] = []
    all_at_once([lambda: choices.append(process.choose())] * 20)
    assert sum(choice.is_probe for choice in choices) == 1
    assert [choice.place for choice in choices].count(0) == 1


# many processes


def _arrive(redis_url: str, results: Any) -> None:
    process = process_at(redis_url)
    for _ in range(20):
        results.put(process.choose().is_probe)


@pytest.mark.full
def test_of_many_processes_one_sends_the_probe(redis_url: str) -> None:
    process = process_at(redis_url)
    process.note(evolve(LIMITED, asked_wait=0.01))
    wait_until_due(process)
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    others = [context.Process(target=_arrive, args=(redis_url, results)) for _ in range(4)]
    for each in others:
        each.start()
    probes = sum(results.get() for _ in range(80))
    for each in others:
        each.join()
    assert probes == 1


def test_what_one_process_met_the_other_one_knows(redis_url: str) -> None:
    one = process_at(redis_url)
    other = Process(RedisStore(redis_url, lambda: time.monotonic() - 10_000))
    one.note(FAILED)
    other.choose()
    other.note(FAILED)
    assert one.choose().place == other.choose().place == 1
    assert one.first.until == pytest.approx(other.first.until)


def test_failures_of_many_processes_at_once_are_all_counted(redis_url: str) -> None:
    processes = [process_at(redis_url) for _ in range(8)]
    rules = Health(failures=8)

    def fail(process: Process) -> None:
        store = process.store
        key = process.keys[0]
        work = store.note(key, FAILED, rules, sent_at=store.now(), was_probe=False)
        perform(store, work)

    all_at_once([partial(fail, process) for process in processes])
    assert processes[0].first.state == "open"


def test_a_probe_that_nobody_reports_is_lost_in_the_end(redis_url: str) -> None:
    one, other = two_of(redis_url)
    one.note(evolve(LIMITED, asked_wait=0.01))
    wait_until_due(one, other)
    choice, _ = perform(one.store, one.store.choose(one.keys, RULES, 1.0))
    assert choice.is_probe
    assert not other.choose().is_probe
    time.sleep(1.1)
    assert other.choose().is_probe


# the server


def test_each_process_goes_on_with_what_it_knows_while_the_server_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with RedisServer() as server:
        one, other = two_of(server.url)
        one.note(LIMITED)
        assert other.choose().place == 1
        server.kill()
        with caplog.at_level(logging.WARNING, "rungwise"):
            assert one.choose().place == 1
            assert other.choose().place == 0
            other.note(FAILED)
            other.note(FAILED)
            assert other.choose().place == 1
        assert caplog.text.count("the store is away") == 2
        assert "127.0.0.1" not in caplog.text
        server.start()
        time.sleep(AWAY)
        assert one.choose().place == other.choose().place == 1
        assert other.first.why == "429"


def test_a_probe_that_was_sent_while_the_server_was_away_frees_no_probe_of_another_process() -> (
    None
):
    with RedisServer() as server:
        one, other = two_of(server.url)
        one.note(evolve(LIMITED, asked_wait=0.01))
        wait_until_due(one, other)
        assert other.choose().is_probe
        server.kill()
        assert one.choose().is_probe
        server.start()
        time.sleep(AWAY)
        assert one.first.spent[1] == 1
        one.note(NO_SYMPTOM, was_probe=True)
        assert one.first.spent[1] == 1, "the other one's probe is still out"
        other.note(ANSWERED, was_probe=True)
        assert one.first.state == "closed"


def test_a_server_that_dies_while_somebody_looks_is_away(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RedisOverview(redis_url, time.monotonic)
    Process(store).note(LIMITED)
    execute = store.execute
    gone = redis.ConnectionError()

    def dying(command: Any) -> Any:
        return execute(command) if command[0] == "scan" else gone

    monkeypatch.setattr(store, "execute", dying)
    assert perform(store, store.listed()) == []
    assert store.is_away


def test_most_calls_cost_one_round_trip(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RedisStore(redis_url, time.monotonic)
    process = Process(store)
    commands = []
    execute = store.execute

    def counted(command: Any) -> Any:
        commands.append(command[0])
        return execute(command)

    monkeypatch.setattr(store, "execute", counted)
    process.choose()
    process.note(ANSWERED)
    assert commands == ["read"]  # and nothing after the attempt
    process.note(FAILED)
    assert commands == ["read", "swap"]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "{",
        "[]",
        "null",
        "9" * 5_000,
        '{"state": "open"}',
        '{"state": "ajar", "spent": [0, 0]}',
        '{"state": "open", "spent": [0]}',
        '{"state": "open", "spent": [-1, 0]}',
        '{"state": "open", "spent": [0, 0], "until": 1e400}',
        '{"state": "open", "spent": [0, 0], "why": 3}',
        None,
    ],
)
def test_a_value_that_is_none_of_ours_is_nothing_and_replaced(
    redis_url: str, value: str | None
) -> None:
    process = process_at(redis_url)
    name = f"rungwise:health:{process.keys[0].digest}"
    with redis.Redis.from_url(redis_url) as client:
        if value is None:
            client.rpush(name, "of another type")
            process.note(LIMITED, place=1)
        else:
            client.set(name, value)
    assert process.choose() == HealthChoice(0)
    process.note(LIMITED)
    assert process.first.state == "open"


def test_every_key_expires_and_none_reveals_a_key(redis_url: str) -> None:
    secret = "sk-1f3870be274f6c49b3e31a0c6728957f"
    backend = OpenAIChat("gpt-5", api_key=secret)
    store = RedisStore(redis_url, time.monotonic)
    key = store.key_of(backend)
    perform(store, store.note(key, LIMITED, RULES, sent_at=store.now(), was_probe=False))
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        [key] = client.keys("*")
        assert key.startswith("rungwise:health:")
        assert 3_600_000 < client.pttl(key) < 3_700_000
        assert secret not in key + client.get(key)
    same = OpenAIChat("gpt-5", api_key=secret)
    other = OpenAIChat("gpt-5", api_key=f"{secret}0")
    assert store.key_of(same) == store.key_of(backend) != store.key_of(other)


def test_whoever_looks_sees_what_is_remembered(redis_url: str) -> None:
    process = process_at(redis_url)
    process.note(LIMITED)
    [(key, health)] = perform(process.store, RedisOverview(redis_url, time.monotonic).listed())
    assert key.name == "first"
    assert key.digest == process.keys[0].digest
    assert health.why == "429"


SHUT = '{"state": "open", "spent": [0, 0], "until": 30.0, "why": "429"}'


@pytest.mark.parametrize(
    ("text", "by_hand", "now", "until", "why"),
    [
        ("", '{"until": 20.0}', 10.0, 20.0, "by hand"),
        ("", '{"until": 20.0}', 20.0, 0.0, ""),
        (SHUT, '{"until": 40.0}', 10.0, 40.0, "by hand"),
        (SHUT, '{"until": 20.0}', 10.0, 30.0, "429"),
        (SHUT, '{"until": "x"}', 10.0, 30.0, "429"),
        (SHUT, "[3]", 10.0, 30.0, "429"),
    ],
)
def test_what_is_open_by_hand_ends_by_itself_and_no_wait_earlier(
    text: str, by_hand: str, now: float, until: float, why: str
) -> None:
    health = opened_in(text, by_hand, now)
    assert (health.until, health.why) == (until, why)


@pytest.mark.parametrize("url", ["", "localhost", "http://localhost", "redis://localhost:port"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="such as redis://localhost:6379/0"):
        RedisStore(url, time.monotonic)


# quotas


class Metered(Process):
    """Do what the calls of one process do with a quota."""

    def take(
        self,
        name: str,
        quota: Quota,
        tokens: int = 0,
        longest: float = 1000.0,
    ) -> tuple[float, bool]:
        claim = Claim(name, tokens, longest, LEASE)
        taken: tuple[float, bool] = perform(self.store, self.store.take(self.keys[0], quota, claim))
        return taken

    def pay(self, name: str, quota: Quota, **paid: Any) -> None:
        perform(self.store, self.store.pay(self.keys[0], quota, Settlement(name, **paid)))


@pytest.fixture
def metered(process: Process) -> Metered:
    return Metered(process.store)


def near(wait: float) -> Any:
    """Compare with a wait that is a little shorter by now."""
    return pytest.approx(wait, abs=0.5)


def test_a_minute_s_requests_go_at_once_and_the_others_in_turn(metered: Metered) -> None:
    quota = Quota(requests_per_minute=3)
    taken = [metered.take(name, quota) for name in "aaabcde"]
    assert [is_given for _, is_given in taken] == [True] * 7
    assert [wait for wait, _ in taken] == [0, 0, 0, 0, 0, near(20), near(40)]
    assert metered.take("f", quota, longest=50.0) == (near(60), False)
    metered.pay("a", quota, asked_wait=100.0)
    assert metered.take("f", quota) == (near(100), True)


def test_tokens_are_counted_by_the_cap_and_given_back(metered: Metered) -> None:
    quota = Quota(tokens_per_minute=600)
    assert metered.take("a", quota, 600) == (0.0, True)
    assert metered.take("b", quota, 100, longest=1.0) == (near(10), False)
    for _ in range(2):
        metered.pay("a", quota, unused=500)
    assert metered.take("b", quota, 500) == (near(0), True)
    metered.pay("b", quota, tokens_left=0, requests_left=0)
    assert metered.take("c", quota, 300) == (near(30), True)


def test_what_never_went_out_gives_back_its_request_too(metered: Metered) -> None:
    quota = Quota(requests_per_minute=1, tokens_per_minute=600)
    assert metered.take("a", quota, 600) == (0.0, True)
    for _ in range(2):
        metered.pay("a", quota, unused=600, was_sent=False)
    assert metered.take("b", quota, 600) == (near(0), True)
    assert metered.take("c", quota) == (near(60), True)


def test_so_many_are_out_at_once_and_the_others_wait_in_turn(metered: Metered) -> None:
    quota = Quota(concurrent=2)
    given = (0.0, True)
    waits = (POLL, False)
    taken = [metered.take(name, quota) for name in "aabcd"]
    assert taken == [given, given, given, waits, waits]
    metered.pay("a", quota)
    assert [metered.take(name, quota) for name in "dcd"] == [waits, given, waits]
    metered.pay("d", quota)  # which gives up
    metered.pay("b", quota)
    assert metered.take("e", quota) == (0.0, True)


@pytest.mark.parametrize(
    "foreign",
    [
        "",
        "nonsense",
        "[]",
        '{"leases": 3, "queue": [[1]], "requests": "x"}',
        '{"leases": [["a", "b"]]}',
        "1" * 9999,
    ],
)
def test_a_meter_that_is_none_of_ours_counts_as_nothing(redis_url: str, foreign: str) -> None:
    metered = Metered(RedisStore(redis_url, time.monotonic))
    server = redis.Redis.from_url(redis_url)
    name = f"rungwise:quota:{metered.keys[0].digest}"
    server.set(name, foreign)
    assert metered.take("a", Quota(concurrent=1)) == (0.0, True)
    assert 0 < server.ttl(name) <= 3600
    server.delete(name)
    server.rpush(name, "of another type")
    assert metered.take("a", Quota(concurrent=1)) == (0.0, True)


def test_while_the_server_is_away_each_process_has_its_share(
    redis_server: RedisServer, redis_url: str
) -> None:
    processes = [Metered(RedisStore(redis_url, time.monotonic)) for _ in range(2)]
    quota = Quota(requests_per_minute=4, concurrent=4)
    for name, process in zip("abc", (*processes, processes[0]), strict=True):
        process.take(name, quota)
    redis_server.kill()
    first, second = processes
    taken = [first.take(name, quota) for name in "def"]
    assert [wait for wait, _ in taken] == [0, 0, POLL]
    assert second.take("g", quota) == (0.0, True)
    redis_server.start()
    time.sleep(AWAY)
    # a, b and c are still out
    taken = [first.take(name, quota) for name in "hi"]
    assert [is_given for _, is_given in taken] == [True, False]


def test_what_the_collector_ends_meanwhile_is_noted_too() -> None:
    """The end of a call may come in the middle of another one's note, in the same thread."""
    ended: list[str] = []

    def note() -> None:
        ended.append("a call")
        perform(store, store.note("key", FAILED, Health(failures=5), sent_at=1.0, was_probe=False))

    def now() -> float:
        if len(ended) == 1:
            note()
        return 1.0

    store = MemoryStore(now)
    thread = threading.Thread(target=note, daemon=True)
    thread.start()
    thread.join(patience())
    assert not thread.is_alive()
    [known] = perform(store, store.read(["key"]))
    assert known.spent == (2, 0)
