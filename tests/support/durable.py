"""Processes and databases of durable calls."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from rungwise import Client, OpenAIChat, Policy, Waits
from rungwise.adapters.durable.durable import Durable
from support import durable_child
from support.clocked import clocked

MODULES = ["support", "tests.end_to_end"]
"""Where the functions of durable calls and turns stand."""

SHORT = Policy(waits=Waits(retry_base=0.01, retry_cap=0.01, overload_cap=0.01))


class Opened:
    """Open a database again and again, as one process after another does."""

    def __init__(self, database: str, chain: Any) -> None:
        self.database = database
        self.chain = chain

    def __call__(self, **options: Any) -> Durable:
        return Durable(
            Client(
                self.chain,
                **clocked(
                    {
                        "policy": SHORT,
                        "jitter": lambda: 0.0,
                        **options,
                    }
                ),
            ),
            self.database,
            modules=MODULES,
        )


def child(server: Any, database: str, *ids: str, **given: Any) -> subprocess.Popen[str]:
    """Start a process that runs calls or turns."""
    plain = {
        "url": server.base_url,
        "database": database,
        "ids": ids,
        **given,
    }
    command = [sys.executable, durable_child.__file__, json.dumps(plain)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed_after(requests: int, server: Any, database: str, *ids: str, **given: Any) -> None:
    """Start a process that runs calls or turns, and kill it when so many requests have come."""
    process = child(server, database, *ids, **given)
    until(lambda: len(server.requests) >= requests)
    process.kill()
    process.wait()


def same(server: Any) -> OpenAIChat:
    """Return the backend of the child."""
    return OpenAIChat("m", base_url=server.base_url, api_key="sk-of-the-child")


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for what another process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
