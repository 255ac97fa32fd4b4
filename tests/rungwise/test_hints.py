"""Mistakes of the first minutes: each error says what would be right."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import rungwise
from rungwise.core import Call, Reply, Request
from rungwise.testing import ScriptedReply


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: rungwise.Policy(retries=2), "it is Policy(limits=Limits(retries=2))"),  # type: ignore[call-arg]
        (lambda: rungwise.Policy(seconds=9), "it is Policy(budget=Budget(seconds=9))"),  # type: ignore[call-arg]
        (lambda: rungwise.Policy.interactive(retries=2), "it is Policy(limits=Limits(retries=2))"),
        (lambda: rungwise.TurnPolicy(seconds=9), "it is TurnPolicy(budget=Budget(seconds=9))"),  # type: ignore[call-arg]
        (lambda: rungwise.Budget(second=9), "did you mean 'seconds'?"),  # type: ignore[call-arg]
        (
            lambda: rungwise.Budget(60),  # type: ignore[misc]
            "by name: attempts=60 or seconds=60 or output_tokens=60 or money=60",
        ),
        (lambda: rungwise.Policy(rungwise.Budget()), "by name: budget=Budget("),  # type: ignore[misc]
        (lambda: rungwise.Limits(2), "as in Limits(retries=2)"),
    ],
)
def test_an_argument_that_is_none_says_which_would_be_right(
    made: Callable[[], Any], says: str
) -> None:
    with pytest.raises(rungwise.ConfigurationError) as caught:
        made()
    assert says in str(caught.value)


def test_a_deadline_in_seconds_from_now_is_refused(rungwise_provider: Any) -> None:
    provider = rungwise_provider(ScriptedReply("Yes."))
    with rungwise.Client(rungwise.OpenAIChat("m", base_url=provider.base_url)) as client:
        with pytest.raises(
            rungwise.ConfigurationError, match=r"that is 1970; pass a time, or time.time\(\) \+ 30"
        ):
            client.call("hi", deadline=30)
        assert client.call("hi", deadline=time.time() + 30).text == "Yes."
    assert len(provider.requests) == 1


def test_a_response_format_that_is_a_class_says_what_is_expected() -> None:
    class Answer(BaseModel):
        text: str

    with pytest.raises(
        rungwise.ConfigurationError,
        match=r'a mapping as in \{"type": "json_schema".*model_json_schema',
    ):
        Request("hi", response_format=Answer)


@pytest.mark.parametrize(
    ("reply", "event"),
    [
        (Reply("Half", stop_reason="length"), "truncated"),
        (Reply("Half", reasoning="hm", stop_reason="length"), "reasoning_truncated"),
        (
            Reply("Half", stop_reason="length", usage=rungwise.Usage(9, 100, reasoning_tokens=99)),
            "reasoning_truncated",
        ),
    ],
)
def test_a_short_text_at_the_cap_is_cut_text_unless_reasoning_filled_the_cap(
    reply: Reply, event: str
) -> None:
    call = Call(Request("say", max_tokens=100))
    call.begin()
    send = call.receive(reply)
    assert call.journal.steps[1].event == event
    assert send is not None
    # Nobody could tell the rest from a restart, so it is asked for whole, and nothing is said
    # twice.
    assert send.messages == ({"role": "user", "content": "say"},)
    assert (send.max_tokens or 0) > 100
    call.receive(Reply("Half a loaf is better than none.", stop_reason="stop"))
    assert (call.result.outcome, call.result.text) == ("done", "Half a loaf is better than none.")
