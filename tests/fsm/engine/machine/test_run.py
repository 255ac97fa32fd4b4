"""One run of a machine: each event takes the row that its table declares, or changes nothing, or
stops the run.
"""

from collections.abc import Callable
from typing import Any

import pytest

from rungwise import CALL
from rungwise.core import BrokenMachine, Effect, Guard, IllegalEvent, Row, Table
from rungwise.fsm.engine.checker.branches import Branch, branches
from rungwise.fsm.engine.machine.run import Run, machine_of
from support.tables import ONES, limits, redeclaring, row_of, tampered

TO_RUNGS = [row for row in CALL.rows if row.target in CALL.rungs]


def run_into(branch: Branch, source: str = "await", table: Table = CALL) -> Run:
    """Return a run that stands where a branch begins: with limits of 1, spent where the branch
    finds them spent.
    """
    run = Run.at_start(table, ONES)
    run.state = source
    run.spent = [int(name in branch.spent) for name in table.counters]
    return run


def held(branch: Branch) -> tuple[str, ...]:
    return tuple(name for name, is_held in branch.facts.items() if is_held)


def way_to(row: Row) -> Branch:
    return next(branch for branch in branches(CALL, row.event, row.source) if branch.row == row)


def test_every_branch_of_every_ladder_takes_its_row_and_counts_what_it_says() -> None:
    seen = 0
    for event, source in CALL.ladders:
        for branch in branches(CALL, event, source):
            run = run_into(branch, source)
            before = dict(zip(CALL.counters, run.spent, strict=True))
            assert run.fire(event, held(branch)) == run.row == branch.row
            assert branch.row is not None
            expected = dict(before)
            if branch.takes:
                expected[branch.takes] = 1
            expected |= dict.fromkeys(branch.refills, 0)
            assert {name: run.spent_of(name) for name in CALL.counters} == expected
            assert (run.state, run.attempts) == (
                branch.row.target,
                int(branch.row.target == CALL.hub),
            )
            seen += 1
    assert seen > len(CALL.rows)


def test_a_run_begins_with_everything_left() -> None:
    run = Run.at_start(CALL, {**ONES, "fallbacks": 7})
    assert (run.state, run.spent, run.attempts, run.row, run.facts) == (
        "ask",
        [0] * len(CALL.counters),
        0,
        None,
        0,
    )
    assert dict(zip(CALL.counters, run.limits, strict=True)) == {**ONES, "fallbacks": 7}
    assert run.spent_of("pleas") == 0  # a counter of another table


@pytest.mark.parametrize("state", CALL.states)
def test_an_illegal_event_changes_nothing(state: str) -> None:
    run = Run.at_start(CALL, ONES)
    run.state = state
    run.spent = [1, 0, 1, 0, 1, 0, 1, 0, 1]
    run.facts = 5
    run.attempts = 3
    before = run.state, list(run.spent), run.facts, run.attempts, run.row
    for event in (*CALL.events, "came_home"):
        if not CALL.ladder(event, state):
            with pytest.raises(
                IllegalEvent, match=f"event '{event}' does not belong to state '{state}'"
            ):
                run.fire(event, ("has_text",))
            assert (run.state, run.spent, run.facts, run.attempts, run.row) == before


def test_an_event_of_which_no_guard_holds_changes_nothing() -> None:
    table = redeclaring(CALL, Guard("may_fall_back", counter="fallbacks", holds="has_text"))
    table = table.with_rows(Row("yawned", "await", "may_fall_back", "fallback", "spend_fallback"))
    run = Run.at_start(table, ONES)
    run.fire("sent")
    before = run.state, list(run.spent), run.facts, run.attempts, run.row
    with pytest.raises(IllegalEvent):
        run.fire("yawned", ("has_next_backend",))
    assert (run.state, run.spent, run.facts, run.attempts, run.row) == before
    assert run.fire("yawned", ("has_text",)).target == "fallback"


def test_runs_share_a_machine_and_nothing_else() -> None:
    one = Run.at_start(CALL, ONES)
    other = Run.at_start(CALL, limits())
    for run, target in ((one, "reask"), (other, "exhausted")):
        run.fire("sent")
        assert run.fire("came_empty").target == target
    assert one.machine is other.machine is machine_of(CALL)
    assert (one.spent_of("reasks"), other.spent_of("reasks")) == (1, 0)


MISTAKES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda count: None, "the variant did not fall"),
    (
        lambda count: lambda run: [count(run), count(run)],
        "a counter is 2, and its limit is 1",
    ),
    (
        lambda count: lambda run: run.spent.__setitem__(slice(None), [0] * len(run.spent)),
        "the variant did not fall",
    ),
    (
        lambda count: lambda run: run.spent.__setitem__(slice(None), [-1] * len(run.spent)),
        "the variant did not fall",
    ),
]


@pytest.mark.parametrize("row", TO_RUNGS, ids=str)
def test_a_machine_that_counts_otherwise_than_the_proof_says_is_stopped_at_once(row: Row) -> None:
    for mistake, says in MISTAKES:
        with pytest.raises(BrokenMachine, match=says) as caught:
            run_into(way_to(row), row.source, tampered(row, count=mistake)).fire(
                row.event, held(way_to(row))
            )
        assert str(row) in str(caught.value)


@pytest.mark.parametrize("row", TO_RUNGS, ids=str)
def test_a_machine_that_finds_units_where_none_are_left_is_stopped_at_once(row: Row) -> None:
    run = run_into(way_to(row), row.source, tampered(row, test=lambda test: lambda run: True))
    takes = way_to(row).takes
    run.spent[CALL.counters.index(takes)] = 1
    with pytest.raises(BrokenMachine, match="a counter is 2, and its limit is 1"):
        run.fire(row.event, held(way_to(row)))


def test_a_send_that_counts_and_a_row_from_the_hub_to_itself_are_stopped() -> None:
    def spend(count: Any) -> Callable[[Any], None]:
        return lambda run: run.spent.__setitem__(0, 1)

    with pytest.raises(BrokenMachine, match="ask --sent"):
        Run.at_start(tampered(row_of("sent", None, "ask"), count=spend), ONES).fire("sent")
    round_trip = Row("yawned", "await", None, "await")
    run = Run.at_start(CALL.with_rows(round_trip), ONES)
    run.fire("sent")
    with pytest.raises(BrokenMachine, match="the variant did not fall"):
        run.fire("yawned")


def test_an_end_is_taken_also_by_a_run_that_went_wrong() -> None:
    run = Run.at_start(redeclaring(CALL, Effect("spend_reask")), ONES)
    run.fire("sent")
    with pytest.raises(BrokenMachine):
        run.fire("came_empty")
    run.spent[0] = 99
    assert run.fire("cancelled").target == "cancelled"
