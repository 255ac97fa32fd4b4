"""Where a call stands in its machine; nothing else of a call touches the machine or its counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import attrs

from rungwise.fsm.call.ladder import COUNTER, FACT, Ladder, names_of, reader_of
from rungwise.fsm.call.policy import Limits, Policy
from rungwise.fsm.call.reply import Failure
from rungwise.fsm.call.waiting import cap_of, is_drawn, wait_of
from rungwise.fsm.machine.machine import RowMachine, Watch, fire, machine_of
from rungwise.fsm.machine.table import Row, Table


@attrs.frozen
class RungWait:
    """Hold the seconds of a wait, and the number that chance drew for it, if it did."""

    seconds: float
    draw: float | None


NO_WAIT = RungWait(0.0, None)


class Position:
    """Move a call through its table, and check each step against what was proved of it.

    Arguments:
        policy: the table, the limits and the waits.
        backends: how many there are, which bounds the fallbacks.
    """

    __slots__ = ("_ladder", "_machine", "_read", "_table", "_watch")

    def __init__(self, policy: Policy, backends: int) -> None:
        table = policy.table
        self._table: Table = table
        self._machine: RowMachine = machine_of(table)
        self._ladder: Ladder = table.model(_bounded(policy.limits, backends), table.start)
        self._read = reader_of(table.model)
        self._watch = Watch(table, self._ladder.limits)

    @property
    def state(self) -> str:
        """Return the state: a rung, the hub or an outcome."""
        return self._ladder.rung

    @property
    def attempts(self) -> int:
        """Count the requests that were sent."""
        return self._ladder.attempts

    @property
    def kept(self) -> str | None:
        """Say what stands as the answer of a salvaged call: what was delivered, or the prior answer."""
        return self._ladder.kept

    @property
    def counters(self) -> tuple[str, ...]:
        """Name the counters of the machine."""
        return names_of(self._table.model, COUNTER)

    @property
    def spent(self) -> tuple[int, ...]:
        """Return what is spent of each counter."""
        return self._read(self._ladder)

    def is_guarded(self, event: str) -> bool:
        """Tell whether a guard reads facts when this event is fired."""
        return event not in self._machine.unguarded

    def fire(self, event: str, facts: Iterable[str] = ()) -> Row:
        """Fire an event and return the row that was taken.

        Arguments:
            event: what happened.
            facts: the facts that hold.

        Raises:
            IllegalEvent: the state does not take the event.
        """
        ladder = self._ladder
        if self.is_guarded(event):
            for name in names_of(type(ladder), FACT):
                setattr(ladder, name, name in facts)
        return fire(self._machine, ladder, event)

    def is_end(self, row: Row) -> bool:
        """Tell whether a row leads to an outcome."""
        return row.target in self._table.outcomes

    def checked(self, row: Row) -> tuple[int, ...]:
        """Return what is spent of each counter, after a check of the step that was just taken.

        Raises:
            BrokenMachine: a counter has left its limits, or the variant did not fall.
        """
        spent = self.spent
        self._watch.check(row, spent)
        return spent

    def wait(self, policy: Policy, event: str, failure: Failure | None, jitter: Callable[[], float]) -> RungWait:
        """Return how long the current rung waits after an event.

        Arguments:
            policy: how long waits are.
            event: what led to the rung.
            failure: what failed, if anything did.
            jitter: returns a number from 0 to 1 where chance places the wait.
        """
        asked = None if failure is None else failure.asked_wait
        draw = min(1.0, max(0.0, jitter())) if is_drawn(self._ladder, event, asked) else None
        return RungWait(wait_of(policy.waits, self._ladder, event, failure, draw or 0.0), draw)

    def cap(self, policy: Policy, asked: int | None) -> int | None:
        """Return an output cap in tokens as the rungs have raised it; None sends none."""
        return cap_of(policy, self._ladder, asked)


@lru_cache(maxsize=256)
def _bounded(limits: Limits, backends: int) -> Limits:
    """Bound the fallbacks by the chain."""
    most = backends - 1
    return attrs.evolve(limits, fallbacks=most if limits.fallbacks is None else min(limits.fallbacks, most))
