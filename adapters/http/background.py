"""An attempt whose reply the provider goes on with when the connection breaks, and keeps.

Theory
------

Such an attempt is one request or several: a reply that is not there yet is polled, and a stream
that is too old to be taken up again is polled as well. If the connection breaks, the attempt ends
with a failure that names the `generation`; the table then takes the rung `reattach`, whose exchange
begins where this one has stopped. Its decoder goes on with the same assembly, so that what comes is
joined without a seam: the wire leaves out the events that it has had.

A decoder is closed to see what has come, and cannot be fed after that. So a copy of it is closed.

A provider may begin that stream too early or too late. A decoder leaves out what comes again; if a
part is missing, or may be, it has a gap, and the reply is polled: nobody is shown what belongs
behind a gap. It is polled, too, if that stream falls silent: vLLM's do for ever if a reply fails.

Whoever ends the attempt otherwise must give the generation up, or it runs to its end and is billed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

import orjson
from attrs import define, evolve, field

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.exchange import Exchange, WholeBody
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.wires.backend import Backend, Decoder, HttpRequest
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reply

FIRST_PAUSE: Final = 0.5
"""Seconds before a reply that is not there yet is polled; twice as long each time."""
LONGEST_PAUSE: Final = 10.0
GIVING_UP: Final = 2.0
"""The most seconds that it may take to tell the provider that nobody wants the reply."""

UNFINISHED: Final = ("queued", "in_progress")
"""The statuses of a reply that is not there yet."""
GONE: Final = (404, 410)
"""The statuses of one that the provider has dropped."""


def given_up_limits() -> AttemptLimits:
    """Return the limits of the request that gives a generation up."""
    return AttemptLimits(
        ends_at=time.monotonic() + GIVING_UP,
        connect=GIVING_UP,
        stall=None,
        cancellation=Cancellation(),
    )


@define(eq=False)
class BackgroundExchange(Exchange):
    """Follow one attempt at a backend that keeps its replies; see `Exchange`."""

    has_rest = True

    generation: str | None = field(default=None, init=False)
    """The id of the reply, once it is known."""
    has_ended: bool = field(default=False, init=False)
    """Whether the provider has ended or dropped the reply."""
    polls: bool = field(default=True, init=False)
    """Whether a request of this attempt follows, after the `pause`."""
    pause: float = field(default=0.0, init=False)
    _is_rest: bool = field(default=False, init=False)  # whether it goes on where another stopped
    _next_pause: float = field(default=FIRST_PAUSE, init=False)
    _paused: float = field(default=0.0, init=False)  # seconds of all pauses, waited or not
    _since: float = field(factory=time.monotonic, init=False)
    _kept: Decoder | None = field(default=None, init=False)  # of the stream so far
    # whether the provider was asked to keep the reply
    _is_kept: bool = field(default=False, init=False)
    _is_whole: bool = field(default=False, init=False)  # whether it is polled from now on

    @classmethod
    def left(cls, backend: Backend, send: Send, generation: str) -> BackgroundExchange:
        """Return an attempt of another process, whose reply the provider goes on with."""
        attempt = cls(backend, given_up_limits(), is_streaming=False)
        attempt._send = send
        attempt.generation = generation
        return attempt

    def take_up(self, before: Exchange | None) -> None:
        """Go on where another attempt has stopped, and answer for the reply from now on."""
        assert isinstance(before, BackgroundExchange)
        self.generation = before.generation
        self._kept = before._kept
        self._is_whole = before._is_whole
        before.has_ended = True
        self._is_rest = True

    @property
    def may_run(self) -> bool:
        """Tell whether the provider may go on with the reply."""
        return self.generation is not None and not self.has_ended

    def _backend(self) -> Any:
        backend: Any = self.keyed or self.backend
        if isinstance(backend, Exception):
            raise backend
        if backend.pool and self._send is not None:
            return backend.pool[self._send.key]
        return backend

    def encode(self, send: Send) -> HttpRequest:
        """Write the next request of the attempt."""
        self.polls = False
        if self.generation is None:
            self._is_kept = self._backend().keeps_for(send)
            return super().encode(send)
        self._send = send
        after = None
        if self._kept is not None and not self._is_whole:
            after = self._kept.cursor
        elif self.is_streaming and not self._is_whole:
            after = ""  # nothing is kept of what another process has read
        self.is_streaming = after is not None
        if send.must_cut and self.is_streaming:
            self._cap = send.max_tokens
        self._set_room()
        request: HttpRequest = self._backend().rest_of(self.generation, after)
        return request

    def giving_up(self) -> HttpRequest | None:
        """Write the request that ends the generation; None if it has ended."""
        self.note_end()
        if not self.may_run:
            return None
        self.has_ended = True
        request: HttpRequest = self._backend().given_up(self.generation)
        return request

    def begin(self, status: int, headers: Mapping[str, str], *, is_decoded: bool = False) -> None:
        """Take the head of a response."""
        self._decode = None
        super().begin(status, headers, is_decoded=is_decoded)
        if isinstance(self.decoder, WholeBody):
            return
        if self._kept is None:
            self._kept = self.decoder
        else:
            self._kept.reopen()
            self.decoder = self._kept

    def note_end(self) -> None:
        """Read what a response has come to: whether it was all, or another request follows."""
        whole = self.decoder
        if not isinstance(whole, WholeBody):
            self.note_stream()
            is_silent = self._failure is not None and self._failure.reason == "silence"
            if whole is not None and (whole.has_gap or (is_silent and self._is_rest)):
                self._failure = None
                self._poll(0.0)
            return
        if self._failure is not None:
            return
        if whole.is_error and self.generation is not None:
            self._note_error(whole)
        elif not whole.is_error:
            self._note_whole(whole)

    def note_stream(self) -> None:
        """Read what has come of a stream: the id of the reply, and whether that was all."""
        kept = self._kept
        if kept is None:
            return
        if self._is_kept:
            self.generation = self.generation or kept.generation
        self.has_ended = self.has_ended or kept.finished

    def _note_error(self, whole: WholeBody) -> None:
        """Poll a reply that is not streamed any more, and note one that is gone."""
        if whole.status in GONE:
            self.has_ended = True
        elif self.is_streaming and whole.status == 400:
            self._poll(0.0)

    def _note_whole(self, whole: WholeBody) -> None:
        value = _object_in(b"".join(whole.pieces))
        if value.get("status") in UNFINISHED and isinstance(value.get("id"), str):
            self.generation = value["id"]
            self._poll(self._next_pause)
            self._next_pause = min(2 * self._next_pause, LONGEST_PAUSE)
        elif value:  # or it has broken off
            self.has_ended = True

    def _poll(self, pause: float) -> None:
        self._is_whole = True
        self.limits.ignore_silence()
        self._paused += pause
        passed = max(time.monotonic() - self._since, self.clock() - self.began) + pause
        if max(passed, self._paused) >= self.limits.ends_at - self._since:
            self._failure = Failure("timeout")
            return
        self.polls = True
        self.pause = pause

    def reply(self) -> Reply | Failure:
        """Return the reply, or the failure; it names a generation that goes on."""
        whole = self.decoder
        is_whole = isinstance(whole, WholeBody) and not whole.is_error and self._failure is None
        has_come = whole is not None and whole.finished and not whole.has_gap
        if self.generation is None or is_whole or has_come:
            return super().reply()
        cause = self._failure
        if cause is None and isinstance(whole, WholeBody):
            cause = _failure_of(whole)
        generation = None if self.has_ended else self.generation
        if generation is None or cause is None:
            cause = Failure("connection", found=_WHY[self.has_ended])
        cause = evolve(cause, generation=generation)
        if self._kept is None:
            return cause
        self.decoder = _copied(self._kept)
        self._failure = cause
        reply = super().reply()
        if isinstance(reply, Failure):
            return cause
        return evolve(reply, failure=cause, interrupted=True)


_WHY: Final = {
    True: "the provider has dropped the reply",
    False: "the stream has broken off",
}


def _copied(decoder: Any) -> Decoder:
    """Return a copy of a decoder, and of its assembly, whose items its reader names."""
    copied, assembly = deepcopy((decoder, decoder.assembly))
    copied.assembly = assembly
    kept: Decoder = copied
    return kept


def _failure_of(whole: WholeBody) -> Failure | None:
    came = whole.close()
    return came if isinstance(came, Failure) else None


def _object_in(body: bytes) -> Mapping[str, Any]:
    """Return the object that a body is; an empty one if it is none."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
