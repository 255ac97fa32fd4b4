"""The benchmark of counted journals runs. Nothing is timed here."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import patience

COMMAND = Path(__file__).with_name("stats.py")


@pytest.mark.full
def test_the_command_counts_journals() -> None:
    asked = [sys.executable, str(COMMAND), "--journals", "100"]
    done = subprocess.run(
        asked,
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()[1:3]] == [
        "10 journals",
        "100 journals",
    ]
