"""A call that is told again what is on its tape is where it was, whatever was told, wherever the
tape ends.
"""

import json
import random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import Policy, Text, Usage, testing
from rungwise.adapters.durable.forms import (
    plain_reply,
    plain_request,
    plain_result,
    read_reply,
    read_request,
    read_result,
)
from rungwise.adapters.durable.tape import RecordedCall
from rungwise.core import Reply, Request
from rungwise.fsm.engine.journal.record import json_of
from rungwise.fsm.testing.scripted import links
from rungwise.testing import ScriptedBackend
from support.sampling import examples


def again(value: Any) -> Any:
    return json.loads(json_of(value))


def new_call(policy: Policy, request: Request, **options: Any) -> RecordedCall:
    return RecordedCall(request, policy, links(2), **options)


@given(testing.replies() | testing.failures())
def test_what_came_back_can_be_stored(reply: Any) -> None:
    read = read_reply(again(plain_reply(reply)))
    assert read == (evolve(reply, raw=None) if isinstance(reply, Reply) else reply)


@given(testing.conversations())
def test_a_request_can_be_stored(messages: Any) -> None:
    request = Request(
        messages,
        max_tokens=100,
        temperature=0.5,
        headers={"x-user": "7"},
        tools=[{"type": "web_search"}],
    )
    assert read_request(again(plain_request(request))) == request


@settings(max_examples=examples(30))
@given(
    testing.policies(),
    testing.scripts_of_replies(),
    st.integers(0, 2**32),
    st.lists(st.booleans(), max_size=4),
)
def test_every_beginning_of_a_tape_leads_to_where_the_call_was(
    policy: Policy,
    script: Any,
    seed: int,
    opens: list[bool],
) -> None:
    draws = random.Random(seed)
    request = Request("Where do herons nest?", max_tokens=500)
    call = new_call(policy, request, jitter=draws.random)
    ScriptedBackend(script, latency=1.5, opens=opens).drive(call)
    tape = again(call.tape)
    for end in sorted({1, len(tape) // 2, len(tape) - 1, len(tape)} - {0}):
        other = new_call(
            policy,
            request,
            jitter=lambda: pytest.fail("it draws anew"),
            **RecordedCall.setting_of(tape),
        )
        other.restore(tape[:end])
        assert again(other.tape) == tape[:end]
        assert (
            again(other.journal.to_document()["steps"])
            == again(call.journal.to_document()["steps"])[: other.journal.size]
        )
    assert other.result == call.result
    assert read_result(again(plain_result(call.result))) == call.result


def test_what_is_billed_is_stored_and_results_of_earlier_releases_are_read() -> None:
    usage = Usage(
        input_tokens=9,
        output_tokens=3,
        units={"dives": 2},
        cost=0.0,
        shares=(Usage(2, 1, model="m"),),
    )
    call = new_call(Policy(), Request("Where?"), jitter=lambda: 0.0)
    call.begin(0.0)
    call.receive(Reply("Reeds.", stop_reason="stop", usage=usage), 1.0)
    plain = again(plain_result(call.result))
    assert read_result(plain) == call.result
    assert call.result.usage.units == {"dives": 2}
    assert again(call.tape), "the reply is on it as well"
    for name in ("cost_reported", "unpriced"):
        del plain[name]
    for name in ("units", "cost", "shares"):
        plain["usage"].pop(name, None)
    assert read_result(plain).usage.output_tokens == 3


def test_what_a_crash_makes_final_of_a_stream_is_handed_on_after_it() -> None:
    request = Request("Where do herons nest?")
    call = new_call(Policy(), request, jitter=lambda: 0.0, is_streaming=True)
    call.begin(0.0)
    call.sending(0.0)
    shown = call.hear(Text("In the reeds <thi"))  # which may be a tag, so its end is held back
    tape = again(call.tape)
    other = new_call(
        Policy(), request, jitter=lambda: 0.0, is_streaming=True, **RecordedCall.setting_of(tape)
    )
    other.restore(tape)
    assert other.drain() == []  # another process has handed it on
    other = new_call(
        Policy(), request, jitter=lambda: 0.0, is_streaming=True, **RecordedCall.setting_of(tape)
    )
    other.restore(tape)
    other.resume(1.0, None, 1.0)
    later = [event for event in other.drain() if isinstance(event, Text)]
    assert (
        "".join(event.text for event in (*shown, *later) if isinstance(event, Text))
        == "In the reeds <thi"
    )
    assert later
