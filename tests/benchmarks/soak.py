"""Make a hundred thousand calls in one process, with mixed faults, and see whether memory and
descriptors stay flat.

    python tests/benchmarks/soak.py [--calls 100000] [--json soak.json] [--seed 1]

It needs the `dev` extra, and takes some ten minutes on two cores; `--calls 5000` takes half a
minute and says nothing of memory, whose size the allocator is still finding then. Half of the calls
run in threads and half in event loops that follow one another, those of trio among them: calls,
streams and turns in six protocols, read to the end, left, closed, cancelled or late, within shared
budgets, by clients that last, that are closed and that are dropped. A server in a process of its
own answers them: well, with nothing, with half of something, with errors, silence, garbage and
resets. Which call and which answer comes when is drawn from the seed, but for what threads and the
network decide.

Each line shows what the process holds after so many calls, garbage collected. The verdict at the
end compares the last third with the first one behind a warm-up; the exit code is 1 where something
grew, was warned of, or went wrong.
"""

import argparse
import faulthandler
import json
import os
import platform
import random
import sys
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from soaking import faulty_server
from soaking.calls import Stage
from soaking.counts import Garbage, caches, counted, descriptors, largest, types
from soaking.rounds import Rounds, load
from soaking.verdict import TOLERANCES, faults, growth
from soaking.watch import Watch

SAMPLES = 60
ROUND = 500
FEWEST = 6  # rounds, so that one of them runs on trio
HANGS = 300
"""Seconds after which a round hangs, and the process ends with the stacks of its threads."""

COLUMNS = {
    "calls": "calls",
    "seconds": "s",
    "memory": "MiB",
    "in use": "in use",
    "objects": "objects",
    "blocks": "blocks",
    "idle descriptors": "fds",
    "descriptors": "closed",
    "threads": "threads",
    "tasks": "tasks",
    "garbage": "garbage/call",
    "longest": "longest",
}


def settle(threads: int) -> None:
    """Wait until what was left to itself has ended: a thread in a client that was passed in may
    outlast its call.
    """
    until = time.monotonic() + 5
    while threading.active_count() > threads and time.monotonic() < until:
        time.sleep(0.01)


def sampled(rounds: Rounds, garbage: Garbage, began: float) -> dict[str, Any]:
    """Count what the process holds now, with the connections that are kept and without."""
    settle(1)
    kept = descriptors()
    freed = garbage.objects
    rounds.stage.close()
    return {
        "calls": rounds.done,
        "seconds": round(time.monotonic() - began, 1),
        "idle descriptors": kept,
        **counted(),
        "collected": freed,
        "garbage": round(freed / rounds.done, 2),
        "longest": round(rounds.longest, 2),
        "caches": caches(),
        "outcomes": dict(rounds.outcomes),
    }


def show(sample: Mapping[str, Any]) -> None:
    """Print a sample in a line."""
    shown = {**sample, **{name: f"{sample[name] / 2**20:.1f}" for name in ("memory", "in use")}}
    print(
        "  ".join(f"{shown[name]:>{max(len(title), 7)}}" for name, title in COLUMNS.items()),
        flush=True,
    )


def soak(
    calls: int,
    every: int,
    seed: int,
    *,
    shows_types: bool,
) -> dict[str, Any]:
    """Make the calls, and return what was seen."""
    watch = Watch()
    garbage = Garbage()
    samples = list[dict[str, Any]]()
    watch.begin()
    print("  ".join(f"{title:>7}" for title in COLUMNS.values()))
    with faulty_server(seed) as ports:
        stage = Stage(ports)
        load(stage)
        rounds = Rounds(stage, random.Random(seed))
        began = time.monotonic()
        known = types()
        while rounds.done < calls:
            faulthandler.dump_traceback_later(HANGS, exit=True)
            rounds.make(min(ROUND, max(1, calls // FEWEST), calls - rounds.done))
            if (
                rounds.done - (samples[-1]["calls"] if samples else 0) >= every
                or rounds.done >= calls
            ):
                samples.append(sampled(rounds, garbage, began))
                show(samples[-1])
                if shows_types:
                    known, before = types(), known
                    print("   ", (known - before).most_common(12))
        faulthandler.cancel_dump_traceback_later()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "system": platform.platform(),
            "cores": cores(),
            "python": platform.python_version(),
        },
        "versions": {name: version(name) for name in ("rungwise", "httpx", "h11", "anyio", "trio")},
        "calls": calls,
        "seed": seed,
        "seconds": samples[-1]["seconds"],
        "longest": rounds.longest,
        "outcomes": dict(rounds.outcomes.most_common()),
        "kinds": dict(rounds.kinds.most_common()),
        "growth": growth(samples),
        "faults": faults(samples, calls, rounds.outcomes, watch.found, rounds.longest, largest()),
        "samples": samples,
    }


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main() -> int:
    """Run it, print the verdict, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--calls",
        type=int,
        default=100_000,
        help="how many (default 100000)",
    )
    parser.add_argument(
        "--every", type=int, help=f"calls between two samples (default: {SAMPLES} samples in all)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="which calls and faults are drawn (default 1)"
    )
    parser.add_argument("--json", type=Path, help="where to write all of it, with the curve")
    parser.add_argument("--types", action="store_true", help="show which objects have become more")
    args = parser.parse_args()
    seen = soak(
        args.calls, args.every or max(1, args.calls // SAMPLES), args.seed, shows_types=args.types
    )
    if args.json:
        args.json.write_text(json.dumps(seen, indent=1))
    print(f"\noutcomes: {', '.join(f'{count} {name}' for name, count in seen['outcomes'].items())}")
    grown = [
        f"{name} {share:+.2%} (may {TOLERANCES[name]:+.0%})"
        for name, share in seen["growth"].items()
    ]
    print(f"from the first third to the last: {', '.join(grown)}")
    for fault in seen["faults"]:
        print(f"WRONG: {fault}")
    print("flat" if not seen["faults"] else "not flat, or not honest")
    return int(bool(seen["faults"]))


if __name__ == "__main__":
    sys.exit(main())
