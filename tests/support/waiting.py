"""Waits for threads, tasks and processes, with deadlines that grow on a slow machine."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpx

IDLE = 0.03
"""Seconds that the work of `slowness` takes on an idle machine."""


@cache
def slowness() -> float:
    """Return how many times slower than an idle machine this one is, at least 1; measured once in
    each process.
    """
    began = time.perf_counter()
    sum(number * number for number in range(500_000))
    return max((time.perf_counter() - began) / IDLE, 1.0)


def patience(seconds: float = 60.0) -> float:
    """Return a deadline for this machine.

    Arguments:
        seconds: the deadline on an idle machine; the default is enough for any process that a test
            starts.
    """
    return seconds * slowness()


def answers(url: str) -> bool:
    """Tell whether a server answers there, with a status below 400."""
    try:
        return httpx.get(url).status_code < 400
    except httpx.HTTPError:
        return False


def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait until a condition holds, and fail after some seconds."""
    deadline = time.monotonic() + patience(seconds)
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def auntil(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait until a condition holds while the other tasks of this event loop run."""
    deadline = time.monotonic() + patience(seconds)
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def let_ctrl_c_interrupt() -> Any:
    """Handle SIGINT as Python does by default, and return the handler before.

    A shell ignores SIGINT in what it starts in the background, and child processes inherit that.
    Pass this as the `preexec_fn` of a process that a test interrupts.
    """
    return signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def ctrl_c_interrupts() -> Iterator[None]:
    """Let Ctrl-C interrupt this process, and restore the handler afterwards."""
    before = let_ctrl_c_interrupt()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
