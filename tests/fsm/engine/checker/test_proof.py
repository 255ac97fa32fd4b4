"""The row-by-row argument: it holds for the shipped table, and every planted fault is refused with
the row's name.
"""

import pytest
from attrs import evolve

from rungwise import CALL, Rung
from rungwise.core import Effect, Guard, Row, Table
from rungwise.fsm.engine.checker.branches import branches, dead_rows, finds, overlaps
from rungwise.fsm.engine.checker.proof import RowProof, prove, prove_row
from rungwise.fsm.engine.checker.properties import BOUNDED, FALLS
from rungwise.fsm.engine.checker.walk import walk
from rungwise.fsm.health.table import HEALTH
from support.facts import Check
from support.tables import EXAMPLE, failing, limits, redeclaring, replacing, row_of


def refused(table: Table) -> list[RowProof]:
    return [proof for proof in prove(table) if proof.verdict == "refused"]


def test_a_proof_says_what_a_row_takes_and_refills() -> None:
    retry = prove_row(CALL, row_of("failed_transiently", "may_retry"))
    assert (retry.takes, retry.refills) == ("retries", ())
    progress = prove_row(CALL, row_of("truncated", "may_continue"))
    assert (progress.takes, progress.refills) == (
        "continuations",
        ("reattaches", "retries", "reasks", "prefills"),
    )
    switch = prove_row(CALL, row_of("failed_transiently", "must_switch"))
    assert switch.takes == "fallbacks"
    assert switch.refills == CALL.rung("fallback").refills


def test_a_proof_can_be_read_and_written() -> None:
    progress = prove_row(CALL, row_of("truncated", "may_continue"))
    why = (
        "finds continuations < limit, takes one and refills reattaches, retries, reasks, prefills, "
        "which rank below"
    )
    assert (progress.is_argued, progress.argument) == (True, why)
    assert progress.to_json() == {
        "row": "await --truncated [may_continue] / spend_continuation--> continuation",
        "takes": "continuations",
        "refills": ["reattaches", "retries", "reasks", "prefills"],
        "verdict": "proved",
        "why": why,
    }
    retry = prove_row(CALL, row_of("failed_transiently", "may_retry"))
    assert retry.argument == "finds retries < limit, takes one"
    end = prove_row(CALL, row_of("answered", None))
    assert (end.is_argued, end.argument) == (False, "the call ends")
    [wrong, *_] = refused(redeclaring(CALL, Effect("count_attempt", refills="retries")))
    assert wrong.is_argued
    assert wrong.argument == "REFUSED, changes 'retries', and a send changes no counter"


def test_a_row_of_a_cyclic_machine_takes_nothing_or_what_its_guard_has_found() -> None:
    proofs = prove(HEALTH)
    assert {proof.verdict for proof in proofs} == {"proved"}
    argued = {proof.row.effect: proof.argument for proof in proofs if proof.is_argued}
    assert argued == {
        "count_failure": "finds failures < limit, takes one",
        "send_probe": "finds probes < limit, takes one",
    }
    others = [proof for proof in proofs if not proof.is_argued]
    assert {proof.argument for proof in others} == {"takes nothing"}
    assert {proof.refills for proof in others} == {(), ("failures",), ("probes",)}
    borne = Guard("may_bear", says="one more failure in a row is borne")
    assert {proof.row.guard for proof in refused(redeclaring(HEALTH, borne))} == {"may_bear"}


def test_each_row_to_a_rung_takes_one_unit_and_no_other_row_takes_any() -> None:
    for proof in prove(CALL):
        assert (proof.takes is not None) == (proof.row.target in CALL.rungs)


EFFECTS = [
    (Effect("spend_retry"), "takes nothing"),
    (Effect("spend_retry", refills="reasks"), "takes nothing"),
    (
        Effect("spend_retry", spends="reasks"),
        "takes one of 'reasks', but its guard did not find reasks < limits.reasks",
    ),
    (
        Effect("spend_retry", spends="retries", refills="continuations"),
        "refills 'continuations', which does not rank below 'retries'",
    ),
    (
        Effect("spend_retry", spends="retries", refills="reasks"),
        "refills 'reasks', which does not rank below 'retries'",
    ),
    (
        Effect("spend_retry", spends="retries", refills="retries"),
        "refills 'retries', which does not rank below",
    ),
    (
        Effect(
            "spend_retry", spends="retries", refills=("reasks", "fallbacks"), refills_on="has_text"
        ),
        "refills 'fallbacks' and 'reasks', which does not rank below 'retries'",
    ),
]


@pytest.mark.parametrize(("effect", "why"), EFFECTS, ids=range(len(EFFECTS)))
def test_a_faulty_effect_is_refused(effect: Effect, why: str) -> None:
    found = refused(redeclaring(CALL, effect))
    assert {proof.row.effect for proof in found} == {"spend_retry"}
    assert all(why in proof.why for proof in found), found[0].why


GUARDS = [
    (Guard("may_retry"), "did not find retries < limits.retries"),
    (Guard("may_retry", holds="wait_fits"), "did not find"),
    (Guard("may_retry", counter="reasks"), "did not find"),
    (
        Guard(
            "may_retry",
            counter="retries",
            holds="has_text",
            lacks="has_text",
        ),
        "'may_retry' never holds",
    ),
    (
        Guard("may_retry", counter="retries", lacks=("switch_asked", "wait_fits", "should_leave")),
        "never holds",
    ),
    (
        Guard(
            "may_retry",
            counter="retries",
            holds="should_leave",
            lacks=("switch_asked",),
        ),
        None,
    ),
]


@pytest.mark.parametrize(("guard", "why"), GUARDS, ids=range(len(GUARDS)))
def test_a_guard_that_never_holds_or_misses_its_counter_is_refused(
    guard: Guard, why: str | None
) -> None:
    found = refused(redeclaring(CALL, guard))
    assert {proof.row.guard for proof in found} == (set() if why is None else {"may_retry"})
    assert all(why is not None and why in proof.why for proof in found)


@pytest.mark.full
@pytest.mark.parametrize("rung", CALL.declared_rungs, ids=lambda rung: rung.name)
def test_the_proof_and_the_walk_agree_about_every_counter_of_a_rung(rung: Rung) -> None:
    guard = rung.guard
    effect = rung.effect
    for other in (*CALL.counters, None):
        tables = [
            redeclaring(CALL, evolve(guard, counter=other)),
            redeclaring(CALL, evolve(effect, spends=other)),
        ]
        if other is not None:
            tables.append(redeclaring(CALL, evolve(effect, refills=(*effect.refills, other))))
        for table in tables:
            found = failing(
                walk(
                    table,
                    {
                        **limits(),
                        rung.counter: 1,
                        other or rung.counter: 1,
                    },
                )
            )
            assert bool(refused(table)) == bool({FALLS, BOUNDED} & set(found)), (other, found)


HUB_ROWS = [
    (Row("sent", "retry", None, "await", None), "counts no attempt"),
    (Row("sent", "retry", None, "await", "spend_retry"), "counts no attempt"),
    (Row("came_empty", "await", "may_reask", "await", "spend_reask"), "counts no attempt"),
    (
        Row("came_empty", "await", "may_reask", "await", "count_attempt"),
        "which is no rung, so nothing falls",
    ),
    (Row("answered", "await", None, "done", "count_attempt"), "changes the count of attempts"),
    (
        Row("answered", "await", None, "done", "spend_retry"),
        "changes 'retries', and a row that ends the call",
    ),
    (Row("answered", "await", None, "reask", "spend_reask"), "did not find reasks < limits.reasks"),
]


@pytest.mark.parametrize(("row", "why"), HUB_ROWS, ids=lambda value: str(value)[:50])
def test_a_row_that_breaks_the_argument_of_the_hub_is_refused(row: Row, why: str) -> None:
    (proof,) = refused(replacing(CALL, {row_of(row.event, row.guard, row.source): row}))
    assert proof.row == row
    assert why in proof.why


def test_a_send_that_refills_is_refused() -> None:
    found = refused(redeclaring(CALL, Effect("count_attempt", refills="retries")))
    assert {proof.row.event for proof in found} == {"sent"}
    assert "changes 'retries', and a send changes no counter" in found[0].why


def test_branches_partition_what_an_event_can_meet() -> None:
    seen = {
        (
            str(each.row),
            each.facts["has_next_backend"],
            *sorted(each.left),
            *(f"no {name}" for name in each.spent),
        )
        for each in branches(EXAMPLE, "refused", "await")
    }
    assert seen == {
        ("await --refused--> refused", True),
        ("await --refused [may_ask_another] / spend_fallback--> fallback", True, "fallbacks"),
        ("await --refused--> refused", False),
        ("await --refused--> refused", True, "no fallbacks"),
    }


def test_a_row_whose_guard_implies_an_earlier_one_is_dead() -> None:
    narrow = Guard(
        "may_retry_early",
        counter="retries",
        holds=("wait_fits", "has_text"),
        lacks=("added_text", "throttled"),
    )
    row = Row("malformed", "await", narrow.name, "retry", "spend_retry")
    retry = row_of("malformed", "may_retry")
    rows = [each for old in CALL.rows for each in ([old, row] if old == retry else [old])]
    assert dead_rows(redeclaring(evolve(CALL, rows=rows), narrow)) == (row,)
    assert dead_rows(CALL) == ()


def test_overlaps_name_the_pairs_that_order_decides(fact: Check) -> None:
    pairs = {(first.event, first.guard, second.guard) for first, second in overlaps(CALL)}
    assert ("failed_transiently", "must_switch", "may_retry") in pairs
    assert ("interrupted", "may_resume", "may_retry") not in pairs
    fact("pairs of rows that order decides", len(pairs))


def test_a_guard_finds_what_it_needs_also_through_a_fact_that_follows_from_others() -> None:
    leaving = Guard("must_leave", holds="should_leave", lacks="switch_asked")
    row = Row("refused", "await", leaving.name, "refused")
    table = redeclaring(evolve(CALL, rows=(row, *CALL.rows)), leaving)
    assert finds(table, row, "wait_fits", held=False)
    assert not finds(table, row, "wait_fits")
    assert not finds(table, row, "has_text")
