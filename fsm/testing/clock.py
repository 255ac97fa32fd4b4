"""A clock that only moves when told, so that a test of an hour's waits takes no time."""

from __future__ import annotations

from attrs import define, field


@define(eq=False)
class VirtualClock:
    """Stand for a client's clock and sleep: `Client(..., clock=clock, sleep=clock.sleep, async_sleep=clock.asleep)`.

    Arguments:
        now: seconds; only `sleep`, `asleep` and `advance` move it.
        waits: every wait, in seconds, in order.
    """

    now: float = 0.0
    waits: list[float] = field(factory=list)

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass that nobody waits for, such as that of a request.

        Raises:
            ValueError: the time would go backward.
        """
        if not seconds >= 0:
            raise ValueError(f"a clock cannot advance by {seconds!r} seconds")
        self.now += seconds

    def sleep(self, seconds: float) -> None:
        """Wait, and remember it."""
        self.advance(seconds)
        self.waits.append(seconds)

    async def asleep(self, seconds: float) -> None:
        """Wait asynchronously, and remember it."""
        self.sleep(seconds)
