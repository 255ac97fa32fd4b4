"""What the measures share: the environments, the server, how thorough to be, and the race."""

import contextlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.contestants import PEERS, Contestant
from benchmarks.figures import Figure, compared
from benchmarks.workers import Worker, WorkerError

BATCH = 0.02
"""Seconds of calls that a contestant makes when it is its turn; one at least."""
LONGEST = 3.0
"""Seconds after which a contestant sits out the rounds that are left: some take a second for a
call.
"""


@dataclass(frozen=True)
class Bench:
    """Where and how thoroughly to measure."""

    pythons: dict[str, Path]
    server: str
    rounds: int
    quick: bool = False
    pace: float = 1.0
    """How many times slower plain Python is here than on the machine that the goals in seconds are
    meant for.
    """

    def has(self, contestant: Contestant) -> bool:
        """Tell whether there is an environment for it."""
        return contestant.environment in self.pythons

    def url(
        self,
        *,
        chunks: int = 20,
        kind: str = "plain",
        milliseconds: int = 0,
    ) -> str:
        """Return the address at which such answers are given."""
        return f"{self.server}/{milliseconds}-{chunks}-{kind}/v1"

    @contextlib.contextmanager
    def team(self, contestants: Iterable[Contestant]) -> Iterator[dict[Contestant | str, Worker]]:
        """Start a process for each contestant that has an environment."""
        with contextlib.ExitStack() as stack:
            yield {
                each.who: stack.enter_context(Worker(self.pythons[each.environment]))
                for each in contestants
                if self.has(each)
            }


def race(
    bench: Bench,
    workers: dict[Any, Worker],
    entries: Iterable[tuple[Contestant, str, dict[str, Any]]],
    url: str,
    *,
    by_processor: bool = False,
) -> list[Figure]:
    """Let contestants take turns within each round; what one cannot do is said, and goes without
    it.

    Arguments:
        bench: how many rounds.
        workers: the processes of the contestants.
        entries: each contestant with the name of what it does, and the options that are added to
        its own.
        url: where the answers are.
        by_processor: whether to compare CPU time, because most of the time is the server's.
    """
    ready = []
    for contestant, way, options in entries:
        worker = workers.get(contestant.who)
        key = f"{way} {url} {options}"
        if worker is None:
            continue
        given = {
            "module": contestant.module,
            "way": way,
            "url": url,
            "options": {**contestant.options, **options},
        }
        try:
            worker.ask("inside.racing:prepare", key=key, **given)
        except WorkerError as error:
            if contestant not in PEERS:
                raise
            print(f"{contestant.who} is left out: {error}", file=sys.stderr)
            continue
        ready.append((contestant.who, worker, key))
    rounds: list[dict[str, float]] = []
    cpu: list[dict[str, float]] = []
    spent: Counter[str] = Counter()
    for number in range(bench.rounds):
        found = {}
        turn = number % len(ready)
        for who, worker, key in ready[turn:] + ready[:turn]:
            if spent[who] < LONGEST:
                found[who] = worker.ask("inside.racing:batch", key=key, seconds=BATCH)
                spent[who] += found[who]["seconds"] * found[who]["calls"]
        rounds.append({who: found[who]["seconds"] for who, _, _ in ready if who in found})
        cpu.append({who: found[who]["cpu"] for who, _, _ in ready if who in found})
    return compared(cpu if by_processor else rounds, cpu)
