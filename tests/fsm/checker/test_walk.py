"""The walk over the shipped machine: every limit vector of 0s and 1s, and faults with the shortest path to them."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import pytest
from attrs import define, evolve

from rungwise import CALL, Ladder, Row, Table
from rungwise.fsm.checker.counterexample import PathStep, Property, path_text
from rungwise.fsm.checker.walk import (
    ABSORB,
    ALIVE,
    BOUNDED,
    COUNTS,
    ENDS,
    FALLS,
    ILLEGAL,
    ORDERED,
    PROPERTIES,
    PURE,
    REACHED,
    TOTAL,
    Walk,
    walk,
)
from rungwise.fsm.machine.machine import fire, machine_of

COUNTERS = names_of(Ladder, COUNTER)
ONES = dict.fromkeys(COUNTERS, 1)
GOAL = "every configuration can still reach done"


def limits(**given: int) -> dict[str, int]:
    return {**dict.fromkeys(COUNTERS, 0), **given}


FEW = limits(retries=1, reasks=1, nudges=1, continuations=1, fallbacks=1)


def failing(walked: Walk) -> dict[str, Property]:
    return {each.name: each for each in walked.properties if not each.holds}


def replayed(table: Table, steps: tuple[PathStep, ...], given: dict[str, int]) -> Ladder:
    """Fire a counterexample on the real machine, and check that it tells what happens."""
    ladder = table.model(SimpleNamespace(**given))  # type: ignore[arg-type]
    for step in steps:
        assert ladder.rung == step.source
        for fact in step.facts:
            setattr(ladder, fact, True)
        before = {name: getattr(ladder, name) for name in COUNTERS}
        fire(machine_of(table), ladder, step.event)
        for fact in step.facts:
            setattr(ladder, fact, False)
        assert ladder.rung == step.target
        now = {name: getattr(ladder, name) for name in COUNTERS}
        assert {name: (before[name], now[name]) for name in COUNTERS if before[name] != now[name]} == step.changed
    return ladder


VECTORS = [dict(zip(COUNTERS, vector, strict=True)) for vector in product((0, 1), repeat=len(COUNTERS))]
PARTS = 17
"""Every build walks the first part, `.ci/run full` all of them; 17 is odd, so each has every limit as 0 and as 1."""


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.full) for part in range(1, PARTS))])
def test_every_limit_vector_of_zeros_and_ones(part: int) -> None:
    for given in VECTORS[part::PARTS]:
        assert failing(walk(CALL, given)) == {}, given


def test_the_size_of_the_walk_and_its_properties() -> None:
    walked = walk(CALL, ONES)
    assert [each.name for each in walked.properties] == [*PROPERTIES, GOAL]
    assert len(walked.configurations) == 2573
    assert len(walk(CALL, {**ONES, "fallbacks": 0}).configurations) == 1289
    assert len(walk(CALL, limits()).configurations) == 10  # nothing to spend: ask, await and the outcomes


def test_configurations_and_edges_make_one_graph() -> None:
    walked = walk(CALL, limits(retries=1))
    assert walked.configurations[0] == ("ask", (0,) * len(COUNTERS))
    reached = {target for targets in walked.edges for target in targets} | {0}
    assert reached == set(range(len(walked.configurations)))


def test_progress_is_told_every_thousand_configurations() -> None:
    seen: list[int] = []
    walk(CALL, ONES, progress=seen.append)
    assert seen == [1000, 2000]


def test_larger_limits_hold_as_well() -> None:
    assert failing(walk(CALL, limits(retries=3, reasks=2, continuations=2, fallbacks=2))) == {}


# faults, each found by the property that it breaks, with a path that the machine really takes


@define(eq=False)
class ForgottenIncrement(Ladder):
    def spend_retry(self) -> None:
        pass


@define(eq=False)
class RefillsAbove(Ladder):
    def spend_retry(self) -> None:
        self.retries += 1
        self.continuations = 0


@define(eq=False)
class UncheckedGuard(Ladder):
    @property
    def may_reask(self) -> bool:
        return not self.same_empty_again


@define(eq=False)
class ImpureGuard(Ladder):
    @property
    def may_reask(self) -> bool:
        self.retries = 0
        return self.reasks < self.limits.reasks


@define(eq=False)
class NumberGuard(Ladder):
    @property
    def may_reask(self) -> int:  # type: ignore[override]
        return self.limits.reasks - self.reasks


@define(eq=False)
class TouchesFact(Ladder):
    def spend_reask(self) -> None:
        self.reasks += 1
        self.has_text = True


@define(eq=False)
class RaisingEffect(Ladder):
    def spend_reask(self) -> None:
        raise KeyError("reasks")


FAULTS = [
    (ForgottenIncrement, FALLS, "it goes from"),
    (ForgottenIncrement, ENDS, "from the end of the path it goes round for ever: await -> retry -> await"),
    (RefillsAbove, FALLS, "it goes from"),
    (RefillsAbove, ENDS, "it goes round for ever"),
    (UncheckedGuard, BOUNDED, "reasks is 2, its limit 1"),
    (ImpureGuard, PURE, "a guard changed the model"),
    (NumberGuard, TOTAL, "which is no bool"),
    (TouchesFact, COUNTS, "does more, or less, than count"),
    (RaisingEffect, TOTAL, "raises KeyError"),
]


@pytest.mark.parametrize(("model", "name", "detail"), FAULTS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_fault_is_found_with_a_path_to_it(model: type[Ladder], name: str, detail: str) -> None:
    table = evolve(CALL, model=model)
    fault = failing(walk(table, FEW))[name]
    assert detail in fault.detail
    if fault.path[-1].target is None:
        assert replayed(table, fault.path[:-1], FEW).rung == fault.path[-1].source
    else:
        replayed(table, fault.path, FEW)


@pytest.mark.parametrize("given", [ONES, limits(reasks=1, nudges=1, compactions=1)], ids=["all", "three"])
def test_a_fault_in_exactly_one_configuration_has_the_shortest_path(given: dict[str, int]) -> None:
    @define(eq=False)
    class OneConfiguration(Ladder):
        def spend_reask(self) -> None:
            others = (self.retries, self.prefills, self.enlargements, self.repairs, self.continuations, self.fallbacks)
            if (self.nudges, self.compactions) != (1, 1) or any(others):
                self.reasks += 1

    table = evolve(CALL, model=OneConfiguration)
    found = failing(walk(table, given))
    assert set(found) == {FALLS, ENDS}
    path = found[FALLS].path
    assert [step.target for step in path if step.event != "sent"] in (
        ["nudge", "compact", "reask"],
        ["compact", "nudge", "reask"],
    )
    assert len(path) == 6  # each rung is sent before the next one
    assert path[-1].changed == {}
    replayed(table, path, given)


def test_a_path_is_written_as_short_numbered_lines() -> None:
    fault = failing(walk(evolve(CALL, model=UncheckedGuard), limits(reasks=1)))[BOUNDED]
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
    table = evolve(CALL, rows=tuple(row for row in CALL.rows if (row.event, row.guard) != ("refused", None)))
    found = failing(walk(table, FEW))
    assert found[TOTAL].detail == "no row fires"
    assert [step.event for step in found[TOTAL].path] == ["sent", "refused"]
    assert found[REACHED].detail == "never reached: refused" if REACHED in found else True


def test_a_row_behind_the_last_resort_is_dead() -> None:
    rows = list(CALL.rows)
    row = rows.pop(rows.index(Row("refused", "await", "may_fall_back", "fallback", "spend_fallback")))
    rows.insert(rows.index(Row("refused", "await", None, "refused")) + 1, row)
    found = failing(walk(evolve(CALL, rows=tuple(rows)), FEW))
    assert found[ALIVE].detail == f"never taken: {row}"


def test_a_wrong_target_leaves_a_state_unreached_and_the_goal_out_of_reach() -> None:
    wrong = {"answered": "partial", "called_tools": "partial"}
    table = evolve(CALL, rows=tuple(evolve(row, target=wrong.get(row.event, row.target)) for row in CALL.rows))
    found = failing(walk(table, FEW))
    assert found[GOAL].path == ()
    assert found[GOAL].detail == "not from 'ask' at the end of the path"
    assert failing(walk(table, FEW, goal="partial")) == {}


def test_a_goal_that_is_lost_on_the_way_has_a_path() -> None:
    @define(eq=False)
    class Fails(Ladder):
        @property
        def has_hope(self) -> bool:
            return self.fallbacks == 0

    ladder = [Row("answered", "await", "has_hope", "done"), Row("answered", "await", None, "failed")]
    rows = [row for row in CALL.rows if row.event not in ("answered", "called_tools")]
    found = failing(walk(evolve(CALL, rows=(*ladder, *rows), model=Fails), FEW))
    assert set(found) == {GOAL}
    assert found[GOAL].path[-1].target == "fallback"


def with_foreign_row(row: Row) -> Table:
    """Return the shipped table on a machine that has one transition more than its rows."""
    table = evolve(CALL, name="tampered")
    machine_of(table).add_transition(row.event, row.source, row.target, before=row.effect, row=row)
    return table


def test_a_machine_that_takes_an_illegal_event_is_found() -> None:
    found = failing(walk(with_foreign_row(Row("answered", "retry", None, "done")), FEW))
    assert set(found) == {ILLEGAL}
    assert found[ILLEGAL].detail == "'answered' is taken"


def test_a_machine_that_leaves_an_outcome_is_found() -> None:
    found = failing(walk(with_foreign_row(Row("sent", "done", None, "await")), FEW))
    assert set(found) == {ABSORB}
    assert [step.event for step in found[ABSORB].path] == ["sent", "answered", "sent"]


def test_a_machine_in_another_order_than_its_table_is_found() -> None:
    rows = list(CALL.rows)
    first, second = [index for index, row in enumerate(rows) if row.event == "malformed"][:2]
    rows[first], rows[second] = rows[second], rows[first]
    table = evolve(CALL)
    object.__setattr__(table, "_machine", machine_of(evolve(CALL, rows=tuple(rows))))
    fault = failing(walk(table, FEW))[ORDERED]
    assert "the machine tries await --malformed [may_retry]" in fault.detail


def test_gathered_text_is_never_turned_into_an_error() -> None:
    for row in CALL.rows:
        if row.target in ("exhausted", "failed"):
            ladder = CALL.ladder(row.event, row.source)
            assert row == ladder[-1]
            assert ladder[-2] == Row(row.event, row.source, "has_text", "partial")
