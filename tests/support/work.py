"""How the work on more of the same grows: in the processor's time of this thread, which no other process adds to."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(work: Callable[[], object]) -> float:
    """Return the processor's time that a piece of work takes; counting calls would not see what C code copies."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def grows_within(little: Callable[[], object], much: Callable[[], object], *, times: float, floor: float) -> bool:
    """Tell whether more of the same takes no more than so many times as long, in the best of several runs.

    Arguments:
        little: the work on a little.
        much: the work on much.
        times: the ratio that may not be reached.
        floor: seconds below which no ratio tells anything.
    """
    most = max(times * min(seconds(little) for _ in range(5)), floor)
    return any(seconds(much) < most for _ in range(5))
