"""Many calls at once in one event loop, for a time."""

import asyncio
import importlib
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

GRACE = 5.0
_runner = asyncio.Runner()
_calls: list[Callable[[], Awaitable[str]]] = []


def prepare(module: str, url: str, options: dict[str, Any]) -> None:
    """Make the client, and one call."""
    _calls[:] = [importlib.import_module(f"benchmarks.contestants.{module}").acall(url, **options)]

    async def once() -> str:
        return await _calls[0]()

    text = _runner.run(once())
    assert "tok" in text, text[:200]


def load(at_once: int, seconds: float, limit: float) -> dict[str, float]:
    """Return the calls a second that are finished, and what each costs the processor, with that
    many at once.

    Arguments:
        at_once: how many tasks make one call after another.
        seconds: for which finished calls are counted, from when there are as many of them as tasks;
            at least until there are as many again.
        limit: the seconds after which that is no more waited for; what was finished by then is the
            answer.
    """
    counts = Counts(at_once)
    thread = threading.Thread(target=_runner.run, args=(_calling(at_once, counts),), daemon=True)
    before = counts.mark()
    thread.start()
    has_begun = counts.all_made_one.wait(limit)
    if has_begun:
        before = start, _, finished = counts.mark()
        enough = finished + at_once  # calls end in waves: at least one whole one is counted
        while (passed := time.perf_counter() - start) < seconds or (
            counts.finished < enough and passed < limit
        ):
            time.sleep(0.02)
    elapsed, cpu, calls = (late - early for late, early in zip(counts.mark(), before, strict=True))
    counts.ending = True
    thread.join(GRACE if has_begun else 0)
    return {
        "calls": calls,
        "failed": counts.failed,
        "a_second": calls / elapsed,
        "cpu": cpu / max(calls, 1),
        "has_begun": has_begun,
        "is_idle": not thread.is_alive(),
    }


class Counts:
    """What is counted from outside of the event loop, which may be too busy to look at a clock."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.finished = 0
        self.failed = 0
        self.ending = False
        self.all_made_one = threading.Event()

    def mark(self) -> tuple[float, float, int]:
        return time.perf_counter(), time.process_time(), self.finished


async def _calling(at_once: int, counts: Counts) -> None:
    call = _calls[0]

    async def task() -> None:
        while not counts.ending:
            try:
                await call()
            except Exception:
                counts.failed += 1
            counts.finished += 1
            if counts.finished == counts.at_once:
                counts.all_made_one.set()

    await asyncio.gather(*[task() for _ in range(at_once)])
