"""What threads and finalizers tell a thread that waits."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Nothing(Exception):
    """Say that nothing came in time."""


class Mailbox(Generic[T]):
    """Hold what was put in until a thread takes it.

    A finalizer may put something in while that very thread is in the middle of waiting, which an `Event` does not
    bear. `queue.SimpleQueue` does, but up to Python 3.12 its `get` waits for ever if the time is up in the middle of a
    signal's handler.
    """

    __slots__ = ("_bell", "_items")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._bell = threading.Lock()  # is let go when something comes
        self._bell.acquire()

    def put(self, item: T) -> None:
        """Put something in, from any thread."""
        self._items.append(item)
        with suppress(RuntimeError):  # it was let go already
            self._bell.release()

    def get(self, seconds: float | None) -> T:
        """Return what came first, and wait for it for so many seconds; None waits for as long as it takes.

        Raises:
            Nothing: nothing came in time.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            if self._items:
                return self._items.popleft()
            left = -1.0 if until is None else until - time.monotonic()
            if until is not None and left <= 0:
                raise Nothing
            self._bell.acquire(timeout=left)
