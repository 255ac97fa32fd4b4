"""Tables of one's own are derived from others, and every way to derive one says what it was given
wrongly.
"""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from rungwise import CALL, Fact, Rung
from rungwise.core import Effect, Guard, Row, Table, TableError
from rungwise.fsm.call.table import RETRY
from rungwise.fsm.engine.machine.run import machine_of
from support.tables import ENTREAT, EXAMPLE, row_of

ODD = Fact("is_odd", says="the reply is odd")


def guards(table: Table, event: str) -> list[str | None]:
    return [row.guard for row in table.ladder(event, table.hub)]


def test_a_rung_stands_in_front_of_the_guard_that_is_named_in_each_ladder() -> None:
    table = EXAMPLE.with_rung(
        ENTREAT, refused=None, came_empty="has_text", overflowed="may_compact"
    )
    assert guards(table, "refused") == ["may_ask_another", "may_entreat", None]
    assert guards(table, "came_empty")[-3:] == ["may_entreat", "has_text", None]
    assert guards(table, "overflowed")[0] == "may_entreat"
    rows = {row for row in table.rows if "entreat" in (row.source, row.target)}
    assert rows == {
        *(
            Row(event, "await", "may_entreat", "entreat", "spend_plea")
            for event in ("refused", "came_empty", "overflowed")
        ),
        *(evolve(row, source="entreat") for row in EXAMPLE.rows if row.source == "ask"),
    }
    assert set(table.rows) - rows == set(EXAMPLE.rows)
    assert table.rung("entreat") is ENTREAT
    assert table.limits == {**EXAMPLE.limits, "pleas": 1}
    assert table.hints == {"entreat": "Please."}
    assert [set(group) for group in table.ranks] == [
        *map(set, EXAMPLE.ranks[:-1]),
        {*EXAMPLE.ranks[-1], "pleas"},
    ]


def test_a_rung_brings_its_facts_also_those_of_one_ladder_alone() -> None:
    even = Fact("is_even")
    rung = Rung("entreat", holds=ODD)
    table = EXAMPLE.with_rung(rung.when("may_entreat_now", lacks=even), refused=None)
    assert table.facts == (*EXAMPLE.facts, ODD, even)
    assert table.guard("may_entreat_now") == Guard(
        "may_entreat_now", counter="entreats", holds="is_odd", lacks="is_even"
    )
    assert table.found_facts == (*EXAMPLE.found_facts, "is_odd", "is_even")


def test_a_shipped_rung_can_stand_in_another_ladder() -> None:
    table = EXAMPLE.with_rung(RETRY, refused=None)
    assert (
        row_of("failed_transiently", "may_retry", table=EXAMPLE).target
        == table.ladder("refused", "await")[1].target
        == "retry"
    )
    assert table.declared_rungs == EXAMPLE.declared_rungs
    assert table.ranks == EXAMPLE.ranks


def test_a_row_stands_before_the_last_resort_of_its_own_event_or_where_it_is_put() -> None:
    row = Row("refused", "await", "has_text", "partial")
    first = row_of("refused", "may_ask_another", table=EXAMPLE)
    assert guards(EXAMPLE.with_rows(row), "refused") == ["may_ask_another", "has_text", None]
    assert guards(EXAMPLE.with_rows(row, before=first), "refused") == [
        "has_text",
        "may_ask_another",
        None,
    ]
    new = Row("yawned", "await", None, "done")
    assert EXAMPLE.with_rows(new).rows == (*EXAMPLE.rows, new)


def test_a_rung_taken_out_leaves_nothing_but_its_declaration() -> None:
    table = EXAMPLE.with_rung(ENTREAT, refused=None).without("entreat", "nudge")
    assert table.rows == tuple(
        row for row in EXAMPLE.rows if "nudge" not in (row.source, row.target)
    )
    assert table.limits == {**EXAMPLE.limits, "pleas": 1}
    assert table.hints == {}


def test_an_event_is_reordered_by_its_guards_alone() -> None:
    order = ["may_retry", None, "has_text", "may_fall_back"]
    table = EXAMPLE.reordered("malformed", order)
    assert guards(table, "malformed") == order
    assert [row for row in table.rows if row.event != "malformed"] == [
        row for row in EXAMPLE.rows if row.event != "malformed"
    ]
    assert table.reordered("malformed", guards(EXAMPLE, "malformed")) == EXAMPLE


def test_an_event_of_several_states_is_reordered_in_each() -> None:
    table = EXAMPLE.reordered("ran_out", [None, "must_yield"])
    for rung in EXAMPLE.rungs:
        assert table.ladder("ran_out", rung) == EXAMPLE.ladder("ran_out", rung)[::-1]
    assert [row for row in table.rows if row.event != "ran_out"] == [
        row for row in EXAMPLE.rows if row.event != "ran_out"
    ]
    assert EXAMPLE.reordered("ran_out", ["must_yield", None]) == EXAMPLE
    with pytest.raises(
        TableError,
        match=r"the guards of 'ran_out' are \['must_yield', None\]; name each of them once",
    ):
        EXAMPLE.reordered("ran_out", [None])


def test_what_is_declared_alike_already_is_left_out() -> None:
    table = EXAMPLE.declaring(ENTREAT, ODD, Guard("is_fine"), Effect("cheer"))
    assert table.declaring(ENTREAT, ODD, Guard("is_fine"), Effect("cheer"), RETRY) == table
    assert (table.guard("is_fine"), table.effect("cheer")) == (Guard("is_fine"), Effect("cheer"))
    assert table.guard("is_odd") == Guard("is_odd", holds="is_odd", says="the reply is odd")
    assert table.guard("may_entreat") == ENTREAT.guard
    assert table.effect("spend_plea") == ENTREAT.effect
    assert (table.guard(None).counter, table.effect(None).spends) == (None, None)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: EXAMPLE.with_rung("entreat", refused=None),
        "with_rung takes a Rung, or what its `when` returns, not str",
    ),
    (
        lambda: EXAMPLE.with_rung(ENTREAT),
        "with_rung needs an event in whose ladder 'entreat' is tried",
    ),
    (
        lambda: EXAMPLE.with_rung(ENTREAT, refussed=None),
        "no event 'refussed' comes in 'await'; did you mean 'refused'",
    ),
    (lambda: EXAMPLE.with_rung(ENTREAT, ran_out=None), "no event 'ran_out' comes in 'await'"),
    (
        lambda: EXAMPLE.with_rung(ENTREAT, refused="may_retry"),
        "has no guard 'may_retry'; it has: may_ask_another, None",
    ),
    (
        lambda: EXAMPLE.with_rung(Rung("retry", limit=9), refused=None),
        "the rung 'retry' is declared already, and otherwise",
    ),
    (
        lambda: EXAMPLE.with_rows(("answered", "await", None, "done")),
        r"with_rows takes rows such as Row\(.*, not tuple",
    ),
    (
        lambda: EXAMPLE.with_rows(before=Row("a", "b", None, "c")),
        "to stand before is not in the table: b --a--> c",
    ),
    (
        lambda: EXAMPLE.with_rows(declare=["may_entreat"]),
        "declares rungs, facts, guards and effects, not str",
    ),
    (
        lambda: EXAMPLE.declaring(Fact("has_text")),
        "the fact 'has_text' is declared already, and otherwise",
    ),
    (
        lambda: EXAMPLE.declaring(Guard("may_retry")),
        "the guard 'may_retry' is declared already, and otherwise",
    ),
    (
        lambda: EXAMPLE.declaring(Rung("a", refills="bs"), Rung("b", refills="as")),
        "'as' and 'bs' refill each other",
    ),
    (
        lambda: EXAMPLE.without("entreat"),
        "'entreat' is no rung that can be taken out of 'call'; there are: retry, resend",
    ),
    (lambda: EXAMPLE.without("ask"), "'ask' is no rung that can be taken out"),
    (lambda: EXAMPLE.without("done"), "'done' is no rung that can be taken out"),
    (
        lambda: EXAMPLE.reordered("refused", "may_fall_back"),
        "must be a list of its guards, not str",
    ),
    (lambda: EXAMPLE.reordered("refused", 5), "must be a list of its guards, not int"),
    (
        lambda: EXAMPLE.reordered("refused", [None, 5]),
        "must name guards, with None for the last resort",
    ),
    (
        lambda: EXAMPLE.reordered("refused", [None]),
        r"are \['may_ask_another', None\]; name each of them once",
    ),
    (lambda: EXAMPLE.reordered("refused", ["may_fall_back", None, None]), "name each of them once"),
    (
        lambda: EXAMPLE.reordered("refussed", []),
        "no row takes the event 'refussed'; did you mean 'refused'",
    ),
    (lambda: evolve(EXAMPLE, rows=5), r"Table\.rows must be a list of rows, not int"),
]


@pytest.mark.parametrize(("derive", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_what_is_given_wrongly_is_named(derive: Callable[[], Any], says: str) -> None:
    with pytest.raises(TableError, match=says):
        derive()


@pytest.mark.parametrize("target", ["retyr", "falback", "compcat", "exhausted_", "pratial"])
def test_a_misspelt_target_is_refused_with_the_name_that_was_meant(target: str) -> None:
    with pytest.raises(TableError, match=rf"unknown state '{target}'; did you mean '\w+'\?"):
        EXAMPLE.with_rows(Row("refused", "await", "may_fall_back", target, "spend_fallback"))


def test_an_event_of_any_name_has_a_ladder_that_a_rung_can_stand_in() -> None:
    table = evolve(EXAMPLE, rows=(*EXAMPLE.rows, Row("rung", "await", None, "failed")))
    assert guards(table.with_rung(ENTREAT, rung=None), "rung") == ["may_entreat", None]


def test_copies_and_pickles_of_a_shipped_table_are_that_table() -> None:
    machine_of(CALL)
    for copied in (copy.copy(CALL), copy.deepcopy(CALL), pickle.loads(pickle.dumps(CALL))):
        assert copied is CALL


def test_copies_and_pickles_of_a_custom_table_equal_it_and_start_fresh() -> None:
    own = EXAMPLE.with_rung(ENTREAT, refused=None)
    machine_of(own)
    for table in (own, evolve(EXAMPLE)):
        for copied in (copy.copy(table), copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
            assert copied == table
            assert copied is not table
            assert hash(copied) == hash(table)
            assert "_machine" not in vars(copied)


def test_functions_that_have_no_hash_can_be_declared() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, *given: Any) -> bool:
            return True

    table = EXAMPLE.with_rung(
        Rung("entreat", holds=Fact("is_odd", of=Unhashable()), change=Unhashable()), refused=None
    )
    assert hash(table) == hash(evolve(table))
