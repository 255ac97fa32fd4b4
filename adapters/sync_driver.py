"""The synchronous driver: it waits, sends and reads for a call, and decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from attrs import frozen

from adapters.backend import Backend
from adapters.cancellation import Cancellation
from adapters.encodings import comes_decoded
from adapters.exchange import LARGEST_REPLY, Exchange, partial, send_options
from adapters.limits import AttemptLimits
from adapters.sockets import CallEnded, breaker_of, limited
from fsm.call import Call, StreamEvent
from fsm.frozen_map import thawed
from fsm.pacing import waits_are_off
from fsm.policy import Timeouts
from fsm.request import Message, Send
from fsm.result import Result

Compactor = Callable[[tuple[Message, ...]], Sequence[Message]]


class Response(Protocol):
    """What is used of an httpx response, so that another client of the same shape works as well."""

    status_code: int
    headers: Mapping[str, str]
    extensions: Mapping[str, Any]

    def iter_raw(self) -> Iterator[bytes]:
        """Read the body as it comes, its encoding still on it."""
        ...

    def iter_bytes(self) -> Iterator[bytes]:
        """Read a body that has come already, its encoding taken off."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class HttpClient(Protocol):
    """What is used of an `httpx.Client`."""

    def build_request(
        self, method: str, url: Any, *, content: Any = None, headers: Any = None, extensions: Any = None
    ) -> Any:
        """Build a request."""
        ...

    def send(self, request: Any, *, stream: bool = False) -> Any:
        """Send it; a client that follows redirects is told not to, by `follow_redirects=False`."""
        ...


@frozen
class SyncDriver:
    """Run calls over an httpx client.

    Arguments:
        http: the client; it is neither closed nor changed.
        chain: the backends, in the order of the call's chain.
        timeouts: the limits of one attempt.
        clock: returns seconds on a clock that only goes forward.
        sleep: waits for seconds; None for a real wait that a cancellation ends.
        compactor: makes messages shorter, or None.
        cancellation: ends the call from outside, or None.
        largest_reply: the bytes of a reply after which no more of it is read.
    """

    http: HttpClient
    chain: tuple[Backend, ...]
    timeouts: Timeouts
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] | None = None
    compactor: Compactor | None = None
    cancellation: Cancellation | None = None
    largest_reply: int = LARGEST_REPLY

    def run(self, call: Call) -> Result:
        """Run a call to its end."""
        for _ in self.stream(call):
            pass
        return call.result

    def stream(self, call: Call) -> Iterator[StreamEvent]:
        """Run a call to its end and hand out what it says meanwhile; a call that does not stream says nothing."""
        exchange = None
        try:
            send = call.begin(self.clock())
            while send is not None and self._ready(call, send):
                yield from call.drain()
                limits = self._limits(send, call.is_streaming)
                exchange = Exchange(self.chain[send.backend], limits, call.is_streaming, self.largest_reply)
                yield from self._exchange(exchange, send, call)
                send = call.receive(exchange.reply(), self.clock())
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
        response, breaker = None, None
        try:
            response = self._open(exchange, send)
            breaker = breaker_of(response, exchange.limits, self.cancellation)
            is_decoded = comes_decoded(response)
            exchange.begin(response.status_code, response.headers, is_decoded=is_decoded)
            chunks = response.iter_bytes() if is_decoded else response.iter_raw()
            breaker.tick()
            for data in chunks:
                for delta in exchange.feed(data):
                    yield from call.hear(delta)
                self._check()
                if not exchange.goes_on:
                    break
                breaker.tick()
            if exchange.is_finished:
                # The end of the body is on its way; once it is read, the connection can serve the next request.
                exchange.limits.linger()
                breaker.hurry()
                with suppress(Exception):
                    next(chunks, None)
        except Exception as error:
            exchange.fail(error)
        finally:
            if breaker is not None:
                breaker.close()
            if response is not None:
                response.close()
        self._check()

    def _ready(self, call: Call, send: Send) -> bool:
        """Wait and compact as the rung asks; tell whether the request may still go out."""
        if send.wait > 0 and not waits_are_off():
            self._wait(send.wait)
        self._check()
        if send.needs_compaction and self.compactor is not None:
            call.compacted(self.compactor(thawed(send.messages)))  # its own copy, to change as it likes
            self._check()
        return call.sending(self.clock())

    def _check(self) -> None:
        if self.cancellation is not None and self.cancellation.is_cancelled:
            raise CallEnded

    def _wait(self, seconds: float) -> None:
        if self.sleep is not None:
            self.sleep(seconds)
        elif self.cancellation is not None:
            self.cancellation.wait(seconds)
        else:
            time.sleep(seconds)

    def _limits(self, send: Send, stream: bool) -> AttemptLimits:
        token = self.cancellation
        is_cancelled = None if token is None else lambda: token.is_cancelled
        return AttemptLimits.of(send, self.timeouts, self.clock(), stream=stream, is_cancelled=is_cancelled)

    def _open(self, exchange: Exchange, send: Send) -> Response:
        encoded, limits = exchange.encode(send), exchange.limits
        timeout = limits.timeout_extension()
        request = self.http.build_request(
            encoded.method, encoded.url, content=encoded.body, headers=encoded.headers, extensions={"timeout": timeout}
        )
        with limited(limits):
            response: Response = self.http.send(request, stream=True, **send_options(self.http))
        # The body is read under the same mapping, so this is the limit between bytes from now on.
        timeout["read"] = limits.within(limits.idle)
        return response
