"""The synchronous driver, and what it shares with the asynchronous one.

A driver waits, sends and reads for a call. The call makes every decision.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from attrs import frozen

from rungwise.adapters.http.background import BackgroundExchange, given_up_limits
from rungwise.adapters.http.borrowed import BorrowedHttp
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.deadline import Deadline, Deadlines
from rungwise.adapters.http.exchange import Exchange
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.own import OwnHttp
from rungwise.adapters.http.waiting import CallEnded, check, run, until_set
from rungwise.adapters.stores.sharing import ALONE, Keyed, Shared, asked_of, must_ask
from rungwise.adapters.wires.backend import Backend
from rungwise.adapters.wires.endpoint import asking_for_key
from rungwise.fsm.call.budget.throttle import RetryThrottle
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.observation import Finding, Judged, Observation
from rungwise.fsm.call.conversation.plain import plain_messages
from rungwise.fsm.call.conversation.request import PlainMessage, Send
from rungwise.fsm.call.overrides import waits_are_off
from rungwise.fsm.call.policy import Timeouts
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.call.table import REATTACH
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.replies.reply import Reply

LATE: Final = 0.001
"""Seconds after a deadline at which every clock shows that it has passed."""


@frozen(kw_only=True)
class Driver:
    """Hold what both drivers share."""

    chain: tuple[Backend, ...]  # the backends, in the order of the call's chain
    timeouts: Timeouts  # the limits of one attempt
    clock: Callable[[], float]  # returns seconds on a clock that only goes forward
    cancellation: Cancellation  # ends the call from outside
    largest_reply: int  # stop reading a reply after this many bytes
    # whether to stream from backends that can, even if the call itself is no stream
    stream_calls: bool
    deadlines: Deadlines  # the deadline header, and the time of day
    shared: Shared | None  # what calls share: health, quotas, budgets with names
    throttle: RetryThrottle | None  # limits the retries of all calls, or None

    def seconds_left(self, send: Send) -> float | None:
        """Return the seconds until the deadline, or None without one."""
        return None if send.deadline is None else max(send.deadline - self.clock(), 0.0)

    def deadline(self, send: Send) -> Deadline:
        """Return the deadline of calls within this one, such as those of its compactor."""
        return Deadline(self.clock, send.deadline)

    def when_late(self, send: Send) -> float:
        """Return the time after a wait until the deadline.

        It is past the deadline even if the clock does not show that yet.
        """
        now = self.clock()
        return now if send.deadline is None else max(now, send.deadline + LATE)

    def exchange(
        self,
        send: Send,
        call: Call,
        keyed: Keyed | None,
        last: Exchange | None,
        *,
        is_fresh: bool,
    ) -> Exchange:
        """Begin an attempt and start its clocks.

        Arguments:
            send: what the call sends.
            call: the call.
            keyed: the key that was asked for last.
            last: the attempt before, whose reply the provider may go on with.
            is_fresh: whether only a new connection will do.
        """
        backend = self.chain[send.backend]
        wants_stream = call.is_streaming or self.stream_calls
        streams = wants_stream and backend.streams and "stream" not in send.dropped
        clocks = call.clocks(streams=streams)
        now = self.clock()
        limits = AttemptLimits.of(
            send,
            self.timeouts,
            clocks,
            now,
            streams=streams,
            cancellation=self.cancellation,
            is_fresh=is_fresh,
        )
        watch = None
        if streams and clocks.before_text != clocks.after_text:
            watch = call.text_watch()
        headers = self.deadlines.headers(send.deadline)
        traced = call.headers
        if traced:
            headers = {**headers, **traced}
        with_key = None
        if keyed is not None and keyed.of is asked_of(self.chain, call.place):
            with_key = keyed.backend
        kind = BackgroundExchange if backend.background else Exchange
        exchange = kind(
            backend,
            limits,
            is_streaming=streams,
            largest=self.largest_reply,
            watch=watch,
            wall_clock=self.deadlines.wall_clock,
            own_headers=headers,
            clock=self.clock,
            began=now,
            keyed=with_key,
        )
        if send.rung == REATTACH.name and isinstance(exchange, BackgroundExchange):
            exchange.take_up(last)
        return exchange


def partial(exchange: Exchange | None) -> Reply | None:
    """Return the part of the reply that had arrived when the caller ended the call."""
    if exchange is None or exchange.decoder is None:
        return None
    # The error of a broken wire would hide the one that ended the call.
    with suppress(Exception):
        reply = exchange.decoder.close(Failure("connection"))
        if isinstance(reply, Reply):
            return reply
    return None


def seen_of(came: Observation, exchange: Exchange) -> Observation | None:
    """Return what an attempt has shown of its backend.

    It has shown nothing if the call ran out of time.
    """
    limits = exchange.limits
    return None if limits.by_call and limits.is_over else came


def needs_fresh(reply: Reply | Failure, has_needed: bool) -> bool:
    """Tell whether the next attempt needs a new connection.

    Arguments:
        reply: what came of this attempt.
        has_needed: whether this attempt needed one.
    """
    if not isinstance(reply, Failure):
        return False
    return reply.is_stale or (has_needed and reply.reason in ("connection", "unreachable"))


Compactor = Callable[[tuple[PlainMessage, ...]], Sequence[PlainMessage | Message]]


class SyncVerdicts(Protocol):
    """Call the verdicts of a call, which may run in threads."""

    def found(self, judged: Judged, cancellation: Cancellation, deadline: Deadline) -> Finding:
        """Return what the verdicts say of a reply."""

    def close(self) -> None:
        """End their threads."""


@frozen
class SyncDriver(Driver):
    """Run calls over HTTP."""

    http: OwnHttp | BorrowedHttp
    # waits for seconds; None waits in real time until the call is cancelled
    sleep: Callable[[float], object] | None
    compactor: Compactor | None  # makes messages shorter, or None
    verdicts: SyncVerdicts  # calls the verdicts

    def run(self, call: Call) -> Result:
        """Run a call to its end."""
        for _ in self.stream(call):
            pass
        return call.result

    # In what follows, `exchange` is the attempt in flight, and `last` is that or the one before,
    # whose provider may go on with its reply. `place` waits for other calls, not for the backend:
    # no limit of an attempt counts. Before an attempt goes out, `last` is given up if the reattach
    # that was meant for it has led elsewhere.
    def stream(self, call: Call) -> Generator[StreamEvent]:
        """Run a call to its end and yield its events; a call that does not stream has none."""
        exchange = None
        last = None
        is_fresh = False
        keyed = None
        sharing = ALONE if self.shared is None else self.shared.of_call(self.chain)
        try:
            call.journal.started = call.journal.started or self.deadlines.wall_clock()
            send = call.begin(self.clock(), self.throttle)
            while send is not None:
                self._make_ready(call, send)
                asked = asked_of(self.chain, call.place)
                if must_ask(asked, keyed):
                    keyed = self._ask_key(asked)
                if call.spending.share is not None and not self._reserve(call, send):
                    call.sending(self.when_late(send))
                    break
                with self.http.place(self.seconds_left(send), self.cancellation) as has_place:
                    if has_place:
                        admitted = sharing.admit(call, send, keyed)
                        if admitted is not send:
                            send = admitted
                            continue
                    now = self.clock() if has_place else self.when_late(send)
                    send = call.sending(now, sharing.waited)
                    if send is None:
                        break
                    sharing.sent(send)
                    if last is not None and last.has_rest and send.rung != REATTACH.name:
                        self._give_up(last)
                    yield from call.drain()
                    last = exchange = self.exchange(send, call, keyed, last, is_fresh=is_fresh)
                    follow = self._in_background if exchange.polls else self._exchange
                    yield from follow(exchange, send, call)
                keyed = None
                reply = exchange.reply()
                came = call.settle(reply)
                sharing.settle(seen_of(came, exchange), came, exchange.received)
                call.let_go()  # before anything of the caller's judges it, and may make calls too
                finding = self._judge(call, reply, send)
                call.journal.first_token = exchange.first_token
                send = call.receive(reply, self.clock(), finding)
                is_fresh = needs_fresh(reply, is_fresh)
                exchange = None
                if last.has_rest and (send is None or send.rung != REATTACH.name):
                    self._give_up(last)
                yield from call.drain()
        except CallEnded:
            call.cancel(self.clock(), partial(exchange))
        except BaseException as error:
            error.result = call.cancel(self.clock(), partial(exchange))  # type: ignore[attr-defined]
            raise
        finally:
            if last is not None and last.has_rest:
                self._give_up(last)
            sharing.settle(None, None, {})
            call.let_go()
            self.verdicts.close()
        yield from call.drain()

    def _exchange(self, exchange: Exchange, send: Send, call: Call) -> Iterator[StreamEvent]:
        """Send the request, read the response, and yield the events of a stream."""
        response = None
        try:
            response = self.http.send(exchange.encode(send), exchange.limits)
            chunks = response.pieces()
            exchange.begin(response.status_code, response.headers, is_decoded=response.is_decoded)
            for data in chunks:
                for deltas in exchange.feed(data):
                    if call.is_streaming:
                        for delta in deltas:
                            yield from call.hear(delta)
                    check(self.cancellation)
                if not exchange.goes_on:
                    break
            if exchange.is_finished:
                # Read the end of the body, which is on its way, so that the connection can serve
                # the next request.
                exchange.limits.linger()
                with suppress(Exception):
                    next(chunks, None)
        except Exception as error:
            exchange.fail(error)
        finally:
            if response is not None:
                response.close()
        check(self.cancellation)

    def _in_background(
        self,
        exchange: Exchange,
        send: Send,
        call: Call,
    ) -> Iterator[StreamEvent]:
        """Send the request of an attempt, and poll the reply until it is there."""
        assert isinstance(exchange, BackgroundExchange)
        while exchange.polls:
            if exchange.pause > 0 and not waits_are_off():
                sleep = self.sleep or self.cancellation.wait
                sleep(exchange.pause)
            check(self.cancellation)
            yield from self._exchange(exchange, send, call)
            exchange.note_end()

    def _give_up(self, exchange: Exchange) -> None:
        """Tell the provider that nobody wants a reply, if it may go on with it."""
        assert isinstance(exchange, BackgroundExchange)
        request = exchange.giving_up()
        if request is not None:
            with suppress(Exception):
                self.http.send(request, given_up_limits()).close()

    def _judge(
        self,
        call: Call,
        reply: Reply | Failure,
        send: Send,
    ) -> Finding | None:
        """Return what the verdicts say of a reply; None if there is nothing to judge."""
        judged = call.judging(reply)
        if judged is None:
            return None
        return self.verdicts.found(judged, self.cancellation, self.deadline(send))

    def _ask_key(self, backend: Any) -> Keyed:
        """Ask the function of a backend for its key."""
        try:
            with asking_for_key():
                key = backend.api_key()
            return Keyed(backend, backend.with_key(key))
        except Exception as error:
            return Keyed(backend, error)

    def _reserve(self, call: Call, send: Send) -> bool:
        """Wait until other calls settle with a shared budget; tell whether they did in time.

        The call holds no place meanwhile.
        """
        woken = threading.Event()
        if call.reserve(woken.set, self.clock()):
            return True
        return run(until_set(woken, self.seconds_left(send)), self.cancellation)

    def _make_ready(self, call: Call, send: Send) -> None:
        """Wait and compact as the rung asks."""
        if send.wait > 0 and not waits_are_off():
            sleep = self.sleep or self.cancellation.wait
            sleep(send.wait)
        check(self.cancellation)
        if send.needs_compaction and self.compactor is not None:
            with self.deadline(send).around():
                # a copy, which it may change
                shorter = self.compactor(tuple(plain_messages(send.messages)))
            call.compacted(shorter, self.clock())
            check(self.cancellation)
