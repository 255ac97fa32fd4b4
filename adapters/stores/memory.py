"""The store in the memory of this process."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from rungwise.adapters.stores.store import Command, Work
from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.health.health import BackendHealth, Choice, Health, Symptom, choose
from rungwise.fsm.health.quota import Claim, Quota, QuotaMeter, Settlement
from rungwise.fsm.values.forks import renewed_in_children

UNKNOWN: Final = BackendHealth()
FIRST: Final = Choice(0)


class MemoryStore:
    """Hold the health and the quotas of backends for any number of threads and event loops."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = clock
        self.draw = random.random
        self._known: dict[Hashable, BackendHealth] = {}
        self._meters: defaultdict[Hashable, QuotaMeter] = defaultdict(QuotaMeter)
        # The collector may end a stream that somebody left while this thread holds the lock; the
        # end of its call comes here again.
        self._lock = threading.RLock()
        _all.add(self)

    def key_of(self, link: Backend) -> Hashable:
        """Return what identifies a backend with its key in this process."""
        return link.identities

    def choose(
        self,
        keys: Sequence[Hashable],
        rules: Health,
        lease: float,
    ) -> Work[tuple[Choice, Sequence[BackendHealth]]]:
        """Choose which of some backends a call asks; see `Store.choose`."""
        yield from ()
        if not self._known:
            return FIRST, ()
        with self._lock:
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
        with self._lock:
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

    def read(self, keys: Sequence[Hashable]) -> Work[Sequence[BackendHealth]]:
        """Return what is remembered of some backends."""
        yield from ()
        with self._lock:
            return [self._known.get(key, UNKNOWN) for key in keys]

    def take(
        self,
        key: Hashable,
        quota: Quota,
        claim: Claim,
    ) -> Work[tuple[float, bool]]:
        """Let an attempt through; see `Store.take`."""
        yield from ()
        with self._lock:
            return self._meters[key].take(quota, claim, self.now())

    def pay(
        self,
        key: Hashable,
        quota: Quota,
        paid: Settlement,
    ) -> Work[None]:
        """Count what an attempt has used; see `Store.pay`."""
        yield from ()
        with self._lock:
            self._meters[key].settle(quota, paid, self.now())

    def execute(self, command: Command) -> Any:
        """Do nothing: no operation asks a server."""

    def begin_anew(self) -> None:
        """Start anew in a forked child.

        The child replaces the lock, and forgets the parent's running attempts, whose ends it will
        not see.
        """
        self._lock = threading.RLock()
        for meter in self._meters.values():
            meter.leases = {}
            meter.queue = {}
        self._known = {key: health.without_probe() for key, health in self._known.items()}


_all = renewed_in_children(MemoryStore.begin_anew)
