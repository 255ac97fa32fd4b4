"""A rung of one's own: one declaration, which is limited, waited for, sent, certified and replayed like the others."""

from typing import Any

import attrs
import pytest

import rungwise
from rungwise import CALL, ConfigurationError, Hints, Limits, Policy, Rung
from rungwise.core import Call, Failure, Reply, Request
from rungwise.testing import assert_call_honest, run
from support.tables import PLEAD, walk_little

FILTERED = Reply("x", stop_reason="content_filter")
ANSWER = Reply("An answer.", stop_reason="stop")
TABLE = CALL.with_rung(PLEAD, refused=None)


@pytest.fixture(autouse=True)
def _walks(monkeypatch: pytest.MonkeyPatch) -> None:
    walk_little(monkeypatch)


def targets(call: Call) -> list[str]:
    return [step.target for step in call.journal.steps if step.target != "await"]


@pytest.mark.parametrize("pleas", [0, 1, 2])
def test_it_is_taken_as_often_as_its_limit_says(pleas: int) -> None:
    policy = Policy(table=TABLE, limits=Limits(pleas=pleas))
    call = run(policy, [FILTERED])
    assert targets(call) == ["plead"] * pleas + ["refused"]
    certificate = rungwise.verify(policy)
    assert certificate.ok
    assert certificate.worst[0].ladder == 46 + pleas
    assert_call_honest(call, certificate=certificate)
    journal = rungwise.Journal.from_json(call.journal.to_json())
    assert rungwise.replay(journal, policy).outcome == "refused"


def test_without_more_it_has_the_limit_and_the_hint_of_its_declaration() -> None:
    assert Policy(table=TABLE).limits == Limits(pleas=1)
    assert Policy(table=TABLE).hints.rungs == {"plead": "Please."}
    assert Policy(table=TABLE.without("plead")).hints == Hints()


def test_it_can_change_the_request_by_a_function_of_its_own() -> None:
    def change(transcript: Any, cue: Any) -> None:
        transcript.dropped |= {"temperature"}

    call = Call(Request("hi"), Policy(table=CALL.with_rung(Rung("cool", change=change), refused=None)))
    call.begin()
    send = call.receive(FILTERED)
    assert send.dropped == {"temperature"}


def test_with_a_condition_it_keeps_its_place_and_the_asked_wait() -> None:
    table = CALL.with_rung(PLEAD.when("may_plead_in_time", holds="wait_fits"), failed_transiently="may_resend")
    call = run(Policy(table=table), [Failure("rate_limit", asked_wait=7.0), ANSWER])
    assert [(step.target, step.wait) for step in call.journal.steps if step.wait] == [("plead", 7.0)]
    call = run(Policy(table=table), [Failure("rate_limit", asked_wait=700.0)])
    assert targets(call) == ["failed"]


def test_its_waits_are_of_the_series_that_it_names() -> None:
    patient = attrs.evolve(PLEAD, wait="reask", limit=2)
    call = run(Policy(table=CALL.with_rung(patient, refused=None)), [FILTERED])
    assert [step.wait for step in call.journal.steps if step.wait] == [5.0, 10.0]


@pytest.mark.parametrize("wrong", ["x", None, 1.5, 10**6, -1, True])
def test_a_limit_that_is_no_number_of_times_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Limits\.pleas must be a whole number"):
        Limits(pleas=wrong)


def test_a_hint_of_an_unknown_rung_is_refused_with_the_name_that_was_meant() -> None:
    with pytest.raises(ConfigurationError, match="unknown rung 'pleed'; did you mean 'plead'"):
        Policy(table=TABLE, hints=Hints(rungs={"pleed": "x"}))


@pytest.mark.full
def test_a_limit_that_the_declaration_leaves_to_its_owner_must_be_given() -> None:
    table = CALL.with_rung(attrs.evolve(PLEAD, limit=None), refused=None)
    with pytest.raises(ConfigurationError, match=r"Limits\.pleas must be a whole number"):
        Policy(table=table)
    assert rungwise.verify(Policy(table=table, limits=Limits(pleas=2))).limits["pleas"] == 2
