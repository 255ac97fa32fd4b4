"""Chains over HTTP whose backends misbehave on bare sockets, but for one healthy backend."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
from attrs import evolve, field, frozen

import rungwise
from rungwise import Budget, OpenAIChat, Policy, Timeouts, Waits
from support.modes import MODES, Caller
from support.raw_server import STREAM_HEAD, Peer, RawServer, chunk, event

ANSWER = " ".join(f"On day {day} the river rose by {day * 7 % 11} inches." for day in range(1, 7))
WORDS = ANSWER.split(" ")
HEALTHY = "healthy"
QUESTION = "How did the river rise?"
CLOSE = b"0\r\n\r\n"

FIRST_TOKEN = 0.3
STALL = 0.2
TOTAL = 1.0
SECONDS = 2.8
"""The budget of a call. Each backend has at least a quarter, enough for a healthy one on a busy
machine.
"""

SLACK = 0.5
"""Seconds by which a busy machine may be late."""

PACES = (4, 16)
"""How many times as long a chain may take when it is played again because the machine may have been
too busy.
"""


def words(first: int, last: int) -> list[str]:
    """Return words of the answer as the deltas of a stream."""
    return [
        f" {word}" if place else word for place, word in enumerate(WORDS) if first <= place < last
    ]


# What a troubled backend does with a request; each tells whether the connection stays open.


def mute(peer: Peer, seen: int) -> bool:
    """Take the request, and never answer."""
    peer.hang()
    return False


def head_alone(peer: Peer, seen: int) -> bool:
    """Send a head and nothing else."""
    peer.send(STREAM_HEAD + b"\r\n")
    peer.hang()
    return False


def _dripping(piece: bytes, every: float) -> Callable[[Peer, int], bool]:
    def drip(peer: Peer, seen: int) -> bool:
        peer.send(STREAM_HEAD + b"\r\n")
        peer.drip(chunk(piece), every=every)
        return False

    return drip


def slow(peer: Peer, seen: int) -> bool:
    """Send one word after another, each just in time, and never end."""
    peer.send(STREAM_HEAD + b"\r\n")
    for said in words(0, len(WORDS) - 1):
        peer.send(chunk(event(said)))
        if peer.server.closing.wait(STALL / 2):
            return False
    peer.drip(chunk(b": still here\n\n"), every=0.05)
    return False


def stalls(peer: Peer, seen: int) -> bool:
    """Fall silent after some words."""
    _say(peer, 3 + seen % 9)
    peer.hang()
    return False


def breaks_off(peer: Peer, seen: int) -> bool:
    """Close the connection after some words."""
    _say(peer, 3 + seen % 9)
    return False


def _say(peer: Peer, count: int) -> None:
    peer.send(STREAM_HEAD + b"\r\n")
    for said in words(0, count):
        peer.send(chunk(event(said)))


def resets(peer: Peer, seen: int) -> bool:
    """Reset the connection before any byte."""
    peer.reset()
    return False


def _failing(status: int, headers: str = "", **error: Any) -> Callable[[Peer, int], bool]:
    def fail(peer: Peer, seen: int) -> bool:
        body = json.dumps({"error": {"message": "It went wrong.", **error}}).encode()
        head = f"HTTP/1.1 {status} Trouble\r\ncontent-type: application/json\r\n{headers}"
        peer.send(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        return True

    return fail


def slow_error(peer: Peer, seen: int) -> bool:
    """Begin an error body and never finish it."""
    peer.send(
        b"HTTP/1.1 503 Trouble\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n"
    )
    peer.drip(b" ", every=0.05)
    return False


def _streaming(*deltas: bytes) -> Callable[[Peer, int], bool]:
    def stream(peer: Peer, seen: int) -> bool:
        peer.send(
            STREAM_HEAD + b"\r\n" + b"".join(map(chunk, (*deltas, b"data: [DONE]\n\n"))) + CLOSE
        )
        return True

    return stream


def call_delta(arguments: str) -> dict[str, Any]:
    """Return the delta of a tool call."""
    return {
        "tool_calls": [
            {
                "index": 0,
                "id": "1",
                "function": {"name": "look", "arguments": arguments},
            }
        ]
    }


TROUBLES: dict[str, Callable[[Peer, int], bool]] = {
    "mute": mute,
    "head alone": head_alone,
    "comments": _dripping(b": keepalive\n\n", 0.03),
    "roles": _dripping(event(role="assistant", content=""), 0.03),
    "slow": slow,
    "slow reasoning": _dripping(event(reasoning_content="hm "), STALL / 2),
    "slow call": _dripping(event(**call_delta("1")), STALL / 2),
    "stalls": stalls,
    "breaks off": breaks_off,
    "resets": resets,
    "busy": _failing(429),
    "busy for a moment": _failing(429, "retry-after-ms: 40\r\n"),
    "busy for long": _failing(429, "retry-after: 2\r\n"),
    "busy for an hour": _failing(429, "retry-after: 3600\r\n"),
    "error": _failing(500),
    "overloaded": _failing(503, type="overloaded_error"),
    "slow error": slow_error,
    "unauthorized": _failing(401),
    "too long": _failing(400, code="context_length_exceeded"),
    "bad request": _failing(400),
    "refused": _failing(400, code="content_policy_violation"),
    "filtered": _streaming(event("I", finish="content_filter")),
    "empty": _streaming(event(role="assistant", content=""), event(finish="stop")),
    "only reasons": _streaming(event(reasoning_content="Let me see."), event(finish="stop")),
    "cut call": _streaming(event(**call_delta('{"a')), event(finish="length")),
    "no JSON": _failing(200),
    "odd finish": _streaming(event("On"), event(finish="a_new_word")),
    "error inside": _streaming(
        event("On"), b'data: {"error": {"message": "Overloaded", "type": "overloaded_error"}}\n\n'
    ),
}


def healthy(peer: Peer, request: dict[str, Any]) -> bool:
    """Answer with the whole text."""
    peer.send(STREAM_HEAD + b"\r\n")
    peer.send(b"".join(chunk(event(said)) for said in words(0, len(WORDS))))
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 60}}\n\n'
    peer.send(b"".join(map(chunk, (event(finish="stop"), usage, b"data: [DONE]\n\n"))) + CLOSE)
    return True


@frozen
class Chain:
    """A chain: what each backend does, one trouble a request, the last one repeated.

    Arguments:
        troubles: of each backend; none for the healthy one.
        mode: how the call is made.
        borrowed: whether the caller passes an HTTP client in.
        policy: of the call.
        max_tokens: the caller's output cap.
        pace: how many times as long as usual everything may take.
    """

    troubles: tuple[tuple[str, ...], ...]
    mode: str
    borrowed: bool
    policy: Policy = field(repr=False)
    max_tokens: int | None
    pace: int = 1

    @classmethod
    def drawn(cls, seed: int) -> Chain:
        """Draw a chain of two to four backends."""
        draw = random.Random(seed)
        names = list(TROUBLES)
        troubles = [
            tuple(draw.choices(names, k=draw.randint(1, 3))) for _ in range(draw.randint(1, 3))
        ]
        troubles.insert(draw.randint(0, len(troubles)), ())
        counts = draw.random() < 0.3
        policy = Policy(
            budget=Budget(
                attempts=draw.choice([8, 12, 24]),
                seconds=SECONDS,
                output_tokens=4000 if counts else None,
            ),
            timeouts=_timeouts(1),
            waits=Waits(
                retry_base=draw.choice([0.01, 0.2, 5.0]), reask_base=draw.choice([0.01, 0.2, 5.0])
            ),
            switch_after=draw.choice(
                [{}, {"silence": 2}, {"timeout": 3}, {"empty": 1}, {"rate_limit": 1}]
            ),
        )
        return cls(
            troubles=tuple(troubles),
            mode=draw.choice(MODES),
            borrowed=draw.random() < 0.3,
            policy=policy,
            max_tokens=300 if counts else draw.choice([None, 300]),
        )

    def slowed(self, pace: int) -> Chain:
        """Return the chain with limits that are so many times as long."""
        budget = evolve(self.policy.budget, seconds=SECONDS * pace)
        return evolve(
            self, policy=evolve(self.policy, budget=budget, timeouts=_timeouts(pace)), pace=pace
        )


def _timeouts(pace: int) -> Timeouts:
    return Timeouts(
        connect=0.5 * pace, first_token=FIRST_TOKEN * pace, stall=STALL * pace, total=TOTAL * pace
    )


@frozen
class Problem:
    """What went wrong with a chain.

    Arguments:
        text: describes it.
        may_be_late: whether a machine that is too busy for the limits of the chain can be why.
    """

    text: str
    may_be_late: bool = False


@frozen
class Outcome:
    """The outcome of a call over a chain.

    Arguments:
        result: how it ended, also if that was an error.
        seconds: how long it took.
        sent: the bodies of all requests.
    """

    result: rungwise.Result
    seconds: float
    sent: list[dict[str, Any]]


def play(chain: Chain) -> Outcome:
    """Make a call over a chain of servers."""
    servers = [RawServer(_player(troubles)) for troubles in chain.troubles]
    try:
        backends = [
            OpenAIChat(
                f"model-{place}", api_key="key", base_url=server.base_url, api_key_required=False
            )
            for place, server in enumerate(servers)
        ]
        http = httpx if chain.borrowed else None
        with Caller(chain.mode, backends, policy=chain.policy, http=http) as caller:
            began = time.monotonic()
            try:
                result = caller.ask(QUESTION, max_tokens=chain.max_tokens)
            except rungwise.CallError as error:
                result = error.result
            seconds = time.monotonic() - began
        return Outcome(result, seconds, [body for server in servers for body in server.bodies])
    finally:
        for server in servers:
            server.close()


def _player(troubles: tuple[str, ...]) -> Callable[[Peer], None]:
    seen = 0

    def serve(peer: Peer) -> None:
        nonlocal seen
        for request in peer.requests():
            number = seen
            seen = seen + 1
            name = troubles[min(number, len(troubles) - 1)] if troubles else HEALTHY
            stays = healthy(peer, request) if name == HEALTHY else TROUBLES[name](peer, number)
            if not stays:
                return

    return serve


def bound_of(chain: Chain) -> float:
    """Return the seconds that a certificate allows a call over a chain."""
    certificate = rungwise.verify(chain.policy, len(chain.troubles), max_tokens=chain.max_tokens)
    bound = next(worst.value for worst in certificate.worst if worst.name == "seconds")
    assert bound is not None
    return bound


def problem_with(chain: Chain) -> Problem | None:
    """Play a chain and return what went wrong, or None."""
    outcome = play(chain)
    result = outcome.result
    about = "\n".join(map(str, (chain, *result.journal.steps)))
    if result.outcome != "done":
        return Problem(
            f"ended {result.outcome} ({result.cause}) with {result.text!r}: {about}",
            may_be_late=True,
        )
    if result.text != ANSWER:
        return Problem(f"answered {result.text!r}: {about}")
    got = Counter(body["model"] for body in outcome.sent)
    told = Counter(
        f"model-{each.backend.rpartition('-')[2]}"
        for each in result.journal.steps
        if each.event == "sent"
    )
    if got != told:  # a server that is too late reads no request that its client has given up
        return Problem(
            f"sent {got}, and the journal says otherwise: {about}", may_be_late=got < told
        )
    if any(body["messages"][0] != {"role": "user", "content": QUESTION} for body in outcome.sent):
        return Problem(f"was sent another question: {about}")
    if outcome.seconds > (SECONDS + SLACK) * chain.pace:
        return Problem(f"took {outcome.seconds:.2f} s: {about}", may_be_late=True)
    return None


def lasting_problem_with(chain: Chain) -> Problem | None:
    """Return what is wrong with a chain however much time it has, or what no busy machine
    explains.
    """
    problem = problem_with(chain)
    for pace in PACES:
        if problem is None or not problem.may_be_late:
            break
        problem = problem_with(chain.slowed(pace))
    return problem
