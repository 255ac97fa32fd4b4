"""The provider answers with nothing."""

from typing import Any

import pytest

import rungwise
from rungwise.core import TurnContext
from rungwise.testing import ScriptedReply

EMPTY = ScriptedReply()
ANSWER = ScriptedReply(text="In the reeds, mostly.")
ASKED = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"city": "Malmö"}'},
}
AFTER_A_TOOL = [
    {"role": "user", "content": "Where do herons nest?"},
    {"role": "assistant", "content": None, "tool_calls": [ASKED]},
    {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "Three nests were seen.",
    },
]
PRIOR = "Herons nest in reeds; I have noted that."


def after_a_tool(distance: int) -> list[dict[str, Any]]:
    """Make messages whose tool result is so many messages from the end, counted from 1."""
    turns = [
        {"role": ("user", "assistant")[number % 2], "content": f"turn {number}"}
        for number in range(distance - 1)
    ]
    messages = [*AFTER_A_TOOL, *reversed(turns)]
    assert messages[-distance]["role"] == "tool"
    return messages


@pytest.mark.parametrize(("draw", "waits"), [(0.0, [1, 2, 4]), (1.0, [1.5, 3, 6])])
def test_empty_for_ever_is_exhausted_after_one_and_three_requests(
    run: Any, draw: float, waits: list[float]
) -> None:
    ended = run([EMPTY], jitter=lambda: draw)
    ended.was("exhausted", "", counts=[1 + 3], waits=waits, attempts=4)
    assert all(body == ended.bodies[0] for body in ended.bodies)
    assert isinstance(ended.error, rungwise.EmptyResponse)
    assert ended.error.result is ended.result


def test_empty_for_ever_with_a_fallback_that_answers_is_done_after_three_requests(run: Any) -> None:
    ended = run([EMPTY], [ANSWER])
    ended.was(
        "done",
        "In the reeds, mostly.",
        counts=[2, 1],
        waits=[1],
        added=[[]] * 3,
        path="reask fallback done",
        backend="second",
    )


@pytest.mark.parametrize(
    "blank",
    [
        ScriptedReply(text="<think></think>"),
        ScriptedReply(text="<think>\n\n</think>\n\n"),
        ScriptedReply(text=" \n\t"),
        ScriptedReply(reasoning=" \n"),
    ],
)
def test_blanks_alone_are_empty(run: Any, blank: ScriptedReply) -> None:
    ended = run([blank, ANSWER])
    ended.was("done", "In the reeds, mostly.", path="reask done", waits=[1])
    assert ended.bodies[0] == ended.bodies[1]


def test_identical_empties_skip_the_reasks_only_where_the_policy_says_so(run: Any) -> None:
    run([EMPTY], policy=rungwise.Policy(skip_identical_empties=True)).was(
        "exhausted", counts=[2], waits=[1]
    )


# after a tool round


def test_empty_again_after_the_nudge_is_not_nudged_again(run: Any) -> None:
    ended = run([EMPTY], messages=AFTER_A_TOOL)
    ended.was(path="nudge reask reask reask exhausted", counts=[5], waits=[1, 2, 4])
    hints = [[message for message in added if message["role"] == "user"] for added in ended.added]
    assert max(map(len, hints)) == 1


def test_the_fallback_after_a_nudge_gets_the_plain_question(run: Any) -> None:
    ended = run([EMPTY], [ANSWER], messages=AFTER_A_TOOL)
    ended.was("done", counts=[2, 1])
    assert ended.added[-1] == []


@pytest.mark.parametrize(("distance", "rung", "added"), [(5, "nudge", 2), (6, "reask", 0)])
def test_a_tool_result_is_nudged_up_to_five_messages_back(
    run: Any,
    distance: int,
    rung: str,
    added: int,
) -> None:
    ended = run([EMPTY, ANSWER], messages=after_a_tool(distance))
    assert ended.path == f"{rung} done"
    assert [len(messages) for messages in ended.added] == [0, added]


# beside an answer that the turn already holds

NOTED = [
    {"role": "user", "content": "Where do herons nest?"},
    {"role": "assistant", "content": PRIOR, "tool_calls": [ASKED]},
    {"role": "tool", "tool_call_id": "call_1", "content": "noted."},
]


@pytest.mark.parametrize(
    "prior",
    [PRIOR, f"<think>reeds?</think>{PRIOR}", f"reeds?\n</think>\n\n{PRIOR}"],
    ids=["plain", "with its thinking", "with thinking that nobody opened"],
)
@pytest.mark.parametrize("nothing", [EMPTY, ScriptedReply(reasoning="I said it all.")])
def test_empty_after_an_answer_beside_housekeeping_tools_is_salvaged_with_it(
    run: Any, nothing: ScriptedReply, prior: str
) -> None:
    ended = run(
        [nothing], messages=NOTED, turn=TurnContext(prior_answer=prior, only_housekeeping=True)
    )
    ended.was("salvaged", PRIOR, counts=[1], waits=[])


def test_empty_after_an_answer_beside_a_substantive_tool_is_not_salvaged(run: Any) -> None:
    ended = run(
        [EMPTY], messages=NOTED, turn=TurnContext(prior_answer=PRIOR, only_housekeeping=False)
    )
    ended.was("exhausted", "", path="nudge reask reask reask exhausted")


@pytest.mark.parametrize(
    ("prior", "replies"),
    [(PRIOR, [ANSWER]), ("<think>reeds?</think>", [EMPTY, ANSWER])],
    ids=["prior", "thinking"],
)
def test_a_prior_answer_does_not_stand_in_for_an_answer_that_comes(
    run: Any, prior: str, replies: Any
) -> None:
    ended = run(
        replies, messages=NOTED, turn=TurnContext(prior_answer=prior, only_housekeeping=True)
    )
    ended.was("done", "In the reeds, mostly.")


def test_a_prior_answer_does_not_take_the_place_of_text_that_was_gathered(run: Any) -> None:
    turn = TurnContext(prior_answer=PRIOR, only_housekeeping=True)
    ended = run(
        [ScriptedReply(text="Part one, ", finish="length"), EMPTY], messages=NOTED, turn=turn
    )
    ended.was("partial", "Part one, ")
