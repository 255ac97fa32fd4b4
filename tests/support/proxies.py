"""`rungwise proxy` in a process of its own, for the tests of what it serves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from rungwise import Policy
from rungwise.fsm.values.files import toml_value


@frozen
class Served:
    """Hold a proxy that runs."""

    base_url: str
    pid: int


@contextmanager
def proxy(chains: str, folder: Path, *options: str) -> Iterator[Served]:
    """Serve chains, and end the process afterwards.

    Arguments:
        chains: the TOML.
        folder: where it is written.
        options: of the command.
    """
    file = folder / "chains.toml"
    file.write_text(chains, encoding="utf-8")
    command = [sys.executable, "-m", "rungwise", "proxy", str(file), "--port", "0", *options]
    errors = folder / "stderr.txt"
    with (
        errors.open("w") as written,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=written) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline().decode().strip()
            if not line:
                raise RuntimeError(f"the proxy did not start: {errors.read_text()}")
            yield Served(line, process.pid)
        finally:
            process.kill()


def policy_toml(policy: Policy) -> str:
    """Write a policy as TOML; what is None, or an empty table, keeps its default."""
    return "\n".join(_lines(policy.to_mapping(), ""))


def _lines(table: dict[str, Any], name: str) -> Iterator[str]:
    if name:
        yield f"[{name}]"
    for key, value in table.items():
        if value is not None and not isinstance(value, dict):
            yield f"{key} = {toml_value(value)}"
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _lines(value, f"{name}.{key}".removeprefix("."))


def chain_toml(name: str, *backends: dict[str, str]) -> str:
    """Write a chain as TOML."""
    lines = []
    for backend in backends:
        lines += [
            f"[[chain.{toml_value(name)}]]",
            *(f"{key} = {toml_value(value)}" for key, value in backend.items()),
        ]
    return "\n".join([*lines, ""])
