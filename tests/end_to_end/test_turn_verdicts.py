"""Turns whose answers are checked, whose calls wait for approval, whose tools return pictures, and
that are stored.
"""

import json
from typing import Any

import pytest
from pydantic import BaseModel

import rungwise
from rungwise import (
    Capabilities,
    Client,
    ConfigurationError,
    MediaPart,
    Tool,
    ToolCall,
    TurnJournal,
    TurnPolicy,
    replay,
)
from rungwise.testing import ScriptedReply
from support import protocols
from support.turn_modes import MODES, ask

PNG = MediaPart("image", data="aGk=", media_type="image/png")
CALLS = (
    ToolCall("c1", "look", '{"city": "Lund"}'),
    ToolCall("c2", "pay", '{"amount": 5}'),
    ToolCall("c3", "pay", '{"amount": 50}'),
    ToolCall("c4", "pay", '{"amount": 60}'),
)
ANSWER = ScriptedReply("Done.")


class Bird(BaseModel):
    name: str
    wingspan_cm: int


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Register:
    """Two tools that record how they were called; the dear calls of one need approval."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, object]] = []

    @property
    def tools(self) -> list[Any]:
        return [self.look, Tool(self.pay, needs_approval=self.is_dear)]

    def look(self, city: str) -> str:
        """Look."""
        self.ran.append(("look", city))
        return "seen"

    def pay(self, amount: int) -> str:
        """Pay."""
        self.ran.append(("pay", amount))
        return "paid"

    @staticmethod
    def is_dear(amount: int) -> bool:
        return amount > 10


def backend(api: str, provider: Any, **options: Any) -> Any:
    return protocols.backend(api, provider.base_url, **options)


def paused(
    api: str, mode: str, serve: Any, *more: ScriptedReply
) -> tuple[Any, Any, Register, rungwise.TurnResult]:
    """Run a turn until it waits for approval."""
    provider = serve(ScriptedReply(tool_calls=CALLS), ANSWER, *more)
    register = Register()
    with Client(backend(api, provider)) as client:
        result = ask(client, mode, "Pay.", tools=register.tools)
    return provider, backend(api, provider), register, result


def test_a_call_that_needs_approval_waits_and_the_others_run(
    api: str, mode: str, serve: Any
) -> None:
    provider, _, register, result = paused(api, mode, serve)
    assert (result.outcome, result.is_success, len(provider.requests)) == (
        "awaiting_approval",
        True,
        1,
    )
    assert sorted(register.ran) == [("look", "Lund"), ("pay", 5)]
    assert [call.arguments.replace(" ", "") for call in result.awaiting] == [
        '{"amount":50}',
        '{"amount":60}',
    ]
    assert [call.name for call in result.already_run] == ["look", "pay"]
    assert replay(TurnJournal.from_json(result.journal.to_json())).outcome == "awaiting_approval"


def test_it_goes_on_exactly_there_once_it_is_approved(api: str, mode: str, serve: Any) -> None:
    provider, again, register, result = paused(api, mode, serve)
    stored = json.loads(json.dumps(result.messages))
    first, second = (call.id for call in result.awaiting)
    with Client(again) as client:
        ended = ask(
            client,
            mode,
            stored,
            tools=register.tools,
            approvals={first: True, second: "It is too dear."},
        )
    assert (ended.outcome, ended.text) == ("finished", "Done.")
    assert register.ran[2:] == [("pay", 50)]
    results = [
        each for message in protocols.said(provider.requests[1]) for each in message.tool_results
    ]
    assert [each.text for each in results] == ["seen", "paid", "paid", "It is too dear."]
    assert len(provider.requests) == 2
    assert replay(TurnJournal.from_json(ended.journal.to_json())).outcome == "finished"
    with Client(again) as client, pytest.raises(ConfigurationError, match="awaits approval"):
        client.turn(ended.messages, tools=register.tools, approvals={first: True, second: True})
    assert register.ran[3:] == [], "an approved call runs once"


def test_it_goes_on_at_any_other_provider(api: str, serve: Any) -> None:
    _, _, register, result = paused(api, "turn", serve)
    other = "anthropic" if api != "anthropic" else "gemini"
    provider = serve(ANSWER)
    with Client(backend(other, provider)) as client:
        ended = client.turn(
            json.loads(json.dumps(result.messages)),
            tools=register.tools,
            approvals={call.id: True for call in result.awaiting},
        )
    assert (ended.outcome, sorted(register.ran[2:])) == ("finished", [("pay", 50), ("pay", 60)])
    results = [
        each for message in protocols.said(provider.requests[0]) for each in message.tool_results
    ]
    assert [each.text for each in results] == ["seen", "paid", "paid", "paid"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"c4": None}, "see 'c4'"),
        ({"c5": True}, "see 'c5'"),
        ({"c3": False}, "must be True, or the reason"),
        ({"c3": " "}, "must be True, or the reason"),
    ],
)
def test_approvals_that_do_not_match_are_refused(changes: Any, says: str, serve: Any) -> None:
    _, again, register, result = paused("openai", "turn", serve)
    approvals = {
        name: value
        for name, value in {"c3": True, "c4": True, **changes}.items()
        if value is not None
    }
    with Client(again) as client, pytest.raises(ConfigurationError, match=says):
        client.turn(result.messages, tools=register.tools, approvals=approvals)
    with Client(again) as client, pytest.raises(ConfigurationError, match="awaits approval"):
        client.turn("Another conversation.", tools=register.tools, approvals={"c3": True})
    assert len(register.ran) == 2


def test_a_function_that_cannot_tell_means_that_a_person_must(serve: Any) -> None:
    ran: list[str] = []

    def cannot_tell(city: str) -> bool:
        raise KeyError(city)

    look = Tool(
        ran.append,
        name="look",
        parameters={"type": "object"},
        needs_approval=cannot_tell,
    )
    with Client(backend("openai", serve(ScriptedReply(tool_calls=[CALLS[0]]), ANSWER))) as client:
        assert client.turn("Look.", tools=[look]).outcome == "awaiting_approval"
    assert ran == []


def test_the_final_answer_is_checked_and_corrected_and_no_call_of_a_tool(
    api: str, mode: str, serve: Any
) -> None:
    def verdict(reply: rungwise.core.Reply, bird: Bird) -> str | None:
        return None if bird.wingspan_cm > 100 else "A bittern is larger."

    register = Register()
    script = (
        '{"name": "bittern"}',
        '{"name": "bittern", "wingspan_cm": 12}',
        '{"name": "bittern", "wingspan_cm": 125}',
    )
    provider = serve(ScriptedReply(tool_calls=[CALLS[0]]), *map(ScriptedReply, script))
    schema = backend(api, provider, capabilities=Capabilities(tools=True, json_schema=True))
    with Client(schema) as client:
        result = ask(client, mode, "Look.", tools=register.tools, returns=Bird, verdict=verdict)
    assert (result.outcome, result.value) == ("finished", Bird(name="bittern", wingspan_cm=125))
    assert (result.calls, result.attempts, len(register.ran)) == (2, 4, 1)
    assert "'wingspan_cm' is missing" in str(provider.requests[2].body)
    assert "A bittern is larger." in str(provider.requests[3].body)
    assert "'answer'" not in str(provider.requests[0].body.get("tools")), (
        "no tool is forced beside the caller's own"
    )


def test_a_verdict_that_raises_fails_the_turn(serve: Any) -> None:
    def verdict(reply: rungwise.core.Reply) -> str | None:
        raise KeyError(reply.text)

    with (
        Client(backend("openai", serve(ANSWER))) as client,
        pytest.raises(rungwise.TurnFailed) as caught,
    ):
        client.turn("Look.", verdict=verdict)
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.result.text == "Done."


# which has no tool choice
@pytest.mark.parametrize("api", [api for api in protocols.PROTOCOLS if api != "ollama"])
@pytest.mark.parametrize("keeps", [False, True])
def test_a_forced_choice_holds_for_the_first_call(api: str, keeps: bool, serve: Any) -> None:
    provider = serve(ScriptedReply(tool_calls=[CALLS[0]]), ANSWER)
    register = Register()
    with Client(backend(api, provider)) as client:
        client.turn(
            "Look.",
            tools=register.tools,
            tool_choice="required",
            policy=TurnPolicy(keep_tool_choice=keeps),
        )
    marks = (
        '"tool_choice":"required"',
        '"tool_choice":"any"',
        '"type":"any"',
        '"ANY"',
        '"any":{}',
    )
    bodies = [json.dumps(request.body).replace(" ", "") for request in provider.requests]
    assert [any(mark in body for mark in marks) for body in bodies] == [True, keeps]


def test_pictures_in_results_go_out_as_such(api: str, mode: str, serve: Any) -> None:
    def look(city: str) -> list[Any]:
        """Look."""
        return ["A photo:", PNG]

    provider = serve(ScriptedReply(tool_calls=[CALLS[0]]), ANSWER)
    with Client(backend(api, provider)) as client:
        ask(client, mode, "Look.", tools=[look])
    body = json.dumps(provider.requests[1].body)
    assert "aGk=" in body
    assert "A photo:" in body
    assert "MediaPart" not in body


def test_what_is_stored_loses_nothing_and_is_json_at_every_event(serve: Any) -> None:
    provider = serve(ScriptedReply(reasoning="Hm.", tool_calls=[CALLS[0]]), ANSWER)
    register = Register()
    with (
        Client(backend("anthropic", provider)) as client,
        client.stream_turn("Look.", tools=register.tools) as stream,
    ):
        for event in stream:
            assert json.loads(json.dumps(stream.messages)) == list(stream.messages), event
        result = stream.result
    again = rungwise.core.Request(json.loads(json.dumps(result.messages)))
    assert [
        message.role for message in again.messages[1:] if isinstance(message, rungwise.Message)
    ] == [
        "assistant",
        "tool",
        "assistant",
    ]
    assert result.plain_messages[1]["tool_calls"][0]["function"]["name"] == "look"
