"""Measure `rungwise stats`: the seconds for many journals, and whether its memory grows with their
number.

    python tests/benchmarks/stats.py [--journals N]

A tenth of them are files of a folder, the others lines of one file. The exit code is 1 where a goal
is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import machine  # noqa: E402  (the folder must be found first)
from rungwise import Policy, Prices, Usage  # noqa: E402
from rungwise.core import Call, Failure, PlainLink, Reply, Request  # noqa: E402
from rungwise.fsm.engine.journal.record import json_of  # noqa: E402

MOST_SECONDS: Final = 60
MOST_GROWTH: Final = 1.5
"""The goals: the processor's seconds for 100 000 journals, and how much more memory they take than
a tenth of them.
"""

DIFFERENT: Final = 500
"""Calls that are played; each is written many times, with other times and models."""

ANSWER: Final = Reply(
    "In the reeds.",
    stop_reason="stop",
    stop_raw="stop",
    usage=Usage(700, 90),
)
FAULTS: Final = (
    Failure("rate_limit", status=429, asked_wait=3.0),
    Failure("overloaded", status=529),
    Failure("auth", status=401),
    Reply(stop_reason="stop", stop_raw="stop", usage=Usage(700, 1)),
)


def played(chance: random.Random) -> dict[str, Any]:
    """Return the journal of a call, two of five replies of which are faults."""
    prices = Prices(1.25, 10)
    links = [
        PlainLink(name, model=f"{name}-1", prices=prices, streams=True)
        for name in ("primary", "second", "third")
    ]
    call = Call(
        Request("Where do herons nest?", max_tokens=500), Policy(), links, jitter=chance.random
    )
    now = 0.0
    send = call.begin(0.0)
    while send is not None:
        now += send.wait + chance.lognormvariate(0, 1)
        send = call.receive(chance.choice(FAULTS) if chance.random() < 0.4 else ANSWER, now)
    return call.journal.to_document()


def journals(number: int) -> Iterator[dict[str, Any]]:
    """Yield so many journals, of a month and six models."""
    chance = random.Random(1)
    calls = [played(chance) for _ in range(DIFFERENT)]
    for _ in range(number):
        document = chance.choice(calls)
        document["started"] = 1_795_000_000 + chance.random() * 30 * 86_400
        for link in document["chain"]:
            link["model"] = f"{link['name']}-{chance.randint(1, 2)}"
        document["steps"][-1]["first_token"] = chance.lognormvariate(-1, 1)
        yield document


def write(folder: Path, number: int) -> None:
    """Write so many journals to a folder."""
    with (folder / "journals.jsonl").open("w", encoding="utf-8") as lines:
        for place, document in enumerate(journals(number)):
            if place % 10:
                lines.write(json_of(document) + "\n")
            else:
                (folder / f"{place}.json").write_text(
                    json_of(document, is_indented=True), encoding="utf-8"
                )


def measured(folder: Path) -> tuple[float, float, float]:
    """Return the seconds of the command, those of its processor, and its peak of resident memory in
    MB.
    """
    command = [sys.executable, "-m", "rungwise", "stats", str(folder), "-o", f"{folder}/chart.svg"]
    began = time.perf_counter()
    _, status, used = os.wait4(os.spawnv(os.P_NOWAIT, command[0], command), 0)
    if status:
        raise SystemExit("the command has failed")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def main() -> int:
    """Measure, print the figures, and return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--journals", type=int, default=100_000)
    number = parser.parse_args().journals
    machine.announced()
    memory = []
    for size in (number // 10, number):
        with TemporaryDirectory() as folder:
            write(Path(folder), size)
            passed, seconds, peak = measured(Path(folder))
        memory.append(peak)
        print(f"{size} journals: {passed:.1f} s, {seconds:.1f} s of the processor, {peak:.0f} MB")
    limit = MOST_SECONDS * max(number, 10_000) / 100_000
    print(
        f"goals: at most {limit:.0f} s of the processor, and {MOST_GROWTH} times the memory of a "
        f"tenth"
    )
    return int(seconds > limit or memory[1] > MOST_GROWTH * memory[0])


if __name__ == "__main__":
    raise SystemExit(main())
