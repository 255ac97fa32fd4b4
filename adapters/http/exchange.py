"""One attempt without its I/O: from the request to the reply. Both drivers share it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache
from math import floor
from typing import ClassVar, Final, TypeVar

from attrs import define, evolve, field

from rungwise.adapters.http.connection import StaleConnection
from rungwise.adapters.http.encodings import Decode, Unreadable, asking, encoding_of, in_utf8, plain
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.wires.backend import PIECE, Backend, Decoder, HttpRequest
from rungwise.adapters.wires.learned import learn_from
from rungwise.fsm.call.budget.metering import BYTES_A_TOKEN, Meter, is_beyond
from rungwise.fsm.call.conversation.reading import TextWatch
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.replies.failures.asked_wait import has_date
from rungwise.fsm.replies.failures.classify import classify_exception
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reasoning, Reply, Text
from rungwise.fsm.values.secret import NO_HEADERS, SecretMap, drop_frames

A = TypeVar("A")
T = TypeVar("T")

LARGEST_REPLY: Final = 8 * 2**20
"""The default limit on the bytes of a reply, after decompression. No model writes as much.

A reply that is parsed into objects may take about 16 times as much memory (`json_text.is_heavy`).
"""

OVERHEAD: Final = 16
"""How many times the largest reply a stream may be, in bytes: each piece of text comes with some
hundred bytes of framing.
"""

CLOCK_SKEW: Final = 5.0
"""Seconds by which our clock may be wrong where it stands in for a server's: that of a machine that
has just woken is.

A response without a date is dated this much earlier, so that a clock that is ahead ends no wait too
soon.
"""

STREAM_TYPES: Final = ("text/event-stream", "application/x-ndjson")
"""The content types of streams."""

LEAST_TAKEN: Final = 128
"""Bytes to decode at once, however near the cap is. They hold no more tokens than may arrive in one
packet anyway.
"""

_SOUND: Final = ("stop", "tool_calls")  # the stop reasons of whole replies
_DENSEST: Final = 32  # a decoder never holds more than this many times its input

UNREADABLE: Final = Failure(
    "malformed", message="the body has an encoding that was not asked for, or not as it says"
)
TOO_LARGE: Final = Failure("malformed", message="the reply is larger than any that is read")


@define(eq=False)
class WholeBody(Decoder):
    """Collect the body of a response that is not a stream, and decode it at its end."""

    is_stream: ClassVar[bool] = False

    backend: Backend
    status: int
    headers: Mapping[str, str]
    size: int = field(default=0, init=False)
    pieces: list[bytes] = field(factory=list, init=False, repr=False)

    @property
    def is_error(self) -> bool:
        """Tell whether the status is an error."""
        return not 200 <= self.status < 300

    def feed(self, data: bytes) -> list[Text | Reasoning]:
        """Collect the bytes."""
        self.size += len(data)
        self.pieces.append(data)
        return []

    def close(self, failure: Failure | None = None) -> Reply | Failure:
        """Decode the whole body, or return the failure that cut it."""
        decode = self.backend.decode
        if failure is None:
            return decode(self.status, self.headers, b"".join(self.pieces))
        if failure.reason == "malformed" and self.is_error:
            # the status alone says what went wrong
            return decode(self.status, self.headers, b"")
        return failure


@lru_cache(maxsize=4)
def _date_at(second: int) -> str:
    """Format a moment as headers do; all replies within a second share it."""
    return formatdate(second, usegmt=True)


@define(eq=False)
class Exchange:
    """Follow one attempt from its first byte to its reply.

    A driver calls `encode`, sends the request, calls `begin` with the head of the response and
    `feed` with each piece of the body while it `goes_on`, and then takes the `reply`. Whatever goes
    wrong on the way, it calls `fail`.
    """

    backend: Backend
    limits: AttemptLimits  # the time limits of the attempt
    is_streaming: bool  # whether the request asks for a stream
    largest: int = LARGEST_REPLY  # stop reading the reply after this many bytes
    # finds the first visible text, if the limits on silence change with it
    watch: TextWatch | None = None
    wall_clock: Callable[[], float] = time.time  # returns the seconds since 1970
    # replace other headers of their names, which are in lower case
    own_headers: Mapping[str, str] = NO_HEADERS
    clock: Callable[[], float] = time.monotonic  # that of the call
    began: float = 0.0  # on that clock
    # the backend with the key that its function has returned, if it has one, or what that raised
    keyed: Backend | Exception | None = None
    polls = False  # whether it is several requests
    has_rest = False  # whether the provider may have more of it to fetch
    # the headers of the response
    received: Mapping[str, str] = field(default=NO_HEADERS, init=False)
    decoder: Decoder | None = field(default=None, init=False)
    # seconds until a stream brought content
    first_token: float | None = field(default=None, init=False)
    # takes the body's encoding off; None until its first bytes have come
    _decode: Decode | None = field(default=None, init=False)
    _content_type: str = field(default="", init=False)  # in small letters
    _size: int = field(default=0, init=False)  # bytes of the body so far, decoded
    _failure: Failure | None = field(default=None, init=False)
    _send: Send | None = field(default=None, init=False, repr=False)
    # the output cap in tokens, if we must cut the reply there; the provider may ignore it
    _cap: int | None = field(default=None, init=False)
    _meter: Meter = field(factory=Meter, init=False)  # counts the tokens that deltas have shown
    _least: int = field(default=0, init=False)  # tokens that the provider has written at least
    _unshown: int = field(default=0, init=False)  # what the decoder has reported of it so far
    _has_content: bool = field(default=False, init=False)  # since the silence was last checked
    # whether the provider has written more beside the reply than in it
    _is_unseen: bool = field(default=False, init=False)
    _overran: bool = field(default=False, init=False)  # whether we have cut it at the cap
    _room: int = field(default=PIECE, init=False)  # bytes to decode at once
    _outer: BaseException | None = field(factory=sys.exception, init=False, repr=False)

    def encode(self, send: Send) -> HttpRequest:
        """Write the HTTP request. It accepts only encodings that we can decode piece by piece."""
        self._send = send
        if send.must_cut and self.is_streaming:
            self._cap = send.max_tokens
        self._set_room()
        if isinstance(self.keyed, Exception):
            raise self.keyed
        request = (self.keyed or self.backend).encode(send, stream=self.is_streaming)
        headers = asking(request.headers)
        if self.own_headers:
            own = self.own_headers
            others = {name: headers[name] for name in headers if name.lower() not in own}
            headers = SecretMap(others, own)
        return HttpRequest(request.url, headers, request.body, request.method)

    def begin(self, status: int, headers: Mapping[str, str], *, is_decoded: bool = False) -> None:
        """Take the head of the response.

        A head without a date gets one of our own clock, because waits count from it.

        Arguments:
            status: the status code.
            headers: the headers.
            is_decoded: whether the HTTP client decompresses the body itself.
        """
        self.received = headers
        self._content_type = headers.get("content-type", "").lower()
        if is_decoded:
            self._decode = in_utf8(self._content_type, plain)
        if not has_date(headers):
            rest = {name: value for name, value in headers.items() if name.lower() != "date"}
            headers = {**rest, "date": _date_at(floor(self.wall_clock() - CLOCK_SKEW))}
        # with a status of 200, servers stream whatever the type says
        is_stream = status == 200 or (
            200 < status < 300 and self._content_type.startswith(STREAM_TYPES)
        )
        if self.is_streaming and is_stream:
            self.decoder = self._by_wire(self.backend.decoder, headers)
            self.limits.hear_head()
            if self._content_type.startswith("application/json"):
                self.limits.awaits_whole = True
            return
        self.decoder = whole = WholeBody(self.backend, status, headers)
        if whole.is_error:
            self.limits.hurry()
        else:
            self.limits.ignore_silence()

    def feed(self, data: bytes) -> Iterable[list[Text | Reasoning]]:
        """Take bytes of the body and return their deltas, in lists.

        Between two lists, a driver checks whether the call was cancelled.
        """
        if self._decode is plain and len(data) <= self._room:
            return (self._take(data),)
        return self._feed(data)

    def _feed(self, data: bytes) -> Iterator[list[Text | Reasoning]]:
        if self._decode is None:
            encoding = encoding_of(self.received, data)
            if encoding is None:
                self._failure = UNREADABLE
                return
            self._decode = in_utf8(self._content_type, encoding)
        try:
            for piece in self._decode(data):
                yield self._take_by_room(piece)
                if not self.goes_on:
                    return
        except Unreadable:
            self._failure = UNREADABLE

    def _by_wire(self, read: Callable[[A], T], argument: A) -> T:
        """Let the wire read something.

        If it raises, that is a bug, perhaps in a wire of the caller's own: the error ends the call,
        and a note on it names the wire.
        """
        try:
            return read(argument)
        except Exception as error:
            kind = type(self.backend)
            error.add_note(
                f"The wire {kind.__module__}.{kind.__qualname__} raised this. Reading must not "
                'raise: a body that a wire cannot read is a Failure("malformed").'
            )
            raise

    def _take_by_room(self, piece: bytes) -> list[Text | Reasoning]:
        """Take a piece in parts, each so small that it exceeds the cap by little only."""
        deltas: list[Text | Reasoning] = []
        start = 0
        while start < len(piece) and not (self._overran or self._failure or self.is_finished):
            end = start + self._room
            deltas += self._take(piece[start:end])
            start = end
        return deltas

    def _take(self, piece: bytes) -> list[Text | Reasoning]:
        """Take a piece, and note whether it has content, shown in deltas or not."""
        decoder = self.decoder
        assert decoder is not None
        deltas = self._by_wire(decoder.feed, piece)
        self._size += len(piece)
        if decoder.unshown > self._unshown:
            self._unshown = decoder.unshown
            self._has_content = True
        for delta in deltas:
            if delta.text:
                self._has_content = True
                if self.watch is not None and self.watch.has_text(delta):
                    self.watch = None
                    self.limits.has_text = True
        if self._has_content and self.first_token is None:
            self.first_token = self.clock() - self.began
        if self._size > self.largest // _DENSEST and not decoder.finished:
            most = self.largest
            if not isinstance(decoder, WholeBody):
                most *= OVERHEAD
            if self._size > most or decoder.size > self.largest:
                self._failure = TOO_LARGE
        if self._cap is not None:
            self._measure(decoder, deltas)
        return deltas

    def _measure(self, decoder: Decoder, deltas: list[Text | Reasoning]) -> None:
        """Count tokens against the cap.

        They are those of the reply, shown or not, or those that the provider wrote beside it,
        whichever are more.
        """
        for delta in deltas:
            self._meter.feed(delta.text)
        shown = self._meter.least + decoder.unshown // BYTES_A_TOKEN
        beside = decoder.beside // BYTES_A_TOKEN
        self._least = max(shown, beside)
        self._is_unseen = beside > shown
        self._overran = is_beyond(self._least, self._cap)
        self._set_room()

    def _set_room(self) -> None:
        """Set how many bytes to decode at once. A token takes at least two."""
        if self._cap is not None:
            self._room = min(PIECE, max(LEAST_TAKEN, 2 * (self._cap - self._least)))

    def fail(self, error: Exception) -> None:
        """Turn an error of reading or writing into a failure.

        Any other error is a bug, and raised again.
        """
        failure = classify_exception(error, self._outer)
        if isinstance(error, StaleConnection):
            failure = evolve(failure, is_stale=True)
        drop_frames(error, self._outer)
        with suppress(Exception):
            error.request.headers.clear()  # type: ignore[attr-defined] # httpx keeps the whole request on its errors
        limits = self.limits
        # A client of the caller's may reach its own read timeout before ours.
        is_unread = any(kind.__name__ == "ReadTimeout" for kind in type(error).__mro__)
        # Ask the clocks first: a socket that we shut down because the time was up reports a broken
        # connection.
        if limits.is_over:
            self._failure = Failure("timeout", exception=error)
        elif limits.is_silent or (is_unread and limits.silent_at != math.inf):
            self._fall_silent(error)
        else:
            self._failure = failure
        if limits.proxy and self._failure is not None:
            found = self._failure.found or "no answer"
            self._failure = evolve(self._failure, found=f"{found} (proxy {limits.proxy})")

    def _fall_silent(self, error: Exception | None = None) -> None:
        """End the attempt as silent.

        That of an error response keeps its status, and what came of its body.
        """
        self._failure = None
        if not (isinstance(self.decoder, WholeBody) and self.decoder.is_error):
            self._failure = Failure("silence", exception=error)

    @property
    def is_finished(self) -> bool:
        """Tell whether the terminal event has come."""
        return self.decoder is not None and self.decoder.finished

    @property
    def _has_lost_end(self) -> bool:
        """Tell whether a stream broke off, even if behind its finish reason.

        Its usage may come only after that.
        """
        decoder = self.decoder
        if decoder is None or decoder.is_stream is False:
            return False
        return not decoder.finished or decoder.was_stopped

    @property
    def goes_on(self) -> bool:
        """Tell whether to read more of the body, and update the clock of silence.

        A driver asks this after its consumer has taken the deltas: the consumer's time is not the
        provider's.
        """
        decoder = self.decoder
        if (decoder is not None and decoder.finished) or self._overran:
            return False
        now = time.monotonic()
        limits = self.limits
        if now >= limits.ends_at:
            self._failure = Failure("timeout")
            return False
        if limits.awaits_whole and decoder is not None and decoder.is_stream:
            limits.awaits_whole = False  # despite its content type
        if self._has_content:
            self._has_content = False
            limits.hear(now)
        elif now >= limits.silent_at:
            self._fall_silent()
            return False
        return self._failure is None

    def reply(self) -> Reply | Failure:
        """Return the reply or the failure."""
        if self.decoder is None:
            return self._failure or Failure("connection")
        reply = self._by_wire(self.decoder.close, self._failure)
        if self._send is not None:
            learn_from(self.backend, self._send, reply)
        if isinstance(reply, Failure):
            return reply
        is_uncounted = reply.usage.estimated or not reply.usage.output_tokens
        if is_uncounted and (reply.interrupted or self._has_lost_end):
            reply = evolve(reply, usage=evolve(reply.usage, lost=True))
        if self._overran and self._is_unseen:
            # The reply does not show these tokens, so our count replaces what the provider did not
            # report.
            tokens = max(reply.usage.output_tokens, self._least)
            reply = evolve(reply, usage=evolve(reply.usage, output_tokens=tokens, estimated=False))
        seems_whole = self._overran and self._has_lost_end and reply.stop_reason in _SOUND
        if self._overran and (reply.interrupted or seems_whole) and reply.failure is None:
            # We cut it at the cap, as the provider should have, whatever each of its pieces said.
            return evolve(reply, interrupted=False, halted=True, stop_reason="length")
        return self.limits.mark(reply)
