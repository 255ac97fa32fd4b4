"""A way to end a call from outside of it."""

from __future__ import annotations

import threading


class Cancellation:
    """End a synchronous call from another thread, or from the loop that reads its stream.

    Asynchronous calls need none: cancel their task.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """End every call that was given this; a wait ends at once, a read within a tenth of a second."""
        self._event.set()

    @property
    def is_cancelled(self) -> bool:
        """Tell whether `cancel` was called."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait, and tell whether the wait was cut short."""
        return self._event.wait(seconds)
