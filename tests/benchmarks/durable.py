"""Measure what a database adds to a call, how fast a batch runs beside `asyncio.gather`, and what
two workers give.

    python tests/benchmarks/durable.py [--calls N] [--prompts N] [--queued N]

It needs the `dev` extra; where `pydantic-ai` is installed with its extra `dbos`, that runs the same
prompts. The second worker needs Postgres. The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import machine  # noqa: E402  (the folder must be found first)
from rungwise import Client, Durable, OpenAIChat  # noqa: E402
from rungwise.adapters.durable.batch import Batch, read_lines  # noqa: E402
from rungwise.testing import EmbeddedProvider, ScriptedReply  # noqa: E402
from support.postgres_server import PostgresServer  # noqa: E402

MOST: Final = 0.020
"""The goal: seconds that a durable call may take longer, at the median."""

LEAST: Final = 110.0
"""The goal: prompts a second of a batch against a provider that takes 50 ms."""

TWO: Final = 1.8
"""The goal: how many times as fast two workers are as one."""

AT_ONCE: Final = 50
AT_WORK: Final = 30  # in each worker
LATENCY: Final = 0.05


def main() -> int:
    """Measure, print the figures, and return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--prompts", type=int, default=5_000)
    parser.add_argument("--queued", type=int, default=600)
    parser.add_argument("--pydantic", help=argparse.SUPPRESS)  # the URL of a provider
    given = parser.parse_args()
    if given.pydantic:
        return asyncio.run(_pydantic(given.pydantic, given.prompts))
    machine.announced()
    return int(_calls(given.calls)) | int(_prompts(given.prompts)) | int(_workers(given.queued))


def _calls(count: int) -> bool:
    """Take turns, a plain call and a durable one; tell whether the goal is missed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedProvider(lambda _: ScriptedReply(text="here")) as server,
    ):
        client = Client(OpenAIChat("m", base_url=server.base_url, api_key="k"))
        with client, Durable(client, f"sqlite:///{folder}/calls.sqlite") as durable:
            plain = []
            kept = []
            for number in range(count):
                began = time.perf_counter()
                client.call("Where?")
                middle = time.perf_counter()
                durable.call(str(number), "Where?")
                plain.append(middle - began)
                kept.append(time.perf_counter() - middle)
    added = statistics.median(kept) - statistics.median(plain)
    print(
        f"a call: {statistics.median(plain) * 1e3:.1f} ms, a durable one "
        f"{statistics.median(kept) * 1e3:.1f} ms: adds {added * 1e3:.1f} ms (goal: at most "
        f"{MOST * 1e3:.0f})"
    )
    return added > MOST


def _prompts(count: int) -> bool:
    """Run a batch, and the same calls without a database; tell whether the goal is missed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedProvider(lambda _: ScriptedReply(text="here", delay=LATENCY)) as server,
    ):
        prompts = Path(folder) / "prompts.jsonl"
        prompts.write_text(
            "".join(json.dumps({"prompt": f"Where is {number}?"}) + "\n" for number in range(count))
        )
        client = Client(
            OpenAIChat("m", base_url=server.base_url, api_key="k"), max_connections=AT_ONCE
        )
        began = time.perf_counter()
        asyncio.run(_gathered(client, count))
        plain = count / (time.perf_counter() - began)
        with client, Durable(client, f"sqlite:///{folder}/batch.sqlite") as durable:
            began = time.perf_counter()
            answers = sum(1 for _ in Batch(durable, "prompts", AT_ONCE).run(read_lines(prompts)))
            rate = answers / (time.perf_counter() - began)
        if find_spec("pydantic_ai") is not None:
            command = [
                sys.executable,
                __file__,
                "--pydantic",
                server.base_url,
                "--prompts",
                str(count),
            ]
            subprocess.run(command, check=True, cwd=folder)
    print(
        f"{count} prompts: {plain:.0f} a second without a database, {rate:.0f} with SQLite "
        f"(goal: at least {LEAST:.0f}; ratio {rate / plain:.2f})"
    )
    return rate < LEAST


async def _pydantic(url: str, count: int) -> int:
    """Run the prompts by the agents of pydantic-ai, each a workflow of DBOS on SQLite."""
    from dbos import DBOS
    from pydantic_ai import Agent
    from pydantic_ai.durable_exec.dbos import DBOSAgent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    DBOS(config={"name": "pydantic", "system_database_url": "sqlite:///pydantic.sqlite"})
    agent: DBOSAgent = DBOSAgent(
        Agent(OpenAIChatModel("m", provider=OpenAIProvider(url, api_key="k")), name="herons")
    )
    DBOS.launch()
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with places:
            await agent.run(f"Where is {number}?")

    began = time.perf_counter()
    await asyncio.gather(*map(one, range(count)))
    print(
        f"{count} prompts: {count / (time.perf_counter() - began):.0f} a second with pydantic-ai "
        f"on DBOS and SQLite"
    )
    DBOS.destroy()
    return 0


def _workers(count: int) -> bool:
    """Run queued prompts with one worker and with two; tell whether the goal is missed."""
    if not any(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        print("a second worker: Postgres is not installed")
        return False
    rates = []
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedProvider(lambda _: ScriptedReply(text="here", delay=1.0)) as server,
        PostgresServer() as postgres,
    ):
        chain = f'[[chain.default]]\nmodel = "m"\nkey_env = ""\nbase_url = "{server.base_url}"\n'
        Path(folder, "chains.toml").write_text(chain)
        Path(folder, "prompts.jsonl").write_text('{"prompt": "Where?"}\n' * count)
        for workers in (1, 2):
            shared = ["--config", "chains.toml", "--database", postgres.new_database()]
            batch = [sys.executable, "-m", "rungwise", "batch", "prompts.jsonl", *shared]
            subprocess.run(
                [*batch, "--enqueue"],
                check=True,
                cwd=folder,
                stderr=subprocess.DEVNULL,
            )
            worker = [
                sys.executable,
                "-m",
                "rungwise",
                "worker",
                *shared,
                "--concurrency",
                str(AT_WORK),
            ]
            running = [
                subprocess.Popen(worker, cwd=folder, stderr=subprocess.PIPE) for _ in range(workers)
            ]
            before = len(server.requests)
            # a batch that waits would be a worker, too
            while len(server.requests) < before + count:
                time.sleep(0.1)
            # From the moment at which all are at work.
            times = [each.at for each in server.requests[before + AT_WORK * workers :]]
            rates.append(len(times) / (times[-1] - times[0]))
            for each in running:
                each.terminate()
                each.communicate()
    one, two = rates
    print(
        f"{count} queued prompts of 1 s, {AT_WORK} at once: {one:.1f} a second with one worker, "
        f"{two:.1f} with two (goal: at least {TWO:.1f} times; ratio {two / one:.2f})"
    )
    return two < TWO * one


async def _gathered(client: Client, count: int) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with places:
            await client.acall(f"Where is {number}?")

    await asyncio.gather(*map(one, range(count)))
    await client.aclose()


if __name__ == "__main__":
    raise SystemExit(main())
