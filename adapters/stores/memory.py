"""The store in the memory of this process."""

from __future__ import annotations

import random
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rungwise.adapters.stores.store import Command, Work
from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.health.health import BackendHealth, Health, HealthChoice, Symptom, choose
from rungwise.fsm.health.quota import Claim, Quota, QuotaMeter, Settlement
from rungwise.fsm.values.forks import renewed_in_children

UNKNOWN: Final = BackendHealth()
FIRST: Final = HealthChoice(0)


class MemoryStore:
    """Hold the health and the quotas of backends for any number of threads and event loops."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = clock
        self.draw = random.random
        self._known: dict[Hashable, BackendHealth] = {}
        self._meters: defaultdict[Hashable, QuotaMeter] = defaultdict(QuotaMeter)
        self._start_alone()
        _all.add(self)

    def key_of(self, link: Backend) -> Hashable:
        """Return what identifies a backend with its key in this process."""
        return link.account

    def choose(
        self,
        keys: Sequence[Hashable],
        rules: Health,
        lease: float,
    ) -> Work[tuple[HealthChoice, Sequence[BackendHealth]]]:
        """Choose which of some backends a call asks; see `Store.choose`."""
        yield from ()
        if not self._known:
            return FIRST, ()
        with self._alone():
            known = [self._known.get(key, UNKNOWN) for key in keys]
            choice = choose(known, self.now(), rules, lease)
            for place, changed in choice.changed:
                self._known[keys[place]] = changed
        return choice, known

    def note(
        self,
        key: Hashable,
        symptom: Symptom,
        rules: Health,
        *,
        sent_at: float,
        was_probe: bool,
    ) -> Work[None]:
        """Remember what an attempt has shown of its backend.

        Arguments: as for `Store.note`.
        """
        yield from ()
        is_harmless = symptom.event in (None, "answered") and not was_probe
        if is_harmless and key not in self._known:
            return  # as nearly always: nothing is remembered of it

        def change() -> None:
            known = self._known.get(key, UNKNOWN)
            after = known.after(
                symptom,
                self.now(),
                rules,
                sent_at=sent_at,
                was_probe=was_probe,
                draw=self.draw(),
            )
            if after is not known:
                self._known[key] = after

        self._end(change)

    def read(self, keys: Sequence[Hashable]) -> Work[Sequence[BackendHealth]]:
        """Return what is remembered of some backends."""
        yield from ()
        with self._alone():
            return [self._known.get(key, UNKNOWN) for key in keys]

    def take(
        self,
        key: Hashable,
        quota: Quota,
        claim: Claim,
    ) -> Work[tuple[float, bool]]:
        """Let an attempt through; see `Store.take`."""
        yield from ()
        with self._alone():
            return self._meters[key].take(quota, claim, self.now())

    def pay(
        self,
        key: Hashable,
        quota: Quota,
        paid: Settlement,
    ) -> Work[None]:
        """Count what an attempt has used; see `Store.pay`."""
        yield from ()
        self._end(lambda: self._meters[key].settle(quota, paid, self.now()))

    def execute(self, command: Command) -> Any:
        """Do nothing: no operation asks a server."""

    def begin_anew(self) -> None:
        """Start anew in a forked child.

        The child replaces the lock, and forgets the parent's running attempts, whose ends it will
        not see.
        """
        self._start_alone()
        for meter in self._meters.values():
            meter.leases = {}
            meter.queue = {}
        self._known = {key: health.without_probe() for key, health in self._known.items()}

    # The collector may end a stream that somebody left, anywhere, so in a thread that has the lock
    # here. What the end of that call changes must neither wait for the lock, which nobody would
    # release, nor come between what this thread reads and writes: it is done right afterwards.

    def _start_alone(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._ends: deque[Callable[[], None]] = deque()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads out, and at the end do what calls that ended meanwhile have left."""
        with self._lock:
            self._depth += 1
            try:
                yield
                while self._depth == 1 and self._ends:
                    self._ends.popleft()()
            finally:
                self._depth -= 1

    def _end(self, change: Callable[[], None]) -> None:
        """Do what the end of an attempt changes, or leave it to the thread's own work."""
        with self._alone():
            self._ends.append(change)


_all = renewed_in_children(MemoryStore.begin_anew)
