"""One request and its response, as far as no I/O is needed: what both drivers share."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache
from math import floor
from typing import Final

from attrs import define, evolve, field

from rungwise.adapters.http.connection import StaleConnection
from rungwise.adapters.http.encodings import Plain, Unpacker, Unreadable, asking, encoding_of
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.wires.backend import PIECE, Backend, Decoder, HttpRequest
from rungwise.adapters.wires.learned import learn_from
from rungwise.fsm.call.budget.metering import BYTES_A_TOKEN, Meter, is_beyond
from rungwise.fsm.call.conversation.reading import TextWatch
from rungwise.fsm.call.conversation.reply import Reasoning, Reply, Text
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.failures.asked_wait import has_date
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.failures.transport import classify_exception
from rungwise.fsm.values.secret import NO_HEADERS, SecretMap, drop_frames

LARGEST_REPLY: Final = 8 * 2**20
"""Bytes of a reply by default, its encoding taken off: no model writes as much, and memory is not a provider's to fill.

As objects they are held to some 16 times as much, while they are read (`json_text.is_heavy`).
"""

OVERHEAD: Final = 16
"""How many times the largest reply a stream may bring: with each piece of text come some hundred bytes around it."""

CLOCK_SKEW: Final = 5.0
"""Seconds by which our own clock may be off where it stands in for a server's.

A machine that is kept in time is off by far less than one, one that has just woken or is not by a few. A moment counts
from so much earlier: nobody wakes too soon on a clock that is ahead, nor takes for past what is still to come. A clock
that is off by more makes a wait longer than was asked, or none, but never longer than the policy allows.
"""

STREAM_TYPES: Final = ("text/event-stream", "application/x-ndjson")
"""What streams are called in the head of a response."""

LEAST_TAKEN: Final = 128
"""Bytes that are looked at in one go, however near the cap is: they hold no more tokens than may arrive at once."""

_DENSEST: Final = 32  # what a decoder holds is never more than so many times what it was fed


UNREADABLE: Final = Failure("malformed", message="the body has an encoding that was not asked for, or not as it says")
TOO_LARGE: Final = Failure("malformed", message="the reply is larger than any that is read")


@define(eq=False)
class WholeBody:
    """Gather the body of a response that is not streamed, and decode it at its end."""

    backend: Backend
    status: int
    headers: Mapping[str, str]
    finished: bool = False
    size: int = field(default=0, init=False)
    _pieces: list[bytes] = field(factory=list, init=False, repr=False)

    @property
    def is_error(self) -> bool:
        """Tell whether the status says that this is no reply."""
        return not 200 <= self.status < 300

    def feed(self, data: bytes) -> list[Text | Reasoning]:
        """Keep the bytes."""
        self.size += len(data)
        self._pieces.append(data)
        return []

    def close(self, failure: Failure | None = None) -> Reply | Failure:
        """Decode the whole body, or say what cut it."""
        if failure is None:
            return self.backend.decode(self.status, self.headers, b"".join(self._pieces))
        if failure.reason == "malformed" and self.is_error:
            return self.backend.decode(self.status, self.headers, b"")  # the status alone says what went wrong
        return failure


@lru_cache(maxsize=4)
def _date_at(second: int) -> str:
    """Return a moment as headers have it, which is the same for all replies of a second."""
    return formatdate(second, usegmt=True)


def _is_of_reading(error: Exception) -> bool:
    """Tell whether a client that was passed in gave up reading before we did, by limits of its own."""
    return any(kind.__name__ == "ReadTimeout" for kind in type(error).__mro__)


@define(eq=False)
class Exchange:
    """Follow one attempt from its first byte to its reply.

    Arguments:
        backend: who is asked.
        limits: the time limits of the attempt.
        is_streaming: whether the reply is asked for as a stream.
        largest: the bytes of a reply after which no more of it is read.
        watch: tells when visible text has come, where silence may then end the attempt at other moments than before.
        wall_clock: returns the seconds since 1970.
        told: headers that go out in the place of any others of their names, which are in lower case.
    """

    backend: Backend
    limits: AttemptLimits
    is_streaming: bool
    largest: int = LARGEST_REPLY
    watch: TextWatch | None = None
    wall_clock: Callable[[], float] = time.time
    told: Mapping[str, str] = NO_HEADERS
    decoder: Decoder | None = field(default=None, init=False)
    _encoding: Plain | Unpacker | None = field(factory=Plain, init=False)
    _size: int = field(default=0, init=False)
    _failure: Failure | None = field(default=None, init=False)
    _send: Send | None = field(default=None, init=False, repr=False)
    _cap: int | None = field(default=None, init=False)
    _meter: Meter = field(factory=Meter, init=False)
    _least: int = field(default=0, init=False)
    _unshown: int = field(default=0, init=False)
    _has_content: bool = field(default=False, init=False)
    _is_unseen: bool = field(default=False, init=False)
    _overran: bool = field(default=False, init=False)
    _room: int = field(default=PIECE, init=False)
    _outer: BaseException | None = field(factory=sys.exception, init=False, repr=False)

    def encode(self, send: Send) -> HttpRequest:
        """Write the HTTP request, which accepts no encoding of the reply but those that are taken off here."""
        self._send = send
        self._cap = send.max_tokens if send.must_cut and self.is_streaming else None
        self._set_room()
        request = self.backend.encode(send, stream=self.is_streaming)
        headers = asking(request.headers)
        if self.told:
            headers = SecretMap({name: headers[name] for name in headers if name.lower() not in self.told}, self.told)
        return HttpRequest(request.url, headers, request.body, request.method)

    def begin(self, status: int, headers: Mapping[str, str], *, is_decoded: bool = False) -> None:
        """Take the head of the response; one without a date that a wait may count from is given one by our own clock.

        Arguments:
            is_decoded: whether the HTTP client takes off the encoding of the body by itself.
        """
        self._encoding = Plain() if is_decoded else encoding_of(headers)
        if self._encoding is None:
            self._failure = UNREADABLE
        if not has_date(headers):
            rest = {name: value for name, value in headers.items() if name.lower() != "date"}
            headers = {**rest, "date": _date_at(floor(self.wall_clock() - CLOCK_SKEW))}
        kind = headers.get("content-type", "").lower()
        is_stream = status == 200 or (200 < status < 300 and kind.startswith(STREAM_TYPES))
        if self.is_streaming and is_stream and self._encoding is not None:
            self.decoder = self.backend.decoder(headers)
            if kind.startswith("application/json"):
                self.limits.awaits_whole = True
            return
        self.decoder = whole = WholeBody(self.backend, status, headers)
        if whole.is_error:
            self.limits.hurry()
        else:
            self.limits.ignore_silence()

    def feed(self, data: bytes) -> Iterable[list[Text | Reasoning]]:
        """Take bytes of the body as they came and return the deltas that they bring.

        They come in lists, each for so little work that a driver can look at its caller behind it: a few bytes may
        unpack to many.
        """
        if type(self._encoding) is Plain and len(data) <= self._room:
            return (self._take(data),)
        return self._feed(data)

    def _feed(self, data: bytes) -> Iterator[list[Text | Reasoning]]:
        try:
            for piece in self._encoding.pieces(data) if self._encoding else ():
                yield self._take_by_room(piece)
                if not self.goes_on:
                    return
        except Unreadable:
            self._failure = UNREADABLE

    def _take_by_room(self, piece: bytes) -> list[Text | Reasoning]:
        """Take a piece in parts that cannot pass the cap by far, so that no more is taken of what does."""
        deltas: list[Text | Reasoning] = []
        start = 0
        while start < len(piece) and not (self._overran or self._failure or self.is_finished):
            end = start + self._room
            deltas += self._take(piece[start:end])
            start = end
        return deltas

    def _take(self, piece: bytes) -> list[Text | Reasoning]:
        """Take a piece, and note whether the provider says anything in it: in deltas, or where none shows it."""
        decoder = self.decoder
        assert decoder is not None
        deltas = decoder.feed(piece)
        self._size += len(piece)
        unshown = getattr(decoder, "unshown", 0)
        if unshown > self._unshown:
            self._unshown, self._has_content = unshown, True
        for delta in deltas:
            if delta.text:
                self._has_content = True
                if self.watch is not None and self.watch.has_text(delta):
                    self.watch, self.limits.has_text = None, True
        if self._size > self.largest // _DENSEST and not decoder.finished:
            is_whole = isinstance(decoder, WholeBody)
            if self._size > self.largest * (1 if is_whole else OVERHEAD) or getattr(decoder, "size", 0) > self.largest:
                self._failure = TOO_LARGE
        if self._cap is not None:
            self._measure(deltas)
        return deltas

    def _measure(self, deltas: list[Text | Reasoning]) -> None:
        """Count what has come against the cap: what is shown and what is not, or what was written beside all that."""
        for delta in deltas:
            self._meter.feed(delta.text)
        said = self._meter.least + getattr(self.decoder, "unshown", 0) // BYTES_A_TOKEN
        beside = getattr(self.decoder, "beside", 0) // BYTES_A_TOKEN
        self._least, self._is_unseen = max(said, beside), beside > said
        self._overran = is_beyond(self._least, self._cap)
        self._set_room()

    def _set_room(self) -> None:
        """Work out how many bytes may be taken in one go: a token has at least one, and one before it."""
        if self._cap is not None:
            self._room = min(PIECE, max(LEAST_TAKEN, 2 * (self._cap - self._least)))

    def fail(self, error: Exception) -> None:
        """Take what was raised while reading or writing; a bug is raised again."""
        failure = classify_exception(error)
        if isinstance(error, StaleConnection):
            failure = evolve(failure, is_stale=True)
        drop_frames(error, self._outer)
        with suppress(Exception):
            error.request.headers.clear()  # type: ignore[attr-defined] # httpx keeps the whole request on its errors
        # A socket that was shut down because the time was up reports a broken connection.
        if self.limits.is_over:
            self._failure = Failure("timeout", exception=error)
        elif self.limits.is_silent or (self.limits.silent_at != math.inf and _is_of_reading(error)):
            self._fall_silent(error)
        else:
            self._failure = failure

    def _fall_silent(self, error: Exception | None = None) -> None:
        """Take it that no more comes; an error is what its status says, with what has come of its body."""
        is_error = isinstance(self.decoder, WholeBody) and self.decoder.is_error
        self._failure = None if is_error else Failure("silence", exception=error)

    @property
    def is_finished(self) -> bool:
        """Tell whether the terminal event has come."""
        return self.decoder is not None and self.decoder.finished

    @property
    def goes_on(self) -> bool:
        """Tell whether more of the body is to be read, and keep the clock of silence.

        A driver asks when what has come was handed out: the time that its consumer takes is not the provider's.
        """
        decoder = self.decoder
        if (decoder is not None and decoder.finished) or self._overran:
            return False
        now, limits = time.monotonic(), self.limits
        if now >= limits.ends_at:
            self._failure = Failure("timeout")
            return False
        if limits.awaits_whole and getattr(decoder, "is_stream", False):
            limits.awaits_whole = False  # the head called it something else
        if self._has_content:
            self._has_content = False
            limits.hear(now)
        elif now >= limits.silent_at:
            self._fall_silent()
            return False
        return self._failure is None

    def reply(self) -> Reply | Failure:
        """Return what the attempt amounts to."""
        if self.decoder is None:
            return self._failure or Failure("connection")
        reply = self.decoder.close(self._failure)
        if self._send is not None:
            learn_from(self.backend, self._send, reply)
        if isinstance(reply, Failure):
            return reply
        if self._overran and self._is_unseen:
            # The reply does not show why, so the count stands in for what the provider has not reported.
            tokens = max(reply.usage.output_tokens, self._least)
            reply = evolve(reply, usage=evolve(reply.usage, output_tokens=tokens, estimated=False))
        if self._overran and reply.interrupted and reply.failure is None:
            # It was cut here, where the provider should have: at the cap.
            return evolve(reply, interrupted=False, halted=True, stop_reason="length")
        return self.limits.mark(reply)
