"""The four modes of a turn, and one way to run a turn in any of them against a provider."""

import re
from collections.abc import Callable
from typing import Any

import anyio
from attrs import define

import rungwise
from rungwise import Client, ToolCall
from rungwise import TurnResult as Result
from rungwise.fsm.turn.explained import read_turn
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.fsm.turn.validity import problems_of
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support import ways
from support.clocked import clocked
from support.modes import follow

MODES = ("turn", "stream_turn", "aturn", "astream_turn")


def is_async(mode: str) -> bool:
    """Tell whether a mode needs an event loop."""
    return mode.startswith("a")


def streams(mode: str) -> bool:
    """Tell whether a mode streams."""
    return "stream" in mode


def calling(*calls: tuple[str, str], text: str = "") -> ScriptedReply:
    """Return a reply that calls tools, each given by its name and its arguments."""
    made = [
        ToolCall(f"call_{place}", name, arguments) for place, (name, arguments) in enumerate(calls)
    ]
    return ScriptedReply(text=text, tool_calls=made)


@define
class Turned:
    """A finished turn and its requests."""

    result: rungwise.TurnResult
    events: list[Any]
    error: BaseException | None
    bodies: list[dict[str, Any]]

    @property
    def outcome(self) -> str:
        return self.result.outcome

    @property
    def text(self) -> str:
        return self.result.text

    @property
    def targets(self) -> list[str]:
        """The states of the turn, in order."""
        return [step.target for step in self.result.journal.steps if step.target != "await"]

    def roles(self, request: int = -1) -> list[str]:
        """The roles of the messages of a request."""
        return [message["role"] for message in self.bodies[request]["messages"]]

    def told(self, request: int = -1) -> list[str]:
        """The tool results in a request."""
        return [
            message["content"]
            for message in self.bodies[request]["messages"]
            if message["role"] == "tool"
        ]


def run_turn(
    mode: str,
    *replies: ScriptedReply | Callable[[Any], ScriptedReply],
    messages: Any = "Where do herons nest?",
    each: Callable[[Any, Any], object] | None = None,
    client_options: dict[str, Any] | None = None,
    link_options: dict[str, Any] | None = None,
    **options: Any,
) -> Turned:
    """Run a turn and check what holds of every turn.

    Arguments:
        mode: one of `MODES`.
        replies: the script of the provider, whose last reply is repeated, or a function of the
        request.
        messages: what is asked.
        each: called with each event and the stream; returns True to leave the stream.
        client_options, link_options, options: for the client, its backend, and the turn.
    """
    script: Any = replies[0] if callable(replies[0]) else Script(replies=replies)
    with EmbeddedProvider(script) as provider:
        backend = ways.backend(provider.base_url, **(link_options or {}))
        client = Client(
            backend,
            **clocked(
                {
                    "sleep": lambda seconds: None,
                    "async_sleep": _no_wait,
                    **(client_options or {}),
                }
            ),
        )
        events: list[Any] = []
        error: BaseException | None = None
        try:
            if is_async(mode):
                result = anyio.run(_run_and_close, client, mode, messages, events, each, options)
            else:
                with client:
                    result = _run(client, mode, messages, events, each, options)
        except rungwise.TurnError as raised:
            error = raised
            result = raised.result
        bodies = [dict(request.body) for request in provider.requests]
    turned = Turned(result, events, error, bodies)
    _check(turned, mode, messages)
    return turned


async def _no_wait(seconds: float) -> None:
    pass


def _run(
    client: Client,
    mode: str,
    messages: Any,
    events: list[Any],
    each: Any,
    options: dict[str, Any],
) -> Result:
    if mode == "turn":
        return client.turn(messages, **options)
    with client.stream_turn(messages, **options) as stream:
        for event in stream:
            events.append(event)
            assert not problems_of(stream.messages)
            if each is not None and each(event, stream):
                break
    return stream.result


async def _run_and_close(
    client: Client,
    mode: str,
    messages: Any,
    events: list[Any],
    each: Any,
    options: dict[str, Any],
) -> Result:
    async with client:
        if mode == "aturn":
            return await client.aturn(messages, **options)
        async with client.astream_turn(messages, **options) as stream:
            async for event in stream:
                events.append(event)
                assert not problems_of(stream.messages)
                if each is not None and each(event, stream):
                    break
        return stream.result


def ask(client: Client, mode: str, messages: Any = "Where?", **options: Any) -> Result:
    """Run a turn, in a new event loop if the mode needs one, and return the result of whatever came
    of it.
    """
    try:
        if is_async(mode):
            return anyio.run(_run_and_close, client, mode, messages, [], None, options)
        return _run(client, mode, messages, [], None, options)
    except rungwise.TurnError as error:
        return error.result


def _check(turned: Turned, mode: str, messages: Any) -> None:
    result = turned.result
    assert not problems_of(result.messages)
    is_left = streams(mode) and turned.events[-1:] != [result] and turned.error is None
    assert result.is_success is (turned.error is None) or is_left
    journal = result.journal.to_json()
    read = TurnJournal.from_json(journal)
    assert read.to_json() == journal
    again = rungwise.replay(read)
    for name in ("outcome", "calls", "attempts", "usage", "seconds"):
        assert getattr(again, name) == getattr(result, name), name
    # a journal without contents has no word of a provider's
    assert _unquoted(again.cause) == _unquoted(result.cause)
    assert read_turn(journal).path.steps == again.journal.steps
    assert result.calls == len(result.journal.calls)
    assert result.attempts == sum(
        call.steps[-1].attempts for call in result.journal.calls if call.steps
    )
    hints = rungwise.Hints()
    said = str(result.plain_messages)
    for hint in (rungwise.TurnHints().summary, hints.continuation, hints.nudge, hints.placeholder):
        assert hint not in said
    if streams(mode) and turned.events and isinstance(turned.events[-1], rungwise.TurnResult):
        steps = [event for event in turned.events if isinstance(event, rungwise.TurnStep)]
        assert steps == list(result.journal.steps)
        started = [event.call for event in turned.events if isinstance(event, rungwise.ToolStarted)]
        ended = [event.call for event in turned.events if isinstance(event, rungwise.ToolEnded)]
        assert sorted(call.id for call in started) == sorted(call.id for call in ended)
        follow(turned.events)


def _unquoted(cause: str | None) -> str:
    return re.sub(r': ".*"', "", cause or "")
