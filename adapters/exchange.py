"""One request and its response, as far as no I/O is needed: what both drivers share."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, evolve, field

from adapters.backend import Backend, Decoder
from adapters.capabilities import LEARNED
from adapters.connection import StaleConnection
from adapters.limits import AttemptLimits
from fsm.events import Reasoning, Text
from fsm.failures import classify_exception
from fsm.reply import Failure, Reply

LARGEST_BODY = 64 * 2**20
"""Bytes of a response after which no more is read: no model writes as much, and memory is not a provider's to fill."""


@define(eq=False)
class WholeBody:
    """Be the decoder of a response that is not streamed."""

    backend: Backend
    status: int
    headers: Mapping[str, str]
    finished: bool = False
    _pieces: list[bytes] = field(factory=list, init=False)

    def feed(self, data: bytes) -> list[Text | Reasoning]:
        """Keep the bytes."""
        self._pieces.append(data)
        return []

    def close(self, failure: Failure | None = None) -> Reply | Failure:
        """Decode the whole body, or say what cut it."""
        return failure or self.backend.decode(self.status, self.headers, b"".join(self._pieces))


@define(eq=False)
class Exchange:
    """Follow one attempt from its first byte to its reply.

    Arguments:
        backend: who is asked.
        limits: the time limits of the attempt.
        is_streaming: whether the reply was asked for as a stream.
    """

    backend: Backend
    limits: AttemptLimits
    is_streaming: bool
    decoder: Decoder | None = field(default=None, init=False)
    _size: int = field(default=0, init=False)
    _failure: Failure | None = field(default=None, init=False)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the head of the response."""
        if self.is_streaming and status == 200:
            self.decoder = self.backend.decoder(headers)
        else:
            self.decoder = WholeBody(self.backend, status, headers)

    def feed(self, data: bytes) -> list[Text | Reasoning]:
        """Take bytes of the body and return the deltas that they bring."""
        assert self.decoder is not None
        self._size += len(data)
        return self.decoder.feed(data)

    def fail(self, error: Exception) -> None:
        """Take what was raised while reading or writing; a bug is raised again."""
        failure = classify_exception(error)
        if isinstance(error, StaleConnection):
            failure = evolve(failure, is_stale=True)
        # A socket that was shut down because the time was up reports a broken connection.
        self._failure = Failure("timeout", exception=error) if self.limits.is_over else failure

    @property
    def is_finished(self) -> bool:
        """Tell whether the terminal event has come."""
        return self.decoder is not None and self.decoder.finished

    @property
    def goes_on(self) -> bool:
        """Tell whether more of the body is to be read."""
        if self.is_finished:
            return False
        if self.limits.is_over:
            self._failure = Failure("timeout")
            return False
        if self._size > LARGEST_BODY:
            self._failure = Failure("malformed")
            return False
        return True

    def reply(self) -> Reply | Failure:
        """Return what the attempt amounts to."""
        if self.decoder is None:
            return self._failure or Failure("connection")
        reply = self.decoder.close(self._failure)
        if isinstance(reply, Failure):
            _learn(self.backend, reply)
            return reply
        return self.limits.mark(reply)


def _learn(backend: Backend, failure: Failure) -> None:
    """Remember for later calls that a backend does not go on from a trailing assistant turn."""
    if failure.reason == "prefill_unsupported":
        for identity in backend.identities:
            LEARNED.learn_no_prefill(identity)


def partial(exchange: Exchange | None) -> Reply | None:
    """Return what had arrived of an exchange when the caller ended the call."""
    if exchange is None or exchange.decoder is None:
        return None
    reply = exchange.decoder.close(Failure("connection"))
    return reply if isinstance(reply, Reply) else None


def is_stale(reply: Reply | Failure) -> bool:
    """Tell whether a request was lost with a connection that had been used before."""
    return isinstance(reply, Failure) and reply.is_stale
