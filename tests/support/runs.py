"""Run one call against scripted servers in any mode, and check what holds of every call."""

import copy
import json
import logging
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

import rungwise
from rungwise import Client, OpenAIChat
from rungwise.adapters.wires.learned import LEARNED
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.fsm.engine.journal.digest import WORDS
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply
from support import modes, protocols
from support.clocked import clocked
from support.modes import ask, follow, waits_into
from support.tables import of_known_rungs

NAMES = ("primary", "second", "third")
PROMPT = "Where do the herons of the northern lake nest?"
MESSAGES = [{"role": "user", "content": PROMPT}]

Scripted = ScriptedReply | Callable[[ReceivedRequest], ScriptedReply]
Serve = Callable[..., EmbeddedProvider]


class Stage:
    """A server that plays a script, reply by reply, and repeats the last one. It can be given
    another script.
    """

    def __init__(self, script: Sequence[Scripted] = (ScriptedReply(),)) -> None:
        self.play(script)
        self.provider = EmbeddedProvider(self.answer)

    def play(self, script: Sequence[Scripted]) -> None:
        self.script = script
        self.requests: list[ReceivedRequest] = []
        self.replies: list[ScriptedReply] = []

    def answer(self, request: ReceivedRequest) -> ScriptedReply:
        self.requests.append(request)
        scripted = self.script[min(len(self.requests), len(self.script)) - 1]
        reply = scripted(request) if callable(scripted) else scripted
        self.replies.append(reply)
        return reply


Stages = tuple[Stage, ...]


@contextmanager
def asking(
    mode: str, script: Sequence[Scripted], chain: Callable[[str], Any], **options: Any
) -> Iterator[tuple[Callable[..., rungwise.Result], Stage, list[float]]]:
    """Play a script to a client in one mode, and yield what asks it, the stage, and the waits.

    Arguments:
        chain: makes the chain of the client from the base URL of the stage.
        options: for the client.
    """
    stage = Stage(script)
    waits = list[float]()
    with stage.provider as provider:
        client = Client(
            chain(provider.base_url), **options, **modes.options_of(mode), **waits_into(waits)
        )

        def one(asked: Any = "Where?", **given: Any) -> rungwise.Result:
            try:
                return ask(client, mode, asked, **given)
            except rungwise.CallError as error:
                return error.result

        with client:
            yield one, stage, waits


@attrs.frozen
class Ended:
    """A finished call with everything that was observed."""

    result: rungwise.Result
    error: rungwise.CallError | None
    waits: list[float]
    by_backend: list[list[ReceivedRequest]]
    events: list[Any]
    messages: list[Any]

    @property
    def outcome(self) -> str:
        return self.result.outcome

    @property
    def text(self) -> str:
        return self.result.text

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Return all requests in the order of arrival."""
        return sorted(
            (request for some in self.by_backend for request in some),
            key=lambda request: request.at,
        )

    @property
    def bodies(self) -> list[Any]:
        return [request.body for request in self.requests]

    @property
    def added(self) -> list[list[Any]]:
        """Return the messages of each request that follow the caller's own."""
        return [body["messages"][len(self.messages) :] for body in self.bodies]

    @property
    def caps(self) -> list[int | None]:
        """Return the output cap of each request, or None."""
        return list(map(protocols.cap, self.requests))

    @property
    def counts(self) -> list[int]:
        """Return the number of requests to each backend."""
        return list(map(len, self.by_backend))

    @property
    def steps(self) -> tuple[rungwise.Step, ...]:
        return self.result.journal.steps

    @property
    def path(self) -> str:
        """Return the rungs and the outcome, in order."""
        return " ".join(
            step.target for step in self.steps if step.target != "await" and step.event != "skipped"
        )

    def was(self, outcome: str | None = None, text: str | None = None, **more: Any) -> None:
        """Assert how the call ended, and what was sent for it.

        Arguments:
            outcome, text: of the result; None where any will do.
            more: properties of this, or of the result.
        """
        named = {"outcome": outcome, "text": text}
        expected = {**{name: value for name, value in named.items() if value is not None}, **more}
        assert {
            name: getattr(self if hasattr(self, name) else self.result, name) for name in expected
        } == expected


class Run:
    """Make calls in one mode against scripted servers, and check what holds of every call.

    Each call is made twice, the second time with contents in the journal.
    """

    def __init__(
        self,
        mode: str,
        stages: tuple[Stage, ...],
        caplog: pytest.LogCaptureFixture,
        api: str = "openai",
    ) -> None:
        self.mode = mode
        self.api = api
        self.streams = modes.streams(mode)
        self.asks_for_streams = modes.asks_for_streams(mode)
        self._stages = stages
        self._caplog = caplog

    def __call__(self, *scripts: Sequence[Scripted], **options: Any) -> Ended:
        """Make a call twice and return the first.

        Arguments:
            scripts: the replies of each backend; the last one is repeated.
            backends: more options for each backend.
            chain: makes the chain from the backends that answer; by default these, in order.
            messages: of the request.
            policy: for the client; rungs that tests do not know are off in it.
            jitter, observer, compactor: for the client.
            options: for the call.
        """
        plain = self._run(scripts, contents=False, **options)
        recorded = self._run(scripts, contents=True, **options)
        assert recorded.outcome == plain.outcome
        assert recorded.text == plain.text
        assert recorded.bodies == plain.bodies
        return plain

    def _run(
        self,
        scripts: Sequence[Sequence[Scripted]],
        *,
        contents: bool,
        backends: Sequence[dict[str, Any]] = (),
        chain: Callable[[list[OpenAIChat]], list[Any]] | None = None,
        messages: list[Any] | None = None,
        policy: rungwise.Policy | None = None,
        jitter: Callable[[], float] = lambda: 0.0,
        observer: Callable[[rungwise.Step], None] | None = None,
        compactor: Any = None,
        **options: Any,
    ) -> Ended:
        LEARNED.forget()
        stages = self._stages[: len(scripts)]
        live = []
        for index, (stage, script) in enumerate(zip(stages, scripts, strict=True)):
            stage.play(script)
            given = {
                "model": f"model-{index}",
                "name": NAMES[index],
                "api_key": _key(index),
            }
            given |= backends[index] if index < len(backends) else {}
            live.append(protocols.backend(self.api, stage.provider.base_url, **given))
        messages = messages or MESSAGES
        before = copy.deepcopy((messages, options))
        waits: list[float] = []
        steps: list[rungwise.Step] = []
        events: list[Any] = []

        def observe(step: rungwise.Step) -> None:
            steps.append(step)
            if observer is not None:
                observer(step)

        client = Client(
            chain(live) if chain else live,
            policy=of_known_rungs(policy),
            observer=observe,
            compactor=compactor,
            contents=contents,
            **clocked(
                {
                    "clock": lambda: time.monotonic() + sum(waits),  # as if the waits were slept
                    "jitter": jitter,
                    **waits_into(waits),
                }
            ),
            **modes.options_of(self.mode),
        )
        self._caplog.clear()
        error = None
        with client, self._caplog.at_level(logging.DEBUG, logger="rungwise"):
            try:
                result = ask(client, self.mode, messages, events=events, **options)
            except rungwise.CallError as raised:
                error = raised
                result = raised.result
        assert (messages, options) == before, "what the caller gave was changed"
        ended = Ended(
            result,
            error,
            waits,
            [list(stage.requests) for stage in stages],
            events,
            messages,
        )
        self._check(ended, steps, events)
        self._check_requests(ended, live, compactor)
        self._check_privacy(ended, stages, contents)
        # which no journal holds
        own = policy if policy is not None and policy.table is not rungwise.CALL else None
        _check_replay(ended, contents, own)
        return ended

    def _check(
        self,
        ended: Ended,
        steps: list[rungwise.Step],
        events: list[Any],
    ) -> None:
        result, journal = ended.result, ended.result.journal
        assert (ended.error is None) == (result.outcome in ("done", "salvaged", "partial"))
        assert result.outcome == journal.outcome == journal.last.target
        assert result.attempts == sum(step.event == "sent" for step in journal.steps)
        assert steps == list(journal.steps), "the observer was given each step as it happened"
        # What the budget does not allow is not waited for either.
        followed = zip(journal.steps, (*journal.steps[1:], None), strict=True)
        allowed = [
            step.wait
            for step, after in followed
            if step.wait and (after is None or after.event != "ran_out")
        ]
        assert ended.waits in (allowed, [step.wait for step in journal.steps if step.wait])
        records = [record for record in self._caplog.records if hasattr(record, "rungwise_event")]
        for record, step in zip(records, journal.steps, strict=True):
            is_last = step is journal.last and step.attempts > 1
            turns_away = step.target == "fallback" and step.event != "skipped"
            level = logging.INFO if is_last else logging.WARNING if turns_away else logging.DEBUG
            assert (record.name, record.levelno) == ("rungwise", level)
            assert record.getMessage().partition("; ")[0] == str(step).partition("; ")[0]
        # Honest: nothing empty is a success, and no cut tool call is handed out.
        if ended.error is None:
            assert result.text.strip() or result.tool_calls
        assert not result.tool_calls or result.outcome == "done"
        assert all(
            isinstance(json.loads(call.arguments or "{}"), dict) for call in result.tool_calls
        )
        if self.streams:
            assert follow(events) == result.text
            assert [event for event in events if isinstance(event, rungwise.Step)] == list(
                journal.steps
            )
            assert (events[-1] is result) == (ended.error is None)

    def _check_requests(
        self,
        ended: Ended,
        live: list[OpenAIChat],
        compactor: Any,
    ) -> None:
        for backend, requests in zip(live, ended.by_backend, strict=True):
            for request in requests:
                body = request.body
                if self.api != "openai":
                    self._check_request(request, backend, ended, is_compacted=compactor is not None)
                    continue
                assert request.headers["authorization"] == f"Bearer {backend.api_key.reveal()}"
                assert body["model"] == backend.model
                assert body["stream"] is self.asks_for_streams
                assert body.get("stream_options") == (
                    {"include_usage": True} if self.asks_for_streams else None
                )
                if compactor is None:
                    sent = body["messages"][: len(ended.messages)]
                    assert list(map(_said, sent)) == list(map(_said, ended.messages))
                    assert sent == ended.messages or backend is not live[0]

    def _check_request(
        self,
        request: ReceivedRequest,
        backend: Any,
        ended: Ended,
        *,
        is_compacted: bool,
    ) -> None:
        """Check a request of any protocol: the key, the model, and that the caller's messages are
        unchanged.
        """
        key = backend.api_key.reveal()
        assert self.api == "bedrock" or any(key in value for value in request.headers.values())
        assert protocols.model_of(request) == backend.model
        assert protocols.streams(request) is self.asks_for_streams
        if not is_compacted:
            # Where sides must take turns, what a rung adds may stand in the same turn as the
            # caller's last words.
            *given, last = [
                (one.role, one.text)
                for one in read_messages(ended.messages)
                if one.role != "system"
            ]
            sent = [(one.role, one.text) for one in protocols.said(request)]
            assert sent[: len(given)] == given
            assert sent[len(given)][0] == last[0]
            assert sent[len(given)][1].startswith(last[1])

    def _check_privacy(
        self,
        ended: Ended,
        stages: tuple[Stage, ...],
        contents: bool,
    ) -> None:
        shown = [
            record.getMessage() for record in self._caplog.records if record.name == "rungwise"
        ]
        shown += [repr(ended.result.journal), repr(ended.error), str(ended.error)]
        # which it may show of it
        own_words = repr(ended.result).replace(repr(ended.result.text[:WORDS])[1:-1], "")
        shown += [own_words, *traceback.format_exception_only(ended.error)]
        if not contents:
            shown.append(ended.result.journal.to_json())
        private = {str(message["content"]) for message in ended.messages if message.get("content")}
        for stage in stages:
            for reply in stage.replies:
                private |= {
                    reply.text,
                    reply.reasoning,
                    *(call.arguments for call in reply.tool_calls),
                }
        told = "\n".join(shown)
        assert not [
            text
            for text in private
            if len(text) > 6 and (text in told or json.dumps(text)[1:-1] in told)
        ]
        assert not [index for index in range(len(stages)) if _key(index) in told]


def _said(message: dict[str, Any]) -> tuple[Any, Any]:
    return message["role"], message["content"]


def _key(index: int) -> str:
    return f"sk-{index}f2b7d9e6a1c3"


def _check_replay(ended: Ended, contents: bool, policy: rungwise.Policy | None) -> None:
    result = ended.result
    journal = rungwise.Journal.from_json(result.journal.to_json())
    assert journal.steps == result.journal.steps
    replayed = rungwise.replay(journal, policy)
    assert replayed.journal.steps == result.journal.steps
    same = ["outcome", "usage", "cost", "attempts", "backend", "cause", "seconds"]
    is_quoted = any(failure.quote for _, failure in result.failures)
    if not contents and (is_quoted or "wrongly" in journal.last.event):
        same.remove("cause")  # it quotes the provider, or gives the reasons, which quote the reply
    if contents:
        same += ["text", "final_text", "parts", "tool_calls", "reasoning"]
    assert {name: getattr(replayed, name) for name in same} == {
        name: getattr(result, name) for name in same
    }
