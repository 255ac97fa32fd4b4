"""The provider cuts tool calls, or writes ones that cannot be read."""

from typing import Any

import pytest

import rungwise
from rungwise import ToolCall
from rungwise.testing import ScriptedReply

WHOLE = ToolCall("call_1", "look", '{"city": "Malmö", "count": 3}')
OTHER = ToolCall("call_2", "look", '{"city": "Lund"}')
ANSWER = ScriptedReply(tool_calls=[WHOLE])
CUT = '{"city": "Malmö", "cou'


def cut_call(arguments: str = CUT, **more: Any) -> ScriptedReply:
    return ScriptedReply(tool_calls=[ToolCall("call_0", "look", arguments)], **more)


BROKEN = pytest.mark.parametrize(
    "broken",
    [
        cut_call(finish="length"),
        cut_call(finish="tool_calls"),
        cut_call(finish="stop"),
        cut_call(finish=""),
        cut_call('{"city": "Malmö"}', finish="length"),  # whole by chance
        cut_call("", finish="length"),
        cut_call(text="Let me look that up.", finish="length"),
        ScriptedReply(tool_calls=[OTHER, ToolCall("call_0", "look", CUT)]),  # one of a batch
    ],
)


@BROKEN
def test_a_cut_call_is_never_seen_and_the_whole_one_is(run: Any, broken: ScriptedReply) -> None:
    run([broken, ANSWER]).was(
        "done",
        "",
        tool_calls=(WHOLE,),
        path="enlarge done",
        caps=[None, 8192],
        waits=[],
        added=[[], []],
    )
    # Nothing of the broken reply enters the history.


@BROKEN
def test_cut_calls_for_ever_are_exhausted_after_three_larger_caps(
    run: Any, broken: ScriptedReply
) -> None:
    ended = run([broken], max_tokens=2000)
    ended.was(
        "exhausted",
        "",
        caps=[2000, 4000, 6000, 8000],
        added=[[]] * 4,
        tool_calls=(),
    )
    assert type(ended.error) is rungwise.Exhausted


def test_cut_calls_for_ever_go_to_the_fallback_with_the_callers_own_cap(run: Any) -> None:
    run([cut_call(finish="length")], [ANSWER], max_tokens=2000).was(
        "done",
        counts=[4, 1],
        caps=[2000, 4000, 6000, 8000, 2000],
        tool_calls=(WHOLE,),
    )


def test_whole_arguments_at_the_cap_are_taken_for_cut_whatever_the_finish_says(run: Any) -> None:
    at_the_cap = ScriptedReply(
        tool_calls=[OTHER], usage={"prompt_tokens": 5, "completion_tokens": 100}
    )
    run([at_the_cap, ANSWER], max_tokens=100).was(tool_calls=(WHOLE,), caps=[100, 200])


def test_a_finish_of_tool_calls_without_any_is_no_success(run: Any) -> None:
    run([ScriptedReply("Let me look.", finish="tool_calls"), ANSWER]).was(
        "done", tool_calls=(WHOLE,), path="retry done"
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("look", '["Malmö"]'),
        ("look", '"Malmö"'),
        ("look", '{"city": "Malmö"} trailing'),
        ("", "{}"),
    ],
)
def test_a_call_that_is_whole_and_none_goes_back(run: Any, name: str, arguments: str) -> None:
    wrong = ScriptedReply(tool_calls=[ToolCall("call_0", name, arguments)])
    run([wrong, ANSWER]).was(
        "done", "", tool_calls=(WHOLE,), path="correct done", caps=[None, None], waits=[]
    )
    run([wrong]).was(
        "exhausted",
        "",
        tool_calls=(),
        path="correct exhausted",
        caps=[None, None],
    )


def test_text_before_a_cut_call_survives_nowhere(run: Any) -> None:
    run([cut_call(text="Let me look.", finish="length"), ScriptedReply("In the reeds.")]).was(
        "done", "In the reeds.", parts=("In the reeds.",)
    )
