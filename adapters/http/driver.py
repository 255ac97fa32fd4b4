"""What both drivers have: the chain, the clock, and how an attempt begins and ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.deadline import Deadline, Deadlines
from rungwise.adapters.http.exchange import Exchange
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.policy import Timeouts
from rungwise.fsm.failures.failure import Failure

LATE: Final = 0.001
"""Seconds behind a deadline at which it has surely passed."""


@frozen(kw_only=True)
class Driver:
    """Hold what both drivers have.

    Arguments:
        chain: the backends, in the order of the call's chain.
        timeouts: the limits of one attempt.
        clock: returns seconds on a clock that only goes forward.
        cancellation: ends the call from outside.
        largest_reply: the bytes of a reply after which no more of it is read.
        stream_calls: whether the reply of a call that hands nothing out is streamed too, where the backend can.
        deadlines: tells backends when a call must have ended, and the time of day.
    """

    chain: tuple[Backend, ...]
    timeouts: Timeouts
    clock: Callable[[], float]
    cancellation: Cancellation
    largest_reply: int
    stream_calls: bool
    deadlines: Deadlines

    def seconds_left(self, send: Send) -> float | None:
        """Return the seconds until the deadline; None where there is none."""
        return None if send.deadline is None else max(send.deadline - self.clock(), 0.0)

    def deadline(self, send: Send) -> Deadline:
        """Return when the calls that are made for this one must have ended, such as those of its compactor."""
        return Deadline(self.clock, send.deadline)

    def when_late(self, send: Send) -> float:
        """Return the time once a wait until the deadline was in vain, which the clock may not show yet."""
        return self.clock() if send.deadline is None else max(self.clock(), send.deadline + LATE)

    def exchange(self, send: Send, call: Call, *, is_fresh: bool) -> Exchange:
        """Begin an attempt, and its time."""
        backend, clocks = self.chain[send.backend], call.clocks()
        wants = call.is_streaming or self.stream_calls
        streams = wants and getattr(backend, "streams", False) and "stream" not in send.dropped
        limits = AttemptLimits.of(
            send,
            self.timeouts,
            clocks,
            self.clock(),
            streams=streams,
            cancellation=self.cancellation,
            is_fresh=is_fresh,
        )
        watch = call.text_watch() if streams and clocks.before_text != clocks.after_text else None
        wall_clock, told = self.deadlines.wall_clock, self.deadlines.headers(send.deadline)
        return Exchange(backend, limits, streams, self.largest_reply, watch, wall_clock, told)


def partial(exchange: Exchange | None) -> Reply | None:
    """Return what had arrived of an exchange when the caller ended the call."""
    if exchange is None or exchange.decoder is None:
        return None
    reply = exchange.decoder.close(Failure("connection"))
    return reply if isinstance(reply, Reply) else None


def needs_fresh(reply: Reply | Failure, has_needed: bool) -> bool:
    """Tell whether the next attempt needs a new connection: one that had been used before was lost, and none has held.

    Arguments:
        has_needed: whether this attempt needed one already.
    """
    if not isinstance(reply, Failure):
        return False
    return reply.is_stale or (has_needed and reply.reason == "connection")
