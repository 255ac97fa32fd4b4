"""A machine of three states with no call in it is proved, walked, weighed, drawn, explained and
fuzzed like a call.
"""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import CALL, Fact, Rung
from rungwise.core import Effect, TableError
from rungwise.fsm.diagram import FORMATS, VIEWS, Format, Marks, View, render, render_error
from rungwise.fsm.diagram.page import Setup, explain_page, play_page
from rungwise.fsm.engine.checker.check import check_table
from rungwise.fsm.engine.checker.longest import longest
from rungwise.fsm.engine.checker.moves import moves_of
from rungwise.fsm.engine.checker.proof import prove
from rungwise.fsm.engine.checker.properties import COUNTS, FALLS
from rungwise.fsm.engine.checker.tracking import SearchProblem
from rungwise.fsm.engine.checker.walk import walk
from rungwise.fsm.engine.journal.path import Path, path_of
from rungwise.fsm.engine.journal.record import Record, RecordedStep
from rungwise.fsm.engine.machine.build import build_table
from rungwise.fsm.engine.machine.declare import Ending, Event
from rungwise.fsm.engine.machine.run import Run
from rungwise.testing import assert_run_holds, events_of
from support.tables import ONES, failing, redeclaring, tampered

KNOCK = Rung(
    "knock",
    limit=3,
    holds="is_home",
    lacks="is_annoyed",
    says="somebody may open yet",
)
TOY = build_table(
    name="door",
    start="knock",
    hub="listen",
    outcomes=("gone",),
    rungs=[KNOCK],
    facts=[
        Fact("has_light"),
        Fact("is_annoyed"),
        Fact("is_home", any_holds="has_light", any_lacks="is_late"),
        Fact("is_late"),
    ],
    events=[Event("stayed_quiet", "nobody came to the door")],
    ladders={
        "opened": (Ending("gone"),),
        "stayed_quiet": (Ending("gone", holds="is_late"), KNOCK, Ending("gone")),
    },
    everywhere={"rained": "gone"},
    unsent={"froze": [Ending("gone")]},
)
LIMITS = {"knocks": 4}


def test_it_has_three_states_and_is_proved() -> None:
    check_table(TOY)
    assert TOY.states == ("knock", "listen", "gone")
    assert TOY.limits == {"knocks": 3}
    (knock,) = [proof for proof in prove(TOY) if proof.takes]
    assert (knock.takes, knock.why) == ("knocks", "finds knocks < limit, takes one")


def test_it_is_walked() -> None:
    walked = walk(TOY, LIMITS)
    assert failing(walked) == {}
    # knocking and listening with 0 to 4 knocks, and gone
    assert len(walked.configurations) == 2 * 5 + 1
    assert walked.properties[-1].name == "every configuration can still reach gone"


@pytest.mark.parametrize(
    ("attempts", "heaviest"), [(None, 35), (9, 35), (5, 35), (3, 1 + 2 + 5), (1, 1)]
)
def test_finds_its_worst_case_by_custom_weights(attempts: int | None, heaviest: int) -> None:
    problem = SearchProblem.of(
        moves_of(TOY, LIMITS), TOY.start, LIMITS, TOY.ranks, lambda at: 1 + at.knocks**2, attempts
    )
    found = longest(problem)
    assert found.value == heaviest
    assert [move.row.event for move in found.path] == ["stayed_quiet"] * (min(attempts or 1, 5) - 1)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("format", FORMATS)
def test_it_is_drawn(format: Format, view: View) -> None:
    text = render(TOY, format, view)
    for name in (
        "knock",
        "listen",
        "gone",
        "opened",
        "stayed_quiet",
        "may_knock",
        "is_late",
        "rained",
        "froze",
    ):
        assert name in text
    assert render(TOY, format, view, Marks.along(TOY.rows)) != text
    if format == "svg":
        ET.fromstring(text)


def test_its_page_can_be_played() -> None:
    page = play_page(TOY, Setup(limits=LIMITS), heading="Knock.")
    assert "Play the door" in page


def recorded(*events: tuple[str, tuple[str, ...]]) -> Path:
    """Fire some events and return the path that was recorded."""
    run = Run.at_start(TOY, LIMITS)
    record = Record(table=TOY.name, counters=TOY.counters)
    for at, (event, facts) in enumerate(events):
        row = run.fire(event, facts)
        record.record(
            RecordedStep(
                row=row, at=float(at), facts=facts, spent=tuple(run.spent), attempts=run.attempts
            )
        )
    record.outcome = run.state
    return path_of(Record.from_json(record.to_json()), TOY)


def test_a_run_of_it_is_recorded_read_back_and_explained() -> None:
    path = recorded(("sent", ()), ("stayed_quiet", ("has_light",)), ("sent", ()), ("opened", ()))
    assert [row.target for row in path.rows if row] == ["listen", "knock", "listen", "gone"]
    assert path.steps[-1].spent == {"knocks": 1}
    page = explain_page(path, Setup(limits=LIMITS)).html
    assert "One door, step by step" in page
    assert "stayed_quiet" in page


@given(events_of(TOY), st.integers(0, 3))
def test_whatever_is_fired_what_must_always_hold_does(
    events: list[tuple[str, frozenset[str]]], knocks: int
) -> None:
    assert_run_holds(TOY, {"knocks": knocks}, events)


@given(events_of(CALL))
def test_the_same_is_demanded_of_calls(events: list[tuple[str, frozenset[str]]]) -> None:
    assert_run_holds(CALL, {**ONES, "retries": 2}, events)


def test_a_broken_toy_is_refused_with_its_path_and_caught_by_the_kit() -> None:
    endless = redeclaring(TOY, Effect("spend_knock"))
    with pytest.raises(TableError, match="takes nothing") as caught:
        check_table(endless)
    assert str(caught.value).endswith("  2. listen --stayed_quiet [may_knock]--> knock")
    assert "| `stayed_quiet` | listen | `may_knock` | knock | `spend_knock` | 2 |" in render_error(
        caught.value, "rows"
    )
    assert {FALLS} < set(failing(walk(endless, LIMITS)))
    knock = next(row for row in TOY.rows if row.target == "knock")
    wrong = tampered(knock, table=TOY, count=lambda count: None)
    with pytest.raises(AssertionError, match=COUNTS):
        assert_run_holds(wrong, LIMITS, [("sent", ()), ("stayed_quiet", ())])
