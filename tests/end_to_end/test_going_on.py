"""Cut replies: what is gone on from, what is asked for again as a whole, and what was whole
already.
"""

import json
from typing import Any

import pytest

import rungwise
from rungwise import Limits, Policy
from rungwise.testing import ScriptedReply
from support.modes import MODES

TEXT = "Herons of the northern lake nest in tall dead trees, well above the reeds."
FIRST = TEXT[:31]
STREAMED = pytest.mark.parametrize("run", MODES, indirect=True)
PREFILLS = [{"prefill": "trailing"}]
JSON = {"response_format": {"type": "json_object"}}
OBJECT = json.dumps(
    {
        "place": "the northern lake",
        "trees": ["dead", "tall"],
        "nests": 12,
    }
)
ERROR = {
    "type": "rate_limited",
    "code": "rate_limit_exceeded",
    "message": "slow down, try again in 20 seconds",
}


# nothing left to say


@pytest.mark.parametrize("prefill", ["trailing", "prefix", "continue_final_message"])
def test_a_cap_on_the_last_word_is_no_failure(run: Any, prefill: str) -> None:
    ended = run(
        [ScriptedReply(text=TEXT, finish="length"), ScriptedReply(finish="stop")],
        backends=[{"prefill": prefill}],
    )
    ended.was("done", TEXT, path="continuation done", waits=[])
    assert ended.bodies[1]["messages"][-1]["content"] == TEXT


@STREAMED
@pytest.mark.parametrize("finish", ["stop", None])
def test_a_stream_that_breaks_behind_its_last_word_is_no_failure(
    run: Any,
    cut: Any,
    finish: str | None,
) -> None:
    ended = run(
        [
            cut(ScriptedReply(text=TEXT, chunk_size=200, finish=finish), TEXT),
            ScriptedReply(finish=finish),
        ],
        backends=[{"prefill": "trailing"}],
    )
    ended.was("done", TEXT, waits=[])


def test_an_empty_reply_to_a_notice_is_still_an_empty_reply(run: Any) -> None:
    ended = run([ScriptedReply(text=FIRST, finish="length"), ScriptedReply(finish="stop")])
    ended.was("partial", path="continuation reask reask reask partial")


def test_an_empty_continuation_that_was_cut_is_not_whole(run: Any) -> None:
    ended = run(
        [
            ScriptedReply(text=FIRST, finish="length"),
            ScriptedReply(finish="length"),
            ScriptedReply(text=TEXT[31:]),
        ],
        backends=PREFILLS,
    )
    ended.was("done", TEXT)


# a stream that breaks with a wait, or at a filter


def broken(error: dict[str, str]) -> ScriptedReply:
    return ScriptedReply(text=FIRST, error_event=error)


@STREAMED
@pytest.mark.parametrize(("longest", "waits", "counts"), [(300, [20.0], [2, 0]), (10, [], [1, 1])])
def test_a_wait_that_a_broken_stream_asks_for_is_kept_or_leaves_the_backend(
    run: Any,
    longest: float,
    waits: list[float],
    counts: list[int],
) -> None:
    policy = Policy(waits=rungwise.Waits(longest_asked=longest))
    rest = ScriptedReply(text=TEXT[31:])
    run([broken(ERROR), rest], [rest], policy=policy).was("done", TEXT, waits=waits, counts=counts)


# JSON


NEWER = {"structured_outputs": {"json": {"type": "object"}}}


@pytest.mark.parametrize(
    "parameters", [JSON, NEWER], ids=["response format", "the schema of a newer server"]
)
def test_json_that_the_cap_cuts_is_asked_for_again_with_a_larger_one(
    run: Any, parameters: dict[str, Any]
) -> None:
    script = [ScriptedReply(text=OBJECT[:30], finish="length"), ScriptedReply(text=OBJECT)]
    ended = run(script, parameters=parameters, max_tokens=50)
    ended.was(text=OBJECT, path="enlarge done")
    assert ended.caps == [50, 100]
    assert ended.added == [[], []]  # nothing of the broken reply goes back
    assert all(body.items() >= parameters.items() for body in ended.bodies)


def test_json_in_a_stream_that_breaks_is_asked_for_again(run: Any, cut: Any) -> None:
    ended = run(
        [cut(ScriptedReply(text=OBJECT, chunk_size=8), OBJECT[16:24]), ScriptedReply(text=OBJECT)],
        parameters=JSON,
    )
    assert json.loads(ended.text) == json.loads(OBJECT)
    ended.was(path="retry done", added=[[], []])


NUMBERS = [
    "NaN",
    "Infinity",
    '{"a": NaN}',
    '{"a": [{"b": -Infinity}]}',
    '{"a": 1e400}',
    '{"a": -1e999, "b": "\\ud83d"}',
]
"""Numbers that no JSON has, or that no reader can hold."""


@pytest.mark.parametrize(
    "text",
    ["Sure! Here it is.", OBJECT + OBJECT, OBJECT[:-1], "```json\n{}\n```", "{'a': 1}", *NUMBERS],
)
def test_what_does_not_parse_is_never_done(run: Any, text: str) -> None:
    ended = run([ScriptedReply(text=text)], parameters=JSON)
    ended.was("partial", text, path="correct partial")
    assert "the answer is not JSON" in ended.added[1][1]["content"]


PAUSED = ScriptedReply(text=OBJECT[:30], finish="pause_turn")


def test_json_that_pauses_is_asked_for_again_as_a_whole(run: Any) -> None:
    ended = run([PAUSED, ScriptedReply(text=OBJECT)], parameters=JSON)
    ended.was("done", OBJECT, path="continuation done", added=[[], []])


@pytest.mark.parametrize(
    ("text", "outcome"), [(OBJECT[30:], "partial"), ("", "exhausted"), ("And so on.", "partial")]
)
def test_json_of_which_the_end_never_came_is_not_done(run: Any, text: str, outcome: str) -> None:
    policy = Policy(limits=Limits(corrections=0, reasks=0))
    ended = run([PAUSED, ScriptedReply(text=text)], parameters=JSON, policy=policy)
    ended.was(outcome, text, path=f"continuation {outcome}")


@pytest.mark.parametrize(
    "text",
    [
        OBJECT,
        "[1, 2]",
        "  {}\n",
        '"a"',
        '{"a": "\\ud83d"}',
        '{"a": "NaN"}',
        "1e-400",
        f"[1{400 * '0'}]",
    ],
)
def test_what_parses_is_an_answer(run: Any, text: str) -> None:
    run([ScriptedReply(text=text)], parameters=JSON).was("done", text)


def test_a_backends_own_response_format_counts_unless_the_call_says_otherwise(run: Any) -> None:
    backends = [{"parameters": JSON}]
    assert run([ScriptedReply(text="Prose.")], backends=backends).outcome == "partial"
    asked = {"response_format": {"type": "text"}}
    assert (
        run([ScriptedReply(text="Prose.")], backends=backends, parameters=asked).outcome == "done"
    )


# a handful of tokens


@pytest.mark.parametrize("cap", [1, 16])
def test_a_handful_of_tokens_is_one_request(run: Any, cap: int) -> None:
    ended = run([ScriptedReply(text="yes", finish="length")], max_tokens=cap)
    ended.was("partial", "yes", counts=[1])
    assert ended.caps == [cap]


def test_what_a_handful_is_is_the_policys_to_say(run: Any) -> None:
    script = [ScriptedReply(text=FIRST, finish="length"), ScriptedReply(text=TEXT[31:])]
    assert run(script, max_tokens=17).outcome == "done"
    assert run(script, max_tokens=10, policy=Policy(handful=0)).outcome == "done"
    assert run(script, max_tokens=100, policy=Policy(handful=100)).text == FIRST


@STREAMED
def test_a_single_word_from_a_broken_stream_is_asked_for_again_and_not_said_twice(
    run: Any, cut: Any
) -> None:
    ended = run([cut(ScriptedReply(text="yes"), "yes"), ScriptedReply(text="yes")], max_tokens=1)
    ended.was("done", "yes", added=[[], []])
