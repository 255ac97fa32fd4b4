"""A provider on loopback that plays the faults by the model's name, and logs every attempt with its
time.

`S09` is the model that goes wrong as S09 says, `S09-fallback` the one that stands behind it;
`gpt-5-S09` goes wrong in the same way under a name that everybody knows.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any, Final

from failover.faults import HEALTHY, Behaviour, Fault
from failover.seen import Attempt, Role
from rungwise.adapters.exam.answer import ANSWER, PROMPT
from support.raw_server import STREAM_HEAD, Peer, RawServer, chunk

BETWEEN_TOKENS: Final = 0.015
"""Seconds from one token to the next."""

SHORTEST_PAUSE: Final = 0.005
"""Seconds, not scaled; shorter pauses are made up for by a later one, so that little is spent on
falling asleep.
"""

BEHIND_FALLBACK: Final = "-fallback"

Families = tuple[str, str]
UNKNOWN: Final[Families] = ("", "")

_TYPES = {
    400: "invalid_request_error",
    429: "requests",
    500: "server_error",
    503: "overloaded_error",
}
_MESSAGES = {
    "content_policy_violation": "The prompt was rejected by the content filter.",
    "context_length_exceeded": "This model's maximum context length is 128 tokens, and the prompt "
    "has more.",
    "rate_limit_exceeded": "Rate limit reached.",
    "server_is_overloaded": "The server is overloaded.",
    "prefill": "This model does not support assistant message prefill: the last message must be "
    "of the user.",
    None: "The server had an error while processing the request.",
}


class Scene:
    """Play one fault to whoever asks, and keep the log.

    Arguments:
        fault: what is played.
        scale: by how much every time in it is multiplied.
        families: what the names of the two models begin with, if they are to look like well-known
            ones.
    """

    def __init__(
        self,
        fault: Fault,
        scale: float,
        families: Families = UNKNOWN,
    ) -> None:
        self.fault = fault
        self.scale = scale
        primary, fallback = families
        self.primary = f"{primary}-{fault.name}" if primary else fault.name
        """Names the model that goes wrong."""
        self.fallback = (f"{fallback}-{fault.name}" if fallback else fault.name) + BEHIND_FALLBACK
        """Names the model behind it."""
        self._lock = threading.Lock()
        self._attempts: list[Attempt] = []
        self._began = time.monotonic()
        self._recovered = False

    @property
    def now(self) -> float:
        """Return the seconds since the scene began, as they would be unscaled."""
        return (time.monotonic() - self._began) / self.scale

    def begin(self) -> None:
        """Count the time from here."""
        self._began = time.monotonic()

    def recover(self) -> tuple[Attempt, ...]:
        """Let the primary be healthy from here on, and return what was asked before."""
        with self._lock:
            self._recovered = True
            return tuple(self._attempts)

    def receive(self, role: Role, messages: list[dict[str, Any]]) -> Behaviour:
        """Log an attempt, and say what is done with it."""
        with self._lock:
            behaviour = self._behaviour(role)
            refuses = behaviour.refuses_prefill and messages[-1]["role"] == "assistant"
            if refuses:
                behaviour = Behaviour(status=400, code="prefill")
            self._attempts.append(
                Attempt(
                    role=role,
                    at=self.now,
                    prompt=len(json.dumps(messages)),
                    is_answered=behaviour.is_healthy,
                    is_refused_prefill=refuses,
                )
            )
            return behaviour

    def _behaviour(self, role: Role) -> Behaviour:
        fault = self.fault
        if role == "fallback":
            return fault.fallback
        if self._recovered or (fault.dead_for is not None and self.now >= fault.dead_for):
            return HEALTHY
        asked = sum(attempt.role == "primary" for attempt in self._attempts)
        return fault.primary[min(asked, len(fault.primary) - 1)]


class FaultyProvider:
    """Serve the scenes that are put on it, for use in a `with` block.

    Arguments:
        scale: by how much every time of a fault is multiplied.
        answer: what a healthy model answers: as many words as `ANSWER` has.
    """

    def __init__(self, scale: float = 1.0, answer: str = ANSWER) -> None:
        self.scale = scale
        self._answer_text = answer
        self._scenes: dict[str, tuple[Scene, Role]] = {}
        self._server = RawServer(self._serve)
        self._unused = socket.socket()
        self._unused.bind(("127.0.0.1", 0))  # and never listens, so that no other process can
        self._dead_url = f"http://127.0.0.1:{self._unused.getsockname()[1]}/v1"

    def __enter__(self) -> FaultyProvider:
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.close()
        self._unused.close()

    @property
    def base_url(self) -> str:
        """Return the base URL."""
        return self._server.base_url

    @property
    def dead_url(self) -> str:
        """Return a base URL at which nobody listens."""
        return self._dead_url

    def play(self, fault: Fault, families: Families = UNKNOWN) -> Scene:
        """Play a fault under its name, from its beginning."""
        scene = Scene(fault, self.scale, families)
        self._scenes |= {scene.primary: (scene, "primary"), scene.fallback: (scene, "fallback")}
        return scene

    def _serve(self, peer: Peer) -> None:
        for request in peer.requests():
            scene, role = self._scenes[request["model"]]
            if not self._answer(peer, request, scene.receive(role, request["messages"])):
                return

    def _answer(
        self,
        peer: Peer,
        request: dict[str, Any],
        behaviour: Behaviour,
    ) -> bool:
        """Do what is to be done with a request, and tell whether the connection stays open."""
        if behaviour.resets:
            peer.reset()
            return False
        if behaviour.mute is not None:
            self._pause(behaviour.mute)
            return False
        if behaviour.status != 200:
            peer.send(_error(behaviour, self.scale))
            return True
        peer.send(STREAM_HEAD + b"\r\n")
        events = _events(behaviour, request, self._answer_text)
        peer.send(chunk(events.pop(0)))  # which names a role, and no content
        self._pause(behaviour.thinks)
        began = time.monotonic()
        for number, event in enumerate(events):
            due = began + number * BETWEEN_TOKENS * self.scale - time.monotonic()
            if due >= SHORTEST_PAUSE:
                self._server.closing.wait(due)
            peer.send(chunk(event))
        self._pause(behaviour.stalls)
        if not behaviour.is_healthy:
            return False
        peer.send(chunk(b""))
        return True

    def _pause(self, seconds: float) -> None:
        if seconds:
            self._server.closing.wait(seconds * self.scale)


def _events(behaviour: Behaviour, request: dict[str, Any], answer: str) -> list[bytes]:
    """Return the events of a stream: the role, the tokens, and where the answer is whole its end
    and its usage.
    """
    envelope = {
        "id": "chatcmpl-60",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": request["model"],
    }

    def choice(delta: dict[str, str], finish: str | None = None) -> bytes:
        return _event(
            {
                **envelope,
                "choices": [
                    {
                        "index": 0,
                        "delta": delta,
                        "finish_reason": finish,
                    }
                ],
            }
        )

    words = answer.split()
    said = (
        len(words)
        if behaviour.is_empty
        else _words_said(request["messages"], answer)
        if behaviour.goes_on
        else 0
    )
    events = [choice({"role": "assistant", "content": ""})]
    for number, word in enumerate(words[said : behaviour.tokens], said):
        events.append(choice({"content": f" {word}" if number else word}))
    if behaviour.tokens == len(words):
        events.append(choice({}, "stop"))
        if not request.get("stream") or (request.get("stream_options") or {}).get("include_usage"):
            counts = {"prompt_tokens": len(PROMPT.split()), "completion_tokens": len(words)}
            usage = {**counts, "total_tokens": sum(counts.values())}
            events.append(_event({**envelope, "choices": [], "usage": usage}))
        if behaviour.says_done:
            events.append(b"data: [DONE]\n\n")
    if behaviour.garbled is not None:
        place = behaviour.garbled - 1
        events[place : place + behaviour.loses] = [
            b'data: {"id": "chatcmpl-60", "choices": [{"delta": {"cont\n\n'
        ]
    return events


def _words_said(messages: list[dict[str, Any]], answer: str) -> int:
    """Count the words of the answer that stand in the last assistant turn."""
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    return len(said[-1].split()) if said and answer.startswith(said[-1]) else 0


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def _error(behaviour: Behaviour, scale: float) -> bytes:
    error = {
        "message": _MESSAGES[behaviour.code],
        "type": _TYPES[behaviour.status],
        "code": behaviour.code,
    }
    body = json.dumps({"error": {"param": None, **error}}).encode()
    headers = ["content-type: application/json", f"content-length: {len(body)}"]
    if behaviour.asked_wait is not None and scale == 1.0:
        headers.append(f"retry-after: {behaviour.asked_wait:.0f}")
    elif behaviour.asked_wait is not None:  # which counts whole seconds
        headers.append(f"retry-after-ms: {behaviour.asked_wait * scale * 1000:.3f}")
    lines = "\r\n".join(headers)
    return f"HTTP/1.1 {behaviour.status} Fault\r\n{lines}\r\n\r\n".encode() + body
