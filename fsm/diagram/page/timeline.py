"""The bars of a timeline, to scale: how long each attempt was in flight, and the waits before."""

from __future__ import annotations

import math

from attrs import frozen

from rungwise.fsm.journal.digest import AttemptLine
from rungwise.fsm.journal.digest.words import seconds_text

MOST_TICKS = 6
SHORTEST = 1e-9
"""Seconds below which no clock can tell two times apart, and no number is round."""


@frozen
class Bar:
    """Hold one stretch of time."""

    kind: str  # `attempt` or `wait` for a call
    start: float
    seconds: float
    says: str


@frozen
class Timeline:
    """Place bars on an axis that lasts `total` seconds, as the run did."""

    total: float

    @property
    def has_time(self) -> bool:
        """Tell whether any time passed."""
        return self.total >= SHORTEST

    @property
    def ticks(self) -> list[float]:
        """Return a handful of round times from 0 to the end."""
        return ticks(self.total)

    def bars(self, line: AttemptLine, since: float = 0.0) -> tuple[Bar, ...]:
        """Return the bars of an attempt, as `bars_of` does."""
        return bars_of(line, since)

    def percent(self, seconds: float) -> str:
        """Write a stretch of time as a share of the axis, in CSS."""
        return f"{100 * min(seconds / self.total, 1.0):.3f}".rstrip("0").rstrip(".") + "%"


def bars_of(line: AttemptLine, since: float = 0.0) -> tuple[Bar, ...]:
    """Return the wait before an attempt, if there was one, and the attempt, in seconds since its run began."""
    attempt = line.attempt
    sent, seconds = attempt.sent.at, attempt.seconds
    took = "not ended" if seconds is None else seconds_text(seconds)
    own = Bar(line.kind, since + sent, seconds or 0.0, f"{attempt.number} {attempt.rung}, {took}: {line.came}")
    if attempt.waited <= 0:
        return (own,)
    return Bar("wait", since + sent - attempt.waited, attempt.waited, f"wait of {seconds_text(attempt.waited)}"), own


def ticks(seconds: float) -> list[float]:
    """Return round times from 0 to the end, a handful of them."""
    if seconds < SHORTEST:
        return [0.0]
    rough = seconds / (MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= rough), 10 * power)
    return [place * step for place in range(int(seconds / step + 1e-9) + 1)]
