"""The synchronous driver: waits, sends and reads for a call. The call makes every decision."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from attrs import frozen

from rungwise.adapters.http.borrowed import BorrowedHttp
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.deadline import Deadline
from rungwise.adapters.http.driver import Driver, needs_fresh, partial
from rungwise.adapters.http.exchange import Exchange
from rungwise.adapters.http.own import OwnHttp
from rungwise.adapters.http.waiting import CallEnded, check, run, until_set
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.plain import plain_messages
from rungwise.fsm.call.conversation.request import PlainMessage, Send
from rungwise.fsm.call.conversation.verdict import Finding, Judged
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.overrides import waits_are_off
from rungwise.fsm.call.run.result import Result

Compactor = Callable[[tuple[PlainMessage, ...]], Sequence[PlainMessage | Message]]


class SyncVerdicts(Protocol):
    """What calls the verdicts of a call."""

    def found(self, judged: Judged, cancellation: Cancellation, deadline: Deadline) -> Finding:
        """Call those of a reply."""

    def close(self) -> None:
        """End what runs for them."""


@frozen
class SyncDriver(Driver):
    """Run calls over HTTP."""

    http: OwnHttp | BorrowedHttp
    sleep: Callable[[float], object] | None  # waits for seconds; None waits in real time until the call is cancelled
    compactor: Compactor | None  # makes messages shorter, or None
    verdicts: SyncVerdicts  # calls the verdicts

    def run(self, call: Call) -> Result:
        """Run a call to its end."""
        for _ in self.stream(call):
            pass
        return call.result

    def stream(self, call: Call) -> Generator[StreamEvent]:
        """Run a call to its end and yield its events; a call that does not stream has none."""
        exchange, is_fresh = None, False
        try:
            send = call.begin(self.clock())
            while send is not None:
                self._make_ready(call, send)
                if call.is_shared and not self._reserve(call, send):
                    call.sending(self.when_late(send))
                    break
                # This waits for other calls, not for the backend, so no limit of an attempt counts here.
                with self.http.place(self.seconds_left(send), self.cancellation) as has_place:
                    send = call.sending(self.clock() if has_place else self.when_late(send))
                    if send is None:
                        break
                    yield from call.drain()
                    exchange = self.exchange(send, call, is_fresh=is_fresh)
                    yield from self._exchange(exchange, send, call)
                reply = exchange.reply()
                finding = None
                if (judged := call.judging(reply)) is not None:
                    finding = self.verdicts.found(judged, self.cancellation, self.deadline(send))
                send, is_fresh = call.receive(reply, self.clock(), finding), needs_fresh(reply, is_fresh)
                exchange = None
                yield from call.drain()
        except CallEnded:
            call.cancel(self.clock(), partial(exchange))
        except BaseException as error:
            error.result = call.cancel(self.clock(), partial(exchange))  # type: ignore[attr-defined]
            raise
        finally:
            self.verdicts.close()
        yield from call.drain()

    def _exchange(self, exchange: Exchange, send: Send, call: Call) -> Iterator[StreamEvent]:
        """Send one request and yield the reply as it comes."""
        response, is_heard = None, call.is_streaming
        try:
            response = self.http.send(exchange.encode(send), exchange.limits)
            chunks = response.pieces()
            exchange.begin(response.status_code, response.headers, is_decoded=response.is_decoded)
            for data in chunks:
                for deltas in exchange.feed(data):
                    for delta in deltas if is_heard else ():
                        yield from call.hear(delta)
                    check(self.cancellation)
                if not exchange.goes_on:
                    break
            if exchange.is_finished:
                # Read the end of the body, which is on its way, so that the connection can serve the next request.
                exchange.limits.linger()
                with suppress(Exception):
                    next(chunks, None)
        except Exception as error:
            exchange.fail(error)
        finally:
            if response is not None:
                response.close()
        check(self.cancellation)

    def _reserve(self, call: Call, send: Send) -> bool:
        """Wait until other calls settle with a shared budget, and tell whether they did in time. Holds no place."""
        woken = threading.Event()
        if call.reserve(woken.set, self.clock()):
            return True
        return run(until_set(woken, self.seconds_left(send)), self.cancellation)

    def _make_ready(self, call: Call, send: Send) -> None:
        """Wait and compact as the rung asks."""
        if send.wait > 0 and not waits_are_off():
            (self.sleep or self.cancellation.wait)(send.wait)
        check(self.cancellation)
        if send.needs_compaction and self.compactor is not None:
            with self.deadline(send).around():
                shorter = self.compactor(tuple(plain_messages(send.messages)))  # a copy, which it may change
            call.compacted(shorter, self.clock())
            check(self.cancellation)
