"""Where a call stands in its machine; nothing else of a call touches the machine or its counters."""

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
    """Hold the seconds of a wait, and the number that chance drew for it, if it did."""

    seconds: float
    draw: float | None


NO_WAIT = RungWait(0.0, None)


class Position(Run):
    """Move a call through its table, and work out what its rungs wait and which cap they send."""

    __slots__ = ()

    @classmethod
    def of(cls, policy: Policy, backends: int) -> Position:
        """Return the position of a call that has not begun.

        Arguments:
            policy: the table and its limits.
            backends: how many there are, which bounds the fallbacks.
        """
        limits = policy.limits.bounded(policy.table.limits, backends)  # which are in the order of the counters
        return cls(policy.table, tuple(limits.values()), policy.table.start, [0] * len(limits))

    @property
    def rung(self) -> Rung:
        """Return the declaration of the rung that the last row led to."""
        rung = self.table.rung(self.state)
        assert rung is not None
        return rung

    def wait(
        self,
        rung: Rung,
        policy: Policy,
        event: str,
        facts: tuple[str, ...],
        failure: Failure | None,
        jitter: Callable[[], float],
    ) -> RungWait:
        """Return how long a rung waits after an event.

        Arguments:
            rung: the current one.
            policy: how long waits are.
            event: what led to the rung.
            facts: the facts that held.
            failure: what failed, if anything did.
            jitter: returns a number from 0 to 1 where chance places the wait.
        """
        asked = None if failure is None else failure.asked_wait
        if rung.at_once_on in facts and asked is None:
            return NO_WAIT
        if asked is not None and keeps_asked_wait(event, rung.name):
            return RungWait(asked, None)
        if rung.wait is None:
            return NO_WAIT
        draw = jitter() + 0.0  # a float, and no negative zero
        if not 0.0 <= draw <= 1.0:
            draw = min(1.0, max(0.0, draw))
        return RungWait(drawn_wait(policy.waits, rung, self.spent_of(rung.counter), event, failure, draw), draw)

    def cap(self, policy: Policy, asked: int | None) -> int | None:
        """Return an output cap in tokens as the rungs have raised it; None sends none."""
        raises, places, spent = 0, self.table.places, self.spent
        if any(spent):
            for counter in RAISING:
                if counter in places:
                    raises += spent[places[counter]]
        return cap_of(policy, raises, asked) if raises else asked
