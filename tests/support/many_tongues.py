"""Chains over HTTP whose backends misbehave, each in its own protocol, but for one healthy
backend.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from attrs import evolve, field, frozen

import rungwise
from rungwise import Budget, Client, Policy, Timeouts
from rungwise.adapters.provider.server import render
from rungwise.fsm.replies.parts import ToolCall
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply
from support import official, protocols
from support.modes import EVERY, ask, follow, options_of, streams, waits_into

ANSWER = " ".join(f"On day {day} the river rose by {day * 7 % 11} inches." for day in range(1, 7))
QUESTION = "How did the river rise?"
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "properties": {"bird": {"type": "string"}}},
    },
}
HISTORY: tuple[Any, ...] = (
    {"role": "user", "content": "Which bird is this?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "look", "arguments": "{}"},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "A heron."},
    {"role": "assistant", "content": "A heron."},
)
CAP = 400

Answer = Callable[[ReceivedRequest, random.Random], ScriptedReply]


def _said(draw: random.Random, **how: Any) -> ScriptedReply:
    thinks = draw.random() < 0.5
    return ScriptedReply(
        text=ANSWER,
        reasoning="The gauge tells." if thinks else "",
        signature="c2lnbmVk" if thinks else "",
        chunk_size=draw.choice([3, 12, 40]),
        **how,
    )


def _healthy(request: ReceivedRequest, draw: random.Random) -> ScriptedReply:
    return _said(draw)


def _cut(request: ReceivedRequest, draw: random.Random) -> ScriptedReply:
    """Break off anywhere before the terminal event, also inside an event."""
    reply = _said(draw)
    size = len(render(reply, request.body, path=request.path).body)
    return evolve(reply, cut_after=draw.randrange(size * 2 // 3))


def _truncated(request: ReceivedRequest, draw: random.Random) -> ScriptedReply:
    return evolve(_said(draw, finish="length"), text=ANSWER[: draw.randrange(20, len(ANSWER) - 20)])


def _fixed(**how: Any) -> Answer:
    return lambda request, draw: ScriptedReply(**how)


TROUBLES: dict[str, Answer] = {
    "cut": _cut,
    "truncated": _truncated,
    "no end": lambda request, draw: _said(draw, done=False, finish=""),
    "odd finish": lambda request, draw: _said(draw, finish="a_new_word"),
    "filtered": lambda request, draw: evolve(_said(draw, finish="content_filter"), text="On day"),
    "error inside": lambda request, draw: evolve(
        _said(draw, error_event={"message": "Overloaded", "type": "overloaded_error"}),
        text=ANSWER[:60],
    ),
    "empty": _fixed(),
    "blank": _fixed(text=" \n"),
    "only reasons": _fixed(reasoning="Let me see.", signature="c2ln"),
    "reasoning cut": _fixed(reasoning="Let me see.", finish="length"),
    "cut call": _fixed(tool_calls=(ToolCall("1", "look", '{"bi'),), finish="length"),
    "busy": _fixed(status=429),
    "busy for an hour": _fixed(status=429, headers={"retry-after": "3600"}),
    "error": _fixed(status=500),
    "overloaded": _fixed(status=503),
    "unauthorized": _fixed(status=401),
    "bad request": _fixed(status=400),
    "no JSON": _fixed(body="<html>busy</html>"),
    "half of JSON": _fixed(body='{"choices": [{"message": {"content": "On'),
}


@frozen
class Chain:
    """A chain: the protocol of each backend and its troubles, one a request, the last one repeated.

    Arguments:
        links: the backends; the healthy one has no troubles.
        mode: how the call is made.
        policy: of the call.
        history: an earlier conversation with another provider.
        max_tokens: the caller's output cap.
        seed: of the random choices of the troubles.
    """

    links: tuple[tuple[str, tuple[str, ...]], ...]
    mode: str
    policy: Policy = field(repr=False)
    history: tuple[Any, ...] = field(repr=False)
    max_tokens: int | None
    seed: int

    @classmethod
    def drawn(cls, seed: int) -> Chain:
        """Draw a chain of two to five backends."""
        draw = random.Random(seed)
        troubles = [
            tuple(draw.choices([*TROUBLES], k=draw.randint(1, 3)))
            for _ in range(draw.randint(1, 4))
        ]
        troubles.insert(draw.randint(0, len(troubles)), ())
        counts = draw.random() < 0.4
        return cls(
            links=tuple((draw.choice(protocols.PROTOCOLS), each) for each in troubles),
            mode=draw.choice(EVERY),
            policy=Policy(
                budget=Budget(attempts=40, seconds=600, output_tokens=40_000 if counts else None),
                timeouts=Timeouts(
                    connect=5.0,
                    first_token=20.0,
                    stall=20.0,
                    total=60.0,
                ),
            ),
            history=HISTORY if draw.random() < 0.5 else (),
            max_tokens=CAP if counts else draw.choice([None, CAP]),
            seed=seed,
        )


def problem_with(chain: Chain) -> str | None:
    """Play a chain and return what went wrong, or None."""
    draw = random.Random(chain.seed + 1)
    servers = [EmbeddedProvider(_script(troubles, draw)) for _, troubles in chain.links]
    waits: list[float] = []
    events: list[Any] = []
    try:
        backends = [
            protocols.backend(api, server.base_url, model=f"m{place}", name=f"{place} {api}")
            for place, ((api, _), server) in enumerate(zip(chain.links, servers, strict=True))
        ]
        client = Client(
            backends, policy=chain.policy, **options_of(chain.mode), **waits_into(waits)
        )
        with client:
            try:
                asked = [*chain.history, {"role": "user", "content": QUESTION}]
                result = ask(
                    client,
                    chain.mode,
                    asked,
                    tools=[TOOL],
                    max_tokens=chain.max_tokens,
                    events=events,
                )
            except rungwise.CallError as error:
                result = error.result
        found = _problem(chain, result, events, [server.requests for server in servers])
    finally:
        for server in servers:
            server.close()
    return (
        None if found is None else "\n".join([str(chain), found, *map(str, result.journal.steps)])
    )


def _problem(
    chain: Chain,
    result: Any,
    events: list[Any],
    asked: list[list[ReceivedRequest]],
) -> str | None:
    # A length that was reached is gone on from where it was, as far as continuations last, and on
    # no other backend.
    may_be_partial = (
        any("truncated" in troubles for _, troubles in chain.links) and result.outcome == "partial"
    )
    if not (may_be_partial and ANSWER.startswith(result.text)) and (
        result.outcome,
        result.text,
    ) != ("done", ANSWER):
        return f"ended {result.outcome} ({result.cause}) with {result.text!r}"
    if streams(chain.mode) and follow(events) != result.text:
        return f"showed {follow(events)!r}"
    for (api, _), requests in zip(chain.links, asked, strict=True):
        for request in requests:
            try:
                official.check(api, request.body)
            except official.Mismatch as fault:
                return f"{api} was sent what it does not take: {fault}"
            cap = protocols.cap(request)
            if chain.policy.budget.output_tokens is not None and cap is None:
                return f"{api} was sent no output cap"
            text = "".join(
                message.text for message in protocols.said(request) if message.role == "user"
            )
            if QUESTION not in text:
                return f"{api} was not sent the question"
    replayed = rungwise.replay(result.journal)
    if (replayed.outcome, replayed.usage, replayed.backend) != (
        result.outcome,
        result.usage,
        result.backend,
    ):
        return (
            f"the journal replays to {replayed.outcome} of {replayed.backend} with {replayed.usage}"
        )
    return None


def _script(
    troubles: tuple[str, ...], draw: random.Random
) -> Callable[[ReceivedRequest], ScriptedReply]:
    seen = iter(troubles)
    last = [_healthy]

    def answer(request: ReceivedRequest) -> ScriptedReply:
        name = next(seen, None)
        if name is not None:
            last[0] = TROUBLES[name]
        return last[0](request, draw)

    return answer
