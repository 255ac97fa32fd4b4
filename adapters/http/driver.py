"""What both drivers share: the chain, the clock, and how an attempt begins and ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
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
"""Seconds after a deadline at which every clock shows that it has passed."""


@frozen(kw_only=True)
class Driver:
    """Hold what both drivers share."""

    chain: tuple[Backend, ...]  # the backends, in the order of the call's chain
    timeouts: Timeouts  # the limits of one attempt
    clock: Callable[[], float]  # returns seconds on a clock that only goes forward
    cancellation: Cancellation  # ends the call from outside
    largest_reply: int  # stop reading a reply after this many bytes
    stream_calls: bool  # whether to stream the replies of calls that are not streams, if the backend can
    deadlines: Deadlines  # the deadline header, and the time of day

    def seconds_left(self, send: Send) -> float | None:
        """Return the seconds until the deadline, or None without one."""
        return None if send.deadline is None else max(send.deadline - self.clock(), 0.0)

    def deadline(self, send: Send) -> Deadline:
        """Return the deadline for calls made on behalf of this one, such as those of its compactor."""
        return Deadline(self.clock, send.deadline)

    def when_late(self, send: Send) -> float:
        """Return the time after a wait until the deadline, even if the clock does not show that it has passed."""
        return self.clock() if send.deadline is None else max(self.clock(), send.deadline + LATE)

    def exchange(self, send: Send, call: Call, *, is_fresh: bool) -> Exchange:
        """Begin an attempt and start its clocks."""
        backend = self.chain[send.backend]
        wants = call.is_streaming or self.stream_calls
        streams = wants and getattr(backend, "streams", False) and "stream" not in send.dropped
        clocks = call.clocks(streams=streams)
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
        wall_clock, headers = self.deadlines.wall_clock, self.deadlines.headers(send.deadline)
        return Exchange(backend, limits, streams, self.largest_reply, watch, wall_clock, headers)


def partial(exchange: Exchange | None) -> Reply | None:
    """Return the part of the reply that had arrived when the caller ended the call."""
    if exchange is None or exchange.decoder is None:
        return None
    reply: Reply | Failure | None = None
    with suppress(Exception):  # of a broken wire, whose error would hide the one that ended the call
        reply = exchange.decoder.close(Failure("connection"))
    return reply if isinstance(reply, Reply) else None


def needs_fresh(reply: Reply | Failure, has_needed: bool) -> bool:
    """Tell whether the next attempt needs a new connection.

    Arguments:
        has_needed: whether this attempt had a new connection for the same reason.
    """
    if not isinstance(reply, Failure):
        return False
    return reply.is_stale or (has_needed and reply.reason in ("connection", "unreachable"))
