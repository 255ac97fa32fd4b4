"""A way to end a call from outside of it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Cancellation:
    """End a synchronous call from another thread, or from the loop that reads its stream.

    Asynchronous calls need none: cancel their task.
    """

    __slots__ = ("_callbacks", "_event", "_lock")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def cancel(self) -> None:
        """End every call that was given this: a wait at once, a read within a tenth of a second.

        On an HTTP client of the caller's own, an attempt that has not brought a first byte yet ends with its timeouts.
        """
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    @property
    def is_cancelled(self) -> bool:
        """Tell whether `cancel` was called."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait, and tell whether the wait was cut short."""
        return self._event.wait(seconds)

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have something called by `cancel`, at once if that was already called; return what takes it back."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return lambda: self._take_back(callback)
        callback()
        return lambda: None

    def _take_back(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
