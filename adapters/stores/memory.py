"""The store in the memory of this process."""

from __future__ import annotations

import os
import random
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rungwise.fsm.health.health import BackendHealth, Choice, Health, Symptom, choose

Key = frozenset[tuple[str, str]]
"""What identifies a backend with its key; see `Link.identities`."""

UNKNOWN: Final = BackendHealth()


class MemoryStore:
    """Hold the health of backends for any number of threads and event loops. What one writes, the next one reads.

    Arguments:
        clock: returns seconds on a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = clock
        self._known: dict[Key, BackendHealth] = {}
        self._lock = threading.Lock()
        _all.add(self)

    def choose(self, keys: Sequence[Key], rules: Health) -> tuple[Choice, Sequence[BackendHealth]]:
        """Choose which of some backends a call asks; return with it what is remembered of each."""
        if not self._known:
            return Choice(0), ()
        with self._lock:
            known = [self._known.get(key, UNKNOWN) for key in keys]
            choice = choose(known, self.now(), rules)
            for place, changed in choice.changed:
                self._known[keys[place]] = changed
        return choice, known

    def note(self, key: Key, symptom: Symptom, rules: Health, *, sent_at: float, was_probe: bool) -> None:
        """Remember what an attempt has shown of its backend; see `BackendHealth.after`."""
        if symptom.event in (None, "answered") and not was_probe and key not in self._known:
            return  # as nearly always: nothing is remembered of it
        with self._lock:
            known, now, draw = self._known.get(key, UNKNOWN), self.now(), random.random()
            after = known.after(symptom, now, rules, sent_at=sent_at, was_probe=was_probe, draw=draw)
            if after is not known:
                self._known[key] = after

    def read(self, keys: Sequence[Key]) -> Mapping[Key, BackendHealth]:
        """Return what is remembered of some backends."""
        with self._lock:
            return {key: self._known.get(key, UNKNOWN) for key in keys}

    def begin_anew(self) -> None:
        """Replace the lock in a forked child, and call back the parent's probes, whose ends it will not see."""
        self._lock = threading.Lock()
        self._known = {key: health.without_probe() for key, health in self._known.items()}


_all: weakref.WeakSet[MemoryStore] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_all):
        store.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
