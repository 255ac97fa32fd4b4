"""Budgets by day, week and month: each period has the ceilings once, wherever the clock goes."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import Budget, ConfigurationError, SharedBudget
from rungwise.core import Call, Request
from support.sampling import examples
from support.sharing import answer, begun, over_budget, sent, spend, waiting

DAY = 86_400.0
MONDAY = datetime(2026, 11, 30, 14, tzinfo=UTC).timestamp()  # in the last days of a month


def team(per: Any = "day", *, attempts: int = 1, **options: Any) -> SharedBudget:
    return SharedBudget(Budget(attempts=attempts, seconds=None), per=per, name="team", **options)


@pytest.mark.parametrize(
    ("per", "first", "following"),
    [
        ("day", "2026-11-30", "2026-12-01"),
        ("week", "2026-11-30", "2026-12-07"),
        ("month", "2026-11-01", "2026-12-01"),
    ],
)
def test_a_new_period_has_a_ledger_of_its_own(per: str, first: str, following: str) -> None:
    budget = team(per)
    begins = datetime.fromisoformat(f"{following}T00:00:00Z").timestamp()
    spend(budget.at(MONDAY))
    assert over_budget(begun(budget.at(begins - 1))) == (
        f"all 1 attempts of team ({per} of {first}; the next begins on {following}, UTC) are used"
    )
    spend(budget.at(begins))
    assert budget.attempts == budget.at(MONDAY).attempts == 1
    assert over_budget(begun(budget.at(MONDAY))).startswith("all 1 attempts")


def test_a_call_belongs_to_the_period_in_which_it_begins() -> None:
    budget = team(attempts=2)
    call = sent(budget.at(MONDAY))
    spend(budget.at(MONDAY + DAY), 30)
    call.receive(answer(20), 1.0)
    assert budget.at(MONDAY).usage.output_tokens == 20
    assert budget.at(MONDAY + DAY).usage.output_tokens == 30


def test_a_session_and_a_week_lie_within_what_the_days_and_months_have() -> None:
    month = team("month", attempts=2)
    week = SharedBudget(Budget(attempts=3, seconds=None), month, per="week")
    session = SharedBudget(Budget(attempts=4), week)
    for _ in range(2):
        spend(session.at(MONDAY))
    assert "team (month of 2026-11-01;" in over_budget(begun(session.at(MONDAY)))
    spend(session.at(MONDAY + DAY))
    assert over_budget(begun(session.at(MONDAY + DAY))) == (
        "all 3 attempts of the inner shared budget (week of 2026-11-30; the next begins on "
        "2026-12-07, UTC) are used"
    )
    spend(session.at(MONDAY + 7 * DAY))
    assert session.attempts == 4
    assert month.at(MONDAY + 7 * DAY).attempts == 2


def test_who_waits_for_one_period_does_not_hold_up_another() -> None:
    budget = SharedBudget(Budget(output_tokens=130, seconds=None), per="day")
    holder = sent(budget.at(MONDAY))
    _, woken = waiting(budget.at(MONDAY))
    other = begun(budget.at(MONDAY + DAY))
    assert other.reserve(lambda: None, 0.0)
    holder.receive(answer(10), 1.0)
    assert woken.is_set()


def first_day(per: str, moment: float) -> Any:
    """Say by the calendar which period it is."""
    day = datetime.fromtimestamp(moment, UTC)
    return {"day": day.date(), "week": day.isocalendar()[:2], "month": (day.year, day.month)}[per]


@settings(max_examples=examples(40))
@given(
    per=st.sampled_from(("day", "week", "month")),
    jumps=st.lists(
        st.tuples(
            st.sampled_from((-35.0, -8.0, -1.0, -0.3, 0.0, 0.0, 0.2, 1.0, 6.0, 32.0)),
            st.integers(1, 108),
            st.booleans(),
        ),
        max_size=25,
    ),
)
def test_no_period_spends_more_than_its_ceilings(per: Any, jumps: list[Any]) -> None:
    budget = SharedBudget(Budget(attempts=3, output_tokens=300, seconds=None), per=per)
    moment = MONDAY
    attempts = Counter[Any]()
    tokens = Counter[Any]()
    in_flight: list[tuple[Call, int, Any]] = []
    for days, used, lasts in jumps:
        moment += days * DAY
        period = first_day(per, moment)
        call = begun(budget.at(moment))
        goes_out = call.reserve(lambda: None, 0.0) and call.sending(0.0) is not None
        assert goes_out or attempts[period]
        if not goes_out:
            call.cancel(0.0)
            continue
        attempts[period] += 1
        in_flight.append((call, min(used, call.journal.last.cap or 0), period))
        while in_flight and not lasts:
            ended, usage, of_period = in_flight.pop()
            ended.receive(answer(usage), 1.0)
            tokens[of_period] += usage
        assert max(attempts.values()) <= 3
        assert max(tokens.values(), default=0) <= 300


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: team("hour"), "per must be one of 'day', 'week', 'month', or None, not 'hour'"),
        (lambda: team(1), "per must be one of 'day', 'week', 'month', or None, not 1"),
        (lambda: SharedBudget(Budget(), per="day"), r"per day has no seconds: .*seconds=None"),
        (lambda: team().at("today"), "moment must be seconds since 1970, not 'today'"),
        (lambda: team().at(-1.0), "moment must be seconds since 1970"),
        (lambda: team().at(1e12), "moment must be seconds since 1970"),
        (lambda: begun(team()), r"team is counted by periods: pass within=budget.at\(time.time"),
        (lambda: SharedBudget(Budget(), name=3), "name must be a text, not int"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_period_is_refused(make: Any, match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        make()


def test_without_periods_a_budget_is_that_of_every_moment() -> None:
    budget = SharedBudget(Budget(attempts=1))
    assert budget.at(MONDAY) is budget
    assert Call(Request("Where?"), within=budget.at(0.0)).spending.share is not None
