"""The synchronous driver: it waits, sends and reads for a call, and decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from attrs import field, frozen

from rungwise.adapters.backend import Backend, HttpRequest
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.deadlines import AttemptLimits
from rungwise.adapters.http.exchange import LARGEST_REPLY, Exchange, needs_fresh, partial
from rungwise.adapters.http.waiting import CallEnded, seconds_until, when_late
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.delivery import StreamEvent
from rungwise.fsm.call.overrides import waits_are_off
from rungwise.fsm.call.policy import Timeouts
from rungwise.fsm.call.request import Message, Send
from rungwise.fsm.call.result import Result
from rungwise.fsm.values.frozen_map import thawed

Compactor = Callable[[tuple[Message, ...]], Sequence[Message]]


class Response(Protocol):
    """Hold the head of a response, and read its body."""

    status_code: int
    headers: Mapping[str, str]

    def pieces(self) -> tuple[Iterator[bytes], bool]:
        """Read the body as it comes, and tell whether its encoding was taken off."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class Http(Protocol):
    """Send requests, over our own connections or over a client that was passed in."""

    def place(self, seconds: float | None, cancellation: Cancellation) -> AbstractContextManager[bool]:
        """Hold a place among the connections, and tell whether there was one in time."""
        ...

    def send(self, request: HttpRequest, limits: AttemptLimits) -> Response:
        """Send a request."""
        ...


@frozen
class SyncDriver:
    """Run calls over HTTP.

    Arguments:
        http: what sends requests.
        chain: the backends, in the order of the call's chain.
        timeouts: the limits of one attempt.
        clock: returns seconds on a clock that only goes forward.
        sleep: waits for seconds; None for a real wait that a cancellation ends.
        compactor: makes messages shorter, or None.
        cancellation: ends the call from outside.
        largest_reply: the bytes of a reply after which no more of it is read.
    """

    http: Http
    chain: tuple[Backend, ...]
    timeouts: Timeouts
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] | None = None
    compactor: Compactor | None = None
    cancellation: Cancellation = field(factory=Cancellation)
    largest_reply: int = LARGEST_REPLY

    def run(self, call: Call) -> Result:
        """Run a call to its end."""
        for _ in self.stream(call):
            pass
        return call.result

    def stream(self, call: Call) -> Iterator[StreamEvent]:
        """Run a call to its end and hand out what it says meanwhile; a call that does not stream says nothing."""
        exchange, is_fresh = None, False
        try:
            send = call.begin(self.clock())
            while send is not None:
                self._make_ready(call, send)
                # It is other calls that are waited for, not the backend: no limit on an attempt counts here.
                seconds = seconds_until(send.deadline, self.clock())
                with self.http.place(seconds, self.cancellation) as has_place:
                    now = self.clock()
                    send = call.sending(now if has_place else when_late(send.deadline, now))
                    if send is None:
                        break
                    yield from call.drain()
                    limits = self._limits(send, call.is_streaming, is_fresh)
                    exchange = Exchange(self.chain[send.backend], limits, call.is_streaming, self.largest_reply)
                    yield from self._exchange(exchange, send, call)
                reply = exchange.reply()
                send, is_fresh = call.receive(reply, self.clock()), needs_fresh(reply, is_fresh)
                exchange = None
                yield from call.drain()
        except CallEnded:
            call.cancel(self.clock(), partial(exchange))
        except BaseException as error:
            error.result = call.cancel(self.clock(), partial(exchange))  # type: ignore[attr-defined]
            raise
        yield from call.drain()

    def _exchange(self, exchange: Exchange, send: Send, call: Call) -> Iterator[StreamEvent]:
        """Send one request and hand out the reply as it comes."""
        response = None
        try:
            response = self.http.send(exchange.encode(send), exchange.limits)
            chunks, is_decoded = response.pieces()
            exchange.begin(response.status_code, response.headers, is_decoded=is_decoded)
            for data in chunks:
                for deltas in exchange.feed(data):
                    for delta in deltas:
                        yield from call.hear(delta)
                    self._check()
                if not exchange.goes_on:
                    break
            if exchange.is_finished:
                # The end of the body is on its way; once it is read, the connection can serve the next request.
                exchange.limits.linger()
                with suppress(Exception):
                    next(chunks, None)
        except Exception as error:
            exchange.fail(error)
        finally:
            if response is not None:
                response.close()
        self._check()

    def _make_ready(self, call: Call, send: Send) -> None:
        """Wait and compact as the rung asks."""
        if send.wait > 0 and not waits_are_off():
            if self.sleep is not None:
                self.sleep(send.wait)
            else:
                self.cancellation.wait(send.wait)
        self._check()
        if send.needs_compaction and self.compactor is not None:
            call.compacted(self.compactor(thawed(send.messages)))  # its own copy, to change as it likes
            self._check()

    def _check(self) -> None:
        if self.cancellation.is_cancelled:
            raise CallEnded

    def _limits(self, send: Send, stream: bool, is_fresh: bool) -> AttemptLimits:
        return AttemptLimits.of(
            send, self.timeouts, self.clock(), stream=stream, cancellation=self.cancellation, is_fresh=is_fresh
        )
