"""The walk over the shipped machine: every limit vector of 0s and 1s, and faults with the shortest
path to them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from attrs import evolve

from rungwise import CALL, Fact
from rungwise.core import BrokenMachine, Effect, Guard, Row, Table
from rungwise.fsm.engine.checker.counterexample import path_text
from rungwise.fsm.engine.checker.properties import (
    ABSORB,
    ALIVE,
    BOUNDED,
    COUNTS,
    ENDS,
    FALLS,
    ILLEGAL,
    ORDERED,
    TOTAL,
)
from rungwise.fsm.engine.checker.walk import PROPERTIES, PURE, walk
from rungwise.fsm.engine.machine.run import TakeRow, machine_of
from support.facts import Check
from support.tables import (
    COUNTERS,
    KNOTTY,
    ONES,
    VECTORS,
    failing,
    limits,
    redeclaring,
    replacing,
    replayed,
    row_of,
    tampered,
)

GOAL = "every configuration can still reach done"
FEW = limits(retries=1, reasks=1, nudges=1, continuations=1, fallbacks=1)


@pytest.mark.dear(8)
@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_limit_vectors_of_zeros_and_ones(part: int) -> None:
    for given in VECTORS[part::8]:
        assert failing(walk(CALL, given, repeats=False)) == {}, given


@pytest.mark.full
def test_the_size_of_the_walk_and_its_properties(fact: Check) -> None:
    seen: list[int] = []
    walked = walk(CALL, ONES, progress=seen.append, repeats=False)
    assert [each.name for each in walked.properties] == [*PROPERTIES, GOAL]
    size = len(walked.configurations)
    assert seen == [*range(1000, size, 1000)]
    fact("configurations, every limit 1", size)
    one_key = {**ONES, "rotations": 0}
    walked = walk(CALL, one_key, repeats=False)
    fact("configurations, one key", len(walked.configurations))
    one_backend = {**one_key, "fallbacks": 0}
    walked = walk(CALL, one_backend, repeats=False)
    fact("configurations, one key and one backend", len(walked.configurations))
    nothing_to_spend = walk(CALL, limits())
    assert len(nothing_to_spend.configurations) == len({"ask", "await", *CALL.outcomes})


def test_configurations_and_edges_make_one_graph() -> None:
    walked = walk(CALL, limits(retries=1))
    assert walked.configurations[0] == ("ask", (0,) * len(COUNTERS))
    reached = {target for targets in walked.edges for target in targets} | {0}
    assert reached == set(range(len(walked.configurations)))


# faults of what is declared, each found by the property that it breaks, with a path that the
# machine really takes

NOTHING_TAKEN = redeclaring(CALL, Effect("spend_retry"))
REFILLS_ABOVE = redeclaring(CALL, Effect("spend_retry", spends="retries", refills="continuations"))
UNCOUNTED = redeclaring(CALL, Guard("may_reask", lacks="same_empty_again"))
ANOTHER_COUNTER = redeclaring(CALL, Guard("may_reask", counter="retries"))
FAULTS = [
    (NOTHING_TAKEN, FALLS, "it goes from"),
    (
        NOTHING_TAKEN,
        ENDS,
        "from the end of the path it goes round for ever: await -> retry -> await",
    ),
    (REFILLS_ABOVE, FALLS, "it goes from"),
    (REFILLS_ABOVE, ENDS, "it goes round for ever"),
    (UNCOUNTED, BOUNDED, "reasks is 2, its limit 1"),
    (ANOTHER_COUNTER, BOUNDED, "reasks is 2, its limit 1"),
]


@pytest.mark.parametrize(("table", "name", "detail"), FAULTS, ids=range(len(FAULTS)))
def test_a_fault_is_found_with_a_path_to_it(table: Table, name: str, detail: str) -> None:
    fault = failing(walk(table, FEW))[name]
    assert detail in fault.detail
    if name == ENDS:
        replayed(table, fault.path, FEW)
        return
    assert replayed(table, fault.path[:-1], FEW).state == fault.path[-1].source
    with pytest.raises(BrokenMachine):
        replayed(table, fault.path, FEW)


@pytest.mark.dear(4)
@pytest.mark.full
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "table", [CALL, KNOTTY, *dict.fromkeys(table for table, _, _ in FAULTS)], ids=repr
)
def test_an_event_need_not_be_fired_again_where_its_rows_read_the_same(table: Table) -> None:
    given = {**ONES, "nudges": 0, "compactions": 0, "rotations": 0}
    whole = walk(table, given)
    less = walk(table, given, repeats=False)
    assert (whole.configurations, whole.edges) == (less.configurations, less.edges)
    found = [
        [(each.name, each.holds, each.path) for each in walked.properties]
        for walked in (whole, less)
    ]
    assert found[0] == found[1]
    firings = [int(walked.properties[0].detail.split()[-2]) for walked in (whole, less)]
    assert firings[1] < firings[0] / 10


def test_a_path_is_written_as_short_numbered_lines() -> None:
    fault = failing(walk(UNCOUNTED, limits(reasks=1)))[BOUNDED]
    assert path_text(fault.path).splitlines() == [
        "  1. ask --sent--> await",
        "  2. await --came_empty [may_reask]--> reask; reasks 0 -> 1",
        "  3. reask --sent--> await",
        "  4. await --came_empty [may_reask]--> reask; reasks 1 -> 2",
    ]
    assert fault.path[1].to_json() == {
        "event": "came_empty",
        "source": "await",
        "target": "reask",
        "guard": "may_reask",
        "facts": [],
        "changed": {"reasks": [0, 1]},
    }


def test_an_event_without_a_last_resort_is_not_total() -> None:
    found = failing(walk(replacing(CALL, {row_of("refused", None): None}), FEW))
    assert found[TOTAL].detail == "no row fires"
    assert [step.event for step in found[TOTAL].path] == ["sent", "refused"]


def test_a_row_behind_the_last_resort_is_dead() -> None:
    row = row_of("refused", "may_ask_another")
    last = row_of("refused", None)
    found = failing(walk(replacing(CALL, {row: last, last: row}), FEW))
    assert found[ALIVE].detail == f"never taken: {row}"


def test_a_wrong_target_leaves_a_state_unreached_and_the_goal_out_of_reach() -> None:
    answers = [
        row_of(event, None) for event in ("answered", "called_tools", "answered_uncertainly")
    ]
    table = replacing(CALL, {row: evolve(row, target="partial") for row in answers})
    found = failing(walk(table, FEW))
    assert found[GOAL].path == ()
    assert found[GOAL].detail == "not from 'ask' at the end of the path"
    assert failing(walk(table, FEW, goal="partial")) == {}


def test_a_goal_that_is_lost_on_the_way_has_a_path() -> None:
    rows = [Row("answered", "await", "may_hope", "done"), Row("answered", "await", None, "failed")]
    answering = ("answered", "called_tools", "answered_uncertainly")
    rows += [row for row in CALL.rows if row.event not in answering]
    table = redeclaring(evolve(CALL, rows=rows), Guard("may_hope", counter="fallbacks"))
    found = failing(walk(table, FEW))
    assert set(found) == {GOAL}
    assert found[GOAL].path[-1].target == "fallback"


def test_a_fact_that_follows_from_one_declared_after_it_holds_all_the_same() -> None:
    """The compiled machine works out the facts that follow from others in one go, whatever their
    order.
    """
    row = Row("refused", "await", "is_hopeless", "refused")
    hopeless = Fact("is_hopeless", any_holds="must_stop"), Fact("must_stop", any_lacks="wait_fits")
    table = redeclaring(evolve(CALL, rows=(row, *CALL.rows)), *hopeless)
    assert failing(walk(table, FEW)) == {}


# machines that do something else than their table says


def with_foreign_row(row: Row) -> Table:
    """Return the shipped table on a machine that has one transition more than its rows."""
    table = evolve(CALL, name="tampered")
    machine_of(table).add_transition(row.event, row.source, row.target, before=[TakeRow(row)])
    return table


def test_a_machine_that_takes_an_illegal_event_is_found() -> None:
    found = failing(walk(with_foreign_row(Row("answered", "retry", None, "done")), FEW))
    assert set(found) == {ILLEGAL}
    assert found[ILLEGAL].detail == "'answered' is taken"


def test_a_machine_that_leaves_an_outcome_is_found() -> None:
    found = failing(walk(with_foreign_row(Row("sent", "done", None, "await")), FEW))
    assert ABSORB in found
    assert [step.event for step in found[ABSORB].path] == ["sent", "answered", "sent"]


def test_a_machine_in_another_order_than_its_table_is_found() -> None:
    first, second = CALL.ladder("malformed", "await")[:2]
    table = evolve(CALL)
    vars(table)["_machine"] = machine_of(replacing(CALL, {first: second, second: first}))
    fault = failing(walk(table, FEW))[ORDERED]
    assert "the machine tries await --malformed [may_retry]" in fault.detail


def moving(place: int, units: int) -> Callable[[Any], Any]:
    """Return what makes of a count one that changes another counter besides."""

    def mistake(count: Callable[[Any], None]) -> Callable[[Any], None]:
        def wrong(run: Any) -> None:
            count(run)
            run.spent[place] += units

        return wrong

    return mistake


MISTAKES: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "a guard always holds": ("test", lambda test: lambda run: True),
    "a guard never holds": ("test", lambda test: lambda run: False),
    "a guard is negated": ("test", lambda test: lambda run: not test(run)),
    "nothing is counted": ("count", lambda count: None),
    "everything is counted twice": ("count", lambda count: lambda run: (count(run), count(run))),
    "a unit of the fallbacks is taken too": ("count", moving(COUNTERS.index("fallbacks"), 1)),
    "a unit of the fallbacks is given back": ("count", moving(COUNTERS.index("fallbacks"), -1)),
}


@pytest.mark.full
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_machine_that_is_compiled_otherwise_than_its_table_says_is_found(mistake: str) -> None:
    part, wrong = MISTAKES[mistake]
    rungs = {rung.name: rung.counter for rung in CALL.declared_rungs}
    for row in CALL.rows:
        if row.guard if part == "test" else row.target not in CALL.outcomes:
            own = {rungs[state]: 1 for state in (row.source, row.target) if state in rungs}
            assert failing(walk(tampered(row, **{part: wrong}), limits(fallbacks=1) | own)), row


def test_a_guard_that_changes_the_run_is_found() -> None:
    impure = tampered(
        row_of("came_empty", "may_reask"), test=lambda test: lambda run: run.spent.__setitem__(0, 1)
    )
    fault = failing(walk(impure, FEW))[PURE]
    assert fault.detail == "a guard changed the run"
    assert fault.path[-1].changed == {"reattaches": (0, 1)}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(ONES, id="all", marks=pytest.mark.soak),
        pytest.param(limits(reasks=1, nudges=1, compactions=1), id="three"),
    ],
)
def test_a_fault_in_exactly_one_configuration_has_the_shortest_path(given: dict[str, int]) -> None:
    wanted = [int(name in ("nudges", "compactions")) for name in COUNTERS]

    def mistake(count: Callable[[Any], None]) -> Callable[[Any], None]:
        return lambda run: None if run.spent == wanted else count(run)

    table = tampered(row_of("came_empty", "may_reask"), count=mistake)
    found = failing(walk(table, given))
    assert set(found) == {COUNTS, FALLS, ENDS}
    path = found[FALLS].path
    assert [step.target for step in path if step.event != "sent"] in (
        ["nudge", "compact", "reask"],
        ["compact", "nudge", "reask"],
    )
    assert len(path) == 6  # each rung is sent before the next one
    assert path[-1].changed == {}
    replayed(table, path[:-1], given)
