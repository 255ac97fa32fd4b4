"""What is put in is taken in its order, and a wait for it ends in time, whatever signals come."""

import signal
import threading
import time

import pytest

from rungwise.adapters.http.waiting import Mailbox, Nothing


def test_what_other_threads_put_in_is_taken_in_its_order() -> None:
    box = Mailbox[int]()
    threading.Thread(target=lambda: [box.put(number) for number in range(3)]).start()
    assert [box.get(30) for _ in range(3)] == [0, 1, 2]
    box.put(3)
    assert box.get(None) == 3
    with pytest.raises(Nothing):
        box.get(0)


def test_a_wait_ends_in_time_though_a_signal_is_handled_as_the_time_is_up() -> None:
    """Up to Python 3.12 the wait of a `queue.SimpleQueue` then never ends."""
    before = signal.signal(signal.SIGALRM, lambda *_: time.sleep(0.1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        began = time.monotonic()
        with pytest.raises(Nothing):
            Mailbox[None]().get(0.05)
        assert time.monotonic() - began < 10
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
