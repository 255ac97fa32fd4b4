"""The time limits of one attempt, shared by both drivers."""

from __future__ import annotations

import time

from attrs import define, evolve, field

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.fsm.call.policy import Timeouts
from rungwise.fsm.call.reply import Reply
from rungwise.fsm.call.request import Send

LINGER = 0.1
"""Seconds to wait after the terminal event for the end of the body, so that the connection can be used again."""


@define(eq=False)
class AttemptLimits:
    """Limit one attempt.

    Arguments:
        ends_at: when the attempt must have ended, on `time.monotonic`; None for no limit.
        first_byte: seconds to wait for the response to begin.
        idle: seconds to wait for more of it.
        connect: seconds for names, addresses and TLS together.
        by_call: whether it is the budget of the whole call that ends the attempt.
        cancellation: ends the call from outside.
        is_fresh: whether only a new connection will do.
    """

    ends_at: float | None
    first_byte: float
    idle: float
    connect: float
    by_call: bool = False
    cancellation: Cancellation = field(factory=Cancellation)
    is_fresh: bool = False

    @classmethod
    def of(
        cls, send: Send, timeouts: Timeouts, now: float, *, stream: bool, cancellation: Cancellation, is_fresh: bool
    ) -> AttemptLimits:
        """Work out the limits of an attempt that begins now, on the driver's clock."""
        left = None if send.deadline is None else max(send.deadline - now, 0.001)
        by_call = left is not None and (timeouts.total is None or left < timeouts.total)
        total = left if by_call else timeouts.total
        # A reply that is not streamed comes in one piece when the model has finished: only the total limits it.
        first_byte = timeouts.first_byte if stream or total is None else total
        ends_at = None if total is None else time.monotonic() + total
        return cls(
            ends_at=ends_at,
            first_byte=first_byte,
            idle=timeouts.idle,
            connect=timeouts.connect,
            by_call=by_call,
            cancellation=cancellation,
            is_fresh=is_fresh,
        )

    @property
    def left(self) -> float | None:
        """Return the seconds left to the attempt; never below a millisecond, which ends a wait at once."""
        return None if self.ends_at is None else max(self.ends_at - time.monotonic(), 0.001)

    @property
    def is_over(self) -> bool:
        """Tell whether the attempt has used up its time."""
        return self.ends_at is not None and time.monotonic() >= self.ends_at

    def within(self, seconds: float) -> float:
        """Return `seconds`, or what is left if that is less."""
        left = self.left
        return seconds if left is None else min(seconds, left)

    def moment(self, seconds: float) -> float:
        """Return the moment at which so many seconds will have passed, or the attempt must have ended."""
        moment = time.monotonic() + seconds
        return moment if self.ends_at is None else min(moment, self.ends_at)

    def linger(self) -> None:
        """Leave only a moment for the end of a body whose terminal event has come."""
        self.ends_at = self.moment(LINGER)

    def timeout_extension(self) -> dict[str, float | None]:
        """Return httpx's own timeouts for the time before the first byte, for a client that was passed in."""
        return {
            "connect": self.within(self.connect),
            "pool": self.left,
            "write": self.within(self.idle),
            "read": self.within(self.first_byte),
        }

    def mark(self, reply: Reply) -> Reply:
        """Mark a reply that the budget of the whole call has cut."""
        return evolve(reply, halted=True) if reply.interrupted and self.by_call and self.is_over else reply
