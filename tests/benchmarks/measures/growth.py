"""How costs grow with what they are given: parts, chunks, messages, backends, calls at once, ..."""

import math
from collections.abc import Iterator
from typing import Any

from benchmarks.bench import Bench
from benchmarks.contestants import WHOLE
from benchmarks.figures import Goal, Growth, Section, Verdict
from benchmarks.workers import Worker

PARTS = "parts"
PER_PART = Goal("time of a part, the dearest of 10 to 1 000 parts, over one of 10", "≤", 1.3)
HELD_PER_PART = Goal("memory of a part of 1 000, over one of 10", "≤", 1.3)
AT_ONCE = (16, 64, 256, 1000, 2000)
CHOSEN = (
    PARTS,
    "chunks",
    "characters",
    "messages",
    "tool calls",
    "backends",
    "a certificate, by its limits",
    "a certificate, by its backends",
)
QUICK = (PARTS, "messages")
LONGEST = 2.0
"""Seconds after which no larger size is tried."""


def measure(bench: Bench) -> Iterator[Section]:
    """Time each size of each growth, in turns, and fit a power to the larger sizes."""
    with bench.team([WHOLE]) as workers:
        [worker] = workers.values()
        known = {each["name"]: each for each in worker.ask("inside.growth:known")}
        for name in QUICK if bench.quick else CHOSEN:
            growth, rounds = _growth(
                worker, known[name], min(bench.rounds, 2 if bench.quick else 4)
            )
            verdicts = list(_verdicts(worker, rounds)) if name == PARTS else []
            yield Section(
                f"growth.{name}", f"Growth: {name}", "s", growths=[growth], verdicts=verdicts
            )
        name = "calls at once, over HTTP"
        yield Section(
            f"growth.{name}", f"Growth: {name}", "s", growths=[_calls_at_once(worker, bench, name)]
        )


def _verdicts(worker: Worker, rounds: list[dict[int, float]]) -> Iterator[Verdict]:
    sizes = sorted(rounds[0])
    first = sizes[0]
    last = sizes[-1]
    held = {
        size: worker.ask("inside.growth:peak", name=PARTS, size=size) / size
        for size in (first, last)
    }
    # Within a round, for a machine that is slow for a while is slow for all sizes.
    yield PER_PART.of(
        max(min(each[size] / size * first / each[first] for each in rounds) for size in sizes)
    )
    yield HELD_PER_PART.of(held[last] / held[first])


def _growth(
    worker: Worker, known: dict[str, Any], rounds: int
) -> tuple[Growth, list[dict[int, float]]]:
    best: dict[int, float] = {}
    found_in: list[dict[int, float]] = []
    for _ in range(rounds):
        found_in.append({})
        for size in known["sizes"]:
            if best and (max(best.values()) > LONGEST if size not in best else best[size] > 1):
                break
            found = worker.ask("inside.growth:seconds", name=known["name"], size=size)
            best[size] = min(found, best.get(size, found))
            found_in[-1][size] = found
    worker.ask("inside.growth:forget", name=known["name"])
    return _fitted(known["name"], known["unit"], best), found_in


def _calls_at_once(worker: Worker, bench: Bench, name: str) -> Growth:
    sizes = AT_ONCE[:3] if bench.quick else AT_ONCE
    best: dict[int, float] = {}
    for _ in range(3):
        for size in sizes:
            found = worker.ask("inside.growth:at_once", url=bench.url(), size=size)
            best[size] = min(found, best.get(size, found))
    return _fitted(name, "calls", best)


def _fitted(
    name: str,
    unit: str,
    best: dict[int, float],
) -> Growth:
    sizes = sorted(best)
    points = [(math.log(size), math.log(best[size])) for size in sizes[-3:]]
    x_mean, y_mean = (sum(each) / len(points) for each in zip(*points, strict=True))
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    slope = sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else math.nan
    return Growth(name, unit, sizes, [best[size] for size in sizes], slope)
