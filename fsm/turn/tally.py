"""What a turn has used: time, tokens, money, requests."""

from __future__ import annotations

from attrs import define

from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import IllegalEvent
from rungwise.fsm.values.usage import NO_USAGE, Usage


@define(eq=False)
class Tally:
    """Add up what a turn uses.

    Arguments:
        began: when it began, in seconds on the driver's clock; None before that.
        elapsed: seconds since then.
        usage: the tokens of its calls.
        cost: what they cost; None once a backend without prices was asked.
        attempts: the requests that they sent.
    """

    began: float | None = None
    elapsed: float = 0.0
    usage: Usage = NO_USAGE
    cost: float | None = 0.0
    attempts: int = 0

    @property
    def now(self) -> float:
        """Return the time on the driver's clock."""
        return (self.began or 0.0) + self.elapsed

    def begin(self, now: float) -> None:
        """Note when the turn begins.

        Raises:
            IllegalEvent: it has begun already.
        """
        if self.began is not None:
            raise IllegalEvent("the turn has begun already")
        self.began = now

    def pass_time(self, now: float | None, seconds: float = 0.0) -> None:
        """Note the time, which never turns back; where it is None, so many seconds have passed.

        Raises:
            IllegalEvent: the turn has not begun.
        """
        if self.began is None:
            raise IllegalEvent("the turn has not begun")
        self.elapsed = self.elapsed + seconds if now is None else max(self.elapsed, now - self.began)

    def add(self, result: Result) -> None:
        """Add what a call has used."""
        self.usage += result.usage
        self.attempts += result.attempts
        self.cost = None if self.cost is None or result.cost is None else self.cost + result.cost
