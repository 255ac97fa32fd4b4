"""The driver of durable calls: what the asynchronous one does, with each attempt recorded before it is sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from attrs import frozen

from rungwise.adapters.http.async_driver import AsyncDriver
from rungwise.adapters.http.exchange import Exchange
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.run.delivery import StreamEvent


@frozen
class DurableDriver(AsyncDriver):
    """Run a call over HTTP, and save its tape where a crash would lose something."""

    save: Callable[[], Awaitable[None]]  # writes what is new on the tape

    async def _make_ready(self, call: Call, send: Send) -> bool:
        if call.last is not None:  # or nothing has come yet that could be lost in a wait
            await self.save()
        return await super()._make_ready(call, send)

    async def _exchange(self, exchange: Exchange, send: Send, call: Call) -> AsyncGenerator[StreamEvent, None]:
        await self.save()
        async with aclosing(super()._exchange(exchange, send, call)) as events:
            async for event in events:
                yield event
