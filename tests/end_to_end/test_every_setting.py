"""Every field of what sets up a call changes the journal of some call."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

import rungwise
from rungwise import (
    CALL,
    Budget,
    Client,
    Decisions,
    Health,
    Hints,
    Limits,
    Policy,
    Prices,
    Quota,
    Reserve,
    Timeouts,
    Usage,
    Waits,
    YesNo,
)
from rungwise.core import Failure, PlainLink, Reply, Request
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply, run
from support.clocked import clocked
from support.raw_server import STREAM_HEAD, Peer, RawServer, chunk, event
from support.remembering import Clock
from support.ways import backend

ANSWER = Reply("In the reeds.", stop_reason="stop")
EMPTY = Reply(stop_reason="stop")
CUT = Reply("In the ", stop_reason="length", usage=Usage(10, 20))
BUSY = Failure("server_error")
OVERLOADED = Failure("overloaded")
REFUSED = Reply(refusal="I will not say.", stop_reason="content_filter")
ROUND = [
    {"role": "user", "content": "Where?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "tool_call_id": "1", "content": "In the reeds."},
]
PRICED = (PlainLink("first", prices=Prices(1.0, 2.0)),)

Steps = list[Any]
Play = Callable[[Any], Steps]


@attrs.frozen
class Case:
    """Two values of a field, and a call whose journal differs between them."""

    values: tuple[Any, Any]
    play: Play


# In memory


def policy(part: str, name: str, *values: Any, script: Any, **options: Any) -> Case:
    """Return a case of a field of a policy or of one of its parts.

    Arguments:
        part: the field of the policy that has the field; "" for a field of its own.
        name: the field.
        values: the two.
        script: what comes back.
        options: of `run`; `base`, a policy to start from.
    """
    base = options.pop("base", Policy())

    def play(value: Any) -> Steps:
        given = {name: value}
        if part:
            given = {part: attrs.evolve(getattr(base, part), **given)}
        call = run(attrs.evolve(base, **given), script, **options)
        return list(call.journal.steps)

    return Case(values, play)


def waits(name: str, *values: Any, script: Any, **options: Any) -> Case:
    """Return a case of `Waits`, on a policy that stays at its backend."""
    base = Policy(switch_after={"overloaded": 1000})
    return policy("waits", name, *values, script=script, base=base, **options)


def budget(name: str, *values: Any, script: Any, **options: Any) -> Case:
    """Return a case of `Budget`."""
    return policy("budget", name, *values, script=script, **options)


CASES: dict[tuple[type[Any], str], Case] = {
    (Policy, "limits"): policy("", "limits", Limits(), Limits(retries=0), script=[BUSY, ANSWER]),
    (Policy, "budget"): policy("", "budget", Budget(), Budget(attempts=1), script=[BUSY, ANSWER]),
    (Policy, "waits"): policy("", "waits", Waits(), Waits(retry_base=1.0), script=[BUSY, ANSWER]),
    (Policy, "timeouts"): policy(
        "", "timeouts", Timeouts(), Timeouts(total=5.0), script=[ANSWER], latency=10.0
    ),
    (Policy, "reserve"): policy(
        "", "reserve", Reserve(), Reserve(share=0.5), script=[ANSWER], chain=2, latency=550.0
    ),
    (Policy, "hints"): policy(
        "",
        "hints",
        Hints(),
        Hints(nudge="Go on, please, from the results of the tools above, and say where they nest."),
        script=[EMPTY, ANSWER],
        chain=PRICED,
        request=ROUND,
        base=Policy(budget=Budget(money=1.0)),
    ),
    (Policy, "switch_after"): policy(
        "", "switch_after", {}, {"overloaded": 1}, script=[OVERLOADED, ANSWER], chain=2
    ),
    (Policy, "after_refusal"): policy(
        "", "after_refusal", "fall_back", "end", script=[REFUSED, ANSWER], chain=2
    ),
    (Policy, "base_cap"): policy("", "base_cap", 4096, 100, script=[CUT, ANSWER]),
    (Policy, "largest_cap"): policy("", "largest_cap", 32_768, 5000, script=[CUT, ANSWER]),
    (Policy, "handful"): policy(
        "", "handful", 16, 2, script=[CUT, ANSWER], request=Request("Where?", max_tokens=8)
    ),
    (Policy, "nudge_window"): policy(
        "", "nudge_window", 5, 0, script=[EMPTY, ANSWER], request=ROUND
    ),
    (Policy, "skip_identical_empties"): policy(
        "", "skip_identical_empties", False, True, script=[EMPTY, EMPTY, EMPTY, ANSWER], chain=2
    ),
    (Policy, "table"): policy(
        "", "table", CALL, CALL.without("continuation"), script=[CUT, ANSWER]
    ),
    (Reserve, "share"): policy(
        "reserve", "share", 0.25, 0.5, script=[ANSWER], chain=2, latency=550.0
    ),
    (Reserve, "seconds"): policy(
        "reserve", "seconds", None, 800.0, script=[ANSWER], chain=2, latency=550.0
    ),
    (Budget, "attempts"): budget("attempts", 24, 1, script=[BUSY, ANSWER]),
    (Budget, "seconds"): budget("seconds", None, 1.0, script=[BUSY, ANSWER]),
    (Budget, "output_tokens"): budget("output_tokens", None, 100, script=[ANSWER]),
    (Budget, "money"): budget("money", 1.0, 0.001, script=[ANSWER], chain=PRICED),
    (Waits, "retry_base"): waits("retry_base", 2.0, 1.0, script=[BUSY, ANSWER]),
    (Waits, "retry_cap"): waits("retry_cap", 60.0, 1.0, script=[BUSY, ANSWER]),
    (Waits, "overload_cap"): waits("overload_cap", 60.0, 1.0, script=[OVERLOADED, ANSWER]),
    (Waits, "reask_base"): waits("reask_base", 1.0, 3.0, script=[EMPTY, EMPTY, ANSWER]),
    (Waits, "reask_cap"): waits("reask_cap", 120.0, 0.5, script=[EMPTY, EMPTY, ANSWER]),
    (Waits, "jitter"): waits("jitter", 0.5, 0.25, script=[BUSY, ANSWER], jitter=lambda: 1.0),
    (Waits, "longest_asked"): waits(
        "longest_asked",
        120.0,
        10.0,
        script=[Failure("rate_limit", asked_wait=30.0), ANSWER],
        chain=2,
    ),
}


# Over HTTP: what a driver reads


def decided(confidence: float | None) -> Steps:
    """Return the steps of a question about whose answer the first backend is in doubt."""
    scripts = {"m": {"probabilities": {"yes": 0.6, "no": 0.4}}, "n": {"probabilities": SURE}}

    def answer(request: ReceivedRequest) -> ScriptedReply:
        return ScriptedReply(json.dumps({"nests": scripts[str(request.body["model"])]}))

    with EmbeddedProvider(answer) as provider:
        chain = [Decisions(model, base_url=provider.base_url) for model in scripts]
        with Client(chain, policy=Policy(confidence=confidence)) as client:
            result = client.decide("Storks.", {"nests": YesNo("Do they nest in reeds?")})
    return list(result.journal.steps)


SURE = {"yes": 0.05, "no": 0.95}
CASES[Policy, "confidence"] = Case((None, 0.9), decided)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the URL of a server that takes its time at each stage: until its address is known,
    until it says something, and until it says more.
    """

    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(STREAM_HEAD + b"\r\n")
            for piece in (event("In the "), event("reeds."), event(finish="stop")):
                peer.server.closing.wait(PAUSE)
                peer.send(chunk(piece))
            peer.send(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    look_up = socket.getaddrinfo

    def late(host: Any, *arguments: Any, **options: Any) -> Any:
        if host == "slow.test":
            time.sleep(PAUSE)
            host = "127.0.0.1"
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", late)
    with RawServer(play) as server:
        yield f"http://slow.test:{server.port}/v1"


PAUSE = 0.1
SHORT, LONG = 0.02, 20.0


def timed(name: str, url: str, seconds: float) -> Steps:
    """Return the events of a call whose every clock is long but one."""
    policy = Policy(
        limits=Limits(retries=1, reasks=0, continuations=1),
        timeouts=Timeouts(**{**dict.fromkeys(attrs.fields_dict(Timeouts), LONG), name: seconds}),
        waits=Waits(retry_base=0.0),
    )
    with Client(backend(url), policy=policy) as client:
        steps = steps_of(client, "Where?")
    return [(step.event, step.reason) for step in steps]


def steps_of(client: Client, *asked: Any, **options: Any) -> Steps:
    """Make a call, and return its steps however it ends."""
    try:
        result = client.call(*asked, **options)
    except rungwise.CallError as error:
        result = error.result
    return list(result.journal.steps)


@attrs.define
class Lake:
    """A backend that may be down, and one that answers; each call asks them in this order."""

    serve: Any
    backend_of: Any
    clock: Clock = attrs.field(factory=Clock)
    jitter: float = 0.0

    def calls(self, pauses: list[float], reply: ScriptedReply, **options: Any) -> Steps:
        """Make a call, and one after each of some pauses; return the steps of all.

        Arguments:
            pauses: seconds between the calls.
            reply: what the first backend says.
            options: `health` of the client, or `quota` of the first backend.
        """
        first = self.backend_of(self.serve(reply), name="first", quota=options.pop("quota", None))
        chain = [first, self.backend_of(self.serve(OTHER), name="second")]
        options = {**self.clock.options, "wall_clock": lambda: 0.0, **options}
        options["jitter"] = lambda: self.jitter
        steps = []
        with Client(chain, **clocked(options)) as client:
            for pause in (0.0, *pauses):
                self.clock.advance(pause)
                steps += steps_of(client, "Where?", max_tokens=100)
        return steps

    def while_another_lasts(self, quota: Quota) -> Steps:
        """Make a call while a stream from the same backend is open, and return its steps."""
        server = self.serve(ScriptedReply("In the reeds, mostly.", chunk_size=3))
        options = {**self.clock.options, "wall_clock": lambda: 0.0}
        with Client(self.backend_of(server, quota=quota), **clocked(options)) as client:
            stream = client.stream("Where?")
            next(stream)
            steps = steps_of(client, "Where?")
            stream.close()
        return steps


DOWN, OTHER = ScriptedReply(status=503), ScriptedReply("On the island.")


def remembered(lake: Lake, name: str, value: Any) -> Steps:
    """Return the steps of calls that remember how a backend was, for a value of `Health`."""
    options = {"failures": 1, "first": 5.0, "longest": 30.0, "jitter": 0.0, name: value}
    lake.jitter = 1.0
    return lake.calls([4.0, 4.0, 8.0], DOWN, health=Health(**options))


def rationed(lake: Lake, name: str, value: int) -> Steps:
    """Return the steps of calls that share a quota."""
    if name == "concurrent":
        return lake.while_another_lasts(Quota(concurrent=value))
    full = {"prompt_tokens": 5, "completion_tokens": 100, "total_tokens": 105}
    return lake.calls(
        [0.0, 0.0], ScriptedReply("In the reeds.", usage=full), quota=Quota(**{name: value})
    )


HEALTH = {"failures": (1, 4), "first": (5.0, 3.0), "longest": (30.0, 6.0), "jitter": (0.0, 0.5)}
QUOTA = {"requests_per_minute": (2, 60), "tokens_per_minute": (200, 10**6), "concurrent": (1, 2)}
TIMEOUTS = dict.fromkeys(("connect", "first_token", "stall", "total"), (LONG, SHORT))

VALUES = {place: case.values for place, case in CASES.items()}
VALUES |= {(Timeouts, name): values for name, values in TIMEOUTS.items()}
VALUES |= {(Health, name): values for name, values in HEALTH.items()}
VALUES |= {(Quota, name): values for name, values in QUOTA.items()}
"""Two values of each field."""

FIELDS = [
    (of, name)
    for of in (Policy, Reserve, Budget, Waits, Timeouts, Health, Quota)
    for name in attrs.fields_dict(of)
]


# Each field


def test_every_field_has_a_case() -> None:
    assert [f"{of.__name__}.{name}" for of, name in FIELDS if (of, name) not in VALUES] == []
    assert VALUES.keys() == set(FIELDS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("of", "name"), FIELDS, ids=[f"{of.__name__}.{name}" for of, name in FIELDS]
)
def test_every_field_changes_a_journal(
    of: type[Any], name: str, request: pytest.FixtureRequest
) -> None:
    fixture = request.getfixturevalue
    first, second = [steps_with(of, name, value, fixture) for value in VALUES[of, name]]
    assert first != second, f"{of.__name__}.{name} changes nothing"


def steps_with(of: type[Any], name: str, value: Any, fixture: Callable[[str], Any]) -> Steps:
    """Return the steps of a call, or of several, with a value of a field.

    Arguments:
        of: the class that has the field.
        name: the field.
        value: its value.
        fixture: returns a fixture by its name.
    """
    if of is Timeouts:
        return timed(name, fixture("slow"), value)
    if of in (Health, Quota):
        lake = Lake(fixture("serve"), fixture("backend_of"))
        play = remembered if of is Health else rationed
        return play(lake, name, value)
    return CASES[of, name].play(value)
