"""The clocks of one attempt: when it must end, and when silence ends it earlier.

A call thinks in moments of its own clock, which tests may set. An attempt waits for sockets, so all
of its moments are on `time.monotonic`; `AttemptLimits.of` translates them.
"""

from __future__ import annotations

import math
import time

from attrs import define, evolve, field

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.fsm.call.clocks.silence import AttemptClocks
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.policy import Timeouts
from rungwise.fsm.replies.reply import Reply

LINGER = 0.1
"""Seconds to wait for the end of the body after the terminal event, so that the connection can
serve again.
"""

GRACE = 1.0
"""Seconds by which the timeouts of a client of yours exceed our own, so that ours come first."""


@define(eq=False)
class AttemptLimits:
    """Limit one attempt. All moments are on `time.monotonic`; infinity is no limit."""

    ends_at: float = math.inf  # when the attempt must have ended
    connect: float = math.inf  # seconds for names, addresses and TLS together
    # seconds between two pieces of content, and for the body of an error; None for no limit
    stall: float | None = None
    # The latest moment at which silence may end the attempt while it has brought no visible text;
    # None for never.
    before_text: float | None = None
    after_text: float | None = None  # the same once it has brought some
    # Seconds for which the silence behind the head may last; None if the head changes nothing.
    thinking: float | None = None
    # seconds for which the silence that lasts now may last; None for no limit
    patience: float | None = None
    silent_since: float = 0.0  # when that silence began
    by_call: bool = False  # whether the budget of the whole call ends the attempt
    cancellation: Cancellation = field(factory=Cancellation)  # ends the call from outside
    is_fresh: bool = False  # whether only a new connection will do
    proxy: str = ""  # host and port of the proxy that the environment names for it
    has_text: bool = False  # whether visible text has come
    # whether the head announced a reply in one piece, and nothing has shown otherwise
    awaits_whole: bool = False

    @classmethod
    def of(
        cls,
        send: Send,
        timeouts: Timeouts,
        clocks: AttemptClocks,
        now: float,
        *,
        streams: bool,
        cancellation: Cancellation,
        is_fresh: bool,
    ) -> AttemptLimits:
        """Return the limits of an attempt that begins now.

        Arguments:
            send: what is sent, with the deadline of its call.
            timeouts: those of the policy, in seconds.
            clocks: the limits on silence, and when the call ends, on the clock of the call.
            now: the moment on that clock.
            streams: whether the reply is a stream. In any other, silence means nothing.
            cancellation: ends the call from outside.
            is_fresh: whether only a new connection will do.
        """
        began = time.monotonic()
        offset = began - now
        remaining = math.inf
        for moment in (clocks.ends_by, send.deadline):
            if moment is not None:
                remaining = min(remaining, max(moment - now, 0.001))
        total = math.inf if timeouts.total is None else timeouts.total
        limits = cls(
            ends_at=began + min(remaining, total),
            connect=timeouts.connect,
            stall=clocks.stall,
            by_call=remaining < total,
            cancellation=cancellation,
            is_fresh=is_fresh,
        )
        if streams:
            if clocks.before_text is not None:
                limits.before_text = clocks.before_text + offset
            if clocks.after_text is not None:
                limits.after_text = clocks.after_text + offset
            limits.patience = clocks.first_token
            limits.silent_since = began
            limits.thinking = clocks.thinking
        return limits

    def hear(self, now: float) -> None:
        """Restart the clock of silence: content has come."""
        self.silent_since = now
        self.patience = self.stall

    def hear_head(self) -> None:
        """Allow the long silence of a model that thinks: the server has begun to answer."""
        if self.thinking is not None:
            self.silent_since = time.monotonic()
            self.patience = self.thinking

    def ignore_silence(self) -> None:
        """Drop the limit on silence: the reply comes in one piece."""
        self.patience = self.stall = None

    def hurry(self) -> None:
        """Give the whole body of an error the time that a pause between two pieces may take."""
        self.silent_since = time.monotonic()
        self.patience = self.stall
        self.before_text = self.after_text = math.inf

    @property
    def silent_at(self) -> float:
        """Return when silence ends the attempt, if it lasts; infinity if it must not end it."""
        latest = self.after_text if self.has_text else self.before_text
        if self.patience is None or latest is None or self.awaits_whole:
            return math.inf
        moment = self.silent_since + self.patience
        return moment if moment <= latest else math.inf

    @property
    def until(self) -> float:
        """Return the earlier of both ends."""
        return min(self.ends_at, self.silent_at)

    def linger(self) -> None:
        """Leave only a moment for the end of the body: the terminal event has come."""
        self.ends_at = min(time.monotonic() + LINGER, self.ends_at)
        self.ignore_silence()

    @property
    def remaining(self) -> float | None:
        """Return the seconds until the next end, at least 0.001; None without one."""
        until = self.until
        return None if until == math.inf else max(until - time.monotonic(), 0.001)

    @property
    def is_over(self) -> bool:
        """Tell whether the attempt has used up its time."""
        return time.monotonic() >= self.ends_at

    @property
    def is_silent(self) -> bool:
        """Tell whether there was no content for too long."""
        return time.monotonic() >= self.silent_at

    def moment(self, seconds: float) -> float:
        """Return the moment in so many seconds, or the next end if that is earlier."""
        return min(time.monotonic() + seconds, self.until)

    def timeout_extension(self) -> dict[str, float | None]:
        """Return the timeouts for a client of yours. Ours come first, except for connecting."""
        now = time.monotonic()
        late = None
        if self.ends_at < math.inf:
            late = max(self.ends_at - now, 0.0) + GRACE
        connect = max(self.moment(self.connect) - now, 0.001)
        return {"connect": connect, "pool": late, "write": late, "read": late}

    def mark(self, reply: Reply) -> Reply:
        """Mark the reply as halted if the budget of the whole call cut it."""
        is_cut = reply.interrupted and self.by_call and self.is_over
        was_silent = reply.failure is not None and reply.failure.reason == "silence"
        if not is_cut or was_silent:
            return reply
        return evolve(reply, halted=True)
