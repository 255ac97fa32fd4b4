"""The heartbeat by which what this process holds in a store lives.

Theory. What an attempt holds in a store ends by itself after `LEASE` seconds: a place of a quota,
an amount of budgets, or the right to try a backend that was open. One thread of the process that
holds it renews it every `BEAT` seconds. A process that was killed renews nothing. So its places and
probes are free, and its amounts count as used up, within `LEASE` seconds of its last beat, however
long an attempt may take (Gray and Cheriton, Leases, 1989).

Two beats may be lost before that. A process that stood still for longer finds that its attempts
were counted at their caps; what it reports of them then counts no second time. An attempt of which
its call never reports the end is renewed for no longer than an attempt may last.

It costs a command every `BEAT` seconds for each place in the store where something is held, and a
thread for as long as anything is.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import Final

from rungwise.fsm.call.run.recording import logger
from rungwise.fsm.values.forks import renewed_in_children

LEASE: Final = 12.0
"""Seconds for which a store believes that a process lives which has renewed what it holds."""

BEAT: Final = 4.0
"""Seconds between two renewals."""

Names = tuple[str, ...]
"""The names by which a store knows what is held of."""


class Heart:
    """Renew what attempts hold in one store, for as long as this process lives.

    Arguments:
        renew: renews what some attempts hold; it is called in a thread of its own.
    """

    def __init__(self, renew: Callable[[Names, Sequence[str]], object]) -> None:
        self._renew = renew
        self.begin_anew()
        HEARTS.add(self)

    def begin_anew(self) -> None:
        """Begin without anything, as in a forked child: what the parent holds is the parent's."""
        self._lock = threading.Lock()
        self._beats = False  # whether the thread runs
        # each attempt with what it holds of, and when it is lost
        self._held: dict[str, tuple[Names, float]] = {}

    def hold(
        self,
        attempt: str,
        names: Names,
        seconds: float,
    ) -> None:
        """Renew what an attempt holds from now on.

        Arguments:
            attempt: what identifies it.
            names: what it holds of.
            seconds: how long the attempt may last.
        """
        with self._lock:
            self._held[attempt] = (names, monotonic() + seconds)
            begins = not self._beats
            self._beats = True
        if begins:
            threading.Thread(target=self._live, name="rungwise heartbeat", daemon=True).start()

    def drop(self, attempt: str) -> None:
        """Renew what an attempt held no more. A finalizer may call this anywhere."""
        self._held.pop(attempt, None)

    def beat(self) -> None:
        """Renew all that is held."""
        attempts = defaultdict(list)
        for attempt, (names, until) in list(self._held.items()):
            if until > monotonic():
                attempts[names].append(attempt)
            else:
                self.drop(attempt)
        for names, of_names in attempts.items():
            try:
                self._renew(names, of_names)
            except (
                Exception
            ) as error:  # the other places are renewed, and this one by the next beat
                logger.warning("the heartbeat of a store raised %s", type(error).__name__)

    def _live(self) -> None:
        while True:
            sleep(BEAT)
            with self._lock:
                self._beats = bool(self._held)
                if not self._beats:
                    return
            self.beat()


HEARTS = renewed_in_children(Heart.begin_anew)
"""Those of this process."""
