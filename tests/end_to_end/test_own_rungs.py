"""Rungs and facts of one's own over HTTP: what they send, what is taken back, and what a journal
keeps of it.
"""

from functools import cache
from typing import Any

import pytest

import rungwise
from rungwise import CALL, Fact, Policy, Rung
from rungwise.testing import ScriptedReply
from support.plain import user

HINT = "Answer the question about the herons."
WRONG = "Cats sleep a lot, on sofas mostly."
RIGHT = "Herons nest in tall dead trees."
ENTREAT = Rung(
    "entreat",
    limit=1,
    holds=Fact("is_off_topic", of=lambda reply: "Herons" not in reply.text),
    hint=HINT,
)


@cache
def entreating() -> Policy:
    """Return a policy with the rung; the table is proved when it is asked for first."""
    return Policy(table=CALL.with_rung(ENTREAT, answered=None))


@pytest.mark.full
@pytest.mark.sampled(3)
def test_an_answer_that_is_beside_the_point_is_entreated_with_and_taken_back(run: Any) -> None:
    ended = run([ScriptedReply(WRONG), ScriptedReply(RIGHT)], policy=entreating())
    ended.was("done", RIGHT, path="entreat done")
    asked, entreated = (body["messages"] for body in ended.bodies)
    assert entreated == [*asked, user(HINT)]
    assert [event.text for event in ended.events if isinstance(event, rungwise.Discard)] == [
        WRONG
    ] * bool(ended.events)


@pytest.mark.full
@pytest.mark.parametrize("prefill", ["no", "trailing"])
def test_the_hint_stands_before_an_answer_that_is_gone_on_from(run: Any, prefill: str) -> None:
    script = [
        ScriptedReply(WRONG),
        ScriptedReply(RIGHT[:19], finish="length"),
        ScriptedReply(RIGHT[19:]),
    ]
    ended = run(script, policy=entreating(), backends=[{"prefill": prefill}])
    ended.was("done", RIGHT, path="entreat continuation done")
    [asked, _, gone_on] = [body["messages"] for body in ended.bodies]
    notice = [] if prefill == "trailing" else [user(rungwise.Hints().continuation)]
    assert gone_on == [
        *asked,
        user(HINT),
        {"role": "assistant", "content": RIGHT[:19]},
        *notice,
    ]
