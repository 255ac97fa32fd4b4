"""Measure `rungwise tune`: the seconds that 300 candidates take for the default policy with three
backends.

    python tests/benchmarks/tune.py

It is the whole command, in two processes side by side. The exit code is 1 where the goal is missed:
by the clock, or on a busy machine by half of the processors' seconds, which two cores of its own
would take.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import orjson

sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import machine  # noqa: E402  (the folder must be found first)
from benchmarks.odds import rates_of  # noqa: E402

MOST_SECONDS: Final = 60
CANDIDATES: Final = 300
TARGETS: Final = ("--done", "99.95", "--p99", "20s", "--cost", "0.02")


def main() -> int:
    """Print the seconds of the command, and what it found."""
    machine.announced()
    with tempfile.TemporaryDirectory() as folder:
        rates = Path(folder, "rates.toml")
        rates.write_text(rates_of(3).to_toml(), encoding="utf-8")
        began = time.monotonic()
        command = [sys.executable, "-m", "rungwise", "tune", "--rates", str(rates), *TARGETS]
        output = subprocess.run(
            [*command, "--candidates", str(CANDIDATES), "--json"],
            check=True,
            stdout=subprocess.PIPE,
        )
        took = time.monotonic() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = orjson.loads(output.stdout)
    best = found["front"][found["best"]]
    processors = used.ru_utime + used.ru_stime
    print(
        f"{found['tried']} of {found['combinations']} combinations, {len(found['front'])} on the "
        f"front"
    )
    print(f"{took:.1f} s by the clock, {processors:.1f} s of the processors")
    print(
        "done {done:.6%}, P99 {p99:.2f} s, mean cost {cost:.6f}".format(**best["figures"]),
        best["changes"],
    )
    return int(min(took, processors / 2) > MOST_SECONDS or found["tried"] != CANDIDATES)


if __name__ == "__main__":
    sys.exit(main())
