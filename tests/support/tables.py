"""Unchecked tables, machines that were tampered with, and limits to walk them."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import pytest
from attrs import evolve

from rungwise import CALL, Fact, Limits, Policy, Rung
from rungwise.core import Effect, Guard, Row, Table
from rungwise.fsm.call.table import COMPACT, FACTS, FALL_BACK, NUDGE, REASK, RESEND, RETRY
from rungwise.fsm.engine.checker.counterexample import PathStep, Property
from rungwise.fsm.engine.checker.walk import Walk, walk
from rungwise.fsm.engine.machine.build import build_table
from rungwise.fsm.engine.machine.declare import Ending
from rungwise.fsm.engine.machine.run import Run, machine_of

COUNTERS = CALL.counters
KNOWN = frozenset(
    {
        "retries",
        "resends",
        "rotations",
        "reasks",
        "rechecks",
        "nudges",
        "prefills",
        "continuations",
        "enlargements",
        "corrections",
        "repairs",
        "compactions",
        "fallbacks",
    }
)
OTHERS_OFF = {name: 0 for name in COUNTERS if name not in KNOWN}
"""Limits that switch off every rung that somebody added since, for tests that are about the rungs
they name or merely need a reply of some kind. A new rung has tests of its own; its name need not
come here.
"""
OTHERS_OFF_TOML = "".join(f"{name} = 0\n" for name in OTHERS_OFF)
"""The same for below the `[limits]` of a policy file."""
ONES = dict.fromkeys(COUNTERS, 1)
ALL_VECTORS = [
    dict(zip(COUNTERS, vector, strict=True)) for vector in product((0, 1), repeat=len(COUNTERS))
]
# A second key doubles the walk, and is reached by one rung, and so does a backend that keeps its
# replies: every sixteenth vector has one of them, or both.
VECTORS = [
    *(each for each in ALL_VECTORS if not (each["rotations"] or each["reattaches"])),
    *[each for each in ALL_VECTORS if each["rotations"] or each["reattaches"]][::16],
]
ENTREAT = Rung("entreat", unit="plea", hint="Please.")

_ANOTHER = evolve(FALL_BACK, refills=("retries", "resends", "reasks", "nudges"))
_KEEP_TEXT = Ending("partial", holds="has_text")
EXAMPLE = build_table(
    name="call",
    start="ask",
    hub="await",
    outcomes=("done", "partial", "refused", "exhausted", "failed", "cancelled", "over_budget"),
    answers=("done",),
    lesser=("partial",),
    rungs=(RETRY, RESEND, REASK, NUDGE, COMPACT, _ANOTHER),
    facts=FACTS,
    ladders={
        "answered": (Ending("done"),),
        "came_empty": (NUDGE, REASK, _ANOTHER, _KEEP_TEXT, Ending("exhausted")),
        "malformed": (_ANOTHER, RETRY, _KEEP_TEXT, Ending("failed")),
        "refused": (
            _ANOTHER.when("may_ask_another", lacks="refusal_ends"),
            Ending("refused"),
        ),
        "failed_transiently": (RESEND, RETRY, _ANOTHER, _KEEP_TEXT, Ending("failed")),
        "overflowed": (COMPACT, _ANOTHER, _KEEP_TEXT, Ending("failed")),
    },
    everywhere={"cancelled": "cancelled"},
    unsent={"ran_out": (_ANOTHER.when("must_yield", holds="reserve_left"), Ending("over_budget"))},
)
"""A small table of the tests' own, for what can be done with any table: a rung that somebody adds
to the shipped one does not come into it.
"""


def of_known_rungs(policy: Policy | None = None) -> Policy:
    """Return a policy, by default the default one, with the rungs off that tests do not know.

    A policy with a table of its own is returned as it is.
    """
    policy = policy or Policy()
    if policy.table is not CALL or not OTHERS_OFF:
        return policy
    return evolve(policy, limits=Limits(**{**policy.limits, **OTHERS_OFF}))


def limits(**given: int) -> dict[str, int]:
    """Return limits of the shipped table, 0 by default."""
    return {**dict.fromkeys(COUNTERS, 0), **given}


def row_of(event: str, guard: str | None, source: str = "await", *, table: Table = CALL) -> Row:
    """Return the row of a table, by default the shipped one, with this event, guard and source."""
    (found,) = [row for row in table.ladder(event, source) if row.guard == guard]
    return found


def replacing(table: Table, changed: Mapping[Row, Row | None]) -> Table:
    """Return a table with some rows replaced; None drops one."""
    return evolve(
        table,
        rows=[row for row in (changed.get(row, row) for row in table.rows) if row is not None],
    )


def redeclaring(table: Table, *declared: Guard | Effect | Fact) -> Table:
    """Return a table with some guards, effects or facts redeclared or added."""

    def of(kind: type[Any], known: tuple[Any, ...]) -> tuple[Any, ...]:
        new = [each for each in declared if isinstance(each, kind)]
        return tuple({each.name: each for each in (*known, *new)}.values())

    return evolve(
        table,
        facts=of(Fact, table.facts),
        guards=of(Guard, table.guards),
        effects=of(Effect, table.effects),
    )


def tampered(row: Row, *, table: Table = CALL, **mistakes: Callable[[Any], Any]) -> Table:
    """Return a table, by default the shipped one, whose machine has one transition compiled
    wrongly.

    Arguments:
        row: the row of the transition.
        mistakes: for its `test` or `count`, a function that replaces the right one.
    """
    table = evolve(table, name="tampered")
    transitions: list[Any] = machine_of(table).get_transitions(row.event, row.source)
    (transition,) = [each for each in transitions if each.before[-1].row == row]
    if "test" in mistakes:
        (condition,) = transition.conditions
        condition.func = mistakes["test"](condition.func)
    if "count" in mistakes:
        (take,) = transition.before
        transition.before = [evolve(take, count=mistakes["count"](take.count))]
    return table


def unchecked(table: Table, policy: Policy | None = None) -> Policy:
    """Put a faulty table into a policy, past the constructor that refuses it."""
    policy = evolve(policy or Policy())
    object.__setattr__(policy, "table", table)
    return policy


KNOTTY = redeclaring(
    evolve(
        CALL, rows=(Row("malformed", "await", "may_insist", "retry", "spend_retry"), *CALL.rows)
    ),
    Fact("is_hopeless", any_holds="should_insist", any_lacks="should_leave"),
    Fact("should_insist", any_holds="repeats_itself"),
    Guard(
        "may_insist",
        counter="retries",
        holds=("is_hopeless", "wait_fits"),
        lacks=("added_text", "should_leave"),
    ),
    Effect(
        "spend_continuation",
        spends="continuations",
        refills=("retries", "reasks"),
        refills_on="is_hopeless",
    ),
)
"""A table whose facts follow from facts that follow from others, for tests that derive them in
another way.
"""


def failing(walked: Walk) -> dict[str, Property]:
    """Return the broken properties of a walk by name."""
    return {each.name: each for each in walked.properties if not each.holds}


def replayed(table: Table, steps: tuple[PathStep, ...], given: Mapping[str, int]) -> Run:
    """Fire the steps of a path on the real machine and check each of them."""
    run = Run.at_start(table, given)
    for step in steps:
        before = list(run.spent)
        assert run.state == step.source
        assert run.fire(step.event, step.facts).guard == step.guard
        assert run.state == step.target
        pairs = zip(table.counters, before, run.spent, strict=True)
        assert {name: (was, now) for name, was, now in pairs if was != now} == step.changed
    return run


def walk_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Walk tables with the limits of their own counters only, for tests that are not about the
    walk.
    """

    def walked(table: Table, limits: Mapping[str, int], **options: bool) -> Walk:
        return walk(
            table,
            {name: 0 if name in CALL.limits else limit for name, limit in limits.items()},
            **options,
        )

    monkeypatch.setattr("rungwise.fsm.engine.checker.check.walk", walked)
