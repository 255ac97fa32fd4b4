"""Calls that remember what happened to others, on a clock that goes forward by what is waited."""

from typing import Any

import rungwise
from rungwise import Health


class Clock:
    """Go forward by what is waited, and when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    @property
    def options(self) -> dict[str, Any]:
        clocks = rungwise.testing.Clocks(
            clock=lambda: self.now,
            sleep=self.advance,
            async_sleep=self.wait,
            jitter=lambda: 0.0,
        )
        return {"health": Health(jitter=0.0), "testing": clocks}

    def advance(self, seconds: float) -> None:
        self.now += seconds

    async def wait(self, seconds: float) -> None:
        self.advance(seconds)


def steps(result: rungwise.Result) -> list[str]:
    """Return what happened at which backend, in order."""
    return [f"{step.event} {step.backend}" for step in result.journal.steps]
