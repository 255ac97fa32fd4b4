"""No place that lists the outcomes forgets one of them."""

import ast
from collections.abc import Iterator, Mapping

import attrs
import pytest

import rungwise
from rungwise import CALL, CallError, Result
from rungwise.adapters.cli import describe, shown
from rungwise.adapters.demo import view
from rungwise.core import TURN, BrokenMachine, Call, Reply, Request
from rungwise.fsm.analysis.odds import candidates
from rungwise.fsm.call import rules
from rungwise.fsm.call.run import outcome, result
from rungwise.fsm.turn import observe
from rungwise.fsm.turn import result as turn_result
from support.imports import MODULES, parsed

SUCCESSES = {"done", "salvaged", "partial"}
FOREIGN = {"cancelled", "over_budget"}
"""The outcomes that the caller and the budget bring about."""

PLACES: Mapping[str, tuple[set[str], set[str]]] = {
    "fsm.call.table": (set(CALL.outcomes), set()),
    "fsm.call.rules": (rules.ERRORS, SUCCESSES | FOREIGN),
    "fsm.call.run.outcome": (outcome.LAST_RESORTS, {"done", "salvaged"} | FOREIGN),
    "fsm.call.run.result": ({*result.ERRORS}, SUCCESSES),
    "fsm.analysis.odds.candidates": (
        {*candidates.WHY},
        {"done", "salvaged", "partial", "cancelled"},
    ),
    "fsm.turn.observe": ({*observe._EVENTS}, {"done", "partial"}),
    "adapters.cli.describe": ({*describe.ENDS}, {"done", "cancelled"}),
    "adapters.cli.shown": ({*shown.EXIT_CODES}, set()),
    "adapters.demo.view": (
        {*view.STYLES} - {*TURN.outcomes} | {"failed", "over_budget", "cancelled"},
        set(),
    ),
}
"""For each module that lists outcomes: those that it lists, and those that it leaves out with good
reason.
"""


@pytest.mark.parametrize("place", PLACES)
def test_a_place_knows_every_outcome(place: str) -> None:
    listed, left_out = PLACES[place]
    assert sorted([*listed, *left_out]) == sorted(CALL.outcomes)


def lists_in(source: str) -> Iterator[list[object]]:
    """Yield the constants of each tuple, list, set and mapping that is written out."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Dict):
            yield [key.value for key in node.keys if isinstance(key, ast.Constant)]
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            yield [each.value for each in node.elts if isinstance(each, ast.Constant)]


@pytest.mark.full
def test_every_place_that_lists_outcomes_is_looked_at() -> None:
    telling = {*CALL.outcomes} - {"refused"}  # which is an event, too
    found = {
        name.removeprefix("rungwise.")
        for name, path in MODULES.items()
        if any(
            len(telling.intersection(map(str, each))) >= 3
            for each in lists_in(path.read_text(encoding="utf-8"))
        )
    }
    turns = {"fsm.turn.table", "fsm.turn.result"}
    assert found - turns == {*PLACES} - {"fsm.call.rules"}  # whose list has two that tell


def test_turns_know_every_outcome_of_their_own() -> None:
    assert (
        {*turn_result.ERRORS} | turn_result.SUCCESSES
        == {*TURN.outcomes}
        == {*shown.TURN_EXIT_CODES}
    )
    assert {*TURN.outcomes, *CALL.outcomes} == {*view.STYLES}


def ended_as(outcome: str) -> Result:
    call = Call(Request("Where does the bittern nest?"))
    call.begin()
    call.receive(Reply("In the reeds.", stop_reason="stop"))
    return attrs.evolve(call.result, outcome=outcome)


@pytest.mark.parametrize("outcome", CALL.outcomes)
def test_each_outcome_returns_or_raises_a_public_error_and_is_an_event_of_a_turn(
    outcome: str,
) -> None:
    ended = ended_as(outcome)
    assert observe.event_of(ended) in TURN.events
    if ended.is_success:
        assert ended.raise_for_outcome() is ended
    else:
        with pytest.raises(CallError) as caught:
            ended.raise_for_outcome()
        assert getattr(rungwise, type(caught.value).__name__) is type(caught.value)


def test_an_outcome_without_an_error_is_named() -> None:
    with pytest.raises(
        BrokenMachine,
        match=r"ended as 'banned', for which rungwise\.fsm\.call\.run\.result\.ERRORS",
    ):
        ended_as("banned").raise_for_outcome()
