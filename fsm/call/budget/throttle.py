"""A budget against retry storms: how many retries all calls of a client may make together.

When a provider is down, every call retries, and its load becomes many times what it was. So
retries, reasks and rechecks are at most a share of the last calls; past it, a call goes on as
if none were left to it. (gRPC A6 throttles retries like this, botocore with a quota of tokens.) The
first request of a call always goes out, fallbacks never count, and neither does a retry that waited
for what the provider asked.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

WINDOW: Final = 1_000
"""The number of the last calls over which retries are counted."""

LEAST: Final = 100
"""The number of calls from which on anything is held back: of fewer, a share says nothing."""

REPEATS: Final = frozenset({"retry", "reask", "recheck"})
"""The rungs that are counted."""


class RetryThrottle:
    """Count the retries of the last calls of a client, in any number of threads."""

    def __init__(self, share: float) -> None:
        self._share = share  # the most retries for each of these calls, from 0 to 1
        self._retries: deque[int] = deque(maxlen=WINDOW)  # of each of the last calls
        self._total = 0
        self._lock = threading.Lock()

    def begin(self) -> RetryShare:
        """Count a call, and return what it may draw from."""
        with self._lock:
            if len(self._retries) == WINDOW:
                self._total -= self._retries[0]
            self._retries.append(0)
        return RetryShare(self)

    def take(self) -> bool:
        """Take one retry, if the share allows it."""
        with self._lock:
            is_allowed = len(self._retries) < LEAST or self._total + 1 <= self._share * len(
                self._retries
            )
            if is_allowed:
                self._retries[-1] += 1
                self._total += 1
        return is_allowed

    def give_back(self) -> None:
        """Give back a retry that was not made."""
        with self._lock:
            self._retries[-1] -= 1
            self._total -= 1


class RetryShare:
    """Draw the retries of one call. Each is taken before its row is chosen, and given back if that
    is another.
    """

    __slots__ = ("_throttle", "_was_taken")

    def __init__(self, throttle: RetryThrottle) -> None:
        self._throttle = throttle
        self._was_taken = False

    def is_used_up(self) -> bool:
        """Tell whether no retry is left; otherwise one is taken."""
        self._was_taken = self._throttle.take()
        return not self._was_taken

    def settle(self, rung: str) -> None:
        """Give back what was taken if the call came to none of these rungs."""
        if self._was_taken and rung not in REPEATS:
            self._throttle.give_back()
        self._was_taken = False
