"""A Postgres server of the test's own, on a free port, with a database for each test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from itertools import count
from pathlib import Path
from typing import Any, Self

from support.missing import missing

USER = "nobody"
"""Postgres refuses to run as root."""


class PostgresServer:
    """Run a server."""

    def __init__(self) -> None:
        found = sorted(
            Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])
        )
        initdb = str(found[-1]) if found else shutil.which("initdb")
        if initdb is None:
            missing("postgresql is not installed")
        self._bin = Path(initdb).parent
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._folder = Path(tempfile.mkdtemp())
        self._numbers = count()
        if os.geteuid() == 0:
            shutil.chown(self._folder, USER)

    def _run(self, program: str, *options: str) -> None:
        as_user: dict[str, Any] = (
            {
                "user": USER,
                "group": "nogroup",
                "extra_groups": [],
            }
            if os.geteuid() == 0
            else {}
        )
        command = [str(self._bin / program), "-D", str(self._folder / "data"), *options]
        subprocess.run(
            command,
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            **as_user,
        )

    def new_database(self) -> str:
        """Return the URL of a database of which nobody knows; what uses it makes it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/calls{next(self._numbers)}"

    def __enter__(self) -> Self:
        self._run("initdb", "-A", "trust", "-U", "postgres", "--no-sync")
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run("pg_ctl", "-w", "-o", options, "-l", str(self._folder / "log"), "start")
        return self

    def __exit__(self, *_: object) -> None:
        self._run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)
