"""A table of one's own cannot break what is proved: its rows are checked for what they need, and so is each step."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from attrs import evolve

import rungwise
from rungwise import CALL, Budget, Failure, Ladder, Limits, Policy, Reply, Row, TableError, counter
from rungwise.fsm.certificate.call_rules import faults_of
from rungwise.fsm.machine.machine import Watch
from rungwise.fsm.machine.table import rung_rows
from rungwise.fsm.testing import Dishonest, run
from rungwise.fsm.testing.checks.path import check_variant
from rungwise.fsm.testing.checks.seen import Seen


@attrs.define(eq=False)
class Pleading(Ladder):
    pleas: int = counter()

    @property
    def may_plead(self) -> bool:
        return self.pleas < self.limits.pleas  # type: ignore[attr-defined]

    @property
    def may_plead_in_time(self) -> bool:
        return self.wait_fits and self.pleas < self.limits.pleas  # type: ignore[attr-defined]

    def spend_plea(self) -> None:
        self.pleas += 1

    @property
    def may_move_on(self) -> bool:
        return self.has_next_backend and self.may_plead

    @property
    def may_move_back(self) -> bool:
        return self.has_next_backend and self.wait_fits and self.fallbacks < self.limits.fallbacks

    @property
    def may_go_on_blankly(self) -> bool:
        return not self.added_text and self.may_plead

    @property
    def may_begin_anew(self) -> bool:
        return not self.has_text and self.may_plead

    @property
    def may_go_on_at_once(self) -> bool:
        return self.wait_fits and self.may_continue

    def spend_move(self) -> None:
        self.fallbacks += 1
        self.continuations = 0

    def spend_both(self) -> None:
        self.continuations += 1
        self.prefills = 0


@attrs.frozen(kw_only=True)
class PleadingLimits(Limits):
    pleas: int = 1


def policy_with(*rows: Row, **options: Any) -> Policy:
    return Policy(table=CALL.with_rows(*rows, model=Pleading), limits=PleadingLimits(**options))


NEEDY = [
    (Row("refused", "await", "may_plead", "retry", "spend_plea"), "wait_fits"),
    (Row("failed_transiently", "await", "may_plead", "retry", "spend_plea"), "wait_fits"),
    (Row("refused", "await", "may_plead", "fallback", "spend_plea"), "has_next_backend"),
    (Row("overflowed", "await", "may_plead", "compact", "spend_plea"), "has_compactor"),
    (Row("rejected_fixably", "await", "may_plead_in_time", "repair", "spend_plea"), "repair_known"),
    (Row("interrupted", "await", "may_plead", "continuation", "spend_plea"), "wait_fits"),
    (Row("failed_transiently", "await", "may_plead", "plead", "spend_plea"), "wait_fits"),
]
IN_EVERY_BUILD = NEEDY[1::2]


@pytest.mark.parametrize(
    ("row", "fact"),
    [pytest.param(*each, marks=[] if each in IN_EVERY_BUILD else pytest.mark.full) for each in NEEDY],
    ids=[f"{row.event} to {row.target}" for row, _ in NEEDY],
)
def test_a_row_without_what_its_target_needs_is_refused(row: Row, fact: str) -> None:
    with pytest.raises(TableError, match=f"must find '{fact}'"):
        policy_with(row)


FINE = [
    Row("refused", "await", "may_plead", "plead", "spend_plea"),
    Row("failed_transiently", "await", "may_plead_in_time", "plead", "spend_plea"),
    Row("malformed", "await", "may_plead_in_time", "retry", "spend_plea"),
]


@pytest.mark.parametrize("row", FINE, ids=[f"{row.event} to {row.target}" for row in FINE])
def test_a_row_with_what_its_target_needs_is_taken(row: Row) -> None:
    failure = Failure({"refused": "content_policy", "malformed": "malformed"}.get(row.event, "server_error"))  # type: ignore[arg-type]
    call = run(policy_with(row), [failure, Reply("An answer.", stop_reason="stop")])
    assert call.result.outcome == "done"
    assert row.target in [step.target for step in call.journal.steps] or row.event != "refused"


def test_a_rung_of_ones_own_keeps_the_wait_that_was_asked_for() -> None:
    row = Row("failed_transiently", "await", "may_plead_in_time", "plead", "spend_plea")
    table = CALL.with_rows(row, before=CALL.ladder("failed_transiently", "await")[0], model=Pleading)
    call = run(
        Policy(table=table, limits=PleadingLimits()),
        [Failure("rate_limit", asked_wait=7.0), Reply("An answer.", stop_reason="stop")],
    )
    assert [(step.target, step.wait) for step in call.journal.steps if step.wait] == [("plead", 7.0)]


def faults_with(row: Row) -> str:
    """Tell what is wrong with the shipped table and one row more, tried first, without walking over it."""
    rows = (row, *CALL.rows, *(rung_rows(row.target) if row.target == "plead" else ()))
    return "\n".join(faults_of(evolve(CALL, rows=rows, model=Pleading, ranks=(*CALL.ranks, ("pleas",)))))


KEPT = "the text of truncated is kept"
UNPAID = [
    # Text that is kept makes every later request longer; the certificate knows of it by three counters alone.
    (Row("truncated", "await", "may_enlarge", "enlarge", "spend_enlargement"), KEPT),
    (Row("truncated", "await", "may_reask", "reask", "spend_reask"), KEPT),
    (Row("truncated", "await", "may_nudge", "nudge", "spend_nudge"), KEPT),
    (Row("truncated", "await", "may_plead", "plead", "spend_plea"), KEPT),
    (Row("truncated", "await", "may_plead", "continuation", "spend_plea"), KEPT),
    (Row("answered", "await", "may_reask", "reask", "spend_reask"), "the text of answered is kept"),
    (Row("refused", "await", "may_move_on", "fallback", "spend_plea"), "must take one of 'fallbacks', not of 'pleas'"),
    (Row("only_reasoned", "await", "may_plead", "prefill", "spend_plea"), "must take one of 'prefills'"),
    (Row("malformed", "await", "may_move_back", "retry", "spend_fallback"), "only a row to fallback does"),
    (Row("malformed", "await", "may_move_back", "fallback", "spend_move"), "refills 'continuations'"),
    (Row("malformed", "await", "may_go_on_at_once", "retry", "spend_both"), "refills 'prefills'"),
]


@pytest.mark.parametrize(
    ("row", "says"), UNPAID, ids=[f"{row.event} to {row.target} {row.effect}" for row, _ in UNPAID]
)
def test_a_row_whose_cost_the_certificate_could_not_tell_is_refused(row: Row, says: str) -> None:
    assert says in faults_with(row)


PAID = [
    Row("truncated", "await", "may_fall_back", "fallback", "spend_fallback"),
    Row("answered", "await", "may_compact", "compact", "spend_compaction"),
    Row("truncated", "await", "may_go_on_blankly", "plead", "spend_plea"),
    Row("paused", "await", "may_begin_anew", "plead", "spend_plea"),
    Row("truncated", "await", "may_continue", "nudge", "spend_continuation"),
    Row("came_empty", "await", "may_continue", "reask", "spend_both"),
]


@pytest.mark.parametrize("row", PAID, ids=[f"{row.event} to {row.target} {row.effect}" for row in PAID])
def test_a_row_whose_cost_the_certificate_can_tell_is_taken(row: Row) -> None:
    assert faults_with(row) == ""


DISHONEST = [
    (Row("came_empty", "await", "follows_tool_result", "partial"), "must find 'has_text', or the text may be empty"),
    (Row("refused", "await", "has_next_backend", "partial"), "must find 'has_text'"),
    (Row("answered", "await", "has_text", "cancelled"), "only cancelled leads to cancelled"),
    (Row("truncated", "await", "repeats_itself", "cancelled"), "only cancelled leads to cancelled"),
    (Row("truncated", "await", "repeats_itself", "over_budget"), "only ran_out leads to over_budget"),
    (Row("truncated", "await", "repeats_itself", "refused"), "text that was gathered becomes an error"),
    (Row("answered", "await", "overran", "refused"), "text that was gathered becomes an error"),
    (Row("sent", "retry", "has_text", "partial"), "sent always leads to await"),
    (Row("sent", "ask", "overran", "await", "count_attempt"), "sent always leads to await"),
]


@pytest.mark.parametrize(("row", "says"), DISHONEST, ids=[f"{row.event} to {row.target}" for row, _ in DISHONEST])
def test_a_row_to_an_end_that_would_not_be_honest_is_refused(row: Row, says: str) -> None:
    assert says in faults_with(row)


HONEST = [
    Row("refused", "await", "has_text", "partial"),
    Row("truncated", "await", "repeats_itself", "partial"),
    Row("refused", "await", "wait_fits", "refused"),
]


@pytest.mark.parametrize("row", HONEST, ids=[f"{row.event} to {row.target}" for row in HONEST])
def test_a_row_to_an_honest_end_is_taken(row: Row) -> None:
    assert faults_with(row) == ""


def test_an_outcome_that_no_call_knows_is_refused() -> None:
    great = Row("answered", "await", "overran", "great")
    with pytest.raises(TableError, match="no call ends as 'great'"):
        Policy(table=evolve(CALL, outcomes=(*CALL.outcomes, "great"), rows=(great, *CALL.rows)))


@pytest.mark.parametrize("target", ["retyr", "falback", "continuatoin", "exhausted_", "pratial"])
def test_a_misspelt_target_is_refused_with_the_name_that_was_meant(target: str) -> None:
    row = Row("refused", "await", "may_plead", target, "spend_plea")
    with pytest.raises(TableError, match=rf"unknown state '{target}'; did you mean '\w+'\?"):
        CALL.with_rows(row, model=Pleading)


def test_a_misspelt_source_and_a_misspelt_event_are_refused() -> None:
    with pytest.raises(TableError, match="did you mean 'await'"):
        CALL.with_rows(Row("refused", "awiat", "may_plead", "plead", "spend_plea"), model=Pleading)
    extra = Row("refussed", "await", None, "refused")
    with pytest.raises(TableError, match="ever fires the event 'refussed'; did you mean 'refused'"):
        Policy(table=CALL.with_rows(extra))


@pytest.mark.parametrize("outcome", ["exhausted", "failed"])
def test_text_that_was_gathered_must_stand_before_each_error(outcome: str) -> None:
    ends = [row for row in CALL.rows if row.target == outcome]
    assert ends
    for end in ends:
        kept = [row for row in CALL.rows if not (row.event == end.event and row.guard == "has_text")]
        faults = list(faults_of(evolve(CALL, rows=tuple(kept))))
        assert any(str(end) in fault and "has_text" in fault for fault in faults)


# what the running machine checks by itself


def broken(**changes: Any) -> Policy:
    """Return a policy past every check, with a model that breaks what was proved."""
    model = type("Broken", (Ladder,), {"__slots__": (), **changes})
    policy = Policy()
    object.__setattr__(policy, "table", evolve(CALL, model=model))
    return policy


LIES = {
    "an effect that takes nothing": {"spend_retry": lambda self: None},
    "an effect that gives back": {"spend_retry": lambda self: setattr(self, "retries", 0)},
    "a guard that finds units where none are": {"may_retry": property(lambda self: True)},
    "an effect that takes too much": {"spend_retry": lambda self: setattr(self, "retries", 9)},
}


@pytest.mark.parametrize("name", LIES)
def test_the_running_machine_refuses_what_the_proof_rules_out(name: str) -> None:
    call = rungwise.Call(rungwise.Request("hi"), broken(**LIES[name]))
    call.begin()

    def go_on() -> None:
        for _ in range(10):
            call.receive(Failure("server_error"))

    with pytest.raises(rungwise.BrokenMachine, match="may_retry"):
        go_on()
    assert call.position.attempts <= 4
    assert call.cancel().outcome == "cancelled"


def test_a_watch_takes_every_step_of_an_honest_call() -> None:
    watch = Watch(CALL, Limits(fallbacks=1))
    path = run(Policy(), [Reply(stop_reason="stop")], chain=2).journal.steps
    for step in path:
        if step.event != "skipped":
            row = next(each for each in CALL.ladder(step.event, step.source) if each.guard == step.guard)
            watch.check(row, tuple(step.spent.values()))


def test_the_variant_of_the_fuzz_kit_must_fall_and_not_merely_stay() -> None:
    call = run(Policy(), [Failure("server_error"), Reply("An answer.", stop_reason="stop")])
    seen = Seen.of(call)
    check_variant(seen)
    steps = list(seen.path)
    again = [steps[0], steps[0], *steps[1:]]  # the same configuration twice: nothing rises, and nothing falls
    seen.__dict__["path"] = tuple(again)
    with pytest.raises(Dishonest, match="variant"):
        check_variant(seen)


# counting by backend, and the last second


def test_failures_are_counted_for_each_backend_by_itself() -> None:
    policy = Policy(switch_after={"overloaded": 2})
    busy = Failure("overloaded", status=529)
    call = run(policy, [busy, busy, busy, Reply("An answer.", stop_reason="stop")], chain=3)
    # Two of them leave the first backend; the one of the second is only its first.
    assert [step.target for step in call.journal.steps if step.target in ("retry", "fallback")] == [
        "retry",
        "fallback",
        "retry",
    ]
    assert call.result.backend == "backend-2"


@pytest.mark.parametrize(("wait", "goes_out"), [(9.0, True), (10.0, False), (11.0, False)])
def test_nothing_goes_out_at_the_last_second_or_after_it(wait: float, goes_out: bool) -> None:
    policy = Policy(budget=Budget(seconds=10.0))
    call = run(policy, [Failure("rate_limit", asked_wait=wait), Reply("An answer.", stop_reason="stop")])
    assert call.result.attempts == (2 if goes_out else 1)
    late = rungwise.Call(rungwise.Request("hi"), policy)
    late.begin(0.0)
    assert (late.sending(wait) is not None) is goes_out


def test_own_limits_merge_with_what_is_shipped() -> None:
    assert dict(Policy.from_toml("[switch_after]\nrate_limit = 1").switch_after) == {
        "overloaded": 2,
        "timeout": 2,
        "rate_limit": 1,
    }
