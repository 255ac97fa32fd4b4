"""The asynchronous driver: the same page as the synchronous one, on any event loop that anyio knows."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint
from attrs import field, frozen

from rungwise.adapters.backend import Backend, HttpRequest
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.deadlines import AttemptLimits
from rungwise.adapters.http.exchange import LARGEST_REPLY, Exchange, needs_fresh, partial
from rungwise.adapters.http.sync_driver import Compactor
from rungwise.adapters.http.waiting import CallEnded, seconds_until, when_late, within
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.delivery import StreamEvent
from rungwise.fsm.call.overrides import waits_are_off
from rungwise.fsm.call.policy import Timeouts
from rungwise.fsm.call.request import Message, Send
from rungwise.fsm.call.result import Result
from rungwise.fsm.values.frozen_map import thawed

AsyncCompactor = Callable[[tuple[Message, ...]], Awaitable[Sequence[Message]]]


class AsyncResponse(Protocol):
    """Hold the head of a response, and read its body."""

    status_code: int
    headers: Mapping[str, str]

    def apieces(self) -> tuple[AsyncIterator[bytes], bool]:
        """Read the body as it comes, and tell whether its encoding was taken off."""
        ...

    async def aclose(self) -> None:
        """Let go of the connection."""
        ...


class AsyncHttp(Protocol):
    """Send requests, over our own connections or over a client that was passed in."""

    def place(self, seconds: float | None, cancellation: Cancellation) -> AbstractAsyncContextManager[bool]:
        """Hold a place among the connections, and tell whether there was one in time."""
        ...

    async def send(self, request: HttpRequest, limits: AttemptLimits) -> AsyncResponse:
        """Send a request."""
        ...


@frozen
class AsyncDriver:
    """Run calls over HTTP in an event loop; the arguments are those of `SyncDriver`.

    A cancelled task ends its call: the connection is closed, the journal says `cancelled`, and the exception goes on
    with the result in its `result` attribute.
    """

    http: AsyncHttp
    chain: tuple[Backend, ...]
    timeouts: Timeouts
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep
    compactor: Compactor | AsyncCompactor | None = None
    cancellation: Cancellation = field(factory=Cancellation)
    largest_reply: int = LARGEST_REPLY

    async def run(self, call: Call) -> Result:
        """Run a call to its end."""
        async for _ in self.stream(call):
            pass
        return call.result

    async def stream(self, call: Call) -> AsyncGenerator[StreamEvent, None]:
        """Run a call to its end and hand out what it says meanwhile; a call that does not stream says nothing."""
        exchange, is_fresh = None, False
        try:
            send = call.begin(self.clock())
            while send is not None:
                if not await self._make_ready(call, send):
                    call.sending(when_late(send.deadline, self.clock()))
                    break
                # It is other calls that are waited for, not the backend: no limit on an attempt counts here.
                seconds = seconds_until(send.deadline, self.clock())
                async with self.http.place(seconds, self.cancellation) as has_place:
                    now = self.clock()
                    send = call.sending(now if has_place else when_late(send.deadline, now))
                    if send is None:
                        break
                    for event in call.drain():
                        yield event
                    limits = self._limits(send, call.is_streaming, is_fresh)
                    exchange = Exchange(self.chain[send.backend], limits, call.is_streaming, self.largest_reply)
                    async with aclosing(self._exchange(exchange, send, call)) as events:
                        async for event in events:
                            yield event
                reply = exchange.reply()
                send, is_fresh = call.receive(reply, self.clock()), needs_fresh(reply, is_fresh)
                exchange = None
                for event in call.drain():
                    yield event
        except CallEnded:
            call.cancel(self.clock(), partial(exchange))
        except BaseException as error:
            error.result = call.cancel(self.clock(), partial(exchange))  # type: ignore[attr-defined]
            raise
        for event in call.drain():
            yield event

    async def _exchange(self, exchange: Exchange, send: Send, call: Call) -> AsyncGenerator[StreamEvent, None]:
        """Send one request and hand out the reply as it comes."""
        response = None
        try:
            response = await self.http.send(exchange.encode(send), exchange.limits)
            chunks, is_decoded = response.apieces()
            exchange.begin(response.status_code, response.headers, is_decoded=is_decoded)
            async for data in chunks:
                for number, deltas in enumerate(exchange.feed(data)):
                    if number:
                        await self._let_others_run()
                    for delta in deltas:
                        for event in call.hear(delta):
                            yield event
                if not exchange.goes_on:
                    break
            if exchange.is_finished:
                # The end of the body is on its way; once it is read, the connection can serve the next request.
                exchange.limits.linger()
                with suppress(Exception):
                    await anext(chunks, None)
        except Exception as error:
            exchange.fail(error)
        finally:
            if response is not None:
                with anyio.CancelScope(shield=True):
                    await response.aclose()

    async def _let_others_run(self) -> None:
        await checkpoint()
        if self.cancellation.is_cancelled:
            raise CallEnded

    async def _make_ready(self, call: Call, send: Send) -> bool:
        """Wait and compact as the rung asks, and tell whether that was done in time."""
        if send.wait > 0 and not waits_are_off():
            await within(None, self.sleep, send.wait, cancellation=self.cancellation)
        if send.needs_compaction and self.compactor is not None and not await self._compact(self.compactor, call, send):
            return False
        if self.cancellation.is_cancelled:
            raise CallEnded
        return True

    async def _compact(self, compactor: Compactor | AsyncCompactor, call: Call, send: Send) -> bool:
        """Have the messages shortened, and tell whether that was done in time; a coroutine is ended when it is up."""
        own_timeout: TimeoutError | None = None

        async def shorten() -> Sequence[Message]:
            nonlocal own_timeout
            try:
                compacted = compactor(thawed(send.messages))  # its own copy, to change as it likes
                return await compacted if isinstance(compacted, Awaitable) else compacted
            except TimeoutError as error:
                own_timeout = error
                raise

        try:
            seconds = seconds_until(send.deadline, self.clock())
            call.compacted(await within(seconds, shorten, cancellation=self.cancellation))
        except TimeoutError:
            if own_timeout is not None:
                raise
            return False
        return True

    def _limits(self, send: Send, stream: bool, is_fresh: bool) -> AttemptLimits:
        return AttemptLimits.of(
            send, self.timeouts, self.clock(), stream=stream, cancellation=self.cancellation, is_fresh=is_fresh
        )
