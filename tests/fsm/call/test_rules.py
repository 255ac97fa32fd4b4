"""A table of one's own cannot make a call dishonest, nor cost what no certificate knows of."""

import pytest
from attrs import evolve

from rungwise import CALL, Policy
from rungwise.core import Effect, Failure, Guard, Reply, Row, Table, TableError
from rungwise.fsm.call.conversation.observation import RAISED
from rungwise.fsm.call.rules import check_call_table, faults_of
from rungwise.fsm.call.table import CONTINUE, FALL_BACK
from rungwise.testing import run
from support.tables import ENTREAT, replacing, row_of

DECLARED = (
    ENTREAT,
    ENTREAT.when("may_entreat_in_time", holds="wait_fits").guard,
    ENTREAT.when("may_entreat_elsewhere", holds="has_next_backend").guard,
    ENTREAT.when("may_entreat_blankly", lacks="added_text").guard,
    ENTREAT.when("may_entreat_anew", lacks="has_text").guard,
    FALL_BACK.when("may_move_back", holds="wait_fits").guard,
    CONTINUE.when("may_go_on_at_once", holds="wait_fits").guard,
    Effect("spend_move", spends="fallbacks", refills="continuations"),
    Effect("spend_both", spends="continuations", refills="prefills"),
)


def with_row(row: Row) -> Table:
    """Return the shipped table with one row more, tried first."""
    return CALL.with_rows(row, before=CALL.ladder(row.event, row.source)[0], declare=DECLARED)


def faults_with(row: Row) -> str:
    return "\n".join(faults_of(with_row(row)))


def test_the_shipped_table_keeps_the_rules() -> None:
    check_call_table(CALL)
    assert list(faults_of(CALL)) == []


NEEDY = [
    (Row("refused", "await", "may_entreat", "retry", "spend_plea"), "wait_fits"),
    (Row("failed_transiently", "await", "may_entreat", "retry", "spend_plea"), "wait_fits"),
    (Row("refused", "await", "may_entreat", "fallback", "spend_plea"), "has_next_backend"),
    (Row("overflowed", "await", "may_entreat", "compact", "spend_plea"), "has_compactor"),
    (
        Row("rejected_fixably", "await", "may_entreat_in_time", "repair", "spend_plea"),
        "repair_known",
    ),
    (Row("interrupted", "await", "may_entreat", "continuation", "spend_plea"), "wait_fits"),
    (Row("failed_transiently", "await", "may_entreat", "entreat", "spend_plea"), "wait_fits"),
]


@pytest.mark.parametrize(
    ("row", "fact"), NEEDY, ids=[f"{row.event} to {row.target}" for row, _ in NEEDY]
)
def test_a_row_without_what_its_target_needs_is_refused(row: Row, fact: str) -> None:
    assert f"its guard must find '{fact}'" in faults_with(row)


FINE = [
    Row("refused", "await", "may_entreat", "entreat", "spend_plea"),
    Row("failed_transiently", "await", "may_entreat_in_time", "entreat", "spend_plea"),
    Row("malformed", "await", "may_entreat_in_time", "retry", "spend_plea"),
]


@pytest.mark.full
@pytest.mark.parametrize("row", FINE, ids=[f"{row.event} to {row.target}" for row in FINE])
def test_a_row_with_what_its_target_needs_is_taken(row: Row) -> None:
    failure = Failure(
        {"refused": "content_policy", "malformed": "malformed"}.get(row.event, "server_error")
    )  # type: ignore[arg-type]
    call = run(Policy(table=with_row(row)), [failure, Reply("An answer.", stop_reason="stop")])
    assert [step.target for step in call.journal.steps] == ["await", row.target, "await", "done"]


KEPT = "the text of truncated is kept"
REFUSED = [
    # A cost that the certificate could not tell:
    # Text that is kept makes every later request longer; the certificate knows of it by three
    # counters alone.
    (Row("truncated", "await", "may_enlarge", "enlarge", "spend_enlargement"), KEPT),
    (Row("truncated", "await", "may_reask", "reask", "spend_reask"), KEPT),
    (Row("truncated", "await", "may_nudge", "nudge", "spend_nudge"), KEPT),
    (Row("truncated", "await", "may_entreat", "entreat", "spend_plea"), KEPT),
    (Row("truncated", "await", "may_entreat", "continuation", "spend_plea"), KEPT),
    (
        Row("refused", "await", "may_entreat_elsewhere", "fallback", "spend_plea"),
        "take one of 'fallbacks', not of 'pleas'",
    ),
    (
        Row("only_reasoned", "await", "may_entreat", "prefill", "spend_plea"),
        "must take one of 'prefills'",
    ),
    (
        Row("malformed", "await", "may_move_back", "retry", "spend_fallback"),
        "only a row to fallback does",
    ),
    (
        Row("malformed", "await", "may_move_back", "fallback", "spend_move"),
        "refills 'continuations'",
    ),
    (Row("malformed", "await", "may_go_on_at_once", "retry", "spend_both"), "refills 'prefills'"),
    # An end that would not be honest.
    (
        Row("came_empty", "await", "follows_tool_result", "partial"),
        "must find 'has_text', or the text may be empty",
    ),
    (Row("refused", "await", "has_next_backend", "partial"), "must find 'has_text'"),
    (Row("answered", "await", "has_text", "cancelled"), "only cancelled leads to cancelled"),
    (Row("truncated", "await", "repeats_itself", "cancelled"), "only cancelled leads to cancelled"),
    (
        Row("truncated", "await", "repeats_itself", "over_budget"),
        "only ran_out leads to over_budget",
    ),
    (
        Row("truncated", "await", "repeats_itself", "refused"),
        "text that was gathered becomes an error",
    ),
    (Row("answered", "await", "overran", "refused"), "text that was gathered becomes an error"),
    (Row("sent", "retry", "has_text", "partial"), "sent always leads to await"),
    (Row("sent", "ask", "overran", "await", "count_attempt"), "sent always leads to await"),
    (
        Row("came_empty", "await", "has_text", "done"),
        "only answered and answered_uncertainly and called_tools are done",
    ),
    (
        Row("came_empty", "await", "has_text", "salvaged", "keep_delivered"),
        "must find 'has_delivered'",
    ),
    (
        Row("came_empty", "await", "has_text", "partial", "keep_delivered"),
        "only a salvaged call has such",
    ),
]


@pytest.mark.parametrize(
    ("row", "says"), REFUSED, ids=[f"{row.event} {row.effect}, {row.target}" for row, _ in REFUSED]
)
def test_a_row_of_unknown_cost_or_to_an_end_that_is_not_honest_is_refused(
    row: Row, says: str
) -> None:
    assert says in faults_with(row)


TAKEN = [
    # The certificate can tell what they cost.
    Row("truncated", "await", "may_fall_back", "fallback", "spend_fallback"),
    Row("answered", "await", "may_compact", "compact", "spend_compaction"),
    Row("truncated", "await", "may_entreat_blankly", "entreat", "spend_plea"),
    Row("paused", "await", "may_entreat_anew", "entreat", "spend_plea"),
    Row("truncated", "await", "may_continue", "nudge", "spend_continuation"),
    Row("came_empty", "await", "may_continue", "reask", "spend_both"),
    # an answer that leads to a rung is taken back
    Row("answered", "await", "may_reask", "reask", "spend_reask"),
    # An honest end.
    Row("refused", "await", "has_text", "partial"),
    Row("truncated", "await", "repeats_itself", "partial"),
    Row("refused", "await", "wait_fits", "refused"),
]


@pytest.mark.parametrize(
    "row", TAKEN, ids=[f"{row.event} {row.effect}, {row.target}" for row in TAKEN]
)
def test_a_row_of_known_cost_and_one_to_an_honest_end_is_taken(row: Row) -> None:
    assert faults_with(row) == ""


RELIEVED = [
    (row_of("ran_out", None, "fallback"), None, "no row takes 'ran_out' in 'fallback'"),
    (row_of("cancelled", None, "nudge"), None, "no row takes 'cancelled' in 'nudge'"),
    (row_of("answered", None), None, "no row takes 'answered' in 'await'"),
    (row_of("came_empty", "has_text"), None, "has_text -> partial must stand before it"),
    (row_of("came_empty", "has_delivered"), {"target": "done"}, "are done"),
    (
        row_of("came_empty", "has_delivered"),
        {"effect": None},
        "needs an effect that says what stands as the answer",
    ),
    (row_of("cancelled", None, "ask"), {"target": "done"}, "cancelled always leads to cancelled"),
]


@pytest.mark.full
@pytest.mark.parametrize(
    ("row", "changes", "says"), RELIEVED, ids=[f"{row} {changes}" for row, changes, _ in RELIEVED]
)
def test_a_policy_refuses_a_table_on_which_a_call_would_not_be_honest(
    row: Row, changes: dict[str, str | None] | None, says: str
) -> None:
    table = replacing(CALL, {row: evolve(row, **changes) if changes else None})
    with pytest.raises(TableError, match="the table 'call' is refused for calls:") as caught:
        Policy(table=table)
    assert says in str(caught.value)


@pytest.mark.parametrize("outcome", ["exhausted", "failed"])
def test_text_that_was_gathered_must_stand_before_each_error(outcome: str) -> None:
    for end in [row for row in CALL.rows if row.target == outcome and row.event != RAISED]:
        faults = list(faults_of(replacing(CALL, {row_of(end.event, "has_text", end.source): None})))
        assert any(str(end) in fault and "has_text" in fault for fault in faults)


def test_an_outcome_and_an_event_that_no_call_knows_are_refused() -> None:
    great = Row("answered", "await", "overran", "great")
    faults = list(
        faults_of(evolve(CALL, outcomes=(*CALL.outcomes, "great"), rows=(great, *CALL.rows)))
    )
    assert "no call ends as 'great'" in faults
    with pytest.raises(
        TableError, match="no call ever fires the event 'refussed'; did you mean 'refused'"
    ):
        Policy(table=CALL.with_rows(Row("refussed", "await", None, "refused")))


def test_a_fact_that_others_follow_from_is_found_by_the_guard_that_looks_at_those() -> None:
    """A guard that lacks `should_leave` finds `wait_fits`, for without that it would not hold."""
    patient = Guard("may_retry", counter="retries", lacks=("should_leave", "added_text"))
    others = [each for each in CALL.guards if each.name != patient.name]
    assert list(faults_of(evolve(CALL, guards=(*others, patient)))) == []
