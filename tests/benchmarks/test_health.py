"""The benchmark of health runs. Nothing is timed here."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import patience

COMMAND = Path(__file__).with_name("health.py")


@pytest.mark.full
def test_the_command_measures_every_client() -> None:
    asked = [sys.executable, str(COMMAND), "--rounds", "2"]
    done = subprocess.run(
        asked,
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    lines = done.stdout.splitlines()[1:]
    assert [line.partition(":")[0] for line in lines][:2] == ["without", "in memory"], done.stderr
    assert all("a call takes" in line for line in lines)
