"""Run a stranger's program: a child that knows no key, and ends at its deadline.

It gets a few variables of the environment, by name, and none that could hold a key. Its home and
its folder for temporary files are new and empty, so that it changes nothing of its user's, and no
run finds what another has cached. It leads a process group, which is killed as a whole; what it
prints is read to a limit, and the rest is thrown away.
"""

from __future__ import annotations

import contextlib
import os
import signal
import site
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

from attrs import frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.files import toml_in

KEY: Final = "sk-exam-0000000000000000"
MOST_BYTES: Final = 2_000_000
READ_AT_ONCE: Final = 65_536
AFTERWARDS: Final = 1.0
"""Seconds for a pipe that a grandchild still holds."""

SCRATCH: Final = ("HOME", "TMPDIR")
"""Variables that name a folder of the program's own, unless those of the user are passed on."""


@cache
def tables() -> Mapping[str, Any]:
    """Return which variables a program gets: those that are passed on, and those of a protocol."""
    return toml_in(__package__, "variables.toml")


@frozen(kw_only=True)
class ProgramEnd:
    """Hold what a program showed.

    Arguments:
        output: its stdout.
        errors: its stderr.
        code: its exit code, negative for a signal; None if it had to be killed.
        seconds: how long it took.
    """

    output: str
    errors: str
    code: int | None
    seconds: float


def environment(
    base: str, protocols: Iterable[str] = (), names: Iterable[str] = ()
) -> dict[str, str]:
    """Return the variables of a child.

    Arguments:
        base: where its provider listens, without a path.
        protocols: those in which it is told of it; none for all.
        names: of further variables to pass on.
    """
    wanted = [*tables()["passed_on"], *names]
    passed = {name: os.environ[name] for name in wanted if name in os.environ}
    for protocol in protocols or tables()["protocols"]:
        for name, value in tables()["protocols"][protocol].items():
            passed[name] = value.format(base=base, key=KEY)
    passed["NO_PROXY"] = "127.0.0.1,localhost"
    passed["PYTHONUSERBASE"] = site.getuserbase()  # its packages, which Python finds by the home
    return passed


def run(command: Sequence[str], variables: Mapping[str, str], limit: float) -> ProgramEnd:
    """Run a program to its end, or to its deadline, with a home of its own.

    Arguments:
        command: the program and its arguments.
        variables: its environment, with `HOME` or `TMPDIR` only if it gets those of the user.
        limit: seconds after which it is killed, with its children.

    Raises:
        ConfigurationError: it cannot be started.
    """
    with TemporaryDirectory(prefix="rungwise-exam-", ignore_cleanup_errors=True) as folder:
        return _run(command, dict.fromkeys(SCRATCH, folder) | dict(variables), limit)


def _run(command: Sequence[str], variables: Mapping[str, str], limit: float) -> ProgramEnd:
    began = time.monotonic()
    try:
        child = subprocess.Popen(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError(f"cannot run {command[0]!r}: {reason}") from None
    output = _Reader(child.stdout)
    errors = _Reader(child.stderr)
    code: int | None = None
    try:
        code = child.wait(limit)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    seconds = time.monotonic() - began
    return ProgramEnd(output=output.text(), errors=errors.text(), code=code, seconds=seconds)


class _Reader(threading.Thread):
    """Read a pipe to its end, and keep the beginning."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._kept = b""
        self.start()

    def run(self) -> None:
        """Read, so that the program never waits for its reader."""
        assert self._pipe is not None
        with self._pipe, contextlib.suppress(OSError, ValueError):
            while data := os.read(self._pipe.fileno(), READ_AT_ONCE):
                self._kept += data[: MOST_BYTES - len(self._kept)]

    def text(self) -> str:
        """Return what was kept."""
        self.join(AFTERWARDS)
        return self._kept.decode("utf-8", "replace")
