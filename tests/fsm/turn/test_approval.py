"""Tool calls that wait for the caller's approval."""

from typing import Any

import pytest

from rungwise import ConfigurationError, Tool, TurnPolicy, replay
from rungwise.core import MakeCall, Reply, Request, RunTools, Turn
from rungwise.fsm.turn.actions import ToolOutcome
from rungwise.fsm.turn.turn_journal import TurnJournal
from support.turns import calling, said

ANSWER = "It is paid."


def nothing(**arguments: Any) -> str:
    raise AssertionError("this test runs no tool")


TOOLS = {
    "look": Tool(nothing, parameters={"type": "object"}),
    "pay": Tool(nothing, parameters={"type": "object"}, needs_approval=True),
}


def play(turn: Turn, *replies: Reply) -> tuple[Any, list[list[str]]]:
    """Play a turn; return its result and the names of the tools that ran, for each round."""
    coming = iter(replies)
    ran = []
    action = turn.begin()
    while action is not None:
        if isinstance(action, MakeCall):
            call = action.call
            call.begin()
            call.sending()
            call.receive(next(coming))
            action = turn.called(call.result)
        else:
            assert isinstance(action, RunTools)
            ran.append([run.call.name for run in action.runs])
            action = turn.tools_ran([ToolOutcome(f"{run.call.name} ran") for run in action.runs])
    return turn.result, ran


def paused(*names: str, policy: TurnPolicy | None = None) -> Any:
    result, ran = play(Turn(Request("Pay."), policy or TurnPolicy(), tools=TOOLS), calling(*names))
    assert ran == [[name for name in names if name == "look"]]
    return result


def test_what_waits_is_known_however_small_the_window_is() -> None:
    result = paused("look", "pay", policy=TurnPolicy(window=1))
    assert replay(TurnJournal.from_json(result.journal.to_json())).outcome == "awaiting_approval"
    resumed, ran = play(
        Turn(Request(result.messages), tools=TOOLS, approvals={"c1": True}), said(ANSWER)
    )
    assert (resumed.outcome, ran) == ("finished", [["pay"]])


def test_a_turn_that_is_resumed_waits_again_for_the_next_call() -> None:
    turn = Turn(Request(paused("pay").messages), tools=TOOLS, approvals={"c0": True})
    result, ran = play(turn, calling("pay"))
    assert (result.outcome, ran) == ("awaiting_approval", [["pay"], []])
    assert len(result.awaiting) == 1
    assert result.awaiting[0].id != "c0"


@pytest.mark.parametrize(
    ("approvals", "says"),
    [
        (True, "approvals must map"),
        ({}, "must hold each call that waits, c0, c1"),
        ({"c0": 1, "c1": True}, "must be True, or the reason"),
    ],
)
def test_what_does_not_match_is_refused(approvals: Any, says: str) -> None:
    messages = paused("pay", "pay").messages
    with pytest.raises(ConfigurationError, match=says):
        Turn(Request(messages), tools=TOOLS, approvals=approvals)


def test_a_round_that_waits_ends_the_turn_though_calls_are_left() -> None:
    turn = Turn(Request("Pay."), TurnPolicy(auto_continues=0), tools=TOOLS)
    result, ran = play(turn, calling("pay"))
    assert (result.outcome, ran) == ("awaiting_approval", [[]])


def test_what_was_approved_still_waits_where_the_turn_ended_before_it_ran() -> None:
    messages = paused("look", "pay").messages
    turn = Turn(
        Request(messages),
        tools=TOOLS,
        approvals={"c1": True},
        deadline=5.0,
    )
    assert turn.begin(10.0) is None
    assert turn.result.outcome == "over_budget"
    assert turn.result.messages == messages
    assert [call.id for call in turn.result.awaiting] == ["c1"]
    assert [call.id for call in turn.result.already_run] == ["c0"]
    turn = Turn(Request(messages), tools=TOOLS, approvals={"c1": True})
    assert turn.cancel().messages == messages
    result, ran = play(Turn(Request(messages), tools=TOOLS, approvals={"c1": True}), said(ANSWER))
    assert (result.outcome, ran) == ("finished", [["pay"]])


async def asks_later(**arguments: Any) -> bool:
    return False


@pytest.mark.parametrize("wrong", [asks_later, None, "yes", 1])
def test_what_cannot_tell_is_refused(wrong: Any) -> None:
    with pytest.raises(
        ConfigurationError, match="needs_approval must be True, False or a function"
    ):
        Tool(nothing, needs_approval=wrong)


@pytest.mark.parametrize(("told", "waits"), [(False, False), (True, True), (None, True), (0, True)])
def test_only_false_lets_a_call_run(told: Any, waits: bool) -> None:
    assert (
        Tool(
            nothing, parameters={"type": "object"}, needs_approval=lambda: told
        ).waits_for_approval({})
        is waits
    )


@pytest.mark.parametrize("tools", [{}, {"look": TOOLS["look"]}])
def test_an_approved_call_needs_its_tool(tools: Any) -> None:
    messages = paused("pay").messages
    with pytest.raises(ConfigurationError, match="none of the tools takes this call of 'pay'"):
        Turn(Request(messages), tools=tools, approvals={"c0": True})
    result, ran = play(
        Turn(Request(messages), tools=tools, approvals={"c0": "It is too dear."}), said(ANSWER)
    )
    assert (result.outcome, ran) == ("finished", [[]])
