"""The command line, in this process and in one of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from rungwise.adapters.cli.command import main
from support.waiting import let_ctrl_c_interrupt

ROOT = Path(__file__).parents[2]


def invoke(*arguments: object, **options: Any) -> Result:
    """Run `rungwise` with arguments and return Click's result. The options go to Click's runner."""
    return CliRunner().invoke(main, list(map(str, arguments)), **options)


def printed(*arguments: object, **options: Any) -> str:
    """Run `rungwise` to its good end, and return what it printed to stdout."""
    result = invoke(*arguments, **options)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: object, **options: Any) -> str:
    """Run `rungwise` with bad input, which prints nothing to stdout, and return what is on
    stderr.
    """
    result = invoke(*arguments, **options)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return result.stderr


def command(*arguments: str) -> list[str]:
    """Return the command that runs `rungwise` in a process of its own."""
    return [sys.executable, "-m", "rungwise", *arguments]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of such a process: without a key, a proxy or colours."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("OPENAI_API_KEY", "FORCE_COLOR")
    }
    return {**kept, "PYTHONPATH": str(ROOT), "NO_PROXY": "*", **more}


def start(
    *arguments: str, stdout: Any = subprocess.PIPE, cwd: Path | None = ROOT, **more: str
) -> subprocess.Popen[bytes]:
    """Start `rungwise` in a process that Ctrl-C interrupts.

    Arguments:
        cwd: where it runs; None for the current directory.
        more: for its environment.
    """
    return subprocess.Popen(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment(**more),
        cwd=cwd,
        preexec_fn=let_ctrl_c_interrupt,
    )


def printed_by(script: str, *arguments: str) -> str:
    """Return what a new interpreter prints that runs a script in the checkout to its good end."""
    run = [sys.executable, "-c", script, *arguments]
    return subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def read_until(descriptor: int, expected: bytes) -> bytes:
    """Read from a pipe or a terminal until some bytes have come."""
    read = b""
    while expected not in read:
        piece = os.read(descriptor, 1000)
        assert piece, read
        read += piece
    return read
