"""What a past call would have done under another policy: what is told, and what is honestly not."""

from random import Random
from typing import Any

import pytest
from attrs import evolve

import rungwise
from rungwise import CALL, Budget, Fact, Hints, Limits, Policy, Rung, Timeouts, TurnPolicy, Waits
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.analysis.replay.what_if import WhatIf, what_if
from rungwise.fsm.analysis.replay.what_if_turns import what_if_recorded
from support.changes import of_known_rungs, recorded
from support.tables import OTHERS_OFF
from support.turns import calling, played, random_turn, said

SLOW, DOWN = Failure("server_error", status=500), Failure("server_error")
ANSWER = Reply("hello", stop_reason="stop")
EMPTY = Reply("", stop_reason="stop")
CUT = Reply("a piece of the answer", stop_reason="length", usage=rungwise.Usage(10, 500))


def under(policy: Policy, *replies: Any, old: Policy | None = None) -> WhatIf:
    return what_if(recorded(*replies, policy=old), policy)


@pytest.mark.parametrize(
    "replies",
    [
        (ANSWER,),
        (SLOW, ANSWER),
        (EMPTY, EMPTY, ANSWER),
        (CUT, ANSWER),
        (DOWN,) * 8,
        (Failure("content_policy"), ANSWER),
    ],
)
def test_under_its_own_policy_a_call_takes_its_own_path(replies: tuple[Any, ...]) -> None:
    journal = recorded(*replies)
    found = what_if(journal, of_known_rungs())
    steps = len([step for step in journal.steps if step.event != "skipped"])
    assert (found.kind, found.steps, found.of, found.outcome) == (
        "same",
        steps,
        steps,
        journal.outcome,
    )
    assert found.attempts == (len(replies), len(replies))
    assert found.waits[0] == pytest.approx(found.waits[1])


def test_waits_that_change_are_counted_along_the_same_path() -> None:
    found = under(Policy(waits=Waits(retry_base=1.0)), SLOW, SLOW, ANSWER)
    assert found.kind == "same"
    # 2 s and 4 s with a fifth of half of them more, and half of that
    assert found.waits == pytest.approx((6.6, 3.3))


def test_where_another_row_is_taken_the_rest_is_not_told() -> None:
    found = under(Policy(limits=Limits(retries=1)), SLOW, SLOW, ANSWER)
    assert (found.kind, found.where) == ("differs", "step 4")
    assert found.before == "retry 2 after 4.4 s (failed_transiently)"
    assert found.now == "fallback 1 (failed_transiently)"
    assert (found.steps, found.of, found.attempts) == (3, 6, (2, 2))


def test_a_budget_that_would_have_ended_it_says_so() -> None:
    found = under(Policy(budget=Budget(attempts=2), limits=Limits(fallbacks=0)), SLOW, SLOW, ANSWER)
    assert (found.kind, found.now) == ("ends earlier", "ends as over_budget (ran_out)")
    assert found.why == "all 2 attempts of the budget are used"
    late = under(Policy(budget=Budget(seconds=5), limits=Limits(fallbacks=0)), SLOW, SLOW, ANSWER)
    assert (late.kind, late.where) == ("ends earlier", "step 5")


def test_streams_that_broke_off_are_counted_by_what_they_added_which_the_journal_says() -> None:
    torn = Reply("The bittern booms by night in", interrupted=True)
    bare = Reply(interrupted=True, failure=Failure("connection"))
    patient = Policy(switch_after={"broken_stream": 1000})
    found = under(Policy(), bare, torn, bare, bare, ANSWER, old=patient)
    assert (found.kind, found.before, found.now) == (
        "differs",
        "retry 2 after 2.2 s (interrupted)",
        "fallback 1 (interrupted)",
    )
    assert found.attempts == (4, 4)


def test_a_call_that_could_go_on_now_differs_where_it_ended() -> None:
    old = Policy(limits=Limits(retries=0, fallbacks=0))
    found = under(Policy(), SLOW, old=old)
    assert (found.kind, found.where, found.before) == (
        "differs",
        "step 2",
        "ends as failed (failed_transiently)",
    )
    assert found.now.startswith("retry 1 after")


def test_a_refusal_and_a_reason_to_leave_are_decided_anew() -> None:
    known = Limits(**OTHERS_OFF)
    old = Policy(limits=known)
    new = Policy(limits=known, after_refusal="end")
    found = under(new, Failure("content_policy"), ANSWER, old=old)
    assert (found.kind, found.now) == ("ends earlier", "ends as refused (refused)")
    left = under(Policy(switch_after={"server_error": 2}), SLOW, SLOW, ANSWER)
    assert (left.kind, left.where, left.now) == (
        "differs",
        "step 4",
        "fallback 1 (failed_transiently)",
    )
    asked = under(
        Policy(waits=Waits(longest_asked=15.0)), Failure("rate_limit", asked_wait=60.0), ANSWER
    )
    assert (asked.kind, asked.before) == ("differs", "retry 1 after 60 s (failed_transiently)")


@pytest.mark.parametrize(
    ("policy", "replies", "why"),
    [
        (
            Policy(timeouts=Timeouts(total=1.0)),
            (ANSWER,),
            "the attempt took 2 s, and an attempt may take 1 s",
        ),
        (
            Policy(timeouts=Timeouts(stall=1.0)),
            (ANSWER,),
            "the journal does not say when its pieces arrived",
        ),
        (
            Policy(base_cap=100, budget=Budget(output_tokens=300)),
            (CUT, ANSWER),
            "its cap was 500 tokens then",
        ),
        (
            Policy(hints=Hints(continuation="Go on.")),
            (CUT, ANSWER),
            "hints.continuation has changed",
        ),
    ],
)
def test_a_reply_that_might_have_been_another_ends_what_is_told(
    policy: Policy, replies: Any, why: str
) -> None:
    found = under(policy, *replies)
    assert found.kind == "unclear"
    assert why in found.why
    assert found.now == ""


def test_a_clock_that_gave_up_and_is_longer_now_leaves_it_open() -> None:
    old = Policy(timeouts=Timeouts(first_token=2.0, stall=2.0))
    found = under(Policy(), Failure("silence"), ANSWER, old=old)
    assert (found.kind, found.where) == ("unclear", "step 2")
    assert "may take longer now" in found.why


@pytest.mark.full
def test_a_fact_that_nobody_recorded_counts_only_where_it_would_decide() -> None:
    odd = Fact("is_odd", of=lambda seen: True, says="the reply is odd")
    table = CALL.with_rung(
        Rung(
            "ponder",
            limit=1,
            holds=odd,
            hint="Think again.",
        ),
        came_empty="may_nudge",
    )
    journal = recorded(EMPTY, ANSWER)
    found = what_if(journal, Policy(table=table), old_table=CALL)
    assert (found.kind, found.where) == ("unclear", "step 2")
    assert "is_odd (the reply is odd)" in found.why
    assert what_if(recorded(SLOW, ANSWER), Policy(table=table), old_table=CALL).kind == "same"


def pondering(fact: Fact, **declared: Any) -> Policy:
    rung = Rung(
        "ponder",
        limit=1,
        holds=fact,
        hint="Think again.",
        **declared,
    )
    return Policy(table=CALL.with_rung(rung, came_empty="may_nudge"))


@pytest.mark.full
def test_a_fact_that_another_function_finds_now_is_not_known() -> None:
    old, new = (
        pondering(Fact("is_odd", of=lambda seen, held=held: held)) for held in (True, False)
    )
    found = what_if(recorded(EMPTY, ANSWER, policy=old), new, old_table=old.table)
    assert (found.kind, found.where) == ("unclear", "step 2")
    assert "is_odd" in found.why
    assert what_if(recorded(SLOW, ANSWER, policy=old), new, old_table=old.table).kind == "same"


@pytest.mark.full
def test_a_rung_of_ones_own_that_says_the_same_leaves_its_reply_as_it_was() -> None:
    policy = pondering(Fact("is_odd", of=lambda seen: True))
    journal = recorded(EMPTY, ANSWER, policy=policy)
    assert what_if(journal, policy, old_table=policy.table).kind == "same"
    worded = evolve(policy, hints=Hints(rungs={"ponder": "Once more."}))
    found = what_if(journal, worded, old_table=policy.table)
    assert (found.kind, found.why) == (
        "unclear",
        "the hint of ponder has changed, so the reply to it is unknown",
    )


@pytest.mark.full
def test_the_reply_to_a_rung_that_changes_the_request_otherwise_is_not_known() -> None:
    odd = Fact("is_odd", of=lambda seen: True)
    old, new = pondering(odd), pondering(odd, change=lambda material, led: None)
    found = what_if(recorded(EMPTY, ANSWER, policy=old), new, old_table=old.table)
    assert (found.kind, found.where) == ("unclear", "step 4")
    assert found.why == "ponder changes the request in another way, so the reply to it is unknown"
    assert what_if(recorded(SLOW, ANSWER, policy=old), new, old_table=old.table).kind == "same"


def test_a_window_that_is_smaller_leaves_a_nudge_open_and_none_rules_it_out() -> None:
    call = Call(
        Request(
            [
                {"role": "user", "content": "q"},
                {"role": "tool", "tool_call_id": "1", "content": "r"},
            ]
        )
    )
    assert call.begin() is not None
    assert call.receive(EMPTY) is not None
    assert call.receive(ANSWER) is None
    assert "nudge" in [step.target for step in call.journal.steps]
    assert what_if(call.journal, Policy(nudge_window=9)).kind == "same"
    assert "follows_tool_result" in what_if(call.journal, Policy(nudge_window=2)).why
    assert what_if(call.journal, Policy(nudge_window=0)).now.startswith("reask 1")


def test_a_budget_of_money_that_cannot_be_counted_is_left_out_of_account() -> None:
    found = under(Policy(budget=Budget(money=1e-9)), SLOW, ANSWER)
    assert found.kind == "same"
    assert found.notes == (
        "the budget of money is ignored: the journal has no prices of its backends",
    )


def test_a_journal_without_an_end_is_told_as_far_as_it_goes() -> None:
    call = Call(Request("hi"), chain=[PlainLink("one")])
    assert call.begin() is not None
    assert call.receive(SLOW) is not None
    found = what_if(call.journal, Policy())
    assert (found.kind, found.notes) == ("same", ("the journal stops before it ended",))


# Turns


def test_a_turn_under_its_own_policy_takes_its_own_path() -> None:
    for seed in range(12):
        turn = random_turn(Random(seed), contents=False)
        policy = turn.journal.setting.policy
        found = what_if_recorded(turn.journal, policy)
        assert found.kind in ("same", "unclear"), found
        assert found.kind == "same" or "shared with others" in found.why, found


def test_a_turn_ends_earlier_where_it_may_go_on_less_often() -> None:
    journal = played(calling("look_up"), calling("look_up"), said("done")).journal
    found = what_if_recorded(journal, TurnPolicy(auto_continues=1, summary=False))
    assert (found.kind, found.now) == ("ends earlier", "ends as limit_reached (tools_ran)")
    assert found.attempts == (2, 2)
    fewer = what_if_recorded(journal, TurnPolicy(budget=Budget(attempts=2)))
    assert (fewer.kind, fewer.why) == ("ends earlier", "all 2 attempts of the turn are used")


def test_a_call_within_a_turn_names_its_step() -> None:
    journal = played(calling("look_up"), DOWN, said("done")).journal
    strict = TurnPolicy(call=Policy(limits=Limits(retries=0)))
    found = what_if_recorded(journal, strict)
    assert (found.kind, found.where, found.now) == (
        "ends earlier",
        "call 2, step 2",
        "ends as failed (failed_transiently)",
    )


def test_equal_calls_that_nobody_counted_leave_a_turn_open() -> None:
    journal = played(calling("look_up"), said("done")).journal
    found = what_if_recorded(journal, evolve(TurnPolicy(), same_calls=1))
    assert (found.kind, "repeats_calls" in found.why) == ("unclear", True)


def test_a_journal_of_a_turn_is_not_for_policies_of_calls() -> None:
    with pytest.raises(rungwise.ConfigurationError, match="the journal of a turn"):
        what_if_recorded(played(said("done")).journal, Policy())
