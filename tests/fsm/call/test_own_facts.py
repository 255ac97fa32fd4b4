"""Facts of one's own: found once for each reply, recorded, and never believed where they lie."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

import rungwise
from rungwise import CALL, Call, ConfigurationError, Discard, Fact, Journal, Policy, Reply, Request, Rung, Text, replay

CATS = Reply("Cats are nice.", stop_reason="stop", stop_raw="stop")
SKY = Reply("The sky scatters blue.", stop_reason="stop", stop_raw="stop")


def off_topic(reply: Reply) -> bool:
    return "sky" not in reply.text


def pleading(of: Any = off_topic, **options: Any) -> Policy:
    plead = Rung("plead", holds=Fact("is_off_topic", of=of), hint="Answer about the sky.")
    return Policy(table=CALL.with_rung(plead, answered=None), **options)


def played(policy: Policy, *replies: Any, **options: Any) -> tuple[Call, list[Any], list[Any]]:
    """Play replies to a call; return it with what was sent and what a consumer was given."""
    call = Call(Request("Why is the sky blue?"), policy, **options)
    send, sent, events = call.begin(), [], []
    for reply in replies:
        assert send is not None
        sent.append(send)
        if options.get("is_streaming"):
            events += call.hear(Text(reply.text))
        send = call.receive(reply)
        events += call.drain()
    return call, sent, events


def test_an_answer_on_which_a_fact_of_ones_own_holds_is_asked_for_again_and_discarded() -> None:
    call, sent, events = played(pleading(), CATS, SKY, is_streaming=True, contents=True)
    assert (call.result.text, call.result.parts, call.result.attempts) == (SKY.text, (SKY.text,), 2)
    assert [getattr(message, "text", None) for message in sent[1].messages] == [None, "Answer about the sky."]
    told = [event for event in events if isinstance(event, (Text, Discard))]
    assert told == [Text(CATS.text), Discard(CATS.text), Text(SKY.text)]
    facts = [step.facts for step in call.journal.steps if step.event == "answered"]
    assert ["is_off_topic" in held for held in facts] == [True, False]


def test_when_its_rung_is_used_up_the_answer_stands() -> None:
    call, _, _ = played(pleading(), CATS, CATS)
    assert (call.result.outcome, call.result.text, call.result.parts) == ("done", CATS.text, (CATS.text,))


def test_a_fact_is_found_once_for_each_reply_and_a_replay_believes_the_journal() -> None:
    asked = count()
    policy = pleading(lambda reply: next(asked) == 0)  # which changes with time
    call, _, _ = played(policy, CATS, CATS, contents=True)
    assert next(asked) == 2
    again = replay(Journal.from_json(call.journal.to_json()), policy)
    assert (again.text, again.attempts) == (CATS.text, 2)
    assert next(asked) == 3


def test_where_no_reply_came_none_of_ones_own_facts_is_asked() -> None:
    call, _, _ = played(pleading(lambda reply: pytest.fail("asked")), rungwise.Failure("server_error"))
    assert call.position.state == "retry"


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (lambda reply: 1, "the fact 'is_off_topic' must be True or False, and is of type int"),
        (lambda reply: None, "the fact 'is_off_topic' must be True or False, and is of type NoneType"),
        (lambda reply: reply.secret, "the fact 'is_off_topic' raised AttributeError"),
        (lambda: True, "the fact 'is_off_topic' raised TypeError: its function takes a Reply"),
    ],
)
def test_a_fact_that_lies_is_an_error_that_names_it_and_leaves_the_call_as_it_was(of: Any, says: str) -> None:
    call = Call(Request("Why is the sky blue?"), pleading(of))
    call.begin()
    with pytest.raises(ConfigurationError, match=says) as caught:
        call.receive(CATS)
    assert CATS.text not in str(caught.value)
    assert (call.position.state, len(call.journal.steps)) == ("await", 1)
    assert call.cancel().outcome == "cancelled"


def test_limits_of_ones_own_rungs_stand_in_toml_like_the_others() -> None:
    table = pleading().table
    assert pleading().limits.pleads == 1
    assert Policy.from_toml("[limits]\npleads = 2\nretries = 0\n", table=table).limits.pleads == 2
    with pytest.raises(ConfigurationError, match="unknown limit 'plead'; did you mean 'pleads'"):
        Policy.from_toml("[limits]\nplead = 2\n", table=table)
    with pytest.raises(ConfigurationError, match="unknown limit 'pleads'"):
        Policy.from_toml("[limits]\npleads = 2\n")
    with pytest.raises(ConfigurationError, match=r"Limits\.pleads must be a whole number"):
        Policy.from_toml("[limits]\npleads = -1\n", table=table)
