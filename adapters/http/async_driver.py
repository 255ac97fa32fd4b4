"""The asynchronous driver. It does what the synchronous one does, on asyncio and trio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from attrs import frozen

from rungwise.adapters.http.background import GIVING_UP, BackgroundExchange, given_up_limits
from rungwise.adapters.http.borrowed import BorrowedAsyncHttp
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.deadline import Deadline
from rungwise.adapters.http.exchange import Exchange
from rungwise.adapters.http.own import OwnAsyncHttp, OwnResponse
from rungwise.adapters.http.sync_driver import Compactor, Driver, needs_fresh, partial, seen_of
from rungwise.adapters.http.waiting import CallEnded, WakeUp, check, within
from rungwise.adapters.stores.sharing import ALONE, Keyed, asked_of, must_ask
from rungwise.adapters.wires.backend import Backend
from rungwise.adapters.wires.endpoint import asking_for_key
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.observation import Finding, Judged
from rungwise.fsm.call.conversation.plain import plain_messages
from rungwise.fsm.call.conversation.request import PlainMessage, Send
from rungwise.fsm.call.overrides import waits_are_off
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.call.table import REATTACH
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.replies.reply import Reply

AsyncCompactor = Callable[[tuple[PlainMessage, ...]], Awaitable[Sequence[PlainMessage | Message]]]


@frozen
class AsyncDriver(Driver):
    """Run calls over HTTP in an event loop.

    If its task is cancelled, the call ends as `cancelled`, and the exception carries its result in
    `error.result`.
    """

    http: OwnAsyncHttp | BorrowedAsyncHttp
    sleep: Callable[[float], Awaitable[object]]  # waits for seconds
    compactor: Compactor | AsyncCompactor | None  # makes messages shorter, or None
    found: Callable[[Judged, Cancellation, Deadline], Awaitable[Finding]]  # calls the verdicts

    async def run(self, call: Call) -> Result:
        """Run a call to its end."""
        async for _ in self.stream(call):
            pass
        return call.result

    # In what follows, `exchange` is the attempt in flight, and `last` is that or the one before,
    # whose provider may go on with its reply. `place` waits for other calls, not for the backend:
    # no limit of an attempt counts. Before an attempt goes out, `last` is given up if the reattach
    # that was meant for it has led elsewhere.
    async def stream(self, call: Call) -> AsyncGenerator[StreamEvent, None]:
        """Run a call to its end and yield its events; a call that does not stream has none."""
        exchange = keyed = None
        last = self._left_by(call)
        is_fresh = False
        sharing = ALONE if self.shared is None else self.shared.of_call(self.chain)
        try:
            call.journal.started = call.journal.started or self.deadlines.wall_clock()
            send = call.begin(self.clock(), self.throttle)
            while send is not None:
                is_ready = await self._make_ready(call, send)
                asked = asked_of(self.chain, call.place)
                if is_ready and must_ask(asked, keyed):
                    keyed = await self._ask_key(asked, send)
                if is_ready and call.spending.share is not None:
                    is_ready = await self._reserve(call, send)
                if not is_ready:
                    call.sending(self.when_late(send))
                    break
                async with self.http.place(self.seconds_left(send), self.cancellation) as has_place:
                    if has_place:
                        admitted = await sharing.aadmit(call, send, keyed)
                        if admitted is not send:
                            send = admitted
                            continue
                    now = self.clock() if has_place else self.when_late(send)
                    send = call.sending(now, sharing.waited)
                    if send is None:
                        break
                    sharing.sent(send)
                    if last is not None and last.has_rest and send.rung != REATTACH.name:
                        await self._give_up(last)
                    for event in call.drain():
                        yield event
                    last = exchange = self.exchange(send, call, keyed, last, is_fresh=is_fresh)
                    follow = self._in_background if exchange.polls else self._exchange
                    async with aclosing(follow(exchange, send, call)) as events:
                        async for event in events:
                            yield event
                keyed = None
                reply = exchange.reply()
                came = call.settle(reply)
                await sharing.asettle(seen_of(came, exchange), came, exchange.received)
                send = await self._receive(exchange, reply, send, call)
                is_fresh = needs_fresh(reply, is_fresh)
                exchange = None
                for event in call.drain():
                    yield event
        except CallEnded:
            call.cancel(self.clock(), partial(exchange))
        except BaseException as error:
            error.result = call.cancel(self.clock(), partial(exchange))  # type: ignore[attr-defined]
            raise
        finally:
            if last is not None and last.has_rest:
                await self._give_up(last)
            await sharing.asettle(None, None, {})
            call.let_go()
        for event in call.drain():
            yield event

    async def _exchange(
        self,
        exchange: Exchange,
        send: Send,
        call: Call,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Send the request, read the response, and yield the events of a stream."""
        response = None
        chunks = None
        try:
            asked = asked_of(self.chain, call.place)
            if exchange.keyed is None and asked.renews_key:  # the budget led elsewhere
                exchange.keyed = (await self._ask_key(asked, send)).backend
            response = await self.http.send(exchange.encode(send), exchange.limits)
            chunks = self._pieces(response, exchange, call)
            exchange.begin(response.status_code, response.headers, is_decoded=response.is_decoded)
            async for data in chunks:
                for number, deltas in enumerate(exchange.feed(data)):
                    if number:
                        await checkpoint()  # other tasks run here, and may end the call
                        check(self.cancellation)
                    if call.is_streaming:
                        for delta in deltas:
                            for event in call.hear(delta):
                                yield event
                if not exchange.goes_on:
                    break
            if exchange.is_finished:
                # Read the end of the body, which is on its way, so that the connection can serve
                # the next request.
                exchange.limits.linger()
                with suppress(Exception):
                    await anext(chunks, None)
        except Exception as error:
            exchange.fail(error)
        finally:
            if chunks is not None and isinstance(response, OwnResponse):
                # Nothing waits here. An event loop would close it only after it was collected.
                await chunks.aclose()
                response.close()
            elif chunks is not None and response is not None:
                with anyio.CancelScope(shield=True):
                    await chunks.aclose()
                    await response.aclose()

    async def _in_background(
        self,
        exchange: Exchange,
        send: Send,
        call: Call,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Send the request of an attempt, and poll the reply until it is there."""
        assert isinstance(exchange, BackgroundExchange)
        while exchange.polls:
            if exchange.pause > 0 and not waits_are_off():
                await within(None, self.sleep, exchange.pause, cancellation=self.cancellation)
            async with aclosing(self._exchange(exchange, send, call)) as events:
                async for event in events:
                    yield event
            exchange.note_end()
            await self._note(exchange, call)

    def _left_by(self, call: Call) -> Exchange | None:
        """Return the attempt of another process, whose reply its provider goes on with."""
        return None

    def _pieces(self, response: Any, exchange: Exchange, call: Call) -> AsyncGenerator[bytes, None]:
        """Return the pieces of the body of a response."""
        pieces: AsyncGenerator[bytes, None] = response.apieces()
        return pieces

    async def _note(self, exchange: Exchange, call: Call) -> None:
        """Take note of what is known of an attempt in the background."""

    async def _give_up(self, exchange: Exchange) -> None:
        """Tell the provider that nobody wants a reply, if it may go on with it."""
        assert isinstance(exchange, BackgroundExchange)
        request = exchange.giving_up()
        if request is None:
            return
        with anyio.move_on_after(GIVING_UP, shield=True), suppress(Exception):
            response = await self.http.send(request, given_up_limits())
            if isinstance(response, OwnResponse):
                response.close()
            else:
                await response.aclose()

    async def _receive(
        self,
        exchange: Exchange,
        reply: Reply | Failure,
        send: Send,
        call: Call,
    ) -> Send | None:
        """Judge what came back, and return the next thing to send; None at the end.

        Arguments:
            exchange: the attempt.
            reply: what came back.
            send: what was sent.
            call: the call.
        """
        call.let_go()  # before anything of the caller's judges it, and may make calls too
        finding = await self._judge(call, reply, send)
        call.journal.first_token = exchange.first_token
        following = call.receive(reply, self.clock(), finding)
        if exchange.has_rest and (following is None or following.rung != REATTACH.name):
            await self._give_up(exchange)
        return following

    async def _judge(
        self,
        call: Call,
        reply: Reply | Failure,
        send: Send,
    ) -> Finding | None:
        """Return what the verdicts say of a reply; None if there is nothing to judge."""
        judged = call.judging(reply)
        if judged is None:
            return None
        return await self.found(judged, self.cancellation, self.deadline(send))

    async def _ask_key(
        self,
        backend: Backend,
        send: Send,
    ) -> Keyed:
        """Ask the function of a backend for its key."""
        seconds = self.seconds_left(send)
        try:
            keyed = await within(seconds, _with_key, backend, cancellation=self.cancellation)
            return Keyed(backend, keyed)
        except Exception as error:
            return Keyed(backend, error)

    async def _reserve(self, call: Call, send: Send) -> bool:
        """Wait until other calls settle with a shared budget; tell whether they did in time.

        The call holds no place meanwhile.
        """
        wake_up = WakeUp()
        if call.reserve(wake_up.call, self.clock()):
            return True
        return await wake_up.wait(self.seconds_left(send), self.cancellation)

    async def _make_ready(self, call: Call, send: Send) -> bool:
        """Wait and compact as the rung asks; return False if the time was up."""
        if send.wait > 0 and not waits_are_off():
            await within(None, self.sleep, send.wait, cancellation=self.cancellation)
        if send.needs_compaction and self.compactor is not None:
            is_compacted = await self._compact(self.compactor, call, send)
            if not is_compacted:
                return False
        check(self.cancellation)
        return True

    async def _compact(self, compactor: Compactor | AsyncCompactor, call: Call, send: Send) -> bool:
        """Call the compactor; return False if the time was up.

        A coroutine is cancelled then. A `TimeoutError` of the compactor's own is raised.
        """
        own_timeout: TimeoutError | None = None

        async def shorten() -> Sequence[PlainMessage | Message]:
            nonlocal own_timeout
            try:
                with self.deadline(send).around():
                    # a copy, which it may change
                    compacted = compactor(tuple(plain_messages(send.messages)))
                    if isinstance(compacted, Awaitable):
                        return await compacted
                    return compacted
            except TimeoutError as error:
                own_timeout = error
                raise

        try:
            shorter = await within(self.seconds_left(send), shorten, cancellation=self.cancellation)
        except TimeoutError:
            if own_timeout is not None:
                raise
            return False
        call.compacted(shorter, self.clock())
        return True


async def _with_key(backend: Any) -> Any:
    """Return a backend with the key that its function returns, or will return."""
    with asking_for_key():
        key = backend.api_key()
        if isinstance(key, Awaitable):
            key = await key
    return backend.with_key(key)
