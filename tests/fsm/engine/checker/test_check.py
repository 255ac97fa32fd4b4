"""Tables that are refused: each mistake is named with its row, or with the shortest path that shows
it.
"""

import pickle

import pytest
from attrs import evolve

from rungwise import CALL, Fact, Policy, Rung
from rungwise.core import Effect, Guard, Row, Table, TableError
from rungwise.fsm.diagram import render_error
from rungwise.fsm.engine.checker.check import check_table
from support.sampling import sampled
from support.tables import ENTREAT, redeclaring, replacing, row_of

CARELESS = redeclaring(CALL, Guard("may_reask", lacks="same_empty_again"))
BACK, REFUSED, REASK = (
    row_of("failed_permanently", "may_fall_back"),
    row_of("refused", None),
    row_of("came_empty", "may_reask"),
)
ANOTHER = row_of("refused", "may_ask_another")


def refusal(table: Table) -> str:
    with pytest.raises(TableError) as caught:
        check_table(table)
    assert caught.value.table is table
    return str(caught.value)


def changed(row: Row, **changes: str | None) -> Table:
    return replacing(CALL, {row: evolve(row, **changes)})


FAULTS = [
    (
        changed(BACK, guard="may_fall_bak"),
        "unknown guard 'may_fall_bak', which the table does not",
        "'may_fall_back'?",
    ),
    (
        changed(BACK, effect="spend_falback"),
        "unknown effect 'spend_falback'",
        "did you mean 'spend_fallback'?",
    ),
    (changed(BACK, target="falback"), "unknown target 'falback'", "did you mean 'fallback'?"),
    (changed(REFUSED, source="awiat"), "nothing leads to 'awiat'", "did you mean 'await'?"),
    (changed(REFUSED, source="done"), "leaves 'done', which is an outcome and final", ""),
    (changed(row_of("answered", None), event="an swered"), "the event 'an swered' is no name", ""),
    (changed(REFUSED, guard="has_text"), "no last resort follows", ""),
    (changed(REASK, event="came_emtpy"), "no last resort follows", "did you mean 'came_empty'?"),
    (
        replacing(CALL, {REFUSED: None}),
        "no last resort follows: the last row of 'refused' has a guard",
        "",
    ),
    (
        replacing(CALL, {ANOTHER: REFUSED, REFUSED: ANOTHER}),
        "is never tried, because this row before it always wins",
        "",
    ),
    (changed(REASK, guard="may_nudge"), "is never tried", "[may_nudge] / spend_nudge"),
    (evolve(CALL, rows=(*CALL.rows, CALL.rows[0])), "stands 2 times in the table", ""),
    (replacing(CALL, {row_of("sent", None, "nudge"): None}), "the rung 'nudge' is never sent", ""),
    (
        replacing(CALL, {row: None for row in CALL.rows if row.target == "nudge"}),
        "nothing leads to 'nudge'",
        "",
    ),
    (changed(REASK, effect="spend_nudge"), "takes one of 'nudges', but its guard did not find", ""),
    (changed(REASK, effect=None), "takes nothing", "2. await --came_empty [may_reask]--> reask"),
    (
        redeclaring(CALL, Guard("may_repair", counter="repairs", holds="wiat_fits")),
        "fact 'wiat_fits'",
        "'wait_fits'?",
    ),
    (
        redeclaring(CALL, Guard("may_repair", counter="repairs", lacks="has_txt")),
        "fact 'has_txt'",
        "'has_text'?",
    ),
    (
        redeclaring(CALL, Guard("may_repair", counter="repair")),
        "the counter 'repair' has no rank",
        "'repairs'?",
    ),
    (
        redeclaring(CALL, Effect("spend_repair", spends="repair")),
        "the counter 'repair' has no rank",
        "'repairs'?",
    ),
    (
        redeclaring(CALL, Effect("spend_repair", spends="repairs", refills="retires")),
        "the counter 'retires' has no rank: no rung of the table declares it",
        "did you mean 'retries'?",
    ),
    (
        redeclaring(
            CALL,
            Effect(
                "spend_fallback",
                spends="fallbacks",
                refills="retries",
                refills_on="has_tetx",
            ),
        ),
        "the effect 'spend_fallback' looks at the fact 'has_tetx'",
        "did you mean 'has_text'?",
    ),
    (
        redeclaring(CALL, Fact("should_leave", any_holds="switch_asked", any_lacks="wiat_fits")),
        "the fact 'should_leave' looks at the fact 'wiat_fits'",
        "did you mean 'wait_fits'?",
    ),
    (
        redeclaring(
            CALL,
            Fact("should_leave", any_holds="is_hopeless"),
            Fact("is_hopeless", any_lacks="should_leave"),
        ),
        "no fact can follow from itself: should_leave <- is_hopeless <- should_leave",
        "",
    ),
    (redeclaring(CALL, Fact("retries")), "'retries' is declared as a fact, and is a counter", ""),
    (
        redeclaring(CALL, Guard("has_text", counter="retries")),
        "'has_text' is declared as a fact and as a guard",
        "",
    ),
    (
        CALL.with_rung(ENTREAT, refused=None).with_rung(
            Rung("beg", unit="plea", verb="beg", limit=5), refused=None
        ),
        "the rung 'entreat' shares the counter 'pleas' with another, of another limit",
        "",
    ),
    (evolve(CALL, start="done"), "the start 'done' is left by no row", ""),
    (evolve(CALL, hub="awiat"), "the hub 'awiat' is left by no row", "did you mean 'await'?"),
    (evolve(CALL, ranks=CALL.ranks[1:]), "the counter 'fallbacks' has no rank", ""),
    (
        evolve(CALL, ranks=(*CALL.ranks, ("retries",))),
        "the counter 'retries' stands 2 times in the ranks",
        "",
    ),
    (
        evolve(CALL, ranks=CALL.ranks[::-1]),
        "which does not rank below 'continuations'",
        "does not rank below 'fallbacks'",
    ),
]


@pytest.mark.parametrize(
    ("table", "message", "also"),
    sampled(FAULTS, one_in=3),
    ids=[f"{message} {also}" for _, message, also in FAULTS],
)
def test_a_mistake_is_named(table: Table, message: str, also: str) -> None:
    text = refusal(table)
    assert text.startswith("the table 'call' is refused:\n- ")
    assert message in text
    assert also in text


def test_an_island_of_states_is_refused() -> None:
    island = [
        Row("sent", "isle", None, "shore", "count_attempt"),
        Row("wait", "shore", "may_retry", "isle", "spend_retry"),
        Row("wait", "shore", None, "done"),
    ]
    text = refusal(evolve(CALL, rows=(*CALL.rows, *island)))
    assert "the state 'isle' cannot be reached from 'ask'" in text
    assert "the state 'shore' cannot be reached" in text


@pytest.mark.full
def test_a_row_that_those_before_it_leave_nothing_to_is_refused() -> None:
    narrow = ENTREAT.when("may_entreat_meekly", holds="has_text")
    table = CALL.with_rung(ENTREAT, refused=None).with_rung(narrow, refused=None)
    assert (
        "[may_entreat_meekly] / spend_plea--> entreat: is never taken: "
        "the rows before it always win" in refusal(table)
    )


@pytest.mark.full
def test_a_policy_refuses_a_faulty_table_with_the_path_to_the_fault() -> None:
    with pytest.raises(TableError, match=r"takes one of 'reasks'") as caught:
        Policy(table=CARELESS)
    assert [step.event for step in caught.value.path] == [
        "sent",
        "came_empty",
        "sent",
        "came_empty",
    ]
    picture = render_error(caught.value, "rows")
    assert [
        line
        for line in picture.splitlines()
        if "may_reask" in line and "came_empty" in line and "2, 4" in line
    ]
    assert render_error(caught.value).startswith("<svg")
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (str(copied), copied.path) == (str(caught.value), caught.value.path)


@pytest.mark.full
def test_a_good_table_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    check_table(evolve(CALL, name="once"))
    monkeypatch.setattr(
        "rungwise.fsm.engine.checker.check.problems", lambda table: pytest.fail("looked again")
    )
    check_table(evolve(CALL, name="once"))
