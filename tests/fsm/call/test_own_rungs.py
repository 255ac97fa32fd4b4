"""A rung or a fact of one's own: one declaration, which is sent, limited, certified and replayed
like the others.
"""

from itertools import count
from typing import Any

import attrs
import pytest

import rungwise
from rungwise import (
    CALL,
    ConfigurationError,
    Discard,
    Fact,
    Hints,
    Journal,
    Limits,
    Policy,
    Rung,
    Text,
    replay,
    verify,
)
from rungwise.core import Call, Failure, Reply, Request, TableError
from rungwise.testing import assert_call_honest, run
from support.tables import ENTREAT, OTHERS_OFF, walk_little

FILTERED = Reply("x", stop_reason="content_filter")
ANSWER = Reply("An answer.", stop_reason="stop")
TABLE = CALL.with_rung(ENTREAT, refused=None)


def targets(call: Call) -> list[str]:
    return [step.target for step in call.journal.steps if step.target != "await"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pleas", [0, 1, 2])
def test_it_is_taken_as_often_as_its_limit_says(pleas: int) -> None:
    policy = Policy(table=TABLE, limits=Limits(**OTHERS_OFF, pleas=pleas))
    call = run(policy, [FILTERED])
    assert targets(call) == ["entreat"] * pleas + ["refused"]
    certificate = verify(policy)
    assert certificate.ok
    without = verify(Policy(limits=Limits(**OTHERS_OFF)))
    assert certificate.worst[0].ladder == without.worst[0].ladder + pleas
    assert_call_honest(call, certificate=certificate)
    journal = Journal.from_json(call.journal.to_json())
    assert replay(journal, policy).outcome == "refused"


def test_without_more_it_has_the_limit_and_the_hint_of_its_declaration() -> None:
    assert Policy(table=TABLE).limits == Limits(pleas=1)
    shipped = Policy().hints.rungs
    assert Policy(table=TABLE).hints.rungs == {**shipped, "entreat": "Please."}
    assert Policy(table=TABLE.without("entreat")).hints == Policy().hints


def test_it_can_change_the_request_by_a_function_of_its_own() -> None:
    def change(transcript: Any, cue: Any) -> None:
        transcript.dropped |= {"temperature"}

    table = CALL.with_rung(Rung("cool", change=change), refused=None)
    call = Call(Request("hi"), Policy(table=table, limits=Limits(**OTHERS_OFF)))
    call.begin()
    send = call.receive(FILTERED)
    assert send.dropped == {"temperature"}


def test_with_a_condition_it_keeps_its_place_and_the_asked_wait() -> None:
    table = CALL.with_rung(
        ENTREAT.when("may_entreat_in_time", holds="wait_fits"), failed_transiently="may_resend"
    )
    call = run(Policy(table=table), [Failure("rate_limit", asked_wait=7.0), ANSWER])
    assert [(step.target, step.wait) for step in call.journal.steps if step.wait] == [
        ("entreat", 7.0)
    ]
    call = run(Policy(table=table), [Failure("rate_limit", asked_wait=700.0)])
    assert targets(call) == ["failed"]


def test_its_waits_are_of_the_series_that_it_names() -> None:
    patient = attrs.evolve(ENTREAT, wait="reask", limit=2)
    table = CALL.with_rung(patient, refused=None)
    call = run(Policy(table=table, limits=Limits(**OTHERS_OFF)), [FILTERED])
    assert [step.wait for step in call.journal.steps if step.wait] == [1.0, 2.0]


def test_a_hint_of_an_unknown_rung_is_refused_with_the_name_that_was_meant() -> None:
    with pytest.raises(ConfigurationError, match="unknown rung 'entraet'; did you mean 'entreat'"):
        Policy(table=TABLE, hints=Hints(rungs={"entraet": "x"}))


@pytest.mark.full
def test_a_limit_that_the_declaration_leaves_to_its_owner_must_be_given() -> None:
    table = CALL.with_rung(attrs.evolve(ENTREAT, limit=None), refused=None)
    with pytest.raises(ConfigurationError, match=r"Limits\.pleas must be a whole number"):
        Policy(table=table)
    assert verify(Policy(table=table, limits=Limits(pleas=2))).limits["pleas"] == 2


# facts of ones own: found once for each reply, recorded, and never believed where they lie


CATS = Reply("Cats are nice.", stop_reason="stop", stop_raw="stop")
SKY = Reply("The sky scatters blue.", stop_reason="stop", stop_raw="stop")


@pytest.fixture(autouse=True)
def _walks(monkeypatch: pytest.MonkeyPatch) -> None:
    walk_little(monkeypatch)


def off_topic(reply: Reply) -> bool:
    return "sky" not in reply.text


def entreating(of: Any = off_topic, **options: Any) -> Policy:
    entreat = Rung("entreat", holds=Fact("is_off_topic", of=of), hint="Answer about the sky.")
    return Policy(table=CALL.with_rung(entreat, answered=None), **options)


def played(policy: Policy, *replies: Any, **options: Any) -> tuple[Call, list[Any], list[Any]]:
    """Play replies to a call; return it with what was sent and what a consumer was given."""
    call = Call(Request("Why is the sky blue?"), policy, **options)
    send = call.begin()
    sent = []
    events = []
    for reply in replies:
        sent.append(send)
        if options.get("is_streaming"):
            events += call.hear(Text(reply.text))
        send = call.receive(reply)
        events += call.drain()
    return call, sent, events


def test_when_its_rung_is_used_up_the_answer_stands() -> None:
    call, _, _ = played(entreating(), CATS, CATS)
    assert (call.result.outcome, call.result.text, call.result.parts) == (
        "done",
        CATS.text,
        (CATS.text,),
    )


def test_a_fact_is_found_once_for_each_reply_and_a_replay_believes_the_journal() -> None:
    asked = count()
    policy = entreating(lambda reply: next(asked) == 0)  # which changes with time
    call, _, _ = played(policy, CATS, CATS, contents=True)
    assert next(asked) == 2
    again = replay(Journal.from_json(call.journal.to_json()), policy)
    assert (again.text, again.attempts) == (CATS.text, 2)
    assert next(asked) == 3


def test_where_no_reply_came_none_of_ones_own_facts_is_asked() -> None:
    call, _, _ = played(entreating(lambda reply: pytest.fail("asked")), Failure("server_error"))
    assert call.position.state == "retry"


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (lambda reply: 1, "the fact 'is_off_topic' must be True or False, and is of type int"),
        (
            lambda reply: None,
            "the fact 'is_off_topic' must be True or False, and is of type NoneType",
        ),
        (lambda reply: reply.secret, "the fact 'is_off_topic' raised AttributeError"),
        (lambda: True, "the fact 'is_off_topic' raised TypeError: its function takes a Reply"),
    ],
)
def test_a_fact_that_lies_is_an_error_that_names_it_and_leaves_the_call_as_it_was(
    of: Any, says: str
) -> None:
    call = Call(Request("Why is the sky blue?"), entreating(of))
    call.begin()
    with pytest.raises(ConfigurationError, match=says) as caught:
        call.receive(CATS)
    assert CATS.text not in str(caught.value)
    assert (call.position.state, len(call.journal.steps)) == ("await", 1)
    assert call.cancel().outcome == "cancelled"


def test_limits_of_ones_own_rungs_stand_in_toml_like_the_others() -> None:
    table = entreating().table
    assert entreating().limits.entreats == 1
    assert (
        Policy.from_toml("[limits]\nentreats = 2\nretries = 0\n", table=table).limits.entreats == 2
    )
    with pytest.raises(
        ConfigurationError, match="unknown limit 'entreat'; did you mean 'entreats'"
    ):
        Policy.from_toml("[limits]\nentreat = 2\n", table=table)
    with pytest.raises(ConfigurationError, match="unknown limit 'entreats'"):
        Policy.from_toml("[limits]\nentreats = 2\n")
    with pytest.raises(ConfigurationError, match=r"Limits\.entreats must be a whole number"):
        Policy.from_toml("[limits]\nentreats = -1\n", table=table)


CUT = Reply("The sky is blue because of Ray", stop_reason="length", stop_raw="length")
REST = Reply("leigh scattering of light.", stop_reason="stop", stop_raw="stop")
OTHER = Reply("leigh scattering, as cats know.", stop_reason="stop", stop_raw="stop")


def test_a_fact_judges_the_whole_answer_where_the_reply_is_its_rest() -> None:
    call, _, _ = played(entreating(), CUT, REST)
    assert (call.result.outcome, call.result.text) == ("done", CUT.text + REST.text)


def test_the_whole_answer_is_discarded_where_its_rest_led_to_the_rung() -> None:
    policy = entreating(lambda reply: "cats" in reply.text)
    call, _, events = played(policy, CUT, OTHER, SKY, is_streaming=True)
    assert (call.result.text, call.result.parts) == (SKY.text, (SKY.text,))
    assert [event for event in events if isinstance(event, Discard)] == [
        Discard(CUT.text + OTHER.text)
    ]


def test_an_older_hint_still_stands_before_the_text_that_came_after_a_discard() -> None:
    long = Reply(CATS.text * 5, stop_reason="stop", stop_raw="stop")
    hinted = Rung("urge", limit=1, hint="Answer about the sky.")
    silent = Rung("reconsider", limit=1, holds=Fact("is_off_topic", of=off_topic))
    policy = Policy(
        table=CALL.with_rung(silent, answered=None).with_rung(hinted, tools_truncated="may_enlarge")
    )
    half = Reply(
        tool_calls=(rungwise.ToolCall("1", "look", "{"),), stop_reason="length", stop_raw="length"
    )
    cut = Reply(
        "Cats have tails that are long, and whiskers that are longer yet",
        stop_reason="length",
        stop_raw="length",
    )
    _, sent, _ = played(policy, cut, half, long, CUT, REST)
    said = [getattr(message, "text", None) for message in sent[4].messages]
    assert said == [None, "Answer about the sky.", CUT.text, Hints().continuation]


def test_a_change_that_raises_is_an_error_that_names_its_rung() -> None:
    def change(transcript: Any, observation: Any) -> None:
        raise ValueError(transcript.gathered)

    entreat = Rung("entreat", holds=Fact("is_off_topic", of=off_topic), change=change)
    with pytest.raises(
        ConfigurationError, match="the rung 'entreat' raised ValueError when it changed the request"
    ):
        played(Policy(table=CALL.with_rung(entreat, answered=None)), CATS)


def test_what_was_taken_out_is_asked_no_more_and_may_be_declared_anew() -> None:
    without = entreating(lambda reply: pytest.fail("asked")).table.without("entreat")
    call, _, _ = played(Policy(table=without), CATS)
    assert call.result.text == CATS.text
    nudge = Rung("nudge", holds=Fact("is_off_topic", of=off_topic), hint="Please.")
    call, _, _ = played(
        Policy(table=CALL.without("nudge").with_rung(nudge, answered=None)), CATS, SKY
    )
    assert [step.target for step in call.journal.steps if step.event == "answered"] == [
        "nudge",
        "done",
    ]


@pytest.mark.full
def test_a_declared_rung_is_no_slip_of_another_and_a_fact_may_be_named_twice() -> None:
    fact = Fact("is_off_topic", of=off_topic)
    for name in ("retry2", "re_fallback", "prefill_again"):
        rung = Rung(name, holds=(fact, fact), hint="Again.")
        call, _, _ = played(Policy(table=CALL.with_rung(rung, answered=None)), CATS, SKY)
        assert call.result.text == SKY.text


@pytest.mark.parametrize(
    ("rung", "says"),
    [
        (Rung("entreat", holds=Fact("is_rude")), "nobody finds the fact 'is_rude'"),
        (
            Rung("entreat", holds=Fact("is_off_topic", of=off_topic), lacks="connection_was_stail"),
            "which the table does not declare; did you mean",
        ),
    ],
)
def test_a_fact_that_nobody_finds_is_refused(rung: Rung, says: str) -> None:
    with pytest.raises(TableError, match=says):
        Policy(table=CALL.with_rung(rung, answered=None))
