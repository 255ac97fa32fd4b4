"""The answers of a decision: what is one, which of two is better, and what is asked next."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import Answer, Choice, Score, YesNo
from rungwise.fsm.replies.decisions.answers import read_answer
from rungwise.fsm.replies.decisions.open_questions import OpenQuestions
from rungwise.fsm.replies.schemas.given import Misfit

QUESTIONS = {
    "queue": Choice("Which queue?", ["billing", "other"]),
    "urgent": YesNo("Is it urgent?"),
    "anger": Score("How angry?", ["calm", "annoyed", "furious"]),
}
KINDS = tuple(QUESTIONS)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("yes", "calm", "billing", "0", "x")), inner, max_size=3)
    ),
    max_leaves=8,
)
MEMBERS = ("probabilities", "confidence", "mass", "value", "kind", "refused")
ANSWERS = (
    st.none()
    | st.builds(Answer, confidence=st.floats(0, 1), backend=st.just("a"))
    | st.just(Answer(label="yes"))
)


@given(st.sampled_from(KINDS), JSON | st.dictionaries(st.sampled_from(MEMBERS), JSON))
def test_whatever_comes_is_an_answer_or_none(kind: str, came: Any) -> None:
    try:
        answer = read_answer(QUESTIONS[kind], came, "a")
    except Misfit:
        return
    assert answer.confidence is None or 0 <= answer.confidence <= 1
    assert answer.is_refused is (answer.value is None)
    for share in answer.probabilities.values():
        assert 0 <= share <= 1
    if answer.probabilities:
        assert list(answer.probabilities) == list(QUESTIONS[kind].labels)
        assert answer.probabilities[str(answer.label)] == max(answer.probabilities.values())


@given(ANSWERS, ANSWERS)
def test_no_answer_is_replaced_by_a_less_certain_one(
    earlier: Answer | None, later: Answer | None
) -> None:
    if later is None:
        return
    kept = later.or_earlier(earlier)
    assert kept in (earlier, later)
    if earlier is not None and earlier.confidence is not None and later.confidence is not None:
        assert kept.confidence == max(earlier.confidence, later.confidence)


@pytest.mark.parametrize("earlier", [Answer(label="yes"), Answer(label="yes", confidence=0.1)])
def test_a_refusal_replaces_no_answer(earlier: Answer) -> None:
    refusal = Answer(is_refused=True)
    assert refusal.or_earlier(earlier) is earlier
    assert earlier.or_earlier(refusal) is earlier
    assert refusal.or_earlier(None) is refusal


def of(name: str, *shares: float) -> dict[str, Any]:
    return {"probabilities": dict(zip(QUESTIONS[name].labels, shares, strict=True))}


def test_what_is_below_the_bar_stays_open() -> None:
    asked = OpenQuestions.of(QUESTIONS)
    came = {
        "queue": of("queue", 0.9, 0.1),
        "urgent": {"refused": True},
        "anger": of("anger", 0.5, 0.3, 0.2),
    }
    after = asked.after(asked.read_decision(json.dumps(came), "a"), 0.8)
    assert (after.open, after.uncertain) == (("anger",), ("anger",))
    assert list(after.plain_questions()) == ["anger"]
    assert after.schema["required"] == ["anger"]
    assert after.in_words == "* anger: How angry?"
    assert after.doubts == "confidence of anger 0.50"
    better = after.after(
        after.read_decision(json.dumps({"anger": of("anger", 0.9, 0.1, 0)}), "b"), 0.8
    )
    assert (better.open, better.uncertain) == ((), ())
    assert [answer.backend for answer in better.answers.values()] == ["a", "a", "b"]


def test_without_a_bar_nothing_is_open() -> None:
    asked = OpenQuestions.of(QUESTIONS)
    words = {"queue": "other", "urgent": False, "anger": "furious"}
    after = asked.after(asked.read_words(json.dumps(words), "a"), 0.0)
    assert after.open == ()
    assert [answer.value for answer in after.answers.values()] == ["other", False, 2.0]
    assert after.decision is not None
    assert after.decision.unmeasured == KINDS
    assert asked.decision is None
