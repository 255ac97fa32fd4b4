"""End a call from outside."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

SLICE = 0.05
"""Seconds between two checks while a thread is blocked: half of the 0.1 s that callers are
promised.
"""


class Cancellation:
    """End a synchronous call from another thread, or from the loop that reads its stream.

    For an asynchronous call, cancel its task instead.
    """

    __slots__ = ("_callbacks", "_event", "_is_cancelled", "_is_urgent", "_lock")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._is_cancelled = False
        self._is_urgent = False
        # a signal handler may cancel while its own thread holds the lock
        self._lock = threading.RLock()
        self._callbacks: dict[object, Callable[[], None]] = {}

    def cancel(self) -> None:
        """End every call that was given this, within 0.1 s, whatever it is doing.

        On an HTTP client of your own, the thread in which the client works may outlast the call;
        see the README. Tools that cannot be cancelled are awaited. Cancel a second time to leave
        those behind, too.
        """
        with self._lock:
            self._is_urgent = self._is_cancelled
            self._is_cancelled = True
            self._event.set()
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            callback()

    @property
    def is_cancelled(self) -> bool:
        """Tell whether `cancel` was called."""
        return self._is_cancelled

    @property
    def is_urgent(self) -> bool:
        """Tell whether `cancel` was called more than once."""
        return self._is_urgent

    def wait(self, seconds: float) -> bool:
        """Wait, and tell whether the wait was cancelled.

        It waits in slices: a signal in the instant before a thread falls asleep does not wake it.
        """
        until = time.monotonic() + seconds
        while (remaining := until - time.monotonic()) > 0:
            if self._event.wait(min(remaining, SLICE)):
                return True
        return self.is_cancelled

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` on each `cancel`, and now if that was called before.

        Returns:
            A function that unregisters it.
        """
        key = object()
        with self._lock:
            self._callbacks[key] = callback
            is_late = self._event.is_set()
        if is_late:
            callback()
        return partial(self._take_back, key)

    def _take_back(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)


@contextmanager
def either(one: Cancellation, other: Cancellation | None) -> Iterator[Cancellation]:
    """Yield a cancellation that fires with the first of two."""
    if other is None:
        yield one
        return
    both = Cancellation()

    def forward(each: Cancellation) -> None:
        # the first `cancel` of one and the first of the other count as one
        if each.is_urgent or not both.is_cancelled:
            both.cancel()

    with ExitStack() as forgetting:
        for each in (one, other):
            forgetting.callback(each.on_cancel(partial(forward, each)))
        yield both
