"""The processes that are measured, seen from the command."""

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from benchmarks.environments import ROOT, variables


class WorkerError(Exception):
    """What was asked for cannot be done there."""


class Worker:
    """Run functions of `benchmarks` in a process of an environment."""

    def __init__(self, python: Path) -> None:
        # It lives as long as the process, which `close` ends.
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [str(python), "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=variables(),
            cwd=ROOT,
        )

    def ask(self, function: str, **arguments: Any) -> Any:
        """Return what a function returns, written `module:name`.

        Raises:
            WorkerError: it raised, or its process ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(
                json.dumps({"function": function, "arguments": arguments}),
                file=self._process.stdin,
                flush=True,
            )
            answer = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            answer = {"error": "the process ended"}
        if "error" in answer:
            self._errors.seek(0)
            raise WorkerError(f"{answer['error']}\n{self._errors.read()[-2000:]}")
        return answer["answer"]

    def close(self) -> None:
        """End the process, whatever it does; once is enough."""
        if self._errors.closed:
            return
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


@contextlib.contextmanager
def serving(python: Path) -> Iterator[str]:
    """Run the loopback server, and give its address."""
    with subprocess.Popen(
        [str(python), "-m", "benchmarks.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=variables(),
        cwd=ROOT,
    ) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()
