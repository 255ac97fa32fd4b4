"""What a server has rejected once is not sent to it again by later calls, which say so in their
journals.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

import rungwise
from rungwise import Client, Journal, Result, replay
from rungwise.adapters.wires.learned import LEARNED
from rungwise.core import Call, Lessons, Request
from rungwise.testing import ReceivedRequest, ScriptedReply
from support.modes import Caller, waits_into
from support.plain import user

ANSWER = ScriptedReply("In the reeds, mostly.")

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def error(message: str, **more: Any) -> ScriptedReply:
    return ScriptedReply(
        status=400,
        error={
            "message": message,
            "type": "invalid_request_error",
            **more,
        },
    )


def without(*names: str) -> Callable[[ReceivedRequest], ScriptedReply]:
    """Reject the first of some parameters that a request holds."""

    def reply(request: ReceivedRequest) -> ScriptedReply:
        for name in names:
            if name in request.body:
                return error(
                    f"Unsupported parameter: '{name}' is not supported with this model.", param=name
                )
        return ANSWER

    return reply


def sent(provider: Any, name: str) -> list[Any]:
    return [request.body.get(name) for request in provider.requests]


def notes(result: Result) -> list[str | None]:
    return [step.note for step in result.journal.steps if step.event == "sent"]


def replayed(result: Result) -> Result:
    """Write a journal down, read it back and run it again, whatever is remembered by now."""
    written = result.journal.to_json()
    LEARNED.forget()
    again = replay(Journal.from_json(written))
    assert again.journal.to_json() == written
    return again


def test_a_rejected_parameter_is_left_out_by_later_calls(
    serve: Any, backend_of: Any, mode: str
) -> None:
    provider = serve(without("temperature", "stream_options"))
    with Caller(mode, backend_of(provider), **waits_into([])) as caller:
        options = {"parameters": {"temperature": 0.5, "seed": 7}}
        first, second = (caller.ask(**options) for _ in range(2))
    sent = [
        sorted({"temperature", "stream_options", "seed"} & {*request.body})
        for request in provider.requests
    ]
    asked = ["seed", "stream_options", "temperature"] if len(sent) == 4 else ["seed", "temperature"]
    assert sent[0] == asked
    assert sent[-1] == ["seed"]
    assert len({request.body["stream"] for request in provider.requests}) == 1
    assert (first.outcome, second.outcome, second.attempts) == ("done", "done", 1)
    names = ", ".join(sorted({*asked} - {"seed"}))
    assert notes(first) == [None] * first.attempts
    assert notes(second) == [f"learned: without {names}"]
    assert replayed(second).outcome == "done"


@pytest.mark.parametrize(
    ("rejected", "other", "has_learned"),
    [("max_tokens", "max_completion_tokens", False), ("max_completion_tokens", "max_tokens", True)],
    ids=["not known", "known, and changed"],
)
def test_the_name_of_the_cap_that_a_server_takes_is_sent_from_the_start(
    serve: Any,
    backend_of: Any,
    rejected: str,
    other: str,
    has_learned: bool,
) -> None:
    provider = serve(without(rejected))
    backend = backend_of(provider)
    if has_learned:
        LEARNED.learn(backend.places, Lessons(dropped=frozenset({other})))
    with Client(backend) as client:
        first, second = (client.call("hi", max_tokens=900) for _ in range(2))
    caps = [(request.body.get(rejected), request.body.get(other)) for request in provider.requests]
    assert caps == [(900, None), (None, 900), (None, 900)]
    assert notes(first)[0] == (f"learned: without {other}" if has_learned else None)
    assert notes(second) == [f"learned: without {rejected}"]
    replayed(first)


def test_what_shapes_the_answer_is_sent_again_by_each_call(serve: Any, backend_of: Any) -> None:
    provider = serve(without("tool_choice"))
    with Client(backend_of(provider)) as client:
        for _ in range(2):
            client.call("hi", tools=TOOLS, parameters={"tool_choice": "auto"})
    assert sent(provider, "tool_choice") == [
        "auto",
        None,
        "auto",
        None,
    ]


def test_what_was_asked_for_is_never_dropped_to_please_a_server(
    serve: Any, backend_of: Any
) -> None:
    provider = serve(without("tools"))
    with Client(backend_of(provider)) as client, pytest.raises(rungwise.Failed):
        client.call("hi", tools=TOOLS)
    assert ["tools" in request.body for request in provider.requests] == [True]


def test_reasoning_is_given_back_from_the_start(serve: Any, backend_of: Any) -> None:
    wanted = "The `reasoning_content` in the thinking mode must be passed back to the API."
    provider = serve(error(wanted), ANSWER)
    conversation = [
        user("Where do herons nest?"),
        {
            "role": "assistant",
            "content": "In reeds.",
            "reasoning": "They like water.",
        },
        user("And cranes?"),
    ]
    with Client(backend_of(provider)) as client:
        results = [client.call(conversation) for _ in range(2)]
    sent = [request.body["messages"][1].get("reasoning_content") for request in provider.requests]
    assert sent == [None, "They like water.", "They like water."]
    assert [notes(result) for result in results] == [
        [None, None],
        ["learned: with the reasoning of earlier turns"],
    ]
    replayed(results[1])


def test_the_largest_output_that_a_server_names_caps_later_calls(
    serve: Any, backend_of: Any
) -> None:
    provider = serve(
        error("max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens"),
        ANSWER,
    )
    with Client(backend_of(provider)) as client:
        results = [client.call("hi", max_tokens=cap) for cap in (9_000, 9_000, 700)]
        client.call("hi")
    assert sent(provider, "max_tokens") == [
        9_000,
        8_192 - 64,
        8_192,
        700,
        None,
    ]
    assert notes(results[1]) == ["learned: at most 8192 output tokens"]
    replayed(results[1])


def test_room_that_only_this_prompt_leaves_is_not_remembered(serve: Any, backend_of: Any) -> None:
    full = "This model's maximum context length is 8192 tokens. However, you requested 9100 tokens"
    provider = serve(error(f"{full} (100 in the messages, 9000 in the completion)."), ANSWER)
    with Client(backend_of(provider)) as client:
        for _ in range(2):
            client.call("hi", max_tokens=9_000)
    assert [request.body["max_tokens"] for request in provider.requests][2:] == [9_000]


def test_a_fallback_begins_with_what_is_remembered_of_it(serve: Any, backend_of: Any) -> None:
    down = serve(ScriptedReply(status=401))
    picky = serve(without("temperature"))
    chain = [backend_of(down, name="first"), backend_of(picky, name="second")]
    with Client(chain, health=None) as client:
        results = [client.call("hi", parameters={"temperature": 0.5}) for _ in range(2)]
    assert sent(picky, "temperature") == [0.5, None, None]
    assert notes(results[1]) == [None, "learned: without temperature"]
    assert [step.backend for step in results[1].journal.steps if step.event == "sent"] == [
        "first",
        "second",
    ]
    replayed(results[1])


def test_a_turn_heeds_what_its_first_call_has_learned(serve: Any, backend_of: Any) -> None:
    provider = serve(without("temperature"))
    with Client(backend_of(provider)) as client:
        client.turn("hi", parameters={"temperature": 0.5})
        result = client.turn("hi", parameters={"temperature": 0.5})
    assert sent(provider, "temperature") == [0.5, None, None]
    [call] = result.journal.calls
    assert [step.note for step in call.steps if step.event == "sent"] == [
        "learned: without temperature"
    ]
    assert replay(rungwise.TurnJournal.from_json(result.journal.to_json())).outcome == "finished"


@pytest.mark.parametrize("learns", [True, False], ids=["forgotten", "never learned"])
def test_what_is_forgotten_or_never_learned_is_paid_for_again(
    serve: Any, backend_of: Any, learns: bool
) -> None:
    provider = serve(without("temperature"))
    backend = backend_of(provider, learns=learns)
    with Client(backend) as client:
        for _ in range(2):
            client.call("hi", parameters={"temperature": 0.5})
            if learns:
                LEARNED.forget(backend.places)
    assert sent(provider, "temperature") == [
        0.5,
        None,
        0.5,
        None,
    ]


def test_what_one_call_teaches_changes_no_other_that_has_begun(serve: Any, backend_of: Any) -> None:
    provider = serve(ANSWER)
    backend = backend_of(provider)
    call = Call(Request("hi"), chain=[backend])
    LEARNED.learn(backend.places, Lessons(dropped=frozenset({"seed"})))
    send = call.begin()
    assert send is not None
    assert send.dropped == frozenset()
    assert "lessons" not in call.journal.to_document()
    later = Call(Request("hi"), chain=[backend])
    send = later.begin()
    assert send is not None
    assert send.dropped == {"seed"}
    assert later.journal.to_document()["lessons"] == [{"dropped": ["seed"]}]


@pytest.mark.parametrize(
    ("lessons", "says"),
    [
        ([], None),
        ([{}, {}], "its lessons are not one for each backend"),
        ([{"dropped": [1]}], r"lessons\[0\]: 'dropped' must be a list of names"),
        ({}, "'lessons' must be a list of objects"),
    ],
)
def test_a_journal_that_anybody_may_have_written(
    serve: Any,
    backend_of: Any,
    lessons: Any,
    says: str | None,
) -> None:
    with Client(backend_of(serve(ANSWER))) as client:
        document = json.loads(client.call("hi").journal.to_json())
    text = json.dumps({**document, "lessons": lessons})
    if says is None:
        assert replay(Journal.from_json(text)).outcome == "done"
    else:
        with pytest.raises(rungwise.ConfigurationError, match=says):
            Journal.from_json(text)
