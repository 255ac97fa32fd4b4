"""A failure on a machine that held the test up shows nothing about the code.

Tests over HTTP meet real clocks: a server sends a piece every 0.15 seconds to a client that waits
for 0.4. Where other processes take the processor for longer than that, the server is late, and the
client rightly calls it silent. So a beat goes beside each such test. Where a test fails and the
beat stopped meanwhile, the test is run again; where the beat was regular, the failure stands.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from _pytest.runner import runtestprotocol
from attrs import define

EVERY = 0.02
"""Seconds between two beats."""

TOO_LONG = 0.1
"""Seconds without a beat that may change what a test sees: the least that its limits leave."""

TIMES = 4
"""How often a test is run at most. What fails for a fault of its own fails each time."""


@define
class Beat:
    """How regularly a thread came to its turn.

    Attributes:
        longest: the longest time in seconds between two beats.
    """

    longest: float = 0.0


@contextmanager
def beating() -> Iterator[Beat]:
    """Watch how regularly the threads of this process come to their turn."""
    beat = Beat()
    ended = threading.Event()

    def watch() -> None:
        last = time.monotonic()
        while not ended.wait(EVERY):
            now = time.monotonic()
            beat.longest = max(beat.longest, now - last)
            last = now
        beat.longest = max(beat.longest, time.monotonic() - last)

    thread = threading.Thread(target=watch, name="beat", daemon=True)
    thread.start()
    try:
        yield beat
    finally:
        ended.set()
        thread.join()


def run_again_where_held_up(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Run a test and report it as pytest does, once more where it fails and was held up."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(TIMES):
        with beating() as beat:
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if beat.longest < TOO_LONG or not any(report.failed for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
