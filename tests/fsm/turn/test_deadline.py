"""A deadline of a turn, played by hand: its calls, tools and compactions end by it, and its journal
tells of it.
"""

import math
from typing import Any

import orjson
import pytest

import rungwise
from rungwise import (
    Budget,
    ConfigurationError,
    Policy,
    SharedBudget,
    TurnJournal,
    TurnPolicy,
    replay,
)
from rungwise.core import Action, Call, Compact, MakeCall, Request, RunTools, Turn
from support.turns import HISTORY, OVERFLOW, QUESTION, TOOLS, calling

NOW = 100.0
DEADLINE = 130.0
UNLIMITED = Policy(budget=Budget(seconds=None))


def turn_with(deadline: Any = DEADLINE, policy: TurnPolicy | None = None, **options: Any) -> Turn:
    policy = policy or TurnPolicy(call=UNLIMITED)
    return Turn(
        Request([*HISTORY, QUESTION]),
        policy,
        tools=TOOLS,
        deadline=deadline,
        **options,
    )


def call_of(action: Action | None) -> Call:
    assert isinstance(action, MakeCall)
    return action.call


def run(
    call: Call,
    reply: Any,
    *,
    begins: float,
    ends: float,
) -> rungwise.Result:
    call.begin(begins)
    call.sending(begins)
    assert call.receive(reply, ends) is None
    return call.result


def again(turn: Turn) -> rungwise.TurnResult:
    text = turn.journal.to_json()
    journal = TurnJournal.from_json(text)
    assert journal.to_json() == text
    return replay(journal)


def test_tools_have_what_is_left_of_it() -> None:
    turn = turn_with()
    result = run(call_of(turn.begin(NOW)), calling("look"), begins=NOW, ends=122.0)
    tools = turn.called(result, 122.0)
    assert isinstance(tools, RunTools)
    assert tools.seconds == 8.0
    assert [each.seconds for each in tools.runs] == [8.0]


@pytest.mark.parametrize("ends", [130.0, 131.0])
def test_no_tool_begins_and_no_compaction_counts_behind_it(ends: float) -> None:
    turn = turn_with()
    result = run(call_of(turn.begin(NOW)), calling("look"), begins=NOW, ends=ends)
    assert turn.called(result, ends) is None
    assert (turn.result.outcome, turn.result.cause) == ("over_budget", "the deadline has passed")
    assert again(turn).cause == "the deadline has passed"

    turn = turn_with(has_compactor=True)
    result = run(call_of(turn.begin(NOW)), OVERFLOW, begins=NOW, ends=105.0)
    assert isinstance(turn.called(result, 105.0), Compact)
    assert turn.compacted([QUESTION], ends) is None
    assert (turn.result.outcome, turn.result.cause) == (
        "over_budget",
        "the budget is spent: the deadline has passed",
    )
    # a late one is not taken
    assert turn.result.messages[: len(HISTORY)] == turn.request.messages[: len(HISTORY)]
    assert again(turn).cause == turn.result.cause


@pytest.mark.parametrize(
    ("deadline", "own", "shared", "tightest"),
    [
        (130.0, 300.0, 300.0, 130.0),
        (500.0, 20.0, 300.0, 120.0),
        (500.0, 300.0, 10.0, 110.0),
        (None, 300.0, None, 400.0),
        (130.0, None, None, 130.0),
        (None, None, None, None),
    ],
)
def test_the_tightest_counts(
    deadline: float | None,
    own: float | None,
    shared: float | None,
    tightest: float | None,
) -> None:
    policy = TurnPolicy(call=UNLIMITED, budget=Budget(seconds=own))
    turn = turn_with(deadline, policy, within=SharedBudget(Budget(seconds=shared)))
    send = call_of(turn.begin(NOW)).begin(NOW)
    assert turn.deadline == send.deadline == tightest


def test_whose_time_is_up_is_said_truly() -> None:
    policy = TurnPolicy(call=UNLIMITED, budget=Budget(seconds=20.0))
    turn = turn_with(DEADLINE, policy)
    result = run(call_of(turn.begin(NOW)), calling("look"), begins=NOW, ends=121.0)
    assert turn.called(result, 121.0) is None
    assert turn.result.cause == "the next attempt would begin after the 20 s of the turn's budget"


@pytest.mark.parametrize("deadline", [math.nan, True, "soon"])
def test_what_is_no_moment_is_refused(deadline: Any) -> None:
    with pytest.raises(ConfigurationError, match="deadline must be a moment on the driver's clock"):
        turn_with(deadline)


def test_a_journal_holds_it_only_where_there_is_one_and_takes_no_other_form() -> None:
    turn = turn_with(deadline=None)
    turn.begin(NOW)
    turn.cancel(NOW)
    assert "deadline" not in orjson.loads(turn.journal.to_json())
    with_one = turn_with()
    with_one.begin(NOW)
    with_one.cancel(NOW)
    document = orjson.loads(with_one.journal.to_json())
    assert document["deadline"] == 30.0
    document["deadline"] = "soon"
    with pytest.raises(ConfigurationError, match="'deadline' must be a number"):
        TurnJournal.from_json(orjson.dumps(document).decode())
