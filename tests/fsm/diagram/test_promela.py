"""SPIN, which knows nothing of this library, proves the shipped tables once more; and finds what is
planted in them.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from rungwise import CALL, Fact, Rung, verify
from rungwise.core import TURN, Table
from rungwise.fsm.engine.checker.walk import walk
from rungwise.fsm.engine.machine.build import build_table
from rungwise.fsm.engine.machine.declare import Ending
from support.formal import promela
from support.formal.faults import FAULTY, LAST_OF_ROUND, LITTLE
from support.formal.shared import most_attempts
from support.formal.spin import spin
from support.tables import KNOTTY, ONES, replacing
from support.uncommon import UNCOMMON, UNCOMMON_LIMITS

FULL = pytest.mark.full
ENDLESS = "acceptance cycle"
FALLS = "was_waiting"
DEFAULTS = {name: 1 if limit is None else limit for name, limit in CALL.limits.items()} | {
    "rotations": 0
}
"""Those of a chain of two backends."""

FEWER = {**ONES, "rotations": 0, "reattaches": 0}
"""Half as many states for each limit of 0; one test has every limit 1."""

SHIPPED = [
    pytest.param(CALL, ONES, id="call", marks=FULL),
    pytest.param(TURN, {**TURN.limits}, id="turn"),
    pytest.param(
        CALL,
        {
            **FEWER,
            "retries": 2,
            "prefills": 0,
            "fallbacks": 3,
        },
        id="other-limits",
        marks=FULL,
    ),
    pytest.param(KNOTTY, FEWER, id="facts-of-facts", marks=FULL),
]


@pytest.mark.full
@pytest.mark.parametrize(("table", "limits"), SHIPPED)
def test_spin_finds_nothing_wrong_and_reaches_what_the_walk_reaches(
    table: Table, limits: Mapping[str, int], tmp_path: Path
) -> None:
    found = spin(promela.model(table, limits), tmp_path, claim=False)
    assert found.violated is None
    assert found.states == len(walk(table, limits, repeats=False).configurations)
    if all(limits.values()):
        assert found.unreached == ()


@pytest.mark.parametrize(
    ("table", "limits"), [pytest.param(CALL, FEWER, id="call", marks=FULL), *SHIPPED[1:]]
)
def test_spin_proves_that_every_run_ends(
    table: Table, limits: Mapping[str, int], tmp_path: Path
) -> None:
    assert spin(promela.model(table, limits), tmp_path).violated is None


PLAIN = ("LIMIT_rotations=0", "LIMIT_reattaches=0")
"""Backends with one key, which do not go on with a reply that was cut. With a second key there are
twice as many states, and four times as many if they do.
"""


@pytest.mark.slowest
@FULL
def test_spin_proves_the_call_with_the_limits_that_it_has_by_default(tmp_path: Path) -> None:
    one_backend = spin(
        promela.model(CALL), tmp_path, claim=False, defined=[*PLAIN, "LIMIT_fallbacks=0"]
    )
    assert (one_backend.violated, one_backend.states) == (None, 2_457_609)
    assert f"({one_backend.states:,} for a call" in Path("diagrams/README.md").read_text()


@pytest.mark.slowest
@pytest.mark.soak
def test_spin_proves_the_call_with_several_backends(tmp_path: Path) -> None:
    # The rung of doubt makes many times as many states; it is there where all limits are 1.
    no_doubt = "LIMIT_rechecks=0"
    assert spin(promela.model(CALL), tmp_path, defined=[*PLAIN, no_doubt]).violated is None


def finds_most(written: str, most: int, folder: Path) -> None:
    """Check that SPIN finds a path with so many attempts, and none with more."""
    for figure, violated in (
        (most, None),
        (most - 1, f"assertion violated (attempts<={most - 1})"),
    ):
        assert (
            spin(written, folder, claim=False, defined=[f"MOST_ATTEMPTS={figure}"]).violated
            == violated
        )


@pytest.mark.full
@pytest.mark.parametrize(
    ("table", "limits"), [pytest.param(CALL, FEWER, id="call", marks=FULL), SHIPPED[1]]
)
def test_spin_finds_the_worst_case_of_the_ladder_itself_and_none_that_is_worse(
    table: Table, limits: Mapping[str, int], tmp_path: Path
) -> None:
    written = promela.model(table, limits)
    most = most_attempts(table, limits)
    finds_most(written, most, tmp_path)


LATE = Rung("late", limit=2, lacks="has_more")
MORE = Rung("more", limit=2, holds="has_more", refills="lates")
LASTING = build_table(
    name="lasting",
    start="begin",
    hub="listen",
    outcomes=("heard", "lost"),
    rungs=(LATE, MORE),
    facts=(Fact("has_more", lasts="mores"),),
    ladders={"came": (Ending("heard"),), "broke": (LATE, MORE, Ending("lost"))},
)
"""A machine of which a run does less than its model: a fact lasts."""


@pytest.mark.full
def test_the_figure_of_the_model_is_its_own_where_a_fact_lasts(tmp_path: Path) -> None:
    written = promela.model(LASTING)
    limits = {"lates": 2, "mores": 2}
    (most, less) = (int(figure) for figure in re.findall(r"-DMOST_ATTEMPTS=(\d+)", written))
    assert most == most_attempts(LASTING, limits) == less + 1
    finds_most(written, most, tmp_path)


def test_counts_that_no_short_holds_are_kept_in_an_int() -> None:
    rungs = [Rung(f"rung_{number}", limit=1000) for number in range(33)]
    ladder = (*rungs, Ending("lost"))
    table = build_table(
        name="wide", start="a", hub="b", outcomes=("lost",), rungs=rungs, ladders={"broke": ladder}
    )
    written = promela.model(table)
    assert "-DMOST_ATTEMPTS=33001 " in written
    assert "\nint attempts " in written
    assert "\nint was_0\n" in written


def test_limits_given_to_the_preprocessor_may_be_larger_than_a_byte(tmp_path: Path) -> None:
    written = promela.model(LASTING)
    found = spin(written, tmp_path, claim=False, defined=["LIMIT_lates=300"])
    assert found.violated is None


@pytest.mark.full
def test_the_figure_is_that_of_the_certificate() -> None:
    for backends in (1, 2, 3):
        attempts = next(each for each in verify(chain=backends).worst if each.name == "attempts")
        # No backend of a chain that is only counted goes on with a reply that was cut.
        limits = {**DEFAULTS, "fallbacks": backends - 1, "reattaches": 0}
        assert attempts.ladder == most_attempts(CALL, limits)


# A proof that cannot fail is worth nothing.

HAND_OFF = TURN.ladder("tools_ran", "await")[0]
FAULTS = {
    "takes nothing": FALLS,
    "checks no counter": "faults<=2",
    "gives back what ranks above": FALLS,
    "no last resort": "violated 0",
    "leaves an outcome": "!(",
    "receives in the hub for ever": FALLS,
    "stands still": ENDLESS,
}
IN_EVERY_BUILD = ("takes nothing", "stands still")


@pytest.mark.full
@pytest.mark.parametrize(
    "fault", [each if each in IN_EVERY_BUILD else pytest.param(each, marks=FULL) for each in FAULTS]
)
def test_what_is_planted_is_found(fault: str, tmp_path: Path) -> None:
    found = spin(promela.model(FAULTY[fault], LITTLE), tmp_path)
    assert FAULTS[fault] in found.violated


def test_a_loop_that_takes_nothing_never_ends(tmp_path: Path) -> None:
    found = spin(promela.model(FAULTY["takes nothing"], LITTLE), tmp_path, run=["-A"])
    assert found.violated == ENDLESS


@pytest.mark.full
def test_a_row_that_is_never_taken_is_told(tmp_path: Path) -> None:
    table = replacing(TURN, {LAST_OF_ROUND: HAND_OFF, HAND_OFF: LAST_OF_ROUND})
    found = spin(promela.model(table, LITTLE), tmp_path, claim=False)
    assert any(
        line.startswith("ROW(FACT(was_handed_off), nothing(), handed_off)")
        for line in found.unreached
    )


@pytest.mark.full
def test_names_that_mean_something_else_in_the_model_are_told_and_replaced(tmp_path: Path) -> None:
    written = promela.model(UNCOMMON, UNCOMMON_LIMITS)
    assert "state_do: the state 'do'" in written
    assert "short counter_ints\n" in written
    found = spin(written, tmp_path, claim=False)
    assert (found.violated, found.unreached) == (None, ())
    assert found.states == len(walk(UNCOMMON, UNCOMMON_LIMITS).configurations)


def test_the_limits_are_those_of_the_policy() -> None:
    written = promela.model(CALL, {"retries": 7, "fallbacks": None})
    assert "#define LIMIT_retries 7\n" in written
    assert "#define LIMIT_reasks 3\n" in written
    assert "#define LIMIT_fallbacks 1\n" in written
