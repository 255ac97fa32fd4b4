"""A deadline as a header: each request carries it, and what came in with a request is read and
passed on.
"""

from typing import Any

import pytest

import rungwise
from rungwise import Budget, Client, Policy, TurnPolicy
from rungwise.core import Request
from rungwise.testing import EmbeddedProvider, ScriptedReply, VirtualClock
from support import modes, turn_modes, ways
from support.runs import Serve
from support.ways import WALL

ANSWER = ScriptedReply("By the lake.")
BUSY = ScriptedReply(status=503, headers={"retry-after": "5"})
FAILING = ScriptedReply(status=401)
UNLIMITED = Policy(budget=Budget(seconds=None))
NAME = "x-deadline"


def client_of(*providers: Any, **options: Any) -> tuple[Client, VirtualClock]:
    """Return a client that passes deadlines on, at 10 o'clock, and its clock."""
    return ways.virtual(
        *providers,
        **{
            "policy": UNLIMITED,
            "deadline_header": NAME,
            **options,
        },
    )


def told(provider: EmbeddedProvider) -> list[str | None]:
    """Return what the requests said."""
    return [request.headers.get(NAME) for request in provider.requests]


def deadline_of(result: rungwise.Result) -> float | None:
    return result.journal.setting.deadline


def test_every_request_to_every_backend_says_when_the_call_must_have_ended(
    serve: Serve, mode: str
) -> None:
    first = serve(BUSY, FAILING)
    second = serve(ANSWER)
    client, clock = client_of(first, second)
    result = modes.ask(client, mode, deadline=WALL + 30.25)
    assert (result.text, clock.waits) == ("By the lake.", [5.0])
    assert told(first) == ["2026-11-20T10:00:30.250Z"] * 2  # the moment, which a wait does not move
    assert told(second) == ["2026-11-20T10:00:30.250Z"]


def test_the_seconds_of_a_budget_and_of_a_shared_one_are_told_as_well(
    serve: Serve, mode: str
) -> None:
    provider = serve(ANSWER)
    client, _ = client_of(provider, policy=Policy(budget=Budget(seconds=90)))
    modes.ask(client, mode)
    shared = rungwise.SharedBudget(Budget(seconds=20))
    client, _ = client_of(provider, policy=Policy(budget=Budget(seconds=90)))
    modes.ask(client, mode, within=shared, deadline=WALL + 30)
    assert told(provider) == ["2026-11-20T10:01:30.000Z", "2026-11-20T10:00:20.000Z"]


@pytest.mark.parametrize("http", [None, "httpx", "httpx2"])
def test_a_clock_that_is_set_meanwhile_is_read_anew(serve: Serve, http: str | None) -> None:
    provider = serve(BUSY, ANSWER)
    wall = [WALL]
    own = {} if http is None else {"http": ways.http_of(f"{http}.Client")}
    client, clock = client_of(provider, wall_clock=lambda: wall[0], **own)

    def observe(step: rungwise.Step) -> None:
        if step.target == "retry":
            wall[0] = WALL + 3600  # somebody puts it an hour forward

    client.runtime.attach(observe)
    client.call("Where?", deadline=WALL + 30)
    assert clock.waits == [5.0]
    # 25 s are left
    assert told(provider) == ["2026-11-20T10:00:30.000Z", "2026-11-20T11:00:25.000Z"]


@pytest.mark.parametrize("mode", turn_modes.MODES)
def test_the_calls_of_a_turn_say_when_the_turn_must_have_ended(mode: str) -> None:
    wall = [WALL]
    turned = turn_modes.run_turn(
        mode,
        turn_modes.calling(("look", "{}")),
        ANSWER,
        tools={"look": lambda: "three herons"},
        policy=TurnPolicy(call=UNLIMITED),
        headers={"X-Deadline": "2026-11-20T10:00:30Z"},
        client_options={
            "deadline_header": NAME,
            "clock": VirtualClock(now=50.0),
            "wall_clock": lambda: wall[0],
        },
    )
    assert turned.outcome == "finished"
    assert turned.result.journal.setting.deadline == 30.0
    assert [journal.setting.deadline for journal in turned.result.journal.calls] == [30.0, 30.0]


def test_without_a_limit_or_without_a_name_there_is_none(serve: Serve, mode: str) -> None:
    provider = serve(ANSWER)
    modes.ask(client_of(provider)[0], mode)
    unnamed, _ = client_of(provider, deadline_header=None)
    modes.ask(unnamed, mode, deadline=WALL + 30)
    assert not any(
        "deadline" in name.lower() for request in provider.requests for name in request.headers
    )
    assert deadline_of(modes.ask(unnamed, mode, headers={NAME: "soon"})) is None
    assert told(provider) == [None, None, "soon"]


@pytest.mark.parametrize(
    "said",
    [
        "2026-11-20T10:00:30.500Z",
        "2026-11-20t10:00:30.5z",
        "2026-11-20 12:00:30.500000000+02:00",
        "1795168830.5",
        "1795168830500",
    ],
)
def test_one_that_a_request_came_with_is_read_and_passed_on(
    serve: Serve, mode: str, said: str
) -> None:
    first = serve(FAILING)
    second = serve(ANSWER)
    client, _ = client_of(first, second)
    result = modes.ask(client, mode, headers={"X-Deadline": said, "x-request-id": "42"})
    assert deadline_of(result) == 30.5
    # Once, whatever its case was; also to the second backend, which is given no other header of the
    # request.
    assert [
        value for name, value in first.requests[0].headers.items() if name.lower() == NAME
    ] == told(first)
    assert told(first) == told(second) == ["2026-11-20T10:00:30.500Z"]
    assert first.requests[0].headers["x-request-id"] == "42"


@pytest.mark.parametrize(
    ("said", "given", "budget", "tightest"),
    [
        ("2026-11-20T10:00:30Z", WALL + 60, 90, "2026-11-20T10:00:30.000Z"),
        ("2026-11-20T10:02:00Z", WALL + 60, 90, "2026-11-20T10:01:00.000Z"),
        ("2026-11-20T10:02:00Z", None, 90, "2026-11-20T10:01:30.000Z"),
    ],
)
def test_the_tightest_wins_and_goes_out(
    serve: Serve,
    mode: str,
    said: str,
    given: Any,
    budget: float,
    tightest: str,
) -> None:
    provider = serve(ANSWER)
    client, _ = client_of(provider, policy=Policy(budget=Budget(seconds=budget)))
    modes.ask(client, mode, headers={NAME: said}, deadline=given)
    modes.ask(
        client_of(provider, policy=client.policy)[0],
        mode,
        Request("Where?", headers={NAME: said}),
        deadline=given,
    )
    assert told(provider) == [tightest, tightest]


def test_of_two_that_differ_in_case_the_tightest_wins(serve: Serve) -> None:
    provider = serve(ANSWER)
    client, _ = client_of(provider)
    client.call(
        "Where?",
        headers={"x-deadline": "2026-11-20T10:00:30Z", "X-DEADLINE": "2026-11-20T10:00:20Z"},
    )
    assert told(provider) == ["2026-11-20T10:00:20.000Z"]


@pytest.mark.parametrize("mode", [*modes.MODES, *turn_modes.MODES])
@pytest.mark.parametrize(
    "said",
    [
        "soon",
        "",
        "-5",
        "nan",
        "30s",
        "1e9",
        "0x10",
        "1795168830,5",
        "9" * 20,
        "9" * 500,
        "2026-11-20T10:00:30",
        "2026-11-20",
        "2026-11-31T10:00:30Z",
        "2026-W47-5T10:00:30Z",
        "10:00:30Z",
        "2026-11-20T10:00:30+99:00",
        "Fri, 20 Nov 2026 10:00:30 GMT",
        "sk-9d2f6b1c44e07a35",
    ],
)
def test_nonsense_is_refused_and_not_quoted(mode: str, said: str) -> None:
    client, _ = client_of(ways.backend("http://127.0.0.1:1/v1"))
    with pytest.raises(rungwise.ConfigurationError) as refused:
        getattr(client, mode)("Where?", headers={"X-Deadline": said})
    assert "the header 'X-Deadline' must hold a deadline: a time in RFC 3339" in str(refused.value)
    assert not said or said not in str(refused.value)


def test_a_backends_own_header_gives_way(serve: Serve) -> None:
    provider = serve(ANSWER)
    backend = ways.backend(provider.base_url, headers={"X-Deadline": "whenever"})
    client_of(backend)[0].call("Where?", deadline=WALL + 30)
    assert [
        value for name, value in provider.requests[0].headers.items() if name.lower() == NAME
    ] == told(provider)
    assert told(provider) == ["2026-11-20T10:00:30.000Z"]


NO_NAME: list[Any] = ["", "x deadline", "x-déadline", 5, b"x-deadline", ["x-deadline"], True]
TAKEN = ["Authorization", "api-key", "Content-Length", "host", "content-type"]


@pytest.mark.parametrize("name", [*NO_NAME, *TAKEN])
def test_what_is_no_name_of_a_header_or_means_something_else_is_refused(name: Any) -> None:
    says = f"cannot be '{name}'" if name in TAKEN else "must be the name of a header"
    with pytest.raises(rungwise.ConfigurationError, match=f"deadline_header {says}"):
        client_of(ways.backend("http://127.0.0.1:1/v1"), deadline_header=name)
