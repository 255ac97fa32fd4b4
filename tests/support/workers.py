"""`rungwise proxy` with two workers, in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import protocols, sdks
from support.command_line import read_until, start
from support.waiting import until


@contextmanager
def working(*arguments: Any) -> Iterator[tuple[Any, str]]:
    """Run `rungwise proxy` with two workers, and yield the parent and the address without a path.

    Their environment has BACKEND_KEY and PROXY_KEY.
    """
    given = ("proxy", *map(str, arguments), "--workers", "2", "--port", "0")
    process = start(*given, BACKEND_KEY=protocols.KEY, PROXY_KEY=sdks.KEY)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = read_until(process.stdout.fileno(), b"\n").decode().strip()
        yield process, line.removesuffix("/v1")
    finally:
        workers = workers_of(process.pid)
        process.kill()
        until(lambda: not any(map(runs, workers)))
        process.wait()
        process.stdout.close()
        process.stderr.close()


def workers_of(parent: int) -> list[int]:
    """Return the processes that a process has started."""
    try:
        return [*map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())]
    except OSError:
        return []


def runs(process: int) -> bool:
    """Tell whether a process runs that is no child of this one."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
