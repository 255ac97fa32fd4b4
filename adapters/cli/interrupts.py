"""Ctrl-C while tools run: it ends the turn wherever this thread happens to be, and is told of like any other end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from rungwise.adapters.http.cancellation import Cancellation


@contextmanager
def ctrl_c_cancels() -> Iterator[Cancellation]:
    """Let the first and the second Ctrl-C cancel what is given this; the third one is an interrupt as always."""
    cancellation, presses = Cancellation(), count(1)

    def press(*_: object) -> None:
        if next(presses) > 2:
            raise KeyboardInterrupt
        # In a thread of its own: this one may hold the very lock that is needed.
        threading.Thread(target=cancellation.cancel, daemon=True).start()

    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_ours or threading.current_thread() is not threading.main_thread():
        yield cancellation
        return
    signal.signal(signal.SIGINT, press)
    try:
        yield cancellation
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
