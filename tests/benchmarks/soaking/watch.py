"""Note what must not come about: warnings, exceptions that nobody retrieved, finalizers that
failed.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections import Counter
from typing import Any

from attrs import define, field

SLOW = "Executing "
"""How asyncio's debug mode begins when it tells that a callback took long, as it does on a busy
machine.
"""

OTHERS = ("Async generator 'httpx.", "Async generator 'httpcore.")
"""How trio tells of generators that httpx leaves within one another, where one is ended in the
middle of a body.
"""

LONGEST = 400


class _Told(logging.Handler):
    def __init__(self, watch: Watch) -> None:
        super().__init__(logging.WARNING)
        self.watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        is_fallback = hasattr(record, "rungwise_event")
        if not is_fallback and not record.getMessage().startswith(SLOW):
            cause = record.exc_info[1] if record.exc_info else None
            self.watch.note(f"{record.name} logged: {record.getMessage()} ({cause!r})")


@define(eq=False)
class Watch:
    """Count them by what they say, from `begin` on."""

    found: Counter[str] = field(factory=Counter, init=False)

    def begin(self) -> None:
        """Take the places of what prints them."""
        sys.unraisablehook = self._unraisable
        threading.excepthook = self._in_thread
        for name in ("asyncio", "rungwise", "concurrent.futures"):
            logging.getLogger(name).addHandler(_Told(self))
        warnings.simplefilter("always")
        warnings.showwarning = self._warned

    def note(self, fault: str) -> None:
        """Count one."""
        self.found[fault[:LONGEST]] += 1

    def _unraisable(self, told: Any) -> None:
        self.note(f"a finalizer raised {told.exc_value!r} in {told.object!r}")

    def _in_thread(self, told: Any) -> None:
        self.note(f"a thread ended with {told.exc_value!r}")

    def _warned(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if not str(message).startswith(OTHERS):
            self.note(f"{category.__name__}: {message}")
