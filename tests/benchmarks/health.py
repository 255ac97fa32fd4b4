"""Measure what health adds to a call: in memory, and in a Redis server on loopback.

    python tests/benchmarks/health.py [--rounds N]

It needs the `dev` extra, and leaves Redis out without a `redis-server`. The clients take turns, a
round of calls each. The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import machine  # noqa: E402  (the folder must be found first)
from benchmarks.workers import serving  # noqa: E402
from rungwise import Client, OpenAIChat  # noqa: E402
from support.redis_server import RedisServer  # noqa: E402

CALLS: Final = 20
"""Calls of one client in a round."""

WITHOUT = "without"
MEMORY = "in memory"
REDIS = "in Redis"
MOST: Final = {MEMORY: 20e-6, REDIS: 600e-6}
"""The goals: seconds that a call may take longer than without, at the median of the rounds."""


def main() -> int:
    """Measure, print what each client adds, and return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=150)
    rounds = parser.parse_args().rounds
    machine.announced()
    with ExitStack() as stack:
        server = stack.enter_context(serving(Path(sys.executable)))
        chain = [
            OpenAIChat("m", base_url=f"{server}/0-20-plain/v1", name=name)
            for name in ("primary", "second")
        ]
        clients = {WITHOUT: Client(chain, health=None, retry_share=None), MEMORY: Client(chain)}
        if shutil.which("redis-server") is not None:
            clients[REDIS] = Client(chain, store=stack.enter_context(RedisServer()).url)
        for client in clients.values():
            stack.enter_context(client)
            _seconds(client)
        taken = [
            {name: _seconds(client) for name, client in clients.items()} for _ in range(rounds)
        ]
    missed = False
    for name in clients:
        seconds = statistics.median(each[name] for each in taken)
        added = statistics.median(each[name] - each[WITHOUT] for each in taken)
        goal = MOST.get(name)
        missed |= goal is not None and added > goal
        note = (
            "" if goal is None else f", adds {added * 1e6:.1f} µs (goal: at most {goal * 1e6:.0f})"
        )
        print(f"{name}: a call takes {seconds * 1e6:.0f} µs{note}")
    return int(missed)


def _seconds(client: Client) -> float:
    """Return the seconds of one call, of as many as a round has."""
    began = time.perf_counter()
    for _ in range(CALLS):
        client.call("Where do herons nest?")
    return (time.perf_counter() - began) / CALLS


if __name__ == "__main__":
    raise SystemExit(main())
