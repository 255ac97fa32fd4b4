"""A real receiver of traces, Arize Phoenix from PyPI, keeps the spans as they are sent."""

from __future__ import annotations

import os
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from adoption.environments import python_for
from adoption.playing import PROGRAMS
from benchmarks.environments import variables
from support.missing import missing
from support.waiting import patience, until

pytestmark = [pytest.mark.full, pytest.mark.slowest]


@pytest.fixture
def phoenix(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Start the receiver; return its URL and the interpreter of its environment."""
    try:
        python = python_for("phoenix")
    except subprocess.CalledProcessError as error:
        missing(f"pip cannot bring arize-phoenix: {error}")
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        grpc = other.getsockname()[1]
    settings = {
        "WORKING_DIR": str(tmp_path),
        "PORT": str(port),
        "GRPC_PORT": str(grpc),
        "HOST": "127.0.0.1",
    }
    settings |= {"TELEMETRY_ENABLED": "false"}
    own = {**os.environ, **{f"PHOENIX_{name}": value for name, value in settings.items()}}
    command = [str(python), "-m", "phoenix.server.main", "serve"]
    with (tmp_path / "phoenix.log").open("w") as log:
        server = subprocess.Popen(
            command, env=own, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT
        )
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: answers(url), seconds=90)
        yield url, python
    finally:
        server.terminate()
        server.wait(patience(20))


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=5.0).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_receiver_keeps_calls_attempts_turns_and_tools(phoenix: tuple[str, Path]) -> None:
    url, python = phoenix
    command = [str(python), str(PROGRAMS / "traced.py"), f"{url}/v1/traces"]
    done = subprocess.run(
        command, env=variables(), capture_output=True, text=True, timeout=patience(60), check=False
    )
    assert (done.returncode, done.stdout) == (0, "Here. There.\n"), done.stderr

    def kept() -> list[dict[str, Any]]:
        return httpx.get(f"{url}/v1/projects/default/spans", params={"limit": 100}).json()["data"]

    until(lambda: len(kept()) == 9, seconds=30)
    spans = kept()
    names = Counter(span["name"] for span in spans)
    assert names == {
        "attempt": 4,
        "chat gpt-5": 3,
        "invoke_agent": 1,
        "execute_tool look": 1,
    }
    [first] = [span for span in spans if span["attributes"].get("rungwise.attempts") == 2]
    assert first["attributes"]["gen_ai.request.model"] == "gpt-5"
    assert first["attributes"]["rungwise.outcome"] == "done"
