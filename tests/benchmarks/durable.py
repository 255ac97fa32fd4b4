"""Measure what a database of SQLite adds to a call, and how fast a batch runs beside `asyncio.gather` without one.

    python tests/benchmarks/durable.py [--calls N] [--prompts N]

It needs the `dev` extra. The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import machine  # noqa: E402  (the folder must be found first)
from rungwise import Client, Durable, OpenAIChat  # noqa: E402
from rungwise.adapters.durable.batch import Batch  # noqa: E402
from rungwise.adapters.durable.lines import read_lines  # noqa: E402
from rungwise.testing import EmbeddedProvider, ScriptedReply  # noqa: E402

MOST: Final = 0.020
"""The goal: seconds that a durable call may take longer, at the median."""

LEAST: Final = 110.0
"""The goal: prompts a second of a batch against a provider that takes 50 ms."""

AT_ONCE: Final = 50
LATENCY: Final = 0.05


def main() -> int:
    """Measure, print the figures, and return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--prompts", type=int, default=5_000)
    given = parser.parse_args()
    print("{date}, Python {python}, {cpu}, {cores} cores".format(**machine.described()))
    return int(_calls(given.calls)) | int(_prompts(given.prompts))


def _calls(count: int) -> bool:
    """Take turns, a plain call and a durable one; tell whether the goal is missed."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedProvider(lambda _: ScriptedReply(text="here")) as server:
        client = Client(OpenAIChat("m", base_url=server.base_url, api_key="k"))
        with client, Durable(client, f"sqlite:///{folder}/calls.sqlite") as durable:
            plain, kept = [], []
            for number in range(count):
                began = time.perf_counter()
                client.call("Where?")
                middle = time.perf_counter()
                durable.call(str(number), "Where?")
                plain.append(middle - began)
                kept.append(time.perf_counter() - middle)
    added = statistics.median(kept) - statistics.median(plain)
    print(
        f"a call: {statistics.median(plain) * 1e3:.1f} ms, a durable one {statistics.median(kept) * 1e3:.1f} ms: "
        f"adds {added * 1e3:.1f} ms (goal: at most {MOST * 1e3:.0f})"
    )
    return added > MOST


def _prompts(count: int) -> bool:
    """Run a batch, and the same calls without a database; tell whether the goal is missed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedProvider(lambda _: ScriptedReply(text="here", delay=LATENCY)) as server,
    ):
        prompts = Path(folder) / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": f"Where is {number}?"}) + "\n" for number in range(count)))
        client = Client(OpenAIChat("m", base_url=server.base_url, api_key="k"), max_connections=AT_ONCE)
        began = time.perf_counter()
        asyncio.run(_gathered(client, count))
        plain = count / (time.perf_counter() - began)
        with client, Durable(client, f"sqlite:///{folder}/batch.sqlite") as durable:
            began = time.perf_counter()
            answers = sum(1 for _ in Batch(durable, "prompts", AT_ONCE).run(read_lines(prompts)))
            rate = answers / (time.perf_counter() - began)
    print(
        f"{count} prompts: {plain:.0f} a second without a database, {rate:.0f} with SQLite "
        f"(goal: at least {LEAST:.0f}; ratio {rate / plain:.2f})"
    )
    return rate < LEAST


async def _gathered(client: Client, count: int) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with places:
            await client.acall(f"Where is {number}?")

    await asyncio.gather(*map(one, range(count)))
    await client.aclose()


if __name__ == "__main__":
    raise SystemExit(main())
