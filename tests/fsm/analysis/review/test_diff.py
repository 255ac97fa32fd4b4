import re
from typing import Any

import attrs
import pytest
from attrs import evolve

import rungwise
from rungwise import (
    CALL,
    Budget,
    Fact,
    Hints,
    Limits,
    Policy,
    Prices,
    Rung,
    Timeouts,
    TurnPolicy,
    Waits,
    diff_policies,
    verify,
)
from rungwise.core import PlainLink, PolicyDiff, Row
from rungwise.fsm.analysis.certificate.certificate import duration
from rungwise.fsm.analysis.certificate.shown.settings import says_of, value_text
from rungwise.fsm.analysis.review.ladders import events_of, waits_of
from rungwise.fsm.analysis.review.redeclared import redeclared
from rungwise.fsm.analysis.review.summary import worst_text
from rungwise.fsm.analysis.review.words import words_that_differ
from rungwise.fsm.call.table import NUDGE

DEFAULT = Policy()
TURN_POLICY = TurnPolicy()
PRICED = [
    PlainLink("one", prices=Prices(1, 2)),
    PlainLink("two", prices=Prices(3, 4)),
]


def limited(**limits: Any) -> Policy:
    return Policy(limits=Limits(**limits))


def fields(found: PolicyDiff) -> dict[str, tuple[Any, Any]]:
    return {change.name: (change.old, change.new) for change in found.fields}


def test_every_part_of_a_policy_is_compared() -> None:
    new = Policy(
        limits=Limits(retries=5, fallbacks=1),
        budget=Budget(seconds=60),
        waits=Waits(retry_cap=30, jitter=0),
        timeouts=Timeouts(total=None),
        reserve=rungwise.Reserve(seconds=7),
        hints=Hints(nudge="Go on."),
        switch_after={"overloaded": 1, "timeout": 1000, "rate_limit": 1},
        base_cap=2048,
        skip_identical_empties=True,
    )
    found = diff_policies(DEFAULT, new, 1)
    assert fields(found) == {
        "limits.retries": (3, 5),
        "limits.fallbacks": (None, 1),
        "budget.seconds": (900.0, 60),
        "waits.retry_cap": (60.0, 30),
        "waits.jitter": (0.5, 0),
        "timeouts.total": (600.0, None),
        "reserve.seconds": (None, 7),
        "hints.nudge": (DEFAULT.hints.nudge, "Go on."),
        "switch_after.overloaded": (2, 1),
        "switch_after.timeout": (1, 1000),
        "switch_after.rate_limit": (None, 1),
        "switch_after.rate_limit_without_wait": (2, 1),
        "base_cap": (4096, 2048),
        "skip_identical_empties": (False, True),
    }
    text = found.to_text()
    for line in (
        "| `waits.jitter` | `up to 50 % of the wait` | `up to 0 % of the wait` |",
        "| `timeouts.total` | `600 s (10 min)` | `no limit` |",
        "| `'That reply had no content. Read the tool results above and carry on from them.'` | "
        "`'Go on.'` |",
    ):
        assert line in text


@pytest.mark.full
def test_a_limit_of_0_kills_its_rows_and_what_only_they_lead_to() -> None:
    found = diff_policies(DEFAULT, limited(nudges=0), 2)
    assert set(found.die) == {row for row in CALL.rows if "nudge" in (row.source, row.target)}
    assert {found.die[row] for row in found.die if row.target == "nudge"} == {
        "the limit of nudges is 0"
    }
    assert {found.die[row] for row in found.die if row.source == "nudge"} == {
        "nothing leads to nudge"
    }
    assert (found.revive, found.appear, found.vanish, found.reordered) == ({}, (), (), ())
    back = diff_policies(limited(nudges=0), DEFAULT, 2)
    assert back.revive == found.die
    assert not back.die
    assert "Before, the limit of nudges is 0: 2 rows can be taken now" in back.to_text()


@pytest.mark.full
def test_the_rows_that_fall_with_one_limit_are_one_line() -> None:
    found = diff_policies(DEFAULT, limited(nudges=0), 1)
    (group,) = found.fall
    assert (group.reason, len(group.rows), {row.source for row in group.behind}) == (
        "the limit of nudges is 0",
        2,
        {"nudge"},
    )
    line = (
        "The limit of nudges is 0: 2 rows can no longer be taken: came_empty [may_nudge] → nudge, "
        "only_reasoned [may_nudge] → nudge, and 7 rows from nudge, which nothing leads to any more."
    )
    assert group.count == len(found.die)
    assert line in found.to_text().replace("`", "")
    assert line in re.sub("</?code>", "", found.to_html())


@pytest.mark.full
def test_a_refusal_that_no_longer_falls_back_is_named() -> None:
    found = diff_policies(DEFAULT, Policy(after_refusal="end", nudge_window=0), 1)
    text = found.to_text()
    assert (
        "A refusal no longer falls back (after_refusal is 'end'): 1 row can no longer be taken"
        in text
    )
    assert "No reply is nudged any more (nudge_window is 0): 2 rows can no longer be taken" in text
    assert found.come_back == ()
    again = diff_policies(Policy(after_refusal="end"), DEFAULT, 1)
    line = "A refusal falls back now (before, after_refusal is 'end'): 1 row can be taken now"
    assert line in again.to_text()


@pytest.mark.full
def test_the_worst_cases_are_for_one_to_three_backends_unless_a_number_is_given() -> None:
    found = diff_policies(DEFAULT, evolve(DEFAULT, budget=Budget(attempts=12)))
    assert (list(found.chains), found.backends) == ([1, 2, 3], 2)
    assert found.worst == found.chains[2]
    text = found.to_text()
    assert all(
        f"Worst cases of a call, with {count} backend" in text for count in ("one", "two", "three")
    )
    assert list(diff_policies(DEFAULT, DEFAULT, 4).chains) == [4]
    assert list(diff_policies(DEFAULT, DEFAULT, PRICED).chains) == [2]


@pytest.mark.full
def test_a_derived_table_shows_its_rows() -> None:
    shorter = Policy(table=CALL.without("prefill"))
    found = diff_policies(DEFAULT, shorter, 1)
    gone = {row for row in CALL.rows if "prefill" in (row.source, row.target)}
    assert (set(found.vanish), found.appear, found.fields) == (gone, (), ())
    assert set(diff_policies(shorter, DEFAULT, 1).appear) == gone
    for text in (found.to_text(), found.to_markdown()):
        assert "Gone: prefill, with 8 rows." in text
        assert text.count("* gone: ") == 8
        assert "* gone: `only_reasoned [may_prefill] → prefill` from `await`" in text


def test_a_name_that_means_something_else_is_named_though_no_row_differs() -> None:
    plain = CALL.without("nudge")
    again = [row for row in CALL.rows if row.target == "nudge" and row.source == "await"]
    other = plain.with_rows(*again, declare=(evolve(NUDGE, lacks=(), refills="reasks"),))
    guard, effect = redeclared(CALL, other)
    assert "the guard `may_nudge` needs a unit of nudges, follows_tool_result; before, " in guard
    assert guard.endswith("follows_tool_result, not thinks_inline")
    assert effect == (
        "the effect `spend_nudge` takes a unit of nudges and refills reasks; before, it takes a "
        "unit of nudges"
    )
    assert list(redeclared(CALL, CALL)) == []


@pytest.mark.parametrize(
    ("was", "now", "text"),
    [
        ({"of": bool}, {"of": callable}, "another function decides the fact `is_odd`"),
        (
            {"any_holds": "has_text"},
            {"any_holds": ("has_text", "overran")},
            "the fact `is_odd` follows from has_text, ",
        ),
        (
            {"any_holds": "has_text"},
            {"any_lacks": "has_text"},
            "the fact `is_odd` follows from not has_text; before, has",
        ),
        (
            {},
            {"lasts": "retries"},
            "the fact `is_odd` holds while retries has a unit left; before, for one reply",
        ),
    ],
)
def test_a_fact_with_another_definition_is_named(was: Any, now: Any, text: str) -> None:
    one, other = (CALL.declaring(Fact("is_odd", **each)) for each in (was, now))
    (line,) = redeclared(one, other)
    assert line.startswith(text)


@pytest.mark.full
def test_policies_whose_own_fact_has_another_function_differ() -> None:
    one, other = (
        Policy(table=CALL.with_rung(Rung("entreat", holds=fact, hint="Please."), answered=None))
        for fact in (Fact("is_odd", of=bool), Fact("is_odd", of=callable))
    )
    found = diff_policies(one, other, 1)
    assert not found.is_empty
    assert "Another function decides the fact `is_odd`." in found.to_text()


@pytest.mark.full
def test_another_order_shows_its_event() -> None:
    order = [row.guard for row in CALL.ladder("malformed", "await")]
    order[:2] = reversed(order[:2])
    found = diff_policies(DEFAULT, Policy(table=CALL.reordered("malformed", order)), 1)
    assert found.reordered == (("malformed", "await"),)
    assert not found.is_empty
    assert "The order of guards changes for `malformed` in `await`." in found.to_text()


@pytest.mark.full
def test_a_new_row_that_is_dead_on_arrival_does_not_count_as_turned_off() -> None:
    row = Row("answered", "await", "may_compact", "compact", "spend_compaction")
    new = Policy(table=CALL.with_rows(row), limits=Limits(compactions=0))
    found = diff_policies(DEFAULT, new, 1)
    assert found.appear == (row,)
    assert row not in found.die


@pytest.mark.full
def test_worst_cases_are_those_of_the_certificates() -> None:
    new = evolve(DEFAULT, budget=Budget(attempts=48, money=1.0), limits=Limits(retries=1))
    found = diff_policies(DEFAULT, new, PRICED, max_tokens=1000, input_tokens=500)
    for change, old_one, new_one in zip(
        found.worst,
        verify(DEFAULT, PRICED, max_tokens=1000, input_tokens=500).worst,
        verify(new, PRICED, max_tokens=1000, input_tokens=500).worst,
        strict=True,
    ):
        assert (change.old, change.new) == (old_one, new_one)
        assert old_one.value
        assert new_one.value
        assert change.factor == new_one.value / old_one.value
    names = [change.name for change in found.worst]
    assert names == ["attempts", "waiting seconds", "seconds", "output tokens", "money"]


def test_the_factor_and_what_ends_the_worst_path_are_shown() -> None:
    found = diff_policies(DEFAULT, evolve(DEFAULT, budget=Budget(attempts=12)), 2)
    for text in (found.to_text(), found.to_markdown()):
        assert "| attempts | 24 (budget.attempts) | 12 (budget.attempts) | x 0.5 |\n" in text
        assert "output tokens: not known; without max_tokens" in text
        assert "money: not known; no price is known for a backend of the chain" in text


def test_a_bound_that_is_new_has_no_factor_and_one_that_is_gone_is_dearer() -> None:
    found = diff_policies(DEFAULT, evolve(DEFAULT, budget=Budget(output_tokens=9000)), 1)
    tokens = next(change for change in found.worst if change.name == "output tokens")
    assert (tokens.factor, tokens.is_change, tokens.is_dearer) == (None, True, False)
    gone = evolve(tokens, old=tokens.new, new=tokens.old)
    assert gone.is_dearer
    assert worst_text(gone) == "Output tokens: not known, before 9,000."
    assert "| output tokens | not known | 9,000 (budget.output_tokens) | ? |" in found.to_markdown()


@pytest.mark.full
def test_a_change_of_words_leaves_the_worst_cases_alone() -> None:
    found = diff_policies(DEFAULT, Policy(hints=Hints(nudge="Go on.")), 1)
    assert "Worst cases of a call, with one backend: unchanged" in found.to_text()
    assert not found.is_effective
    assert found.to_text().startswith(
        "**Only wording changes (hints.nudge): what a call does stays the same, and so does every "
        "bound.**"
    )


# Turns


@pytest.mark.full
def test_a_turn_is_compared_with_its_fields_rows_and_worst_cases() -> None:
    new = TurnPolicy(
        compactions=0,
        auto_continues=5,
        tool_seconds=10,
        summary=False,
    )
    found = diff_policies(TURN_POLICY, new, 2)
    assert fields(found) == {
        "auto_continues": (25, 5),
        "compactions": (3, 0),
        "summary": (True, False),
        "tool_seconds": (60.0, 10),
    }
    gone = {str(row) for row in found.die}
    assert "await --overflowed [may_compact] / spend_compaction--> compact" in gone
    assert "await --tools_ran [may_summarize] / spend_summary--> summarize" in gone
    assert (
        found.die[next(row for row in found.die if row.source == "compact")]
        == "nothing leads to compact"
    )
    assert diff_policies(new, TURN_POLICY, 2).revive == found.die
    worst = {change.name: (change.old.value, change.new.value) for change in found.worst}
    assert worst["calls"] == (27, 6)
    assert worst["tool runs"] == (26 * 32, 6 * 32)
    assert found.calls.is_empty
    text = found.to_text()
    assert "| `tool_seconds` | `60 s` | `10 s` |" in text
    assert "Worst cases of a turn, with two backends\n" in text
    assert "Each call" not in text


@pytest.mark.full
def test_what_changes_for_the_calls_of_a_turn_follows() -> None:
    calls = Policy(limits=Limits(nudges=0, compactions=9), budget=Budget(attempts=3))
    found = diff_policies(TURN_POLICY, TurnPolicy(call=calls), 1)
    assert (found.fields, found.die) == ((), {})
    assert set(fields(found.calls)) == {"limits.nudges", "limits.compactions", "budget.attempts"}
    assert {row.target for row in found.calls.die if row.guard and row.source == "await"} == {
        "nudge"
    }
    worst = {change.name: (change.old.value, change.new.value) for change in found.worst}
    assert worst["attempts"] == (100, 27 * 3)
    text = found.to_text()
    markdown = found.to_markdown()
    assert (
        text.index("Worst cases of a turn")
        < text.index("### Each call\n")
        < text.index("Worst cases of a call")
    )
    assert "### Each call\n" in markdown
    assert "| `limits.nudges` | `1` | `0` |" in markdown


def test_a_call_and_a_turn_cannot_be_compared() -> None:
    with pytest.raises(
        rungwise.ConfigurationError, match="the old is a Policy, the new a TurnPolicy"
    ):
        diff_policies(DEFAULT, TURN_POLICY)


# words and figures


def names(policy: Any, prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, value in policy.items():
        found += (
            names(value, f"{prefix}{name}.")
            if isinstance(value, dict) and value
            else [f"{prefix}{name}"]
        )
    return found


@pytest.mark.parametrize("policy", [Policy(), TurnPolicy()], ids=["call", "turn"])
def test_every_field_has_a_description(policy: Policy | TurnPolicy) -> None:
    plain = {name: value for name, value in policy.to_mapping().items() if name != "call"}
    assert len(plain) > 9
    assert [
        name for name in names(plain) if not says_of(name, policy) and name != "hints.rungs"
    ] == []


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
    new = Policy(
        limits=Limits(retries=2, reasks=0),
        waits=Waits(retry_base=1.0, overload_cap=1.5, jitter=0),
    )
    reattach, retry, reask, recheck = waits_of(Policy(), new)
    names = (reattach.name, retry.name, reask.name, recheck.name)
    assert names == ("reattach", "retry", "reask", "recheck")
    assert retry.old.startswith("at most 3 times, after 2, 4, 8 s and up to 50 % more, ")
    assert "after an overload up to 60 s" in retry.old
    assert retry.new.startswith("at most twice, after 1, 2 s, ")
    assert "after an overload up to 1.5 s" in retry.new
    assert reask.old.startswith("at most 3 times, after 1, 2, 4 s and up to 50 % more, ")
    assert reask.new == "never: the limit of reasks is 0"
    assert recheck.old.startswith("at most once, after 1 s and up to 50 % more")
    assert recheck.new.startswith("at most once, after 1 s")
    assert list(waits_of(new, new)) == []


def test_texts_are_compared_word_by_word_and_nothing_that_differs_is_lost() -> None:
    old = "one two three four five six seven eight nine ten"
    new = "one two three 4 five six seven eight nine ten eleven"
    pieces = words_that_differ(old, new)
    assert ("old", " four") in pieces
    assert ("new", " 4") in pieces
    assert pieces[-1] == ("new", " eleven")
    assert "".join(text for kind, text in words_that_differ("a b", "c d") if kind == "new") == "c d"


def test_numbers_that_bear_on_an_event_change_it_too() -> None:
    new = Policy(
        timeouts=Timeouts(stall=5.0),
        switch_after={"rate_limit": 1},
        largest_cap=9000,
        nudge_window=2,
    )
    changed = {each.event: each for each in events_of(Policy(), new) if each.is_change}
    assert {"fell_silent", "failed_transiently", "truncated", "came_empty"} <= changed.keys()
    assert not {"answered", "refused", "overflowed"} & changed.keys()
    now = changed["failed_transiently"].new
    assert "1 of `rate_limit`" in now.remarks[-1]
    assert (
        attrs.evolve(changed["failed_transiently"], new=changed["failed_transiently"].old).is_change
        is False
    )


@pytest.mark.full
def test_a_rung_without_waits_is_shown_as_taken() -> None:
    entreat = Rung("entreat", holds="overran", hint="Please.")
    tables = [CALL.with_rung(evolve(entreat, wait=wait), answered=None) for wait in (None, "retry")]
    (change,) = waits_of(*(Policy(table=table) for table in tables))
    assert (change.name, change.old) == ("entreat", "at most once")
    assert change.new.startswith("at most once, after 2 s")
