"""Start a model server on loopback, ask it what only it knows, and stop it."""

import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

STARTS_WITHIN: Final = 60.0
"""Seconds."""


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


class ModelServer:
    """Run a server for the time of a `with` block.

    Arguments:
        command: what starts it; `{port}` stands for the port that it is to listen at.
        scratch: a folder for its log.
        health: a page that it answers with 200 once it is ready.
        context: its window in tokens.
    """

    def __init__(
        self,
        command: list[str],
        scratch: Path,
        *,
        health: str,
        context: int,
    ) -> None:
        port = free_port()
        self.port: Final = port
        self.context: Final = context
        self.root: Final = f"http://127.0.0.1:{port}"
        self._command = [part.format(port=port) for part in command]
        self._health = f"{self.root}{health}"
        self._log = scratch / f"{port}.log"

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + STARTS_WITHIN
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise SystemExit(
                    f"{self._command[0]} did not start: {self._log.read_text()[-2000:]}"
                )
            time.sleep(0.05)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        try:
            return httpx.get(self._health, timeout=5, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def get(self, path: str) -> Any:
        """Return what one of its own pages says, such as `/props`."""
        return (
            httpx.get(f"{self.root}{path}", timeout=10, trust_env=False).raise_for_status().json()
        )

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Return what one of its pages says to a body of JSON."""
        return (
            httpx.post(
                f"{self.root}{path}",
                json=body,
                timeout=30,
                trust_env=False,
            )
            .raise_for_status()
            .json()
        )

    def tokens_of_prompt(self, messages: list[dict[str, Any]]) -> int:
        """Return how many tokens messages are, with its template, by llama.cpp's own tokenizer."""
        prompt = self.post("/apply-template", {"messages": messages})["prompt"]
        return len(
            self.post(
                "/tokenize",
                {
                    "content": prompt,
                    "add_special": True,
                    "parse_special": True,
                },
            )["tokens"]
        )


def llama_server(
    program: Path,
    model: Path,
    scratch: Path,
    *options: str,
    context: int = 4096,
) -> ModelServer:
    """Return llama.cpp's server, with one slot.

    Arguments:
        program: `llama-server`.
        model: a GGUF file.
        scratch: a folder for its log.
        options: further arguments of its command line.
        context: its window in tokens.
    """
    command = [
        str(program),
        "--model",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        "{port}",
        "--ctx-size",
        str(context),
        "--parallel",
        "1",
        "--threads",
        "1",
        "--no-webui",
        "--no-warmup",
        "--jinja",
        "--slots",
        *options,
    ]
    return ModelServer(command, scratch, health="/health", context=context)


def bindings_server(
    python: Path,
    model: Path,
    scratch: Path,
    *,
    context: int = 4096,
) -> ModelServer:
    """Return the server of llama-cpp-python, which is written in Python over the same library.

    Arguments:
        python: that of its environment.
        model: a GGUF file.
        scratch: a folder for its log.
        context: its window in tokens.
    """
    command = [
        str(python),
        "-m",
        "llama_cpp.server",
        "--model",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        "{port}",
        "--n_ctx",
        str(context),
        "--n_threads",
        "1",
        "--n_threads_batch",
        "1",
    ]
    return ModelServer(command, scratch, health="/v1/models", context=context)
