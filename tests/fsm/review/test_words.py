"""The words and figures of a review."""

from typing import Any

import attrs
import pytest
from attrs import evolve

import rungwise
from rungwise.fsm.certificate.shown.settings import says_of, value_text
from rungwise.fsm.certificate.verified import duration
from rungwise.fsm.review.events import events_of, waits_of
from rungwise.fsm.review.words import words_that_differ


def names(policy: Any, prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, value in policy.items():
        found += names(value, f"{prefix}{name}.") if isinstance(value, dict) and value else [f"{prefix}{name}"]
    return found


@pytest.mark.parametrize("policy", [rungwise.Policy(), rungwise.TurnPolicy()], ids=["call", "turn"])
def test_every_field_has_a_description(policy: rungwise.Policy | rungwise.TurnPolicy) -> None:
    plain = {name: value for name, value in policy.to_mapping().items() if name != "call"}
    assert len(plain) > 9
    assert [name for name in names(plain) if not says_of(name, policy) and name != "hints.rungs"] == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (2.5, "2.5 s"),
        (119, "119 s"),
        (120, "120 s (2 min)"),
        (901, "901 s (15 min)"),
        (7200, "7,200 s (2 h)"),
    ],
)
def test_a_long_duration_is_also_in_minutes_or_hours(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("limits.fallbacks", None, "as many as the chain has"),
        ("limits.apologizes", None, "there is none"),
        ("reserve.seconds", None, "its share"),
        ("switch_after.rate_limit", None, "never"),
        ("base_cap", 4096, "4,096 tokens"),
        ("budget.output_tokens", 9000, "9,000 tokens"),
        ("budget.money", 0.25, "0.25"),
        ("waits.jitter", 0.5, "up to 50 % of the wait"),
        ("switch_after.timeout", 1000, "never"),
        ("summary", False, "no"),
        ("tool_seconds", 60.0, "60 s"),
    ],
)
def test_a_value_has_its_unit(name: str, value: Any, text: str) -> None:
    assert value_text(name, value) == text


def test_a_change_of_numbers_shows_the_waits_that_it_makes() -> None:
    new = rungwise.Policy(
        limits=rungwise.Limits(retries=2, reasks=0), waits=rungwise.Waits(retry_base=1.0, overload_cap=1.5, jitter=0)
    )
    retry, reask = waits_of(rungwise.Policy(), new)
    assert (retry.name, reask.name) == ("retry", "reask")
    assert retry.old.startswith("at most 3 times, after 2, 4, 8 s and up to 50 % more, ")
    assert "after an overload up to 60 s" in retry.old
    assert retry.new.startswith("at most twice, after 1, 2 s, ")
    assert "after an overload up to 1.5 s" in retry.new
    assert reask.old.startswith("at most 3 times, after 5, 10, 20 s and up to 50 % more, ")
    assert reask.new == "never: the limit of reasks is 0"
    assert list(waits_of(new, new)) == []


def test_texts_are_compared_word_by_word_and_nothing_that_differs_is_lost() -> None:
    old, new = (
        "one two three four five six seven eight nine ten",
        "one two three 4 five six seven eight nine ten eleven",
    )
    pieces = words_that_differ(old, new)
    assert ("old", " four") in pieces
    assert ("new", " 4") in pieces
    assert pieces[-1] == ("new", " eleven")
    assert "".join(text for kind, text in words_that_differ("a b", "c d") if kind == "new") == "c d"


def test_numbers_that_bear_on_an_event_change_it_too() -> None:
    new = rungwise.Policy(
        timeouts=rungwise.Timeouts(stall=5.0), switch_after={"rate_limit": 1}, largest_cap=9000, nudge_window=2
    )
    changed = {each.event: each for each in events_of(rungwise.Policy(), new) if each.is_change}
    assert {"fell_silent", "failed_transiently", "truncated", "came_empty"} <= changed.keys()
    assert not {"answered", "refused", "overflowed"} & changed.keys()
    now = changed["failed_transiently"].new
    assert "1 of `rate_limit`" in now.remarks[-1]
    assert attrs.evolve(changed["failed_transiently"], new=changed["failed_transiently"].old).is_change is False


@pytest.mark.full
def test_a_rung_without_waits_is_shown_as_taken() -> None:
    plead = rungwise.Rung("plead", holds="overran", hint="Please.")
    tables = [rungwise.CALL.with_rung(evolve(plead, wait=wait), answered=None) for wait in (None, "retry")]
    (change,) = waits_of(*(rungwise.Policy(table=table) for table in tables))
    assert (change.name, change.old) == ("plead", "at most once")
    assert change.new.startswith("at most once, after 2 s")
