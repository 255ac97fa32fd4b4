"""Make calls in rounds: each has its threads and an event loop of its own, side by side."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import anyio
from attrs import define, field

import rungwise
from soaking.calls import ASYNC, SYNC, Stage, is_asyncio

THREADS = 4
TASKS = 48
TRIO_EVERY = 5
"""Each so many rounds one runs on trio."""


def load(stage: Stage) -> None:
    """Make a call of each kind, so that what each of them imports counts from the beginning."""

    async def of_each_kind() -> None:
        for kind in ASYNC:
            with suppress(rungwise.CallError, rungwise.TurnError):
                await kind(stage, 1)
        if not is_asyncio():
            await stage.aclose()

    for kind in SYNC:
        with suppress(rungwise.CallError, rungwise.TurnError):
            kind(stage, 1)
    for backend in ("asyncio", "trio"):
        anyio.run(of_each_kind, backend=backend)


@define(eq=False)
class Rounds:
    """Make calls, and count what comes of them.

    Arguments:
        stage: what they share.
        draw: says which kind each one is of.
        outcomes, kinds: how many there were of each.
        longest: the seconds of the longest call.
    """

    stage: Stage
    draw: random.Random
    outcomes: Counter[str] = field(factory=Counter, init=False)
    kinds: Counter[str] = field(factory=Counter, init=False)
    longest: float = field(default=0.0, init=False)
    number: int = field(default=0, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @property
    def done(self) -> int:
        """Count the calls that have ended."""
        return sum(self.outcomes.values())

    def make(self, size: int) -> None:
        """Make so many calls, half of them in threads and half in a new event loop, and wait for
        all of them.
        """
        self.stage.renew()
        first = self.done
        in_threads = size // 2
        sync = self.draw.choices(list(SYNC), list(SYNC.values()), k=in_threads)
        tasks = enumerate(
            self.draw.choices(list(ASYNC), list(ASYNC.values()), k=size - in_threads),
            first + in_threads,
        )
        self.number += 1

        async def work() -> None:
            for number, kind in tasks:
                await self._in_a_task(kind, number)

        async def main() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(TASKS):
                    group.start_soon(work)
            if not is_asyncio():  # what an ended loop of asyncio has left is found without
                await self.stage.aclose()

        with ThreadPoolExecutor(THREADS) as threads:
            for number, kind in enumerate(sync, first):
                threads.submit(self._in_a_thread, kind, number)
            anyio.run(main, backend="asyncio" if self.number % TRIO_EVERY else "trio")

    def _in_a_thread(self, kind: Callable[[Stage, int], str], number: int) -> None:
        began = time.monotonic()
        try:
            outcome = kind(self.stage, number)
        except BaseException as error:
            outcome = _outcome_of(error)
        self._note(kind.__name__, outcome, time.monotonic() - began)

    async def _in_a_task(
        self, kind: Callable[[Stage, int], Coroutine[Any, Any, str]], number: int
    ) -> None:
        began = time.monotonic()
        try:
            outcome = await kind(self.stage, number)
        except Exception as error:
            outcome = _outcome_of(error)
        self._note(kind.__name__, outcome, time.monotonic() - began)

    def _note(
        self,
        kind: str,
        outcome: str,
        seconds: float,
    ) -> None:
        with self._lock:
            self.outcomes[outcome] += 1
            self.kinds[kind] += 1
            self.longest = max(self.longest, seconds)


def _outcome_of(error: BaseException) -> str:
    if isinstance(error, rungwise.CallError | rungwise.TurnError):
        return str(error.result.outcome)
    return f"raised {error!r}"[:200]
