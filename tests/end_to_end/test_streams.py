"""The provider breaks off, or fails in the middle of a stream."""

import json
from typing import Any

import pytest

import rungwise
from rungwise import Discard, Limits, Policy, Text, ToolCall
from rungwise.core import TurnContext
from rungwise.testing import ScriptedReply
from support.modes import MODES, WHOLE

STREAMS = pytest.mark.parametrize("run", ["stream", "astream"], indirect=True)
STREAMED = pytest.mark.parametrize("run", MODES, indirect=True)
FIRST = "Herons nest in reeds, "
SECOND = "and they nest in trees."
ANSWER = ScriptedReply(SECOND)
HINTS = Policy(hints=rungwise.Hints(continuation="Go on."))
CALL = ToolCall("call_1", "look", '{"city": "Malmö", "count": 3}')
GO_ON = [{"role": "assistant", "content": FIRST}, {"role": "user", "content": "Go on."}]


def long(**more: Any) -> ScriptedReply:
    """Make a reply whose text is FIRST and then something that is never sent."""
    return ScriptedReply(FIRST + "never sent at all", chunk_size=len(FIRST), **more)


# cut


@STREAMED
def test_a_stream_cut_after_text_is_gone_on_from_there(run: Any, cut: Any) -> None:
    ended = run([cut(long(), FIRST), ANSWER], policy=HINTS)
    ended.was(
        "done",
        FIRST + SECOND,
        path="continuation done",
        added=[[], GO_ON],
        caps=[None, 8192],
        waits=[],
    )
    assert ended.steps[1].event == "interrupted"
    assert not [event for event in ended.events if isinstance(event, Discard)]


@STREAMS
@pytest.mark.parametrize("second", [SECOND, FIRST + SECOND, "nest in reeds, " + SECOND])
@pytest.mark.parametrize("chunk_size", [1, 9, 200])
def test_nothing_is_lost_or_said_twice_after_a_cut(
    run: Any,
    cut: Any,
    second: str,
    chunk_size: int,
) -> None:
    ended = run([cut(long(), FIRST), ScriptedReply(second, chunk_size=chunk_size)])
    ended.was("done", FIRST + SECOND)
    shown = "".join(event.text for event in ended.events if isinstance(event, Text))
    assert shown == FIRST + SECOND


@STREAMED
def test_a_stream_that_is_cut_again_and_again_is_partial(run: Any, cut: Any) -> None:
    parts = [f"This is part {number}, " for number in range(4)]
    replies = [
        cut(ScriptedReply(text + "never sent", chunk_size=len(text)), text) for text in parts
    ]
    run(replies).was("partial", "".join(parts), counts=[4], caps=[None, 8192, 12_288, 16_384])


@STREAMED
def test_the_tokens_of_a_cut_stream_are_counted_as_an_estimate(run: Any, cut: Any) -> None:
    ended = run(
        [
            cut(long(), FIRST),
            ScriptedReply(SECOND, usage={"prompt_tokens": 9, "completion_tokens": 5}),
        ]
    )
    assert ended.result.usage.output_tokens > 5
    assert ended.result.usage.estimated


@STREAMED
@pytest.mark.parametrize("blank", ["", "\n\n", "<think>Trees?</think>\n"])
def test_a_stream_cut_before_any_text_or_after_blanks_alone_is_retried(
    run: Any, cut: Any, blank: str
) -> None:
    reply = ScriptedReply(blank + "never sent", chunk_size=len(blank) or 100)
    ended = run([cut(reply, blank or "assistant"), ANSWER])
    ended.was("done", SECOND, counts=[2], waits=[1])
    assert ended.bodies[0] == ended.bodies[1]


@pytest.mark.parametrize("count", [0, 1, 40])
def test_a_reply_cut_at_its_beginning_is_retried_three_times_and_fails(
    run: Any, count: int
) -> None:
    waits = [2, 4, 8] if run.mode in WHOLE else [1, 2, 4]
    run([ScriptedReply("never sent", cut_after=count)]).was("failed", "", counts=[4], waits=waits)


def test_a_cut_after_thinking_alone_is_retried(run: Any, cut: Any) -> None:
    thinking = ScriptedReply(reasoning="Herons like reeds.", text="never sent", chunk_size=100)
    waits = [2 if run.mode in WHOLE else 1]
    run([cut(thinking, "Herons like reeds."), ANSWER]).was(
        "done", SECOND, added=[[], []], waits=waits
    )


def test_a_call_that_is_cut_never_appears(run: Any, cut: Any) -> None:
    broken = ScriptedReply(tool_calls=[CALL], chunk_size=8)
    run(
        [cut(broken, '{"city":'), ScriptedReply(tool_calls=[ToolCall("call_9", "look", "{}")])]
    ).was(
        "done",
        tool_calls=(ToolCall("call_9", "look", "{}"),),
        added=[[], []],
        counts=[2],
    )


@STREAMED
def test_a_call_that_is_cut_after_text_never_appears_and_the_text_stays(run: Any, cut: Any) -> None:
    broken = ScriptedReply(FIRST, tool_calls=[CALL], chunk_size=len(FIRST))
    run([cut(broken, '{"city": "Malmö", "cou'[: len(FIRST)]), ANSWER], policy=HINTS).was(
        "done", FIRST + SECOND, tool_calls=(), added=[[], GO_ON]
    )


@STREAMED
def test_whole_calls_in_a_stream_that_is_cut_are_not_handed_out(run: Any, cut: Any) -> None:
    two = ScriptedReply(
        tool_calls=[CALL, ToolCall("call_2", "note", '{"text": "reeds"}')], chunk_size=50
    )
    run([cut(two, "note"), ScriptedReply(SECOND)]).was("done", SECOND, tool_calls=())


@STREAMED
def test_half_a_think_tag_at_a_cut_is_visible_text(run: Any, cut: Any) -> None:
    reply = ScriptedReply(
        "a <b and <thi",
        chunk_size=20,
        finish="",
        done=False,
    )
    run([reply, ScriptedReply(" more")]).was("done", "a <b and <thi more")


# error events


@STREAMED
@pytest.mark.parametrize(
    "reply",
    [
        *(
            ScriptedReply(FIRST, error_event=event)
            for event in (
                {"message": "The server had an error.", "type": "server_error"},
                {"message": "Rate limit reached.", "code": "rate_limit_exceeded"},
                {"message": "Overloaded.", "type": "overloaded_error"},
                {"message": "Invalid API key.", "code": "invalid_api_key"},
            )
        ),
        ScriptedReply(FIRST, finish="", done=False),
    ],
    ids=["server", "rate limit", "overload", "key", "no terminal event"],
)
def test_an_error_event_after_text_or_no_terminal_event_is_a_cut(
    run: Any, reply: ScriptedReply
) -> None:
    ended = run([reply, ANSWER], policy=HINTS)
    ended.was("done", FIRST + SECOND, added=[[], GO_ON], waits=[])
    assert ended.steps[1].event == "interrupted"


@pytest.mark.parametrize(
    ("event", "expected", "outcome", "requests", "waits"),
    [
        ({"message": "Error.", "type": "server_error"}, "failed_transiently", "done", 2, [2]),
        (
            {"message": "Slow down.", "code": "rate_limit_exceeded"},
            "failed_transiently",
            "done",
            2,
            [2],
        ),
        (
            {"message": "Try again in 7s.", "code": "rate_limit_exceeded"},
            "failed_transiently",
            "done",
            2,
            [7],
        ),
        ({"message": "Bad key.", "code": "invalid_api_key"}, "failed_permanently", "failed", 1, []),
        ({"message": "Filtered.", "code": "content_filter"}, "refused", "refused", 1, []),
        (
            {"message": "Too long.", "code": "context_length_exceeded"},
            "overflowed",
            "failed",
            1,
            [],
        ),
    ],
    ids=["server", "rate limit", "asked wait", "key", "filter", "overflow"],
)
@pytest.mark.parametrize(
    "before",
    [
        {},
        {"reasoning": "Herons like reeds."},
        {"text": "<think>Herons like reeds.</think>"},
        {"text": "<think>Herons like"},
        {"tool_calls": [CALL]},
    ],
    ids=["nothing", "reasoning", "inline", "open", "tool call"],
)
def test_an_error_event_without_text_before_it_is_treated_by_its_own_class(
    run: Any,
    before: Any,
    event: Any,
    expected: str,
    outcome: str,
    requests: int,
    waits: Any,
) -> None:
    ended = run([ScriptedReply(error_event=event, **before), ANSWER])
    assert ended.steps[1].event == expected
    ended.was(outcome, counts=[requests], waits=waits)


# text that turns out to be worth nothing, and text that stays

NOTHING = "<think>That was no answer.</think>"


def taken_back(ended: Any) -> Any:
    return [event.text for event in ended.events if isinstance(event, Discard)]


@STREAMS
@pytest.mark.parametrize("final", [NOTHING, "<think></think>"])
@pytest.mark.parametrize("reasoning", ["", "Herons like reeds."])
def test_text_that_was_streamed_before_the_attempt_came_to_nothing_is_salvaged(
    run: Any, reasoning: str, final: str
) -> None:
    ended = run([ScriptedReply(FIRST, reasoning=reasoning, final_message=final), ANSWER])
    ended.was("salvaged", FIRST, counts=[1])
    assert taken_back(ended) == []
    event = "only_reasoned" if reasoning or final == NOTHING else "came_empty"
    assert (ended.steps[1].event, ended.steps[1].guard) == (event, "has_delivered")


@STREAMS
def test_streamed_text_comes_before_an_answer_of_earlier_in_the_turn(run: Any) -> None:
    turn = TurnContext(prior_answer="I noted the nests.", only_housekeeping=True)
    run([ScriptedReply(FIRST, final_message=NOTHING)], turn=turn).was("salvaged", FIRST)


@STREAMS
def test_what_is_salvaged_of_a_continuation_follows_the_part_before(run: Any) -> None:
    second = ScriptedReply(FIRST + SECOND, final_message=NOTHING)
    run([ScriptedReply(FIRST, finish="length"), second]).was("salvaged", FIRST + SECOND, counts=[2])


@STREAMS
def test_text_of_an_earlier_attempt_is_never_salvaged(run: Any) -> None:
    discarded = ScriptedReply(FIRST, finish="length", tool_calls=[CALL])
    ended = run([discarded, ScriptedReply()])
    ended.was("exhausted", "", path="enlarge reask reask reask exhausted")
    assert taken_back(ended) == [FIRST]


@STREAMED
def test_a_message_that_says_the_end_of_its_deltas_once_more_adds_nothing(run: Any) -> None:
    ended = run(
        [ScriptedReply("Herons nest in reeds. ", finish="", done=False, final_message="in reeds. ")]
    )
    assert (ended.result.outcome, ended.result.text) == ("partial", "Herons nest in reeds. ")


@STREAMED
def test_a_final_message_takes_the_place_of_its_deltas(run: Any) -> None:
    run([ScriptedReply("Herons nest in trees.", final_message="Herons nest in reeds.")]).was(
        "done", "Herons nest in reeds."
    )


@pytest.mark.parametrize(
    "pieces",
    [["Herons ", "nest in ", "reeds."], ["Herons ", "Herons nest in ", "Herons nest in reeds."]],
    ids=["pieces", "all so far"],
)
def test_messages_may_take_the_place_of_deltas_altogether(run: Any, pieces: Any) -> None:
    finishes = [None] * (len(pieces) - 1) + ["stop"]
    choices = [
        {"index": 0, "message": {"content": p}, "finish_reason": f}
        for p, f in zip(pieces, finishes, strict=True)
    ]
    events = [f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices]
    ended = run(
        [ScriptedReply(body="".join(events), headers={"content-type": "text/event-stream"})]
    )
    ended.was("done", "Herons nest in reeds.", counts=[1])
    assert "".join(event.text for event in ended.events if isinstance(event, Text)) in (
        "",
        ended.text,
    )


@STREAMED
@pytest.mark.parametrize("nothing", ["", " "])
def test_a_final_message_without_text_takes_nothing_away(run: Any, nothing: str) -> None:
    run([ScriptedReply("Herons nest in trees.", final_message=nothing)]).was(
        "done", "Herons nest in trees.", counts=[1]
    )


@STREAMS
@pytest.mark.parametrize(
    "discarded",
    [
        ScriptedReply("Herons eat fish.", finish="banana"),
        ScriptedReply("Herons eat fish.", finish="length", tool_calls=[CALL]),
        ScriptedReply("Herons eat fish.", finish="content_filter"),
    ],
    ids=["unknown finish", "cut call", "filter"],
)
def test_text_of_a_discarded_attempt_is_taken_back(run: Any, discarded: ScriptedReply) -> None:
    ended = run([discarded], [ANSWER], policy=Policy(limits=Limits(enlargements=0, rechecks=0)))
    ended.was("done", SECOND)
    assert taken_back(ended) == ["Herons eat fish."]


@STREAMS
def test_a_discard_takes_back_nothing_of_the_parts_before(run: Any) -> None:
    first = ScriptedReply(FIRST, finish="length")
    ended = run([first, ScriptedReply("and eat fish.", finish="banana"), ANSWER])
    ended.was("done", FIRST + SECOND)
    assert taken_back(ended) == ["and eat fish."]


@STREAMS
def test_reasoning_is_handed_out_as_such(run: Any) -> None:
    ended = run(
        [ScriptedReply("<think>Trees?</think>In the reeds.", reasoning="Herons like reeds.")]
    )
    thoughts = "".join(
        event.text for event in ended.events if isinstance(event, rungwise.Reasoning)
    )
    assert thoughts == "Herons like reeds.Trees?"
    assert ended.text == "In the reeds."
