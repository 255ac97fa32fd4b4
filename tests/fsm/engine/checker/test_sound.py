"""The few firings that prove a table of one's own sound, where the walk would take seconds."""

import random
import subprocess
import sys
from typing import Any

import pytest
from attrs import evolve

from rungwise import CALL, Rung
from rungwise.core import Effect, Guard, Row, Table
from rungwise.fsm.engine.checker import check
from rungwise.fsm.engine.checker.check import check_table
from rungwise.fsm.engine.checker.proof import prove
from rungwise.fsm.engine.checker.sound import is_sound
from rungwise.fsm.engine.checker.structure import problems
from rungwise.fsm.engine.checker.walk import walk
from rungwise.fsm.engine.machine.run import TakeRow, machine_of
from rungwise.fsm.turn.table import TURN
from support.tables import (
    COUNTERS,
    ENTREAT,
    KNOTTY,
    ONES,
    failing,
    limits,
    redeclaring,
    replacing,
    row_of,
    tampered,
)
from support.waiting import slowness

FEW = limits(retries=1, reasks=1, nudges=1, continuations=1, fallbacks=1)
OWN = CALL.with_rung(ENTREAT, refused=None)
OWN_TWO = OWN.with_rung(Rung("narrow", limit=2), came_empty="may_nudge")


@pytest.mark.parametrize("table", [CALL, OWN, OWN_TWO, KNOTTY, TURN], ids=repr)
def test_a_sound_table_needs_no_walk(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_sound(table, dict.fromkeys(table.counters, 1))
    monkeypatch.setattr(check, "walk", None)
    check_table(evolve(table, name="of one's own"))


FIRST_USE = """
import time
from rungwise import CALL, Policy, Rung
own = Rung("entreat", limit=1)
table = CALL.with_rung(own, refused=None).with_rung(Rung("narrow", limit=2), came_empty="may_nudge")
began = time.process_time()
Policy(table=table)
print(time.process_time() - began)
"""


def test_a_table_of_ones_own_costs_half_a_second_at_most() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True)
    assert float(done.stdout) < 0.5 * slowness(), done.stderr


def of_other_targets() -> Table:
    """Return a table that calls every answer partial, so that none is ever done."""
    answers = [row for row in CALL.rows if row.target == "done"]
    return replacing(CALL, {row: evolve(row, target="partial") for row in answers})


def hopeful() -> Table:
    """Return a table whose answers count only while a fallback is left."""
    rows = [Row("answered", "await", "may_hope", "done"), Row("answered", "await", None, "failed")]
    rows += [row for row in CALL.rows if row.target != "done" and row.event != "answered"]
    return redeclaring(evolve(CALL, rows=rows), Guard("may_hope", counter="fallbacks"))


def with_foreign_row(row: Row) -> Table:
    """Return the shipped table on a machine that has one transition more than its rows."""
    table = evolve(CALL, name="tampered")
    machine_of(table).add_transition(row.event, row.source, row.target, before=[TakeRow(row)])
    return table


def moved(units: int) -> Any:
    """Return what makes of a count one that changes another counter besides."""
    place = COUNTERS.index("fallbacks")

    def mistake(count: Any) -> Any:
        def wrong(run: Any) -> None:
            count(run)
            run.spent[place] += units

        return wrong

    return mistake


REASK = row_of("came_empty", "may_reask")
REFUSED = row_of("refused", None)
ANOTHER = row_of("refused", "may_ask_another")
UNSOUND = {
    "no last resort": replacing(CALL, {REFUSED: None}),
    "a dead row": replacing(CALL, {ANOTHER: REFUSED, REFUSED: ANOTHER}),
    "a state that nobody reaches": of_other_targets(),
    "a goal that is lost": hopeful(),
    "a guard that reads another counter": redeclaring(CALL, Guard("may_reask", counter="retries")),
    "a guard that reads no counter": redeclaring(
        CALL, Guard("may_reask", lacks="same_empty_again")
    ),
    "an effect that takes nothing": redeclaring(CALL, Effect("spend_retry")),
    "an effect that refills": redeclaring(
        CALL, Effect("spend_retry", spends="retries", refills="continuations")
    ),
    "an illegal event": with_foreign_row(Row("answered", "retry", None, "done")),
    "an outcome that is left": with_foreign_row(Row("sent", "done", None, "await")),
    "an impure guard": tampered(REASK, test=lambda test: lambda run: run.spent.__setitem__(0, 1)),
    "a guard that always holds": tampered(REASK, test=lambda test: lambda run: True),
    "a guard that never holds": tampered(REASK, test=lambda test: lambda run: False),
    "a count that is left out": tampered(REASK, count=lambda count: None),
    "a unit too many": tampered(REASK, count=moved(1)),
    "a unit given back": tampered(REASK, count=moved(-1)),
}


@pytest.mark.full
@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", UNSOUND)
def test_whatever_a_walk_finds_makes_a_table_unsound(name: str) -> None:
    assert failing(walk(UNSOUND[name], FEW))
    assert not is_sound(UNSOUND[name], ONES)


def changed_at_random(table: Table, draw: random.Random) -> Table:
    """Return a table of which a row was dropped, moved, led elsewhere or guarded otherwise."""
    rows = [*table.rows]
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(rows))
        row = rows.pop(place)
        change = draw.choice(["drop", "move", "target", "guard"])
        if change == "move":
            rows.insert(max(place - 1, 0), row)
        elif change == "target":
            rows.insert(place, evolve(row, target=draw.choice([*table.outcomes])))
        elif change == "guard":
            rows.insert(place, evolve(row, guard=draw.choice(table.rows).guard))
    return evolve(table, name="changed", rows=tuple(rows))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_sound_passes_the_walk(seed: int) -> None:
    draw = random.Random(seed)
    sound = 0
    while sound < 3:
        table = changed_at_random(CALL, draw)
        if [*problems(table)] or any(each.verdict == "refused" for each in prove(table)):
            continue
        if is_sound(table, FEW):
            sound += 1
            assert failing(walk(table, FEW, repeats=False)) == {}
