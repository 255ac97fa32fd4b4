"""A backend with a quota receives no more than that: calls wait in turn, or go elsewhere where that
takes long.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rungwise
from rungwise import (
    Budget,
    Cancellation,
    Cancelled,
    Client,
    Failed,
    Limits,
    OpenAIChat,
    Policy,
    Quota,
    Waits,
    replay,
    verify,
)
from rungwise.testing import Clocks, ReceivedRequest, ScriptedReply
from support.clocked import clocked
from support.modes import Caller
from support.processes import SPAWN, run_in_processes
from support.remembering import Clock, steps

ANSWER, OTHER = ScriptedReply("In the reeds."), ScriptedReply("On the island.")
DOWN = ScriptedReply(status=503)
IMPATIENT = Policy(waits=Waits(longest_asked=10.0))
MINUTE = Quota(requests_per_minute=2)


def refuses_the_first_key(request: ReceivedRequest) -> ScriptedReply:
    return ScriptedReply(status=401) if "one" in request.headers["authorization"] else ANSWER


def options(clock: Clock, **more: Any) -> dict[str, Any]:
    return clocked({**clock.options, "wall_clock": lambda: 0.0, **more})


def test_what_does_not_fit_into_the_minute_waits_for_it(
    mode: str, serve: Any, backend_of: Any
) -> None:
    clock = Clock()
    server = serve(ANSWER)
    with Caller(mode, [backend_of(server, quota=MINUTE)], **options(clock)) as caller:
        waits = []
        for _ in range(4):
            began = clock.now
            result = caller.ask()
            waits.append(round(clock.now - began, 3))
    assert waits == [0.0, 0.0, 30.0, 30.0]
    assert len(server.requests) == 4
    assert result.journal.steps[0].note == "waited 30 s for the quota"
    assert (replay(result.journal).outcome, result.journal.steps[0].at) == ("done", 30.0)


def test_what_would_wait_for_too_long_goes_to_the_next_backend(
    mode: str, serve: Any, backend_of: Any
) -> None:
    clock = Clock()
    server = serve(ANSWER)
    second = serve(OTHER)
    chain = [backend_of(server, name="first", quota=MINUTE), backend_of(second, name="second")]
    with Caller(mode, chain, policy=IMPATIENT, **options(clock)) as caller:
        results = [caller.ask() for _ in range(3)]
    assert [result.text for result in results] == [ANSWER.text, ANSWER.text, OTHER.text]
    assert steps(results[2]) == ["found_open first", "sent second", "answered second"]
    assert (
        results[2].journal.steps[0].note
        == "its quota is used up; 30 s are more than the call can wait"
    )
    assert replay(results[2].journal).outcome == "done"
    assert len(server.requests) == 2


def test_so_does_a_retry(mode: str, serve: Any, backend_of: Any) -> None:
    clock = Clock()
    server = serve(DOWN)
    second = serve(OTHER)
    quota = Quota(requests_per_minute=1)
    chain = [backend_of(server, name="first", quota=quota), backend_of(second, name="second")]
    with Caller(mode, chain, policy=IMPATIENT, **options(clock)) as caller:
        result = caller.ask()
    assert steps(result)[2:] == ["found_open first", "sent second", "answered second"]
    assert replay(result.journal).outcome == "done"


@pytest.mark.parametrize("behind", [False, True])
def test_where_nobody_follows_the_call_ends_and_says_why(
    mode: str,
    behind: bool,
    serve: Any,
    backend_of: Any,
) -> None:
    server = serve(ANSWER)
    first = serve(ScriptedReply(status=404))
    chain = [backend_of(server, name="last", quota=Quota(requests_per_minute=1))]
    chain = [backend_of(first, name="first"), *chain] if behind else chain
    with Caller(mode, chain, policy=IMPATIENT, **options(Clock())) as caller:
        caller.ask()
        with pytest.raises(
            rungwise.OverBudget if behind else Failed, match="its quota is used up"
        ) as ended:
            caller.ask()
    assert len(server.requests) == 1
    assert replay(ended.value.result.journal).outcome == ended.value.result.outcome


def test_a_wait_that_the_budget_has_no_time_for_is_not_begun(
    mode: str, serve: Any, backend_of: Any
) -> None:
    clock = Clock()
    server = serve(ANSWER)
    policy = Policy(budget=Budget(seconds=20.0))
    with Caller(
        mode, [backend_of(server, quota=MINUTE)], policy=policy, **options(clock)
    ) as caller:
        caller.ask()
        caller.ask()
        began = clock.now
        with pytest.raises(Failed):
            caller.ask()
        assert clock.now == began


def test_tokens_count_as_the_cap_allows_and_as_they_were_used(
    mode: str, serve: Any, backend_of: Any
) -> None:
    clock = Clock()
    server = serve(
        ScriptedReply("In the reeds.", usage={"prompt_tokens": 50, "completion_tokens": 50})
    )
    with Caller(
        mode, [backend_of(server, quota=Quota(tokens_per_minute=1000))], **options(clock)
    ) as caller:
        for _ in range(9):
            caller.ask(max_tokens=100, headers={})
        assert clock.now == pytest.approx(1000.0, abs=0.1)
        caller.ask(max_tokens=900)
    assert clock.now == pytest.approx(1000.0 + 60 * 0.8, abs=3.0)


def test_the_provider_s_own_count_is_believed(mode: str, serve: Any, backend_of: Any) -> None:
    clock = Clock()
    server = serve(ScriptedReply("In the reeds.", headers={"x-ratelimit-remaining-requests": "0"}))
    with Caller(
        mode, [backend_of(server, quota=Quota(requests_per_minute=6))], **options(clock)
    ) as caller:
        caller.ask()
        began = clock.now
        caller.ask()
    assert clock.now - began == pytest.approx(10.0)


def test_each_key_has_a_quota_of_its_own_and_health_may_be_off(
    mode: str, serve: Any, backend_of: Any
) -> None:
    clock = Clock()
    server = serve(refuses_the_first_key)
    chain = [backend_of(server, api_key=["one", "two"], quota=Quota(requests_per_minute=1))]
    with Caller(mode, chain, **options(clock, health=None)) as caller:
        caller.ask()
    assert (clock.now, len(server.requests)) == (1000.0, 2)


def test_the_next_key_is_used_where_the_first_one_has_no_room(
    mode: str, serve: Any, backend_of: Any
) -> None:
    clock = Clock()
    server = serve(ANSWER)
    chain = [backend_of(server, api_key=["one", "two"], quota=Quota(requests_per_minute=1))]
    with Caller(mode, chain, **options(clock)) as caller:
        results = [caller.ask() for _ in range(3)]
    assert [request.headers["authorization"][-3:] for request in server.requests] == [
        "one",
        "two",
        "one",
    ]
    assert (clock.now, results[1].journal.steps[0].note) == (1060.0, "with key number 2")
    assert all(replay(result.journal).outcome == "done" for result in results)


def test_a_call_that_waits_for_a_later_key_replays(mode: str, serve: Any, backend_of: Any) -> None:
    clock = Clock()
    server = serve(refuses_the_first_key)
    chain = [backend_of(server, api_key=["one", "two"], quota=Quota(requests_per_minute=1))]
    with Caller(mode, chain, **options(clock)) as caller:
        caller.ask()
        result = caller.ask()
    assert result.journal.steps[0].note == "with key number 2; waited 60 s for the quota"
    assert replay(result.journal).outcome == "done"


@pytest.mark.parametrize("stored", [False, True])
def test_who_stops_waiting_has_used_nothing(
    stored: bool,
    serve: Any,
    backend_of: Any,
    redis_url: str,
) -> None:
    cancellation = Cancellation()
    waits = list[float]()

    def give_up(seconds: float) -> None:
        waits.append(seconds)
        cancellation.cancel()

    server = serve(ANSWER)
    quota = Quota(requests_per_minute=1, tokens_per_minute=100_000)
    client = Client(
        [backend_of(server, quota=quota)],
        testing=Clocks(sleep=give_up),
        store=redis_url if stored else None,
    )
    client.call("Where?")
    for _ in range(6):
        cancellation = Cancellation()
        with pytest.raises(Cancelled):
            client.call("Where?", cancellation=cancellation)
    assert (len(server.requests), len(waits)) == (1, 6)
    assert max(waits) <= 60.0  # where each used something, the next one would wait longer


def test_an_attempt_that_the_caller_ends_leaves_its_place(serve: Any, backend_of: Any) -> None:
    began = threading.Event()
    cancellation = Cancellation()

    def answer(request: ReceivedRequest) -> ScriptedReply:
        if not began.is_set():
            began.set()
            return ScriptedReply("Late.", delay=30.0)
        return ANSWER

    server = serve(answer)
    client = Client([backend_of(server, quota=Quota(concurrent=1))])
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(client.call, "Where?", cancellation=cancellation)
        assert began.wait(10)
        second = pool.submit(client.call, "Where?")
        cancellation.cancel()
        with pytest.raises(Cancelled):
            first.result(10)
        assert second.result(10).text == ANSWER.text


class Doors:
    """Answer with 429 what comes while so many requests are being answered, and count."""

    def __init__(self, most: int, seconds: float = 0.05) -> None:
        self.most = most
        self.seconds = seconds
        self.inside = 0
        self.refused = 0
        self.lock = threading.Lock()

    def answer(self, request: ReceivedRequest) -> ScriptedReply:
        with self.lock:
            if self.inside >= self.most:
                self.refused += 1
                return ScriptedReply(status=429, headers={"retry-after": "1"})
            self.inside += 1
        time.sleep(self.seconds)  # the server's own
        with self.lock:
            self.inside -= 1
        return ANSWER


def test_forty_calls_at_once_never_meet_a_limit_that_the_quota_knows(
    serve: Any, backend_of: Any
) -> None:
    doors = Doors(5)
    server = serve(doors.answer)
    client = Client([backend_of(server, quota=Quota(concurrent=4))])
    with ThreadPoolExecutor(40) as pool:
        results = list(pool.map(lambda _: client.call("Where?"), range(40)))
    assert {result.text for result in results} == {ANSWER.text}
    assert (doors.refused, len(server.requests)) == (0, 40)


def call_often(base_url: str, store: str, count: int) -> None:
    backend = OpenAIChat(
        "model",
        base_url=base_url,
        api_key="key",
        quota=Quota(concurrent=4),
    )
    client = Client([backend], store=store, policy=Policy(limits=Limits(retries=0)))
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: client.call("Where?").text, range(count))) == {ANSWER.text}


@pytest.mark.parametrize(("many", "count"), [(3, 32), pytest.param(8, 250, marks=pytest.mark.full)])
def test_many_processes_never_exceed_it_together(
    many: int,
    count: int,
    serve: Any,
    redis_server: Any,
    redis_url: str,
) -> None:
    doors = Doors(5, 0.02)
    server = serve(doors.answer)
    run_in_processes(many, call_often, server.base_url, redis_url, count)
    assert (doors.refused, len(server.requests)) == (0, many * count)


def call_at_once(base_url: str, store: str, ready: Any) -> None:
    client = Client([OpenAIChat("model", base_url=base_url, api_key="key")], store=store)
    ready.wait(60)
    with ThreadPoolExecutor(5) as pool:
        assert set(pool.map(lambda _: client.call("Where?").text, range(5))) == {ANSWER.text}


@pytest.mark.full
def test_forty_calls_of_eight_processes_to_a_server_that_admits_twenty_all_succeed(
    serve: Any, redis_server: Any, redis_url: str
) -> None:
    doors = Doors(20, 0.3)
    server = serve(doors.answer)
    run_in_processes(8, call_at_once, server.base_url, redis_url, SPAWN.Barrier(8))
    assert len(server.requests) == 40 + doors.refused <= 70


def test_the_certificate_counts_the_wait_for_it(serve: Any, backend_of: Any) -> None:
    server = serve(ANSWER)
    policy = Policy(budget=Budget(attempts=5, seconds=None))
    waits = []
    for quota in (None, MINUTE):
        proved = verify(policy, [backend_of(server, quota=quota)])
        waits.append(next(case for case in proved.worst if case.name == "waiting seconds").value)
    assert waits[1] == waits[0] + 5 * policy.waits.longest_asked


@pytest.mark.parametrize("quota", [3, {"concurrent": 2}, Quota])
def test_anything_but_a_quota_is_refused(quota: Any) -> None:
    with pytest.raises(rungwise.ConfigurationError, match="quota must be of type Quota, or None"):
        OpenAIChat("model", quota=quota)
