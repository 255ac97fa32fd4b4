"""What a piece of work takes of the machine: the most memory that it holds, and the time that it was kept waiting."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

STATUS: Final = Path("/proc/self/status")
CLEAR: Final = Path("/proc/self/clear_refs")
RESET_PEAK: Final = "5"
SCHEDULE: Final = Path("/proc/thread-self/schedstat")


def waited_for_a_core() -> float:
    """Return the seconds in which this thread could have gone on and other work had the cores; 0 where nobody tells."""
    try:
        return int(SCHEDULE.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


@contextmanager
def peak_memory() -> Iterator[Callable[[], int]]:
    """Measure a `with` block: what is handed out returns, after it, the most bytes held beyond those before.

    Linux knows the peak of a process and can forget it, which costs nothing; elsewhere Python traces its own memory,
    which slows it down.
    """
    try:
        CLEAR.write_text(RESET_PEAK)
        before = _kibibytes("VmRSS")
    except (OSError, LookupError):
        with _traced() as held:
            yield held
        return
    peak = before

    def most() -> int:
        return max(0, peak - before) * 1024

    try:
        yield most
    finally:
        peak = _kibibytes("VmHWM")


def _kibibytes(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(name)
    return int(found[1])


@contextmanager
def _traced() -> Iterator[Callable[[], int]]:
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before = peak = tracemalloc.get_traced_memory()[0]

    def most() -> int:
        return max(0, peak - before)

    try:
        yield most
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        if not was_tracing:
            tracemalloc.stop()
