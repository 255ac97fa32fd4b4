"""A backend that is down is asked once in a while, by one call at a time, and again as soon as it
has recovered.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pytest

import rungwise
from rungwise import Budget, Cancellation, Client, Health, Journal, Policy, replay
from rungwise.core import BackendHealth, Call
from rungwise.fsm.analysis.replay.what_if import what_if
from rungwise.testing import ReceivedRequest, ScriptedReply
from support.clocked import clocked
from support.modes import Caller
from support.remembering import Clock, steps
from support.tables import of_known_rungs

pytestmark = pytest.mark.sampled(2)

DOWN, ANSWER = ScriptedReply(status=503), ScriptedReply(text="In the reeds.")
OTHER = ScriptedReply(text="On the island.")
BUSY = ScriptedReply(status=429, headers={"retry-after": "40"})


class Lake:
    """Two servers, of which the first is down as long as a test says so."""

    def __init__(self, serve: Any, backend_of: Any) -> None:
        self.reply: ScriptedReply | Callable[[ReceivedRequest], ScriptedReply] = DOWN
        self.primary, self.second = serve(self.answer), serve(OTHER)
        self.chain = [backend_of(self.primary), backend_of(self.second, name="second")]

    def answer(self, request: ReceivedRequest) -> ScriptedReply:
        return self.reply(request) if callable(self.reply) else self.reply

    @property
    def counts(self) -> list[int]:
        return [len(self.primary.requests), len(self.second.requests)]


@pytest.fixture
def lake(serve: Any, backend_of: Any) -> Lake:
    return Lake(serve, backend_of)


def test_an_outage_of_fifteen_calls_costs_the_primary_six_requests_and_it_is_used_again(
    mode: str, lake: Lake
) -> None:
    clock = Clock()
    with Caller(mode, lake.chain, **clock.options) as caller:
        for _ in range(15):
            assert caller.ask().text == OTHER.text
            clock.advance(4.0)
        assert lake.counts == [5, 15]
        lake.reply = ANSWER
        recovered = clock.now
        while caller.ask().text != ANSWER.text:
            clock.advance(1.0)
        assert clock.now - recovered <= 30.0
        assert caller.client.health()[lake.chain[0].name].state == "closed"


def test_a_call_that_finds_it_open_sends_nothing_there_and_one_that_tries_it_leaves_at_once(
    mode: str, lake: Lake
) -> None:
    clock = Clock()
    with Caller(
        mode, lake.chain, **clocked({"wall_clock": lambda: 0.0, **clock.options})
    ) as caller:
        caller.ask()
        result = caller.ask()
        clock.advance(5.0)
        tried = caller.ask()
    assert steps(result) == ["found_open primary", "sent second", "answered second"]
    assert result.journal.steps[0].note == "open until 1970-01-01T00:00:05.000Z: 503, 2 in a row"
    assert (
        "skipped primary: open until 1970-01-01T00:00:05.000Z: 503, 2 in a row"
        in result._repr_html_()
    )
    assert (result.attempts, result.backend) == (1, "second")
    assert steps(tried) == [
        "sent primary",
        "failed_transiently primary",
        "sent second",
        "answered second",
    ]
    assert tried.journal.steps[0].note == "asked to see whether it is back"
    assert lake.counts == [3, 3]


def test_a_rate_limit_counts_for_as_long_as_it_asked(mode: str, lake: Lake) -> None:
    clock = Clock()
    lake.reply = BUSY
    policy = Policy(waits=rungwise.Waits(longest_asked=10.0))
    with Caller(mode, lake.chain, policy=policy, **clock.options) as caller:
        for advance, asked in ((0.0, 1), (39.0, 1), (0.9, 1), (0.2, 2)):
            clock.advance(advance)
            assert caller.ask().text == OTHER.text
            assert len(lake.primary.requests) == asked


@pytest.mark.parametrize(
    "reply",
    [ScriptedReply(status=400), ScriptedReply(finish="content_filter"), ScriptedReply(status=404)],
)
def test_what_speaks_of_the_request_is_no_evidence(
    mode: str, lake: Lake, reply: ScriptedReply
) -> None:
    lake.reply = reply
    with Caller(mode, lake.chain, policy=of_known_rungs(), **Clock().options) as caller:
        assert [caller.ask().text for _ in range(4)] == [OTHER.text] * 4
        assert caller.client.health()["primary"] == BackendHealth()
    assert lake.counts == [4, 4]


def test_when_all_are_open_the_first_to_come_due_is_asked_and_no_call_fails_unasked(
    mode: str, lake: Lake
) -> None:
    clock = Clock()
    lake.reply = BUSY
    with Caller(
        mode, lake.chain[:1], policy=Policy(limits=rungwise.Limits(retries=0)), **clock.options
    ) as caller:
        for count in range(1, 4):
            with pytest.raises(rungwise.Failed):
                caller.ask()
            assert len(lake.primary.requests) == count
        lake.reply = ANSWER
        assert caller.ask().text == ANSWER.text
        assert caller.client.health()["primary"].state == "closed"


def test_backends_in_the_middle_are_passed_over_as_well(
    mode: str, serve: Any, backend_of: Any
) -> None:
    servers = [serve(DOWN), serve(ScriptedReply(status=401)), serve(ANSWER)]
    chain = [
        backend_of(server, name=name)
        for server, name in zip(servers, ("one", "two", "three"), strict=True)
    ]
    with Caller(mode, chain, contents=True, **Clock().options) as caller:
        caller.ask()
        result = caller.ask()
    assert steps(result) == ["found_open one", "skipped two", "sent three", "answered three"]
    assert [len(server.requests) for server in servers] == [2, 1, 2]
    assert replay(result.journal).text == ANSWER.text


def test_nothing_is_remembered_where_it_is_turned_off(mode: str, lake: Lake) -> None:
    with Caller(mode, lake.chain, **{**Clock().options, "health": None}) as caller:
        for _ in range(3):
            caller.ask()
        assert caller.client.health() == {}
    assert lake.counts == [6, 3]


@pytest.mark.parametrize("reply", [ANSWER, DOWN, BUSY, ScriptedReply(status=401), ScriptedReply()])
def test_a_journal_is_the_same_byte_for_byte_as_without_memory_as_long_as_nothing_is_open(
    lake: Lake, reply: ScriptedReply
) -> None:
    lake.reply = reply
    journals = []
    for options in ({}, {"health": None, "retry_share": None}):
        client = Client(
            lake.chain,
            **clocked(
                {
                    **Clock().options,
                    "wall_clock": lambda: 17.0,
                    **options,
                }
            ),
        )
        journals.append(client.call("Where?").journal.to_json())
    assert journals[0] == journals[1]


# many calls at once


def test_however_many_threads_wait_one_tries_it(lake: Lake) -> None:
    clock = Clock()
    arrived = threading.Event()
    go_on = threading.Event()
    client = Client(lake.chain, **clock.options)
    client.call("Where?")
    clock.advance(5.0)

    def answer(request: ReceivedRequest) -> ScriptedReply:
        arrived.set()
        assert go_on.wait(20)
        return ANSWER

    with ThreadPoolExecutor(8) as pool:
        lake.reply = answer
        trying = pool.submit(client.call, "Is it back?")
        assert arrived.wait(20)
        others = list(pool.map(client.call, ["Where?"] * 20))
        go_on.set()
        assert trying.result(20).text == ANSWER.text
    assert [each.text for each in others] == [OTHER.text] * 20
    assert lake.counts == [3, 21]


def test_a_call_that_is_cancelled_while_it_tries_leaves_the_next_one_to(lake: Lake) -> None:
    clock = Clock()
    cancellation = Cancellation()
    client = Client(lake.chain, **clock.options)
    client.call("Where?")
    clock.advance(5.0)

    def answer(request: ReceivedRequest) -> ScriptedReply:
        cancellation.cancel()
        return attrs.evolve(ANSWER, delay=20.0)

    lake.reply = answer
    with pytest.raises(rungwise.Cancelled):
        client.call("Is it back?", cancellation=cancellation)
    assert client.health()["primary"].spent == (1, 0)
    lake.reply = ANSWER
    assert client.call("Is it back?").text == ANSWER.text


def test_a_probe_that_the_budget_keeps_back_in_the_end_leaves_the_next_one_to(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    client = Client(lake.chain, policy=Policy(budget=Budget(seconds=100.0)), **clock.options)
    client.call("Where?")
    clock.advance(5.0)
    arrive = Call.arrive

    def arrive_late(call: Call, keys: tuple[int, ...], *, is_probe: bool) -> None:
        arrive(call, keys, is_probe=is_probe)
        # so that what is left is kept for the second
        clock.advance(80.0 if call.backend == 0 else 0.0)

    monkeypatch.setattr(Call, "arrive", arrive_late)
    result = client.call("Where?")
    assert steps(result) == ["ran_out primary", "sent second", "answered second"]
    assert all(step.note is None for step in result.journal.steps[1:])
    health = client.health()
    assert (health["primary"].spent[1], health["second"]) == (0, BackendHealth())


def test_a_call_without_time_of_its_own_says_nothing_of_the_backend(lake: Lake) -> None:
    lake.reply = attrs.evolve(ANSWER, delay=20.0)
    client = Client(lake.chain[:1], policy=Policy(budget=Budget(seconds=0.2)))
    for _ in range(3):
        with pytest.raises(rungwise.CallError):
            client.call("Where?")
    assert client.health()["primary"] == BackendHealth()
    client.close()


def test_forty_calls_at_once_to_a_server_that_admits_twenty_all_succeed(
    serve: Any, backend_of: Any
) -> None:
    under_way = [0]
    lock = threading.Lock()

    def answer(request: ReceivedRequest) -> ScriptedReply:
        with lock:
            if under_way[0] == 20:
                return ScriptedReply(status=429, headers={"retry-after": "1"})
            under_way[0] += 1
        time.sleep(0.3)  # the server's own
        with lock:
            under_way[0] -= 1
        return ANSWER

    provider = serve(answer)

    async def ask_all() -> list[rungwise.Result]:
        async with Client(backend_of(provider)) as client:
            return await asyncio.gather(*[client.acall("Where?") for _ in range(40)])

    assert [result.text for result in asyncio.run(ask_all())] == [ANSWER.text] * 40
    assert len(provider.requests) <= 70


@pytest.mark.full
def test_all_calls_together_do_not_multiply_the_load_of_a_backend_that_is_down(lake: Lake) -> None:
    lake.reply = ScriptedReply(status=500)
    client = Client(lake.chain[:1], **Clock().options)
    for _ in range(150):
        with pytest.raises(rungwise.Failed):
            client.call("Where?")
    assert len(lake.primary.requests) == 99 * 4 + 51
    with pytest.raises(rungwise.Failed, match="no retry left together"):
        client.call("Where?")
    unlimited = Client(lake.chain[:1], retry_share=None, **Clock().options)
    with pytest.raises(rungwise.Failed, match="4 attempts"):
        unlimited.call("Where?")


# journals


def test_a_replay_needs_no_store(mode: str, lake: Lake) -> None:
    clock = Clock()
    with Caller(mode, lake.chain, contents=True, **clock.options) as caller:
        for advance in (0.0, 5.0, 0.0):
            clock.advance(advance)
            journal = caller.ask().journal
            again = replay(Journal.from_json(journal.to_json()))
            assert (again.outcome, again.text, again.journal.steps) == (
                "done",
                OTHER.text,
                journal.steps,
            )
            assert what_if(journal, Policy()).kind == "same"


def test_a_forged_step_of_a_backend_that_was_not_asked_is_found(lake: Lake) -> None:
    client = Client(lake.chain, **Clock().options)
    client.call("Where?")
    text = client.call("Where?").journal.to_json()
    forged = text.replace('"found_open"', '"ran_out"')
    with pytest.raises(rungwise.RungwiseError):
        replay(Journal.from_json(forged))


# what is refused

A_SHARE = "a number from 0 to 1"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [("retry_share", share, A_SHARE) for share in (True, -0.1, 20, float("nan"), "a fifth")]
    + [("health", rules, "a Health") for rules in (True, 3, Health, {"failures": 2})],
)
def test_what_is_no_share_and_what_are_no_rules_is_refused(
    lake: Lake, name: str, value: Any, says: str
) -> None:
    with pytest.raises(rungwise.ConfigurationError, match=f"{name} must be {says}, or None"):
        Client(lake.chain, **{name: value})


# a caller in a hurry


HURRIED = {
    "first token": rungwise.Timeouts(first_token=0.2),
    "total": rungwise.Timeouts(total=0.2),
}


def hanging(request: ReceivedRequest) -> ScriptedReply:
    """Say nothing for longer than any clock of a test, and shorter than the client's."""
    return ScriptedReply(text="In the reeds.", delay=3.0)


@pytest.mark.full
@pytest.mark.parametrize("clock", HURRIED)
def test_the_clock_of_a_call_in_a_hurry_says_nothing_of_the_backend(
    mode: str, lake: Lake, clock: str
) -> None:
    lake.reply = hanging
    hurried = Policy(timeouts=HURRIED[clock])
    with Caller(mode, lake.chain) as caller:
        for _ in range(3):
            assert caller.ask(policy=hurried).text == OTHER.text
        assert caller.client.health()[lake.chain[0].name].state == "closed"
    assert lake.counts[0] == 3


@pytest.mark.full
def test_a_deadline_of_a_call_says_nothing_of_the_backend_either(mode: str, lake: Lake) -> None:
    lake.reply = hanging
    hurried = Policy(budget=Budget(seconds=1.0))
    with Caller(mode, lake.chain) as caller:
        for _ in range(3):
            caller.ask(policy=hurried)
        assert caller.client.health()[lake.chain[0].name].state == "closed"


@pytest.mark.parametrize("clock", HURRIED)
def test_the_client_s_own_clocks_are_evidence(mode: str, lake: Lake, clock: str) -> None:
    lake.reply = hanging
    with Caller(mode, lake.chain, policy=Policy(timeouts=HURRIED[clock])) as caller:
        for _ in range(3):
            assert caller.ask().text == OTHER.text
    assert lake.counts[0] == 2
