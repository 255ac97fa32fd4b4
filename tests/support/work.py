"""How work grows with its size, in the processor time of this thread."""

import time
from collections.abc import Callable


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a piece of work. Counting calls would miss what C code
    copies.
    """
    start = time.thread_time()
    work()
    return time.thread_time() - start


def grows_within(
    little: Callable[[], object],
    much: Callable[[], object],
    *,
    times: float,
    floor: float,
) -> bool:
    """Tell whether the larger work takes less than `times` as long, in the best of several runs.

    Arguments:
        little: the work on a little.
        much: the work on much.
        times: the ratio that must not be reached.
        floor: seconds below which a ratio means nothing.
    """
    most = max(times * min(seconds(little) for _ in range(5)), floor)
    return any(seconds(much) < most for _ in range(5))
