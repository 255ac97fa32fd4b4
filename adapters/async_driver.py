"""The asynchronous driver: the same page as the synchronous one, on any event loop that anyio knows."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import anyio
from attrs import frozen

from adapters.backend import Backend
from adapters.encodings import comes_decoded
from adapters.exchange import LARGEST_REPLY, Exchange, partial, send_options
from adapters.limits import AttemptLimits
from adapters.sync_driver import Compactor
from fsm.call import Call, StreamEvent
from fsm.frozen_map import thawed
from fsm.pacing import waits_are_off
from fsm.policy import Timeouts
from fsm.request import Message, Send
from fsm.result import Result

AsyncCompactor = Callable[[tuple[Message, ...]], Awaitable[Sequence[Message]]]


class AsyncHttpClient(Protocol):
    """What is used of an `httpx.AsyncClient`."""

    def build_request(
        self, method: str, url: Any, *, content: Any = None, headers: Any = None, extensions: Any = None
    ) -> Any:
        """Build a request."""
        ...

    async def send(self, request: Any, *, stream: bool = False) -> Any:
        """Send it."""
        ...


@frozen
class AsyncDriver:
    """Run calls over an asynchronous httpx client; the arguments are those of `SyncDriver`.

    A cancelled task ends its call: the connection is closed, the journal says `cancelled`, and the exception goes on
    with the result in its `result` attribute.
    """

    http: AsyncHttpClient
    chain: tuple[Backend, ...]
    timeouts: Timeouts
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep
    compactor: Compactor | AsyncCompactor | None = None
    largest_reply: int = LARGEST_REPLY

    async def run(self, call: Call) -> Result:
        """Run a call to its end."""
        async for _ in self.stream(call):
            pass
        return call.result

    async def stream(self, call: Call) -> AsyncGenerator[StreamEvent, None]:
        """Run a call to its end and hand out what it says meanwhile; a call that does not stream says nothing."""
        exchange = None
        try:
            send = call.begin(self.clock())
            while send is not None and await self._ready(call, send):
                for event in call.drain():
                    yield event
                limits = AttemptLimits.of(send, self.timeouts, self.clock(), stream=call.is_streaming)
                exchange = Exchange(self.chain[send.backend], limits, call.is_streaming, self.largest_reply)
                response = None
                try:
                    response = await self._open(exchange, send)
                    is_decoded = comes_decoded(response)
                    exchange.begin(response.status_code, response.headers, is_decoded=is_decoded)
                    chunks = response.aiter_bytes() if is_decoded else response.aiter_raw()
                    while exchange.goes_on and (data := await _next(chunks, limits)) is not None:
                        for delta in exchange.feed(data):
                            for event in call.hear(delta):
                                yield event
                    if exchange.is_finished:
                        # The end of the body is on its way; once read, the connection can serve the next request.
                        limits.linger()
                        with suppress(Exception):
                            await _next(chunks, limits)
                except Exception as error:
                    exchange.fail(error)
                finally:
                    if response is not None:
                        with anyio.CancelScope(shield=True):
                            await response.aclose()
                send = call.receive(exchange.reply(), self.clock())
                exchange = None
                for event in call.drain():
                    yield event
        except BaseException as error:
            error.result = call.cancel(self.clock(), partial(exchange))  # type: ignore[attr-defined]
            raise
        for event in call.drain():
            yield event

    async def _ready(self, call: Call, send: Send) -> bool:
        """Wait and compact as the rung asks; tell whether the request may still go out."""
        if send.wait > 0 and not waits_are_off():
            await self.sleep(send.wait)
        if send.needs_compaction and self.compactor is not None:
            compacted = self.compactor(thawed(send.messages))  # its own copy, to change as it likes
            call.compacted(await compacted if isinstance(compacted, Awaitable) else compacted)
        return call.sending(self.clock())

    async def _open(self, exchange: Exchange, send: Send) -> Any:
        encoded, limits = exchange.encode(send), exchange.limits
        timeout = limits.timeout_extension()
        request = self.http.build_request(
            encoded.method, encoded.url, content=encoded.body, headers=encoded.headers, extensions={"timeout": timeout}
        )
        with anyio.fail_after(limits.left):
            response = await self.http.send(request, stream=True, **send_options(self.http))
        # The body is read under the same mapping, so this is the limit between bytes from now on.
        timeout["read"] = limits.within(limits.idle)
        return response


async def _next(chunks: AsyncIterator[bytes], limits: AttemptLimits) -> bytes | None:
    """Read more of a body, for as long as the attempt may go on; None at its end."""
    left = limits.left
    if left is None or left > limits.idle:
        return await anext(chunks, None)  # httpx's own timeout comes first
    with anyio.fail_after(left):
        return await anext(chunks, None)
