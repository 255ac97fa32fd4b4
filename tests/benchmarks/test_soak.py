"""Many calls with mixed faults in a process of their own: nothing stays open or grows; every call
has an outcome.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import patience

SOAK = Path(__file__).with_name("soak.py")


@pytest.mark.full
@pytest.mark.parametrize(
    ("calls", "every"), [(300, 100), pytest.param(5_000, 500, marks=pytest.mark.soak)]
)
def test_nothing_stays_behind_calls_with_mixed_faults(
    calls: int, every: int, tmp_path: Path
) -> None:
    written = tmp_path / "soak.json"
    options = f"--calls {calls} --every {every} --json"
    command = [sys.executable, str(SOAK), *options.split(), str(written)]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=patience(600), check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert not run.stderr
    seen = json.loads(written.read_text())
    assert seen["faults"] == []
    assert sum(seen["outcomes"].values()) == sum(seen["kinds"].values()) == calls
    first = seen["samples"][0]
    last = seen["samples"][-1]
    for kept in ("descriptors", "threads", "tasks", "async generators", "coroutines", "frames"):
        assert first[kept] == last[kept], kept
