"""Tags of reasoning in the text: which of them a model means, and which the answer is about."""

from typing import Any

import pytest

import rungwise
from rungwise.core import TurnContext
from rungwise.testing import ScriptedReply

THOUGHT = "The user wants to know where herons nest. They nest in reeds."
ANSWER = "In the reeds."
INVISIBLE = [
    "\u200b",
    "\ufeff",
    "\x00",
    "\u2060\u00ad",
    "\u3164",
    "\u115f\u1160",
    "\u2800",
    "\ufe0f",
    "\u034f",
    "\u180e\n",
]


def test_a_tag_in_a_quotation_is_text(run: Any) -> None:
    text = '{"tag": "<think>", "n": 1}'
    run([ScriptedReply(text=text, chunk_size=3)]).was("done", text)


@pytest.mark.parametrize("chunk_size", [1, 7, 400])
@pytest.mark.parametrize(
    "between", ["\n</think>\n\n", "</think>\n\n", "</think>", "\n</thinking>", " </think>\n"]
)
def test_what_stands_before_a_lone_closing_tag_is_reasoning(
    run: Any, between: str, chunk_size: int
) -> None:
    ended = run([ScriptedReply(text=f"{THOUGHT}{between}{ANSWER}", chunk_size=chunk_size)])
    ended.was("done", ANSWER)
    assert ended.result.reasoning.strip() == THOUGHT
    if ended.events:
        reasoning = "".join(
            event.text for event in ended.events if isinstance(event, rungwise.Reasoning)
        )
        assert reasoning.strip() == THOUGHT
        assert sum(isinstance(event, rungwise.Discard) for event in ended.events) <= 1


@pytest.mark.parametrize("chunk_size", [1, 400])
def test_nothing_behind_a_lone_closing_tag_is_reasoning_alone(run: Any, chunk_size: int) -> None:
    ended = run(
        [
            ScriptedReply(text=f"{THOUGHT}\n</think>\n\n", chunk_size=chunk_size),
            ScriptedReply(text=ANSWER),
        ]
    )
    ended.was("done", ANSWER, path="prefill done")
    assert THOUGHT in ended.added[1][-1]["content"]


@pytest.mark.parametrize("backends", [[{"prefill": "trailing"}], []], ids=["native", "user turn"])
@pytest.mark.parametrize("repeats", [False, True])
def test_reasoning_that_was_cut_before_its_lone_closing_tag_is_no_text(
    run: Any, backends: Any, repeats: bool
) -> None:
    first = THOUGHT[:30]
    rest = THOUGHT[30:]
    script = [
        ScriptedReply(text=first, finish="length", chunk_size=7),
        ScriptedReply(text=f"{first if repeats else ''}{rest}\n</think>\n\n{ANSWER}", chunk_size=7),
    ]
    ended = run(script, backends=backends)
    ended.was("done", ANSWER, parts=(ANSWER,))
    assert ended.result.reasoning.strip().endswith(rest)


def test_the_text_of_another_backend_is_not_taken_for_reasoning(run: Any) -> None:
    first = [ScriptedReply(text="They nest ", finish="length"), ScriptedReply(status=401)]
    run(first, [ScriptedReply(text=f"I go on.\n</think>\n\n{ANSWER}")]).was(
        "done", f"They nest {ANSWER}"
    )


def test_text_behind_reasoning_stays_when_more_reasoning_follows(run: Any) -> None:
    first = ScriptedReply(text=f"{THOUGHT}\n</think>\n\nThey nest ", finish="length", chunk_size=7)
    run([first, ScriptedReply(text=f"I go on.\n</think>\n\n{ANSWER}", chunk_size=7)]).was(
        "done", f"They nest {ANSWER}"
    )


@pytest.mark.parametrize("chunk_size", [1, 400])
def test_a_block_behind_the_answer_counts_if_it_is_closed(run: Any, chunk_size: int) -> None:
    ended = run(
        [
            ScriptedReply(
                text=f"<think>a</think>{ANSWER}\n<think>b</think>Yes.", chunk_size=chunk_size
            )
        ]
    )
    ended.was("done", f"{ANSWER}\nYes.")
    text = f"{ANSWER}\n<think>b and no end"
    run([ScriptedReply(text=f"<think>a</think>{text}", chunk_size=chunk_size)]).was("done", text)


@pytest.mark.parametrize("text", INVISIBLE, ids=ascii)
def test_text_that_nobody_can_see_is_no_answer(run: Any, text: str) -> None:
    run([ScriptedReply(text=text * 3, chunk_size=1), ScriptedReply(text=ANSWER)]).was(
        "done", ANSWER, path="reask done"
    )
    run(
        [ScriptedReply(text=text)], turn=TurnContext(prior_answer=text, only_housekeeping=True)
    ).was("exhausted")
    ended = run([ScriptedReply(text=text, finish="length"), ScriptedReply(text=ANSWER)])
    ended.was("done", ANSWER, path="enlarge done")


@pytest.mark.parametrize(
    "echo", ["{0}In the reeds.", "\n{0}\n\nIn the reeds.", "<think>\n{0}\n</think>\nIn the reeds."]
)
@pytest.mark.parametrize("chunk_size", [1, 400])
def test_a_seed_that_comes_back_without_its_white_space_or_its_tags_is_no_text(
    run: Any, echo: str, chunk_size: int
) -> None:
    for first in (f"<think>\n{THOUGHT}\n</think>", f"{THOUGHT}\n</think>\n"):
        script = [
            ScriptedReply(text=first),
            ScriptedReply(text=echo.format(THOUGHT), chunk_size=chunk_size),
        ]
        ended = run(script, backends=[{"prefill": "trailing"}])
        assert (ended.outcome, ended.text.strip()) == ("done", ANSWER)
