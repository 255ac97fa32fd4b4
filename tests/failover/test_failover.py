"""Sixteen faults of a provider, twenty times as fast as published, and what a caller of Rungwise
gets of each.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import attrs
import pytest

from failover.faults import FAULTS, HEALTHY, Behaviour, Fault
from failover.playing import Played, Way, play_all
from failover.provider import UNKNOWN, Families
from failover.rows import ROWS, WELL_KNOWN
from failover.run import FAST, play_rows, told
from rungwise import Limits, Policy, Timeouts
from rungwise.adapters.exam.grades import Grade

Row = dict[str, Played]

SLOWER = 4.0
"""How much slower a fault is played again where the machine may have been late."""

# A default must not give up on a model that thinks for 15 s, nor forbid another one after a
# refusal.
PARTIAL = {
    "the defaults": ("S07", "S13"),
    "interactive": (),
    "the benchmark's settings": ("S07", "S13"),
}
EACH_ROW = pytest.mark.parametrize(
    "row",
    [
        "the defaults",
        "interactive",
        pytest.param("the benchmark's settings", marks=pytest.mark.full),
    ],
)


def expected(row: str, name: str) -> Grade:
    """Return the verdict that a fault is to have."""
    return "partial" if name in PARTIAL[row] else "pass"


def promised(row: str) -> dict[str, Grade]:
    return {name: expected(row, name) for name in FAULTS}


def verdicts(row: Row) -> dict[str, Grade]:
    return {name: played.score.grade for name, played in row.items()}


def play_fast(
    policy: Policy, faults: Mapping[str, Fault], expected: Mapping[str, str], **how: Any
) -> Row:
    """Play faults to a policy; what may have failed for the machine's sake is played again, and
    slower.
    """
    row = {
        played.fault.name: played for played in play_all(policy, faults.values(), scale=FAST, **how)
    }
    late = [faults[name] for name, played in row.items() if played.score.grade != expected[name]]
    if late and all(is_only_late(row[fault.name]) for fault in late):
        row |= {
            played.fault.name: played
            for played in play_all(policy, late, scale=FAST * SLOWER, **how)
        }
    return row


@cache
def row_of(row: str, way: Way = "stream", families: Families = UNKNOWN) -> Row:
    """Play all faults to a policy, once."""
    return play_fast(
        ROWS[row],
        FAULTS,
        promised(row),
        way=way,
        families=families,
    )


def is_only_late(played: Played) -> bool:
    """Tell whether a busy machine can be the cause: it makes no answer wrong and no error
    unclean.
    """
    seen = played.seen
    return all(
        seen.is_complete(asked) if asked.text is not None else asked.is_clean or asked.hangs
        for asked in seen.asked
    )


@pytest.mark.parametrize("name", FAULTS)
@EACH_ROW
def test_each_fault_comes_to_what_is_promised(row: str, name: str):
    played = row_of(row)[name]
    assert played.score.grade == expected(row, name), "\n".join(
        told(row, [played], with_journal=True)
    )


@pytest.mark.full
@pytest.mark.parametrize(
    "families",
    [WELL_KNOWN[0], *(pytest.param(each, marks=pytest.mark.full) for each in WELL_KNOWN[1:])],
    ids="/".join,
)
@EACH_ROW
def test_no_verdict_depends_on_the_name_of_a_model(row: str, families: Families):
    assert verdicts(row_of(row, families=families)) == promised(row)


SILENCE = ("S06", "S07", "S09")
"""The faults in which a call waits for a server that says nothing, as long as its clocks allow."""

MOST_REQUESTS = 4
MOST_SECONDS = 12.0


def too_dear(played: Played) -> bool:
    return any(
        asked.requests > MOST_REQUESTS or asked.seconds > MOST_SECONDS
        for asked in played.seen.asked
    )


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in SILENCE])
@EACH_ROW
def test_no_fault_takes_more_than_four_requests_and_twelve_seconds(row: str, name: str):
    played = row_of(row)[name]
    if too_dear(played):
        [played] = play_all(ROWS[row], [FAULTS[name]], scale=FAST * SLOWER)
    assert all(0 < asked.requests <= MOST_REQUESTS for asked in played.seen.asked)
    assert not too_dear(played), "\n".join(map(str, played.seen.asked))


@pytest.mark.full
@pytest.mark.parametrize("way", ["call", "astream", "acall"])
@pytest.mark.parametrize("row", ROWS)
def test_the_way_in_which_calls_are_made_makes_no_difference(row: str, way: Way):
    assert verdicts(row_of(row, way)) == promised(row)


@pytest.mark.slowest
@pytest.mark.full
def test_the_verdicts_hold_in_the_published_times():
    rows = play_rows(ROWS, FAULTS.values(), scale=1.0, way="stream")
    for name, row in rows.items():
        assert verdicts({each.fault.name: each for each in row}) == promised(name), name


def assert_verdicts(policy: Policy, expected: Mapping[str, str], **changes: Any) -> None:
    """Check what faults come to that are changed in something."""
    faults = {name: attrs.evolve(FAULTS[name], **changes) for name in expected}
    row = play_fast(policy, faults, expected)
    assert verdicts(row) == expected


def test_a_fallback_may_continue_the_text_or_repeat_it():
    goes_on = attrs.evolve(HEALTHY, goes_on=True)
    assert_verdicts(Policy(), dict.fromkeys(("S08", "S09", "S14"), "pass"), fallback=goes_on)


def test_a_word_that_was_garbled_on_its_way_is_never_missing_from_an_answer():
    assert_verdicts(Policy(), {"S10": "pass"}, primary=(Behaviour(garbled=10, loses=True),))


def test_a_policy_without_clocks_hangs():
    patient = Policy(timeouts=Timeouts(first_token=None, stall=None, total=None))
    faults = [attrs.evolve(FAULTS[name], limit=10.0) for name in ("S06", "S07", "S09")]
    played = play_all(patient, faults, scale=FAST)
    assert ["hangs: not over within 10 s" in each.score.why for each in played] == [True] * 3
    assert all(each.seen.asked[0].steps for each in played), (
        "what hangs is cancelled, and tells how far it came"
    )


def test_without_a_fallback_an_error_is_safe_and_a_cut_answer_fails():
    alone = Policy(limits=Limits(fallbacks=0))
    assert_verdicts(
        alone,
        {
            "S04": "safe",
            "S12": "safe",
            "S13": "pass",
            "S08": "fail",
        },
    )
