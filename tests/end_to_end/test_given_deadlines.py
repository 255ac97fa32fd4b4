"""A deadline that is given: every entry point ends by it, it is read once, and one that has passed
sends nothing.
"""

import math
import time
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import anyio
import pytest

import rungwise
from rungwise import Budget, Client, Journal, Policy, TurnPolicy
from rungwise.testing import EmbeddedProvider, ScriptedReply, VirtualClock
from support import modes, turn_modes, ways
from support.runs import Serve
from support.sampling import sampled
from support.ways import WALL

ALL = (*modes.MODES, *turn_modes.MODES)
BUSY = ScriptedReply(status=503, headers={"retry-after": "5"})
UNLIMITED = Policy(budget=Budget(seconds=None))
Result = rungwise.Result | rungwise.TurnResult


def ask(client: Client, mode: str, **options: Any) -> Result:
    """Ask in any of the eight modes, and return the result of whatever came of it."""
    if mode in turn_modes.MODES:
        return turn_modes.ask(client, mode, **options)
    try:
        return modes.ask(client, mode, **options)
    except rungwise.CallError as error:
        return error.result


def virtual(provider: EmbeddedProvider, **options: Any) -> tuple[Client, VirtualClock]:
    """Return a client without a limit of seconds, and its clock, which stands at 50."""
    return ways.virtual(provider, **{"policy": UNLIMITED, **options})


def journals_of(result: Result) -> list[Journal]:
    """Return the journals of the calls."""
    return [result.journal] if isinstance(result, rungwise.Result) else result.journal.calls


GIVEN: list[Any] = [
    WALL + 8,
    int(WALL) + 8,
    datetime.fromtimestamp(WALL + 8, UTC),
    datetime.fromtimestamp(WALL + 8, timezone(timedelta(hours=-3))),
]


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("given", GIVEN, ids=["float", "int", "utc", "elsewhere"])
def test_every_entry_point_ends_by_it(serve: Serve, mode: str, given: Any) -> None:
    provider = serve(BUSY)
    client, clock = virtual(provider)
    result = ask(client, mode, deadline=given)
    # One wait of 5 s is kept; a second one would end behind the deadline, and is not begun.
    assert (result.outcome, len(provider.requests), clock.waits) == ("failed", 2, [5.0])
    assert [journal.setting.deadline for journal in journals_of(result)] == [8.0]
    assert rungwise.replay(Journal.from_json(journals_of(result)[0].to_json())).outcome == "failed"


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("ago", [0.0, 0.25, 3600.0, WALL / 2])
def test_one_that_has_passed_sends_nothing(serve: Serve, mode: str, ago: float) -> None:
    provider = serve(ScriptedReply("By the lake."))
    client, clock = virtual(provider)
    result = ask(client, mode, deadline=WALL - ago)
    assert (result.outcome, provider.requests, clock.waits) == ("over_budget", [], [])
    assert "after the deadline" in str(result.cause)


@pytest.mark.parametrize("mode", sampled(ALL, one_in=3))
@pytest.mark.parametrize(
    "hangs", [ScriptedReply(hang=True), ScriptedReply("Reeds. " * 90, hang=True, cut_after=450)]
)
def test_a_request_in_flight_is_ended_by_it(serve: Serve, mode: str, hangs: ScriptedReply) -> None:
    provider = serve(hangs)
    began = time.monotonic()
    result = ask(Client(ways.backend(provider.base_url)), mode, deadline=time.time() + 0.4)
    assert 0.3 < time.monotonic() - began < 8
    assert result.outcome not in ("done", "finished")
    assert len(provider.requests) == 1


@pytest.mark.parametrize("mode", ALL)
def test_it_is_read_once_when_the_call_is_made(serve: Serve, mode: str) -> None:
    provider = serve(BUSY, ScriptedReply("By the lake."))
    readings: list[float] = []

    def wall_clock() -> float:
        readings.append(WALL + 1000 * len(readings))  # somebody sets the clock of the machine
        return readings[-1]

    client, clock = virtual(provider, wall_clock=wall_clock)
    result = ask(client, mode, deadline=WALL + 8)
    assert (result.outcome in ("done", "finished"), clock.waits) == (True, [5.0])
    assert journals_of(result)[0].setting.deadline == 8.0


def test_a_coroutine_that_is_awaited_later_has_no_more_time(serve: Serve) -> None:
    provider = serve(ScriptedReply("By the lake."))
    client, clock = virtual(provider)

    async def main() -> rungwise.Result:
        asked = client.acall("Where?", deadline=WALL + 8)
        clock.advance(9)
        async with client:
            return await asked

    with pytest.raises(rungwise.OverBudget):
        anyio.run(main)
    assert provider.requests == []


@pytest.mark.parametrize(
    ("own", "shared", "deadline"),
    [(3.0, 30.0, 30.0), (30.0, 3.0, 30.0), (30.0, 30.0, 3.0)],
    ids=["own", "shared", "it"],
)
def test_the_tightest_counts(
    serve: Serve,
    own: float,
    shared: float,
    deadline: float,
) -> None:
    provider = serve(BUSY)
    client, clock = virtual(provider, policy=Policy(budget=Budget(seconds=own)))
    within = rungwise.SharedBudget(Budget(seconds=shared))
    with pytest.raises(rungwise.CallError):
        client.call("Where?", within=within, deadline=WALL + deadline)
    assert (len(provider.requests), clock.waits) == (1, [])  # 5 s fit into none of them


@pytest.mark.parametrize("mode", turn_modes.MODES)
def test_the_calls_of_a_turn_share_it(serve: Serve, mode: str) -> None:
    provider = serve(turn_modes.calling(("look", "{}")), ScriptedReply("By the lake."))
    client, clock = virtual(provider)

    def look() -> str:
        clock.advance(6)
        return "three herons"

    result = ask(
        client,
        mode,
        tools=[look],
        policy=TurnPolicy(),
        deadline=WALL + 8,
    )
    assert result.outcome == "finished"
    assert [journal.setting.deadline for journal in journals_of(result)] == [8.0, 2.0]
    assert isinstance(result, rungwise.TurnResult)
    assert result.journal.setting.deadline == 8.0
    assert (
        rungwise.replay(rungwise.TurnJournal.from_json(result.journal.to_json())).outcome
        == "finished"
    )


@pytest.mark.parametrize("mode", turn_modes.MODES)
def test_tools_are_ended_by_it(serve: Serve, mode: str) -> None:
    provider = serve(turn_modes.calling(("look", "{}")), ScriptedReply("By the lake."))

    async def look() -> str:
        await anyio.sleep(30)
        return "three herons"

    began = time.monotonic()
    result = ask(
        Client(ways.backend(provider.base_url)), mode, tools=[look], deadline=time.time() + 0.5
    )
    assert time.monotonic() - began < 8
    assert (result.outcome, len(provider.requests)) == ("over_budget", 1)


NAIVE = datetime(2026, 11, 20, 10, 0, 8)


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (NAIVE, "time zone"),
        (math.nan, "point in time"),
        (math.inf, "point in time"),
        (True, "point in time"),
        ("2026-11-20T10:00:08Z", "point in time"),
        (timedelta(seconds=8), "point in time"),
        (date(2026, 11, 20), "point in time"),
        (WALL * 1000, "point in time"),
        (10**400, "point in time"),
    ],
)
def test_what_is_no_point_in_time_is_refused(
    serve: Serve,
    mode: str,
    given: Any,
    says: str,
) -> None:
    provider = serve(ScriptedReply("By the lake."))
    client, _ = virtual(provider)
    with pytest.raises(rungwise.ConfigurationError, match=f"^deadline must .*{says}"):
        ask(client, mode, deadline=given)
    assert provider.requests == []


@pytest.mark.parametrize("says", ["now", None, float("nan"), 1e300])
def test_a_wall_clock_returns_seconds(says: Any) -> None:
    client = Client(
        ways.backend("http://127.0.0.1:1/v1"),
        testing=rungwise.testing.Clocks(wall_clock=lambda: says),
    )
    with pytest.raises(
        rungwise.ConfigurationError, match="wall_clock must return the seconds since 1970"
    ):
        client.call("Where?", deadline=time.time() + 5)
