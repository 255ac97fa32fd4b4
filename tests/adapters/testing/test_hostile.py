"""Hostile bytes: what is drawn, the server that plays it, the check that can fail, and the client
that survives.
"""

import socket
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import rungwise
from rungwise import Client, OpenAIChat, testing
from rungwise.adapters.http.exchange import Exchange
from rungwise.adapters.testing import survival
from rungwise.adapters.testing.fuzzing import Fuzzer, HostileCase, hurried
from rungwise.adapters.testing.raw_server import RawServer
from rungwise.adapters.testing.survival import _traced, peak_memory
from rungwise.core import Certificate
from rungwise.fsm.testing.hostile import raw, responses
from rungwise.fsm.testing.hostile.raw import RawResponse, RawStep, valid_reply
from rungwise.fsm.testing.hostile.responses import HOSTILITIES
from rungwise.testing import assert_survives

KEY = "sk-1f3870be274f6c49"
POLICY = hurried(rungwise.Policy(budget=rungwise.Budget(attempts=4, output_tokens=20_000)))
MODES = ("call", "stream", "acall", "astream")

SURVIVED = HOSTILITIES
"""The ways of being hostile that a client survives: all of them."""

LOOKS = settings.get_current_profile_name() == "rungwise-fuzz"
EXAMPLES = 100 if LOOKS else 2
"""Examples of each way in each mode: a few in every build, always the same, and many where
something new is sought.
"""
CALM = settings(
    max_examples=EXAMPLES,
    derandomize=not LOOKS,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # every example takes real time
    suppress_health_check=(
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ),
)


def client_of(base_url: str) -> Client:
    names = ("backend-1", "backend-2")
    return Client(
        [
            OpenAIChat(
                name,
                name=name,
                base_url=base_url,
                api_key=KEY,
            )
            for name in names
        ],
        policy=POLICY,
    )


@cache
def certificate() -> Certificate:
    return rungwise.verify(POLICY, chain=2)


def survives(responses: list[RawResponse], mode: str) -> None:
    assert_survives(client_of, responses, mode=mode, certificate=certificate(), secrets=[KEY])


def streams(mode: str) -> bool:
    return mode in ("stream", "astream")


OFTEN = [mode if mode == "call" else pytest.param(mode, marks=pytest.mark.full) for mode in MODES]
"""Each way without a stream; one after the other they are met in every mode, and `.ci/run full`
tries them all.
"""


@pytest.mark.full
@pytest.mark.parametrize("mode", OFTEN)
@pytest.mark.parametrize("kind", SURVIVED)
def test_a_client_survives(kind: str, mode: str) -> None:
    @CALM
    @given(testing.hostile_responses(kinds=[kind], streams=streams(mode)))
    def survive(response: RawResponse) -> None:
        survives([response], mode)

    survive()


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
def test_a_client_survives_one_after_the_other(mode: str) -> None:
    @settings(CALM, max_examples=5 * EXAMPLES)
    @given(responses.raw_responses(streams=streams(mode), kinds=SURVIVED))
    def survive(responses: list[RawResponse]) -> None:
        survives(responses, mode)

    survive()


@pytest.mark.parametrize("mode", MODES)
def test_a_healthy_server_is_no_trouble(mode: str) -> None:
    result = assert_survives(client_of, [raw.healthy_response(streams=streams(mode))], mode=mode)
    assert result.outcome == "done"
    assert result.attempts == 1


# what is drawn


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", HOSTILITIES)
def test_every_kind_can_be_written_down_and_read_back(kind: str) -> None:
    @settings(CALM, max_examples=10)
    @given(testing.hostile_responses(kinds=[kind]))
    def write(response: RawResponse) -> None:
        assert response.kind == kind
        assert testing.read_responses(raw.write_responses([response])) == [response]

    write()


@given(st.binary(max_size=60), st.text(max_size=20))
def test_any_bytes_can_be_written_down(data: bytes, says: str) -> None:
    if not any("\ud800" <= letter <= "\udfff" for letter in says):
        response = RawResponse(
            [RawStep(data, 0.5, 3), RawStep(b"")], "reset", says=says, is_whole=False
        )
        assert testing.read_responses(raw.write_responses([response])) == [response]


@pytest.mark.parametrize(
    "text",
    [
        "[[responses",
        "a = 1",
        "responses = [1]",
        '[[responses]]\nsteps = [{data = "\\u0100"}]',
        "responses = 1",
    ],
)
def test_other_toml_is_refused(text: str) -> None:
    with pytest.raises(rungwise.ConfigurationError, match="responses: not"):
        testing.read_responses(text)


@pytest.mark.parametrize(
    "changes", [{"data": "text"}, {"delay": -1.0}, {"delay": float("nan")}, {"times": 0}]
)
def test_a_step_of_another_form_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(rungwise.ConfigurationError, match="RawStep"):
        RawStep(**{"data": b"", **changes})


def test_unknown_words_are_refused() -> None:
    with pytest.raises(rungwise.ConfigurationError, match="ending"):
        RawResponse([], "explode")  # type: ignore[arg-type]
    for kinds in ([], ["gentle"]):
        with pytest.raises(rungwise.ConfigurationError, match="HOSTILITIES"):
            testing.hostile_responses(kinds=kinds)


@pytest.mark.parametrize("whole", [True, False])
def test_a_valid_reply_is_one(whole: bool) -> None:
    reply = valid_reply(streams=not whole)
    assert reply.is_whole_in(reply.body)
    assert not reply.is_whole_in(reply.body[: len(reply.body) // 2])


# the server


def exchange(server: RawServer, seconds: float = 5.0) -> bytes:
    """Send a request without waiting for anything, and read to the end."""
    host, port = server.base_url.removeprefix("http://").removesuffix("/v1").split(":")
    received = b""
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
        try:
            while data := connection.recv(65_536):
                received += data
        except ConnectionResetError:
            received += b"(reset)"
    return received


def test_the_server_plays_its_steps_and_records_the_requests() -> None:
    steps = [RawStep(b"ab", 0.001, 3), RawStep(b"c", times=70_000)]
    with RawServer([RawResponse(steps), RawResponse([RawStep(b"x")], "reset")]) as server:
        assert exchange(server) == b"ababab" + b"c" * 70_000
        assert exchange(server).endswith(b"(reset)")
        assert exchange(server).endswith(b"(reset)"), "the last response is repeated"
        assert [request.body for request in server.requests] == [{}, {}, {}]
        assert [response.ending for response in server.played] == ["close", "reset", "reset"]
        server.play([RawResponse([])])
        assert server.requests == []


def test_the_server_comes_to_an_end_by_itself() -> None:
    endless = RawResponse([RawStep(b"a" * 1_000, times=10**9)])
    with RawServer([endless], most_bytes=10**6) as server:
        assert len(exchange(server)) < 2 * 10**6
    with RawServer([RawResponse([RawStep(b"a", 0.001, 10**9)], "hold")], seconds=0.1) as server:
        assert len(exchange(server)) < 1_000
    with RawServer([RawResponse([], "hold")], seconds=0.1) as server:
        assert exchange(server) == b""


def test_the_server_keeps_a_connection_and_closes_it_at_the_end() -> None:
    with RawServer([raw.healthy_response(streams=False)]) as server, httpx.Client() as client:
        for _ in range(3):
            client.post(f"{server.base_url}/chat/completions", json={"n": 1}).raise_for_status()
        assert [request.body for request in server.requests] == [{"n": 1}] * 3
        started = time.monotonic()
        server.close()
        assert time.monotonic() - started < 5.0
    with pytest.raises(rungwise.ConfigurationError, match="empty"):
        RawServer([])


# the check can fail


def healthy(**changes: Any) -> list[RawResponse]:
    return [attrs.evolve(raw.healthy_response(streams=False), **changes)]


class OneCall(Client):
    """Work once."""

    made = 0

    def call(self, *arguments: Any, **options: Any) -> rungwise.Result:
        self.made += 1
        if self.made > 1:
            raise RuntimeError("never again")
        return super().call(*arguments, **options)


class Crashing(Client):
    def call(self, *arguments: Any, **options: Any) -> rungwise.Result:
        raise KeyError("choices")


def of(kind: type[Client]) -> Callable[[str], Client]:
    return lambda base_url: kind([OpenAIChat("m", base_url=base_url, api_key=KEY)], policy=POLICY)


@pytest.mark.parametrize(
    ("property", "factory", "responses", "options"),
    [
        (survival.IN_TIME, client_of, healthy(), {"grace": -0.4}),
        (survival.IN_MEMORY, client_of, healthy(), {"memory": -1}),
        (survival.DOCUMENTED, of(Crashing), healthy(), {}),
        (survival.GOES_ON, of(OneCall), healthy(), {}),
        (survival.UNTOUCHED, client_of, healthy(says="Something else."), {}),
        (survival.UNTOUCHED, client_of, healthy(is_whole=False), {}),
    ],
)
def test_each_assertion_can_fail(
    property: str,
    factory: Any,
    responses: Any,
    options: Any,
) -> None:
    with pytest.raises(testing.Dishonest) as caught:
        assert_survives(factory, responses, **options)
    assert caught.value.property == property


def test_a_slow_machine_may_pass_the_seconds_of_a_certificate_and_nothing_else() -> None:
    def with_none_of(name: str) -> Certificate:
        proved = certificate()
        worst = tuple(
            attrs.evolve(each, value=0) if each.name == name else each for each in proved.worst
        )
        return attrs.evolve(proved, worst=worst)

    assert assert_survives(client_of, healthy(), certificate=with_none_of("seconds")).seconds > 0
    with pytest.raises(testing.Dishonest, match="1 attempts, and at worst there are 0"):
        assert_survives(client_of, healthy(), certificate=with_none_of("attempts"))


def test_a_client_without_a_short_budget_is_refused() -> None:
    for seconds in (None, 60.0):
        policy = rungwise.Policy(budget=rungwise.Budget(seconds=seconds))
        with pytest.raises(rungwise.ConfigurationError, match="budget of seconds"):
            assert_survives(
                lambda url, policy=policy: Client(OpenAIChat("m", base_url=url), policy=policy),
                healthy(),
            )
    with pytest.raises(rungwise.ConfigurationError, match="mode"):
        assert_survives(client_of, healthy(), mode="shout")


@pytest.mark.parametrize("measured", [peak_memory, _traced])
def test_the_peak_is_what_was_held_at_once(measured: Any) -> None:
    with measured() as held:
        for _ in range(3):
            block = b"a" * 200_000_000
            del block
    assert 100_000_000 < held() < 500_000_000


# `rungwise fuzz --hostile`


def test_a_fuzzer_makes_a_share_of_hostile_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    monkeypatch.setattr(
        Fuzzer, "check", lambda self, case: made.append(isinstance(case, HostileCase))
    )
    with Fuzzer(hostile=0.5, seed=3) as fuzzer:
        assert fuzzer.run(examples=20) is None
    assert made.count(True) == 10
    assert made.count(False) == 10


@pytest.mark.full
def test_a_finding_is_made_small_and_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: Exchange, data: bytes) -> Any:
        raise RuntimeError("never seen before")

    monkeypatch.setattr(Exchange, "feed", crash)
    with Fuzzer(hostile=1.0, seed=1) as fuzzer:
        found = fuzzer.run(examples=20)
    assert isinstance(found.case, HostileCase)
    assert found.case.mode in ("call", "stream")
    assert len(found.case.responses) == 1
    assert testing.read_responses(found.to_toml()) == list(found.case.responses)
    assert "hostile bytes: " in found.to_toml()
