"""Work of several sizes, done again and again in memory, or at once over loopback."""

import asyncio
import gc
import time
from typing import Any

from support.growth import GROWTHS, peak_of
from support.workloads import Work

_works: dict[tuple[str, int], Work] = {}


def known() -> list[dict[str, Any]]:
    """Return what there is to grow."""
    return [
        {
            "name": each.name,
            "unit": each.unit,
            "sizes": each.sizes,
        }
        for each in GROWTHS.values()
    ]


def seconds(name: str, size: int, least: float = 0.03) -> float:
    """Return the seconds of the processor that the work of a size takes at best, repeated for a
    while.
    """
    work = _works.get((name, size))
    if work is None:
        work = _works[name, size] = GROWTHS[name].prepare(size)
        start = time.process_time()
        work()
        if time.process_time() - start > 1:
            return time.process_time() - start
        gc.collect()
    found: list[float] = []
    while sum(found) < least:
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def peak(name: str, size: int) -> int:
    """Return the most bytes that the work of a size holds at once."""
    work = GROWTHS[name].prepare(size)
    work()
    return peak_of(work)


def forget(name: str) -> None:
    """Let go of what was prepared."""
    for key in [key for key in _works if key[0] == name]:
        del _works[key]


_runner = asyncio.Runner()
_clients: dict[int, Any] = {}


def at_once(url: str, size: int) -> float:
    """Return the seconds of the processor that so many calls take which are begun at the same
    time.
    """
    from benchmarks.contestants import own

    async def all_of_them() -> float:
        if size not in _clients:
            _clients[size] = own.acall(url, connections=size, stream_calls=False)
            await asyncio.gather(*[_clients[size]() for _ in range(size)])
        start = time.process_time()
        await asyncio.gather(*[_clients[size]() for _ in range(size)])
        return time.process_time() - start

    return _runner.run(all_of_them())
