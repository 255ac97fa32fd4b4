"""How long a service asked to wait: each source in its order, waited in full and journaled, or not
begun at all.
"""

import json
import time
from collections.abc import Mapping
from email.utils import formatdate
from itertools import pairwise
from typing import Any

import pytest

import rungwise
from rungwise import Budget, Client, Policy, Reserve, SharedBudget, Waits
from rungwise.adapters.http.exchange import CLOCK_SKEW
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply, VirtualClock
from support import modes, ways
from support.runs import Serve
from support.ways import WALL

DATE = {"date": "Fri, 20 Nov 2026 10:00:00 GMT"}
ANSWER = ScriptedReply("By the lake.")
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "6.125s"}

Parts = tuple[Mapping[str, str], Mapping[str, Any]]
SOURCES: list[tuple[str, Parts, float]] = [
    ("retry-after-ms", ({"retry-after-ms": "1500.5"}, {}), 1.5005),
    ("x-ms-retry-after-ms", ({"x-ms-retry-after-ms": "2001"}, {}), 2.001),
    ("retry-after", ({"retry-after": "3.75"}, {}), 3.75),
    ("the body", ({}, {"retry_after": 4.125}), 4.125),
    ("RetryInfo", ({}, {"details": [RETRY_INFO]}), 6.125),
    ("quoted headers", ({}, {"metadata": {"headers": {"Retry-After": "7.5"}}}), 7.5),
    (
        "the wording",
        ({}, {"message": "Rate limit reached. Please try again in 8.0625s. Or pay."}),
        8.0625,
    ),
    (
        "an exhausted bucket",
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "9.25s",
                "x-ratelimit-remaining-tokens": "12",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            {},
        ),
        9.25,
    ),
    (
        "a reset of Anthropic",
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-11-20T10:00:10.0000001Z",
                "anthropic-ratelimit-tokens-remaining": "5",
                "anthropic-ratelimit-tokens-reset": "2026-11-20T11:00:00Z",
            },
            {},
        ),
        10.000001,  # the next microsecond, which is the finest that is kept
    ),
]
"""Every source in the order in which it is believed, and what it asks for here."""


def busy(*parts: Parts, status: int = 429) -> ScriptedReply:
    """Return a rejection that says all of this."""
    headers = {name: value for given, _ in parts for name, value in given.items()}
    error: dict[str, Any] = {"message": "Busy.", "code": "rate_limit_exceeded"}
    for _, given in parts:
        error |= {
            name: {**error.get(name, {}), **value} if name == "metadata" else value
            for name, value in given.items()
        }
    return ScriptedReply(
        status=status, headers={**DATE, **headers}, body=json.dumps({"error": error})
    )


def told(steps: tuple[rungwise.Step, ...]) -> list[tuple[str, float | None, float]]:
    """Return what each failure asked for, and what was waited."""
    return [
        (step.target, step.asked_wait, step.wait)
        for step in steps
        if step.event == "failed_transiently"
    ]


NAMES = [name for name, _, _ in SOURCES]


@pytest.mark.parametrize("place", range(len(SOURCES)), ids=NAMES)
def test_each_source_is_waited_in_full_and_journaled_and_the_first_of_the_list_is_believed(
    run: Any, place: int
) -> None:
    _, parts, seconds = SOURCES[place]
    following = [parts for _, parts, _ in SOURCES[place:]]
    for reply in (busy(parts), busy(*following)):
        ended = run([reply, ANSWER])
        ended.was("done", waits=[seconds])
        assert told(ended.steps) == [("retry", seconds, seconds)]


@pytest.mark.parametrize("place", range(len(SOURCES) - 1), ids=NAMES[:-1])
@pytest.mark.parametrize("nonsense", ["0", "NaN"])
def test_a_source_without_sense_gives_way_to_the_next(run: Any, place: int, nonsense: str) -> None:
    """The one that speaks nonsense stands before all that follow."""
    (headers, error), following = SOURCES[place][1], [parts for _, parts, _ in SOURCES[place + 1 :]]
    spoilt: dict[str, Any] = {
        "retry_after": nonsense,
        "details": [{**RETRY_INFO, "retryDelay": nonsense}],
        "metadata": {"headers": {"Retry-After": nonsense}},
        "message": f"Please try again in {nonsense}.",
    }
    resets = {name: nonsense for name in headers if "remaining" not in name}
    given = {**headers, **resets}, {name: spoilt[name] for name in error}
    ended = run([busy(*following, given), ANSWER])
    assert ended.waits == [SOURCES[place + 1][2]]


def test_an_error_in_the_middle_of_a_stream_is_waited_for_as_well(run: Any) -> None:
    error = {"message": "Overloaded. Try again in 2.5s.", "code": "server_is_overloaded"}
    assert run([ScriptedReply(error_event=error), ANSWER]).waits == [2.5]


# by our own clock


def client_of(*providers: EmbeddedProvider, **options: Any) -> tuple[Client, VirtualClock]:
    return ways.virtual(*providers, **{"now": 0.0, "wall_clock": lambda: WALL, **options})


def asking_until(seconds: float, date: str = "") -> ScriptedReply:
    """Ask to wait until so many seconds behind 10 o'clock."""
    until = formatdate(WALL + seconds, usegmt=True)
    return ScriptedReply(status=503, headers={"date": date, "retry-after": until})


@pytest.mark.parametrize("ahead", [-4.0, -0.5, 0.0, 0.5, 4.0, 4.9])
@pytest.mark.parametrize("asked", [1, 20])
def test_nobody_wakes_early_by_a_clock_that_is_off(
    serve: Serve,
    mode: str,
    ahead: float,
    asked: int,
) -> None:
    replies = serve(asking_until(asked), ANSWER)
    client, clock = client_of(replies, wall_clock=lambda: WALL + ahead + clock())
    result = modes.ask(client, mode)
    (wait,) = clock.waits
    assert asked <= wait <= asked + 2 * CLOCK_SKEW + 1  # no earlier than asked, and not much later
    assert told(result.journal.steps) == [("retry", wait, wait)]


def test_a_date_of_the_server_is_believed_to_the_second(serve: Serve, mode: str) -> None:
    replies = serve(asking_until(20, DATE["date"]), ANSWER)
    # which is off by a day
    client, clock = client_of(replies, wall_clock=lambda: WALL - 86_400)
    modes.ask(client, mode)
    assert clock.waits == [20]


@pytest.mark.parametrize("off", [7200, 86_400 * 400])
def test_a_date_far_off_is_waited_for_by_nobody(serve: Serve, mode: str, off: int) -> None:
    """Whether it is the date that is odd or our own clock: the policy's longest wait holds for
    it.
    """
    first = serve(asking_until(off))
    second = serve(ANSWER)
    client, clock = client_of(first, second)
    result = modes.ask(client, mode)
    assert (result.text, clock.waits) == ("By the lake.", [])
    assert told(result.journal.steps) == [("fallback", off + CLOCK_SKEW, 0.0)]
    client, clock = client_of(first)
    with pytest.raises(rungwise.Failed):
        modes.ask(client, mode)
    assert (len(first.requests), clock.waits) == (2, [])


def test_a_date_long_past_asks_for_nothing(serve: Serve, mode: str) -> None:
    client, clock = client_of(serve(asking_until(-60), ANSWER))
    result = modes.ask(client, mode)
    assert told(result.journal.steps) == [("retry", None, clock.waits[0])]


# kept in full, or not begun


def asking(seconds: float) -> ScriptedReply:
    return ScriptedReply(status=503, headers={"retry-after": str(seconds)})


def limits(of: str, seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of a client and of a call that must end within so many seconds."""
    unlimited = {"policy": Policy(budget=Budget(seconds=None))}
    match of:
        case "budget":
            return {"policy": Policy(budget=Budget(seconds=seconds))}, {}
        case "shared":
            return unlimited, {"within": SharedBudget(Budget(seconds=seconds))}
        case "deadline":
            return unlimited, {"deadline": WALL + seconds}
        case _:
            text = f"{WALL + seconds:.3f}"
            return {**unlimited, "deadline_header": "x-deadline"}, {"headers": {"x-deadline": text}}


@pytest.mark.parametrize("of", ["budget", "shared", "deadline", "header"])
@pytest.mark.parametrize(
    ("seconds", "others", "asked", "waits"),
    [
        (60.0, [], 55, [55]),
        (60.0, [], 60, []),
        (60.0, [], 60.5, []),
        (60.0, [], 90, []),
        (12.0, [ANSWER], 8.5, [8.5]),
        (12.0, [ANSWER], 9, []),
        (12.0, [ANSWER], 11, []),
    ],
)
def test_no_deadline_and_no_reserve_cuts_a_wait_short(
    serve: Serve,
    mode: str,
    of: str,
    seconds: float,
    others: list[ScriptedReply],
    asked: float,
    waits: list[float],
) -> None:
    """Of 12 s a quarter is kept for the second backend: what would end later than after 9 s is not
    begun.
    """
    of_client, of_call = limits(of, seconds)
    first = serve(asking(asked), ANSWER)
    client, clock = client_of(first, *map(serve, others), **of_client)
    try:
        result = modes.ask(client, mode, **of_call)
    except rungwise.CallError as error:
        result = error.result
    assert (clock.waits, len(first.requests)) == (waits, 1 + len(waits))
    assert result.outcome == ("done" if waits or others else "failed")
    assert result.attempts == 1 + len(waits or others)
    target = "retry" if waits else "fallback" if others else "failed"
    assert told(result.journal.steps) == [(target, asked, waits[0] if waits else 0.0)]


@pytest.mark.parametrize(("seconds", "waits"), [(12.0, [11.0]), (11.0, []), (14.6, [11.0])])
def test_neither_is_a_wait_of_our_own(
    serve: Serve,
    mode: str,
    seconds: float,
    waits: list[float],
) -> None:
    """A backoff of 11 s, and then of more: as long as it is, or not at all."""
    policy = Policy(
        budget=Budget(seconds=None),
        waits=Waits(retry_base=11, retry_cap=11, overload_cap=11, jitter=0),
    )
    provider = serve(ScriptedReply(status=500))
    client, clock = client_of(provider, policy=policy)
    with pytest.raises(rungwise.OverBudget):
        modes.ask(client, mode, deadline=WALL + seconds)
    assert (clock.waits, len(provider.requests)) == (waits, 1 + len(waits))


@pytest.mark.full
@pytest.mark.parametrize("way", ways.ALL)
@pytest.mark.parametrize("streams", [False, True])
def test_nobody_wakes_early_by_the_real_clock(serve: Serve, way: str, streams: bool) -> None:
    arrived: list[float] = []

    def answer(request: ReceivedRequest) -> ScriptedReply:
        arrived.append(time.monotonic())
        busy = ScriptedReply(status=503, headers={"retry-after-ms": "250"})
        return ANSWER if len(arrived) > 2 else busy

    policy = Policy(reserve=Reserve(), switch_after={"overloaded": 9})
    client = ways.client_for(way, ways.backend(serve(answer).base_url), policy=policy)
    assert ways.ask(way, client, streams=streams).text == "By the lake."
    assert [later - earlier >= 0.25 for earlier, later in pairwise(arrived)] == [True, True]
