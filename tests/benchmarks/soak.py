"""Make a hundred thousand calls in one process, with mixed faults, and look whether memory and descriptors stay flat.

python tests/benchmarks/soak.py [--calls 100000] [--json soak.json]
"""

from __future__ import annotations

import argparse
import logging
import random
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
from attrs import define, field
from soaking import counts
from soaking.calls import ASYNC, SYNC, Stage

import rungwise

THREADS, TASKS = 4, 48


@define(eq=False)
class Faults:
    """Note what nobody may see: what is warned of, what nobody retrieved, what could not be raised."""

    found: Counter[str] = field(factory=Counter)

    def watch(self) -> None:
        sys.unraisablehook = lambda told: self.note(f"unraisable: {told.exc_value!r} in {told.object!r}")
        threading.excepthook = lambda told: self.note(f"in a thread: {told.exc_value!r}")
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record: self.note(f"logged by {record.name}: {record.getMessage()}")  # type: ignore[method-assign]
        for name in ("asyncio", "rungwise", "concurrent.futures"):
            logging.getLogger(name).addHandler(handler)
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, category, *_: self.note(f"{category.__name__}: {message}")

    def note(self, fault: str) -> None:
        self.found[fault[:300]] += 1


@define(eq=False)
class Soak:
    stage: Stage
    draw: random.Random
    outcomes: Counter[str] = field(factory=Counter)
    kinds: Counter[str] = field(factory=Counter)
    longest: float = 0.0
    _lock: threading.Lock = field(factory=threading.Lock)

    def note(self, kind: str, outcome: str, seconds: float) -> None:
        with self._lock:
            self.outcomes[outcome] += 1
            self.kinds[kind] += 1
            self.longest = max(self.longest, seconds)

    def in_a_thread(self, kind: Any, number: int) -> None:
        began = time.monotonic()
        try:
            outcome = kind(self.stage, number)
        except (rungwise.CallError, rungwise.TurnError) as error:
            outcome = error.result.outcome
        except Exception as error:
            outcome = f"bug: {error!r}"[:300]
        self.note(kind.__name__, outcome, time.monotonic() - began)

    async def in_a_task(self, kind: Any, number: int) -> None:
        began = time.monotonic()
        try:
            outcome = await kind(self.stage, number)
        except (rungwise.CallError, rungwise.TurnError) as error:
            outcome = error.result.outcome
        except Exception as error:
            outcome = f"bug: {error!r}"[:300]
        self.note(kind.__name__, outcome, time.monotonic() - began)

    def round(self, first: int, size: int, backend: str) -> None:
        """Make some calls in threads and, at the same time, some in an event loop of their own."""
        self.stage.renew()
        sync = self.draw.choices(list(SYNC), list(SYNC.values()), k=size // 2)
        jobs = iter(list(enumerate(self.draw.choices(list(ASYNC), list(ASYNC.values()), k=size - size // 2), first)))

        async def work() -> None:
            for number, kind in jobs:
                await self.in_a_task(kind, number)

        async def main() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(TASKS):
                    group.start_soon(work)

        with ThreadPoolExecutor(THREADS) as threads:
            for number, kind in enumerate(sync, first + size - size // 2):
                threads.submit(self.in_a_thread, kind, number)
            anyio.run(main, backend=backend)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--round", type=int, default=500)
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--types", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    faults, garbage = Faults(), counts.Garbage()
    faults.watch()
    command = [sys.executable, str(Path(__file__).with_name("soaking") / "server.py"), str(args.seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        one, other = map(int, server.stdout.readline().split())
        soak = Soak(Stage((one, other)), random.Random(args.seed))
        began = time.monotonic()
        done, before, last = 0, None, 0
        every = args.every or max(args.round, args.calls // 50)
        while done < args.calls:
            size = min(args.round, args.calls - done)
            soak.round(done, size, "trio" if done // args.round % 5 == 4 else "asyncio")
            done += size
            if done // every > last or done >= args.calls:
                last = done // every
                freed = garbage.objects
                now = counts.counted()
                print(
                    done,
                    f"{time.monotonic() - began:.0f}s",
                    {k: v if k != "memory" else f"{v / 2**20:.1f}" for k, v in now.items()},
                    f"garbage/call {garbage.objects / done:.1f}",
                    f"longest {soak.longest:.2f}",
                    flush=True,
                )
                if args.types:
                    kinds = counts.types()
                    if before is not None:
                        print("   ", [(k, v) for k, v in (kinds - before).most_common(12)])
                    before = kinds
        print(soak.outcomes, sum(soak.outcomes.values()))
        print(soak.kinds)
        print(counts.caches())
        print(faults.found.most_common(20))
        server.communicate()


if __name__ == "__main__":
    main()
