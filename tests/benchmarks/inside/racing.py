"""Calls one after another, as many as fit into a time."""

import asyncio
import gc
import importlib
import time
from collections.abc import Callable
from typing import Any

_runs: dict[str, Callable[[float, int], dict[str, float]]] = {}


def prepare(
    key: str,
    module: str,
    way: str,
    url: str,
    options: dict[str, Any],
) -> str:
    """Make the client and warm it; return what a call gives."""
    made = getattr(importlib.import_module(f"benchmarks.contestants.{module}"), way)(url, **options)
    _runs[key] = _awaiting(made) if way.startswith("a") else _calling(made)
    text = _once(made)
    assert "tok" in text, text[:200]
    _runs[key](0.1, 1)
    gc.collect()
    return text[-20:]


_runner = asyncio.Runner()


def _once(made: Callable[[], Any]) -> str:
    got = made()
    return got if isinstance(got, str) else _runner.run(got)


def _calling(call: Callable[[], object]) -> Callable[[float, int], dict[str, float]]:
    def run(seconds: float, least: int) -> dict[str, float]:
        count = 0
        used = time.process_time()
        start = time.perf_counter()
        while count < least or time.perf_counter() - start < seconds:
            call()
            count += 1
        return _per_call(count, start, used)

    return run


def _awaiting(call: Callable[[], Any]) -> Callable[[float, int], dict[str, float]]:
    async def run(seconds: float, least: int) -> dict[str, float]:
        count = 0
        used = time.process_time()
        start = time.perf_counter()
        while count < least or time.perf_counter() - start < seconds:
            await call()
            count += 1
        return _per_call(count, start, used)

    return lambda seconds, least: _runner.run(run(seconds, least))


def _per_call(count: int, start: float, used: float) -> dict[str, float]:
    elapsed = time.perf_counter() - start
    return {
        "seconds": elapsed / count,
        "cpu": (time.process_time() - used) / count,
        "calls": count,
    }


def batch(key: str, seconds: float, least: int = 1) -> dict[str, float]:
    """Return the seconds of a call, and those of the processor, in one batch of them."""
    return _runs[key](seconds, least)
