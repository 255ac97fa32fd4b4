"""The smaller benchmarks run. Nothing is timed here."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import patience


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("health", ("--rounds", "2"), ["without: a call takes ", "in memory: a call takes "]),
        ("stats", ("--journals", "100"), ["10 journals: ", "100 journals: "]),
    ],
)
def test_the_command_measures(name: str, options: tuple[str, ...], says: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(f"{name}.py")), *options],
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    lines = done.stdout.splitlines()[1:3]
    assert [line[: len(begin)] for line, begin in zip(lines, says, strict=True)] == says
