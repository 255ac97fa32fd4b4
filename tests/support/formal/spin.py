"""SPIN, run on a model: how many states it reached, and what it found wrong."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

from support.missing import missing
from support.waiting import patience


@frozen
class Found:
    """Hold what SPIN found.

    Arguments:
        states: how many states it reached.
        violated: the assertion that failed, or the cycle that never comes to an outcome; None where
        nothing is wrong.
        unreached: the lines of the model that it never came to, with the
        statement in quotes.
    """

    states: int
    violated: str | None
    unreached: tuple[str, ...]


def spin(
    model: str,
    folder: Path,
    *,
    defined: Iterable[str] = (),
    claim: bool = True,
    run: Iterable[str] = (),
) -> Found:
    """Search all of a model.

    Arguments:
        folder: where to build.
        defined: what is given to the preprocessor, as in `LIMIT_retries=1`.
        claim: whether it is searched for a run that does not end; that doubles the states.
        run: more options of the search.
    """
    for program in ("spin", "cc"):
        if shutil.which(program) is None:
            missing(f"no {program} (on Debian: apt-get install spin gcc)")
    (folder / "model.pml").write_text(model, encoding="utf-8")
    said(folder, "spin", "-a", *(f"-D{each}" for each in defined), "model.pml")
    built_with = [] if claim else ["-DNOCLAIM", "-DSAFETY"]
    said(folder, "cc", "-w", *built_with, "-o", "pan", "pan.c")
    run_with = ["-a", "-m100000"] if claim else ["-m100000"]
    report = said(folder, "./pan", *run_with, *run)
    (errors,) = re.findall(r"errors: (\d+)", report)
    (states,) = re.findall(r"^ *(\d+(?:\.\d+e\+\d+)?) states, stored", report, re.MULTILINE)
    violated = re.search(r"^pan:1: (.*?) \(at depth", report, re.MULTILINE)
    assert "max search depth too small" not in report
    assert (errors == "0") == (violated is None), report
    unreached = re.findall(r"^\tmodel\.pml:(\d+), state \d+, (\".*\")$", report, re.MULTILINE)
    lines = model.splitlines()
    seen = tuple(
        f"{lines[int(line) - 1].strip()} {what}" for line, what in unreached if what != '"-end-"'
    )
    return Found(int(float(states)), violated[1] if violated else None, seen)


def said(folder: Path, *command: str) -> str:
    """Run a program to its end, and return what it said."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=patience(1_200), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
