"""Which processor a process keeps to."""

import os
import sys


def keep_to(which: int) -> None:
    """Keep this process to one of its processors, where the system can and there are several.

    Those of a shared machine are slow at some times, each at others than its neighbour: what is
    compared must run on the same one, and the server on another.

    Arguments:
        which: its place among them; -1 is the last.
    """
    if sys.platform == "linux":
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) > 1:
            os.sched_setaffinity(0, {allowed[which]})
