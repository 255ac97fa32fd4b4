"""On what, with what and when it was measured."""

import os
import platform
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

REFERENCE_MS = 1.86
"""What the fixed piece of plain Python takes on the machine that the goals in seconds are meant
for.
"""


def reference() -> float:
    """Return the seconds that a fixed piece of plain Python takes at best, to compare machines
    by.
    """
    return min(_loop() for _ in range(30))


def _loop() -> float:
    start = time.perf_counter()
    table: dict[int, str] = {}
    for number in range(20_000):
        table[number % 1000] = str(number)
    assert sum(map(len, table.values())) == 5000
    return time.perf_counter() - start


def described() -> dict[str, Any]:
    """Return the date and the machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "reference_ms": round(reference() * 1e3, 2),
    }


def announced() -> dict[str, Any]:
    """Print the date and the machine, and return them."""
    found = described()
    line = "{date}, Python {python}, {cpu}, {cores} cores; plain Python: {reference_ms} ms"
    print(line.format(**found), flush=True)
    return found


def _cpu() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def versions(distributions: list[str]) -> dict[str, str]:
    """Return those that are installed."""
    found = {}
    for name in distributions:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
