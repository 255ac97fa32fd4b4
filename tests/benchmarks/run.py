"""Measure Rungwise beside what it is built on, all in one run, and print medians and ratios.

    python tests/benchmarks/run.py [--rounds N]

The contestants take turns within a round, so that a slow moment of the machine hits all of them.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

import rungwise

MESSAGES = [{"role": "user", "content": "What is a state machine?"}]
Contestant = Callable[[], object]


def race(contestants: dict[str, Contestant], rounds: int) -> dict[str, float]:
    """Return the median microseconds of each contestant."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        for _ in range(20):
            run()
    gc.collect()
    for _ in range(rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


def show(title: str, medians: dict[str, float], goal: float | None = None) -> None:
    """Print the medians, and how each compares with the first."""
    print(f"\n{title}" + (f" (goal: at most {goal:g} x)" if goal else ""))
    base = next(iter(medians.values()))
    for name, value in medians.items():
        print(f"  {name:<44} {value:9.1f} us {value / base:7.2f} x")


def core_call() -> None:
    """Run the core's happy path, journal included."""
    call = rungwise.Call(REQUEST)
    call.begin(0.0)
    call.receive(REPLY, 0.1)
    assert call.result.outcome == "done"


REQUEST = rungwise.Request(MESSAGES)
REPLY = rungwise.Reply("An answer.", stop_reason="stop", stop_raw="stop", usage=rungwise.Usage(10, 5))


def measure_core(rounds: int) -> None:
    """Print the cost of the core's happy call."""
    batch = 50

    def many() -> None:
        for _ in range(batch):
            core_call()

    median = race({"core": many}, max(20, rounds // 10))["core"] / batch
    print(f"\nThe core's happy call, journal included: {median:.1f} us (goal: 25 us)")


def measure_call(port: int, rounds: int) -> None:
    """Compare one call over HTTP with bare httpx."""
    url = f"http://127.0.0.1:{port}/v1"
    bare = httpx.Client()
    client = rungwise.Client(rungwise.OpenAIChat("bench", base_url=url), stream_calls=False)
    body = {"model": "bench", "messages": MESSAGES}
    contestants: dict[str, Contestant] = {
        "httpx.Client().post(...).json()": lambda: bare.post(f"{url}/chat/completions", json=body).json(),
        "Client.call of a whole body": lambda: client.call(MESSAGES),
    }
    show("One call", race(contestants, rounds), 1.15)


PROTOCOLS = ("OpenAIChat", "OpenAIResponses", "Anthropic", "Gemini", "Ollama", "Bedrock")


def measure_streams(port: int, rounds: int) -> None:
    """Compare a stream of 200 chunks in each protocol with reading its bytes."""
    url = f"http://127.0.0.1:{port}/v1"
    for name in PROTOCOLS:
        options = {"region": "eu-north-1"} if name == "Bedrock" else {}
        backend = getattr(rungwise, name)("bench", base_url=url, api_key="sk-bench-0123456789", **options)
        measure_stream(name, backend, rounds)


def measure_stream(name: str, backend: Any, rounds: int) -> None:
    """Compare a stream of 200 chunks with reading its bytes."""
    bare, client = httpx.Client(), rungwise.Client(backend)
    call = rungwise.Call(REQUEST, chain=(backend,))
    send = call.begin()
    assert send is not None
    asked = backend.encode(send, stream=True)

    def read_bytes() -> None:
        with bare.stream("POST", asked.url, content=asked.body, headers=dict(asked.headers)) as response:
            for _ in response.iter_bytes():
                pass

    def read_lines() -> None:
        with bare.stream("POST", asked.url, content=asked.body, headers=dict(asked.headers)) as response:
            for line in response.iter_lines():
                line = line.removeprefix("data: ")
                if line.startswith("{"):
                    json.loads(line)

    def stream() -> None:
        for _ in client.stream(MESSAGES):
            pass

    contestants: dict[str, Contestant] = {
        "httpx, the raw bytes": read_bytes,
        **({} if name == "Bedrock" else {"httpx, line iteration and json": read_lines}),
        "Client.stream": stream,
        "Client.call": lambda: client.call(MESSAGES),
    }
    show(f"A stream of 200 chunks, {name}", race(contestants, max(20, rounds // 4)), 1.6)


def measure_memory(count: int = 2_000) -> None:
    """Print what a call in flight holds, the texts aside."""
    policy, chain = rungwise.Policy(), (rungwise.PlainLink(),)
    rungwise.Call(REQUEST, policy, chain).begin()
    gc.collect()
    tracemalloc.start()
    calls = []
    for _ in range(count):
        call = rungwise.Call(REQUEST, policy, chain)
        call.begin()
        call.sending()
        calls.append(call)
    held = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    print(f"\nMemory held by a waiting call: {held:.0f} bytes (goal: 3000)")


def main() -> None:
    """Run every benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=1_000, help="rounds of the call benchmark (default 1000)")
    rounds = parser.parse_args().rounds
    command = [sys.executable, str(Path(__file__).with_name("server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        measure_core(rounds)
        measure_call(port, rounds)
        measure_streams(port, rounds)
        measure_memory()
        server.communicate()


if __name__ == "__main__":
    main()
