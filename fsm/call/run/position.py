"""The position of a call in its machine. Nothing else in a call touches the machine or its counters."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from rungwise.fsm.call.clocks.waiting import RAISING, cap_of, drawn_wait
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.table import keeps_asked_wait
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.machine.declare import Rung
from rungwise.fsm.machine.run import Run


@frozen
class RungWait:
    """Hold the seconds of a wait, and the random number drawn for it, if any."""

    seconds: float
    draw: float | None


NO_WAIT = RungWait(0.0, None)


class Position(Run):
    """Move a call through its table, and compute the waits and output caps of its rungs."""

    __slots__ = ()

    @classmethod
    def of(cls, policy: Policy, backends: int) -> Position:
        """Return the position of a call that has not begun."""
        limits = policy.limits.bounded(policy.table.limits, backends)  # which are in the order of the counters
        return cls(policy.table, tuple(limits.values()), policy.table.start, [0] * len(limits))

    @property
    def rung(self) -> Rung:
        """Return the declaration of the rung that the last row led to."""
        rung = self.table.rung(self.state)
        assert rung is not None
        return rung

    def wait(
        self, rung: Rung, policy: Policy, event: str, failure: Failure | None, jitter: Callable[[], float]
    ) -> RungWait:
        """Return how long a rung waits after an event."""
        asked_wait = None if failure is None else failure.asked_wait
        if asked_wait is not None and keeps_asked_wait(event, rung.name):
            return RungWait(asked_wait, None)
        if rung.wait is None:
            return NO_WAIT
        draw = jitter() + 0.0  # a float, and no negative zero
        if not 0.0 <= draw <= 1.0:
            draw = min(1.0, max(0.0, draw))
        return RungWait(drawn_wait(policy.waits, rung, self.spent_of(rung.counter), event, failure, draw), draw)

    def cap(self, policy: Policy, base: int | None) -> int | None:
        """Return an output cap in tokens, raised by the rungs taken so far; None sends none."""
        raises, places, spent = 0, self.table.places, self.spent
        if any(spent):
            for counter in RAISING:
                if counter in places:
                    raises += spent[places[counter]]
        return cap_of(policy, raises, base) if raises else base
