"""A Redis server of the test's own, on a free port, which can be killed and started again."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import redis

from support.missing import missing


class RedisServer:
    """Run a server. What was written is there again after `kill` and `start`."""

    def __init__(self) -> None:
        if shutil.which("redis-server") is None:
            missing("redis-server is not installed")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._folder = Path(tempfile.mkdtemp())
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        options = (
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--dir",
            str(self._folder),
            "--save",
            "",
        )
        command = ["redis-server", *options, "--appendonly", "yes", "--appendfsync", "always"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        with redis.Redis(port=self.port, retry=None) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.RedisError:
                    assert self._process.poll() is None, "redis-server ended"

    def flush(self) -> None:
        with redis.Redis(port=self.port) as client:
            client.flushall()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
