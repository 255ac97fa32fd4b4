"""What a policy makes of its table, as the pictures tell it: checked against the machine that
runs.
"""

import re
from random import Random
from typing import Any

import pytest

from rungwise import CALL, Budget, Limits, Policy, Reserve, TurnPolicy, Waits
from rungwise.adapters.testing.fuzzing import Fuzzer
from rungwise.core import Reply
from rungwise.fsm.analysis.certificate.shown.settings import off_rows, settings_of
from rungwise.fsm.engine.checker.walk import ALIVE, walk
from rungwise.testing import run
from support.sampling import sampled
from support.tables import VECTORS

OPEN: dict[str, Any] = {
    "after_refusal": "fall_back",
    "skip_identical_empties": True,
    "switch_after": {"empty": 2},
}
"""What leaves every fact open, so that limits alone switch rows off."""


def alive(detail: str) -> int:
    found = re.match(r"all (\d+) rows were taken", detail)
    assert found, detail
    return int(found[1])


@pytest.mark.parametrize(
    "limits", sampled([Random(1).choice(VECTORS) for _ in range(12)], one_in=6)
)
def test_what_is_off_by_its_limit_is_what_a_walk_never_takes(limits: dict[str, int]) -> None:
    off = off_rows(Policy(limits=Limits(**limits), **OPEN))
    (taken,) = [each for each in walk(CALL, limits).properties if each.name == ALIVE]
    assert taken.holds
    assert alive(taken.detail) == len(CALL.rows) - len(off)


TIGHT: dict[str, Policy] = {
    "default": Policy(),
    "interactive": Policy.interactive(),
    "none of some": Policy(
        limits=Limits(
            retries=0,
            nudges=0,
            continuations=0,
            fallbacks=0,
        )
    ),
    "settled": Policy(
        nudge_window=0,
        handful=0,
        reserve=Reserve(share=0.0),
        after_refusal="end",
        switch_after={"empty": 1},
    ),
}


@pytest.mark.dear(4)
@pytest.mark.full
@pytest.mark.parametrize("name", TIGHT)
def test_no_call_takes_a_row_that_is_off(name: str) -> None:
    """Calls meet random replies; what the picture strikes is a promise."""
    with Fuzzer(policy=TIGHT[name], seed=7, backends=2) as fuzzer:
        found = fuzzer.run(examples=200)
    assert found is None
    assert len(fuzzer.coverage.rows) > 20
    assert [str(row) for row in fuzzer.coverage.rows.keys() & off_rows(TIGHT[name]).keys()] == []


@pytest.mark.parametrize(
    ("waits", "detail"),
    [
        (Waits(), "×3 · 2→60 s"),
        (Waits(overload_cap=90.0), "×3 · 2→60 s, overload 2→90 s"),
        (Waits(retry_base=80.0), "×3 · 60 s"),
        (Waits(retry_base=80.0, overload_cap=100.0), "×3 · 60 s, overload 80→100 s"),
        (Waits(retry_base=0.0), "×3 · 0 s"),
        (Waits(retry_base=0.1, retry_cap=234567.25), "×3 · 0.1→234567.25 s, overload 0.1→60 s"),
    ],
)
def test_a_rung_tells_its_waits_in_short(waits: Waits, detail: str) -> None:
    assert settings_of(Policy(waits=waits)).details["retry"] == detail


def test_a_rung_tells_its_waits_in_words() -> None:
    says = settings_of(
        Policy(
            limits=Limits(
                retries=7,
                nudges=0,
                reasks=1,
                fallbacks=2,
            )
        )
    ).says
    assert says["retry"].startswith(
        "at most 7 times, after 2, 4, 8, 16, 32, ... s and up to 50 % more, doubling up to"
    )
    assert "after an overload up to 60 s; after a broken reply 1→120 s" in says["retry"]
    assert says["reask"].startswith("at most once, after 1 s and up to 50 % more")
    assert says["nudge"] == "never: the limit of nudges is 0"
    assert says["fallback"] == "at most twice"
    assert settings_of(Policy()).says["fallback"] == "once for each further backend"


def test_the_budget_is_the_caption() -> None:
    assert settings_of(Policy()).caption == "in all at most 24 attempts · 900 s"
    budget = Budget(
        attempts=1,
        seconds=None,
        output_tokens=1_000_000,
        money=0.125,
    )
    assert (
        settings_of(Policy(budget=budget)).caption
        == "in all at most 1 attempt · 1,000,000 output tokens · 0.125 in money"
    )


@pytest.mark.parametrize(
    ("policy", "event", "guard", "why"),
    [
        (
            Policy(switch_after={"empty": 1000}),
            "came_empty",
            "must_leave",
            "switch_after.empty is never",
        ),
        (Policy(after_refusal="end"), "refused", "may_ask_another", "after_refusal is 'end'"),
        (Policy(nudge_window=0), "came_empty", "may_nudge", "nudge_window is 0"),
        (Policy(limits=Limits(retries=0)), "malformed", "may_retry", "the limit of retries is 0"),
        (TurnPolicy(summary=False), "answered", "is_summary", "no summary is asked for"),
        (
            TurnPolicy(auto_continues=0),
            "overflowed",
            "may_compact",
            "the limit of auto_continues is 0",
        ),
    ],
)
def test_each_row_that_is_off_has_a_reason(
    policy: Policy | TurnPolicy,
    event: str,
    guard: str,
    why: str,
) -> None:
    found = {
        text for row, text in off_rows(policy).items() if (row.event, row.guard) == (event, guard)
    }
    assert found == {why}


def test_a_rung_that_nothing_leads_to_sends_nothing() -> None:
    off = off_rows(Policy(limits=Limits(nudges=0)))
    assert {row.event: why for row, why in off.items() if row.source == "nudge"} == dict.fromkeys(
        ("sent", "cancelled", "ran_out", "found_open"), "nothing leads to nudge"
    )


def test_a_limit_of_a_thousand_empty_replies_means_never() -> None:
    policy = Policy(
        budget=Budget(attempts=1000, seconds=None),
        limits=Limits(reasks=1000),
        reserve=Reserve(share=0),
        switch_after={"empty": 1000},
    )
    steps = run(policy, [Reply("", stop_reason="stop")], chain=2).journal.steps
    assert sum(step.event == "sent" for step in steps) == 1000
    assert {step.target for step in steps} == {"await", "reask", "over_budget"}
