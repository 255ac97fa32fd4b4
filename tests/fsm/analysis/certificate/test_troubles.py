"""What a call does about each trouble, played to the core: for the default policy, each line is
worked out by hand.
"""

from typing import Any

import pytest
from attrs import evolve

import rungwise
from rungwise import Budget, Limits, Policy, Prices, Waits
from rungwise.core import Call, Reply, Request
from rungwise.fsm.analysis.certificate import courses, troubles
from rungwise.fsm.analysis.certificate.courses import (
    GRADES,
    Course,
    PlayedTrouble,
    Scene,
    TroubleChange,
    course_of,
    scenes_of,
    trouble_changes,
)
from rungwise.fsm.analysis.certificate.troubles import troubles_of
from rungwise.fsm.call.table import CALL
from support.facts import Check
from support.tables import OTHERS_OFF

DEFAULT = Policy(limits=Limits(**OTHERS_OFF))
"""The default policy, with those rungs alone that are worked out by hand here."""


PRICED = {"prices": Prices(1, 10), "max_tokens": 1000, "input_tokens": 100}


def played(policy: Policy, name: str, backends: int = 1, **asked: Any) -> str:
    (trouble,) = [each for each in troubles_of(DEFAULT, policy) if each.name == name]
    return str(course_of(policy, trouble, Scene("every attempt", backends), **asked))


def by_name(changes: tuple[TroubleChange, ...], scene: Scene) -> dict[str, str]:
    return {name: str(each.new) for each in changes if each.scene == scene for name in each.names}


def test_the_default_policy_handles_each_trouble_as_is_written_down(fact: Check) -> None:
    policy = Policy()
    found = trouble_changes(policy, policy)
    alone, both = (by_name(found, Scene("every attempt", count)) for count in (1, 2))
    for name in alone:
        fact(name, [alone[name], both[name]])
    assert not any(each.is_change for each in found)


def test_a_trouble_that_passes_comes_first() -> None:
    found = trouble_changes(DEFAULT, DEFAULT)
    assert [*dict.fromkeys(each.scene for each in found)] == list(scenes_of(2))
    first, second = (by_name(found, scene) for scene in scenes_of(2)[:2])
    assert first["503"] == "retry (2 s), fallback → done; 3 attempts, 2 to 3 s"
    assert first["401"] == "fallback → done; 2 attempts"
    assert second["503"] == "retry (2 s) → done; 2 attempts, 2 to 3 s"
    assert second["401"] == "not asked again → failed; 1 attempt"
    assert [str(scene) for scene in scenes_of(1)] == [
        "with one backend, the first attempt fails",
        "with one backend, every attempt fails",
    ]


def test_a_refused_connection_costs_nothing_and_a_503_is_overloaded_whatever_its_body() -> None:
    poor = Policy(budget=Budget(money=0.011), limits=Limits(retries=2))
    assert (
        played(poor, "a refused connection", **PRICED)
        == "retry x2 (2, 4 s) → failed; 3 attempts, 6 to 9 s"
    )
    assert played(poor, "a stream that breaks off before any text", **PRICED).startswith(
        "retry (1 s) → over_budget"
    )
    assert played(DEFAULT, "503", 2).endswith("6 attempts, 16 to 24 s")


def test_troubles_with_the_same_courses_share_a_line() -> None:
    new = evolve(DEFAULT, waits=Waits(longest_asked=30), switch_after={"rate_limit": 1})
    found = [
        each for each in trouble_changes(DEFAULT, new) if each.scene == Scene("every attempt", 2)
    ]
    assert [each.names[0] for each in found if each.is_change] == [
        "429",
        "429 with a Retry-After of 10 s",
        "429 with a Retry-After of 30 s",
        "429 with a Retry-After of 120 s",
    ]
    assert str(found[0].new) == "fallback, retry x3 (2, 4, 8 s) → failed; 5 attempts, 14 to 21 s"
    together = next(each.names for each in found if "503" in each.names)
    assert together == ("503", "529")


def test_the_budget_ends_a_course_and_chance_may_end_it_sooner() -> None:
    few = Policy(budget=Budget(attempts=3))
    assert played(few, "429") == "retry x2 (2, 4 s) → over_budget; 3 attempts, 6 to 9 s"
    short = Policy(budget=Budget(seconds=15))
    assert played(short, "429") == (
        "retry x3 (2, 4, 8 s) → failed or over_budget; 3 to 4 attempts, 9 to 14 s; "
        "the path is that with the shortest waits"
    )
    poor = Policy(budget=Budget(money=0.021), limits=Limits(**OTHERS_OFF))
    assert played(poor, "a refusal", 2, **PRICED).endswith("refused; 2 attempts")
    # without prices, nothing is counted against it
    assert trouble_changes(poor, poor)[0].new is not None


def test_without_clocks_silence_lasts_and_the_played_attempts_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patient = Policy(timeouts=rungwise.Timeouts(first_token=None, total=50), waits=Waits(jitter=0))
    assert played(patient, "silence before any text") == (
        "retry x3 (2, 4, 8 s) → failed; 4 attempts, 214 s"
    )
    monkeypatch.setattr(courses, "MOST_PLAYED", 2)
    assert played(DEFAULT, "429").startswith("retry (2 s) → more than the")


def test_a_users_fact_is_played_as_true_without_calling_its_function() -> None:
    def never(reply: Reply) -> bool:
        raise AssertionError

    fact = rungwise.Fact("is_off_topic", of=never, says="the answer is beside the point")
    entreat = rungwise.Rung(
        "entreat",
        limit=2,
        holds=fact,
        hint="To the point.",
        says="one may entreat",
        does="entreating",
    )
    # which is soon proved
    small = CALL.without("nudge", "prefill", "continuation", "enlarge", "repair", "compact")
    old = Policy(table=small)
    new = Policy(table=small.with_rung(entreat, answered=None))
    changed = [each for each in trouble_changes(old, new) if each.is_change]
    change = changed[-1]
    assert {each.names for each in changed} == {change.names}
    assert change.names == ("200 with text and a clean stop, on which is_off_topic holds",)
    assert str(change.old) == "not asked again → done; 1 attempt"
    assert str(change.new) == "entreat x2 → done; 3 attempts"


@pytest.mark.parametrize("event", troubles.EVENTS)
def test_each_made_up_reply_causes_its_event(event: str) -> None:
    call = Call(Request("say"))
    call.begin()
    call.receive(troubles.reply_of(event, 1, "odd"))
    assert call.journal.steps[1].event == event


def ending(least: str | None, most: str | None = "done") -> Course:
    """Return a course whose calls end so with the shortest and with the longest waits."""
    played = []
    for outcome in (least, most):
        kind = "error" if outcome is None else CALL.kind_of_end(outcome)
        played.append(PlayedTrouble((("ask", 0.0),), outcome, "", 0.0, GRADES.index(kind)))
    return Course(*played)


@pytest.mark.parametrize(
    ("old", "new", "is_worse"),
    [
        (ending("done"), ending("partial"), True),
        (ending("salvaged"), ending("partial"), False),
        (ending("partial"), ending("over_budget"), True),
        (ending("partial"), ending(None), True),
        (ending("done"), ending("done", "failed"), True),
        (ending("exhausted"), ending("refused"), False),
        (ending("failed"), ending("done"), False),
        (ending("done"), None, True),
        (None, ending("failed"), False),
    ],
)
def test_less_than_an_answer_is_worse_and_an_error_is_worse_still(
    old: Course | None, new: Course | None, is_worse: bool
) -> None:
    change = TroubleChange(("429",), Scene("every attempt", 1), old, new)
    assert change.is_worse is is_worse
