"""The process that starts the workers of `rungwise proxy`, and looks after them.

Theory
------

A worker is the command itself once more, with `--worker-port` beside the options of its parent. It
reads the file of the chains, opens a listening socket of its own, and prints a line once it
listens. All workers listen on one port (SO_REUSEPORT), and Linux gives each new connection to one
of them. They inherit nothing but the environment: no lock, event loop or connection is shared, as
it would be after a bare fork.

* **The end.** Each worker has a session of its own, so Ctrl-C in a terminal reaches the parent
  alone, which passes it on as SIGTERM; a second one goes on as SIGINT, which ends what still runs.
  systemd sends SIGTERM to every process by default, so a worker takes any number of them for one.
* **SIGHUP** goes on to each worker.
* **The parent's death.** The parent holds the other end of each worker's stdin. Where it dies, even
  by SIGKILL, the worker reads the end of the file, and drains.
* **A worker's death.** The worker starts again at once. If it had not lived for long, it waits
  first, twice as long each time. If no worker lives for long, the parent gives up: whoever has
  started it, such as systemd, knows best what is next.
* **Metrics.** Each worker writes its own into files of a folder that all of them read. Those of a
  worker that died stay, as its calls were made; what ran in it at its death is counted no more.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import define, field

from rungwise.adapters.cli.output import bad_input, complain, note
from rungwise.adapters.cli.serve import refuse_address

METRICS: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which Prometheus's client knows the folder for the metrics of many processes."""

STEADY: Final = 10.0
"""Seconds after which a worker has lived for long."""
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0
MOST_DEATHS: Final = 5
"""How often each worker may die in a row, soon after its start, before the parent gives up."""

LOOK: Final = 0.1
"""Seconds between two looks at the workers."""
GRACE: Final = 10.0
"""Seconds that a worker has beyond those of `--drain`, before it is killed."""


@define(eq=False)
class WorkerProcess:
    """Hold the place of a worker, for one process after another."""

    command: list[str]
    environment: dict[str, str]
    process: subprocess.Popen[bytes] = field(init=False)
    deaths: int = field(default=0, init=False)  # in a row, each soon after its start
    _began: float = field(default=0.0, init=False)
    _rests_until: float | None = field(default=None, init=False)  # after a death

    def __attrs_post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start a process."""
        self._rests_until = None
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environment,
            start_new_session=True,
        )

    def is_ready(self) -> bool:
        """Wait until it listens; False if it ended before."""
        assert self.process.stdout is not None
        return bool(self.process.stdout.readline())

    def is_alive(self) -> bool:
        """Tell whether its process runs."""
        return self.process.poll() is None

    def end(self) -> None:
        """Kill its process, and forget what ran in it."""
        with self.process:  # which closes its pipes, and waits
            self.process.kill()
        for file in Path(self.environment[METRICS]).glob(f"gauge_live*_{self.process.pid}.db"):
            file.unlink()

    def look_after(self) -> None:
        """Start a process anew where one has died, at once or after a rest."""
        if self.is_alive():
            return
        now = time.monotonic()
        if self._rests_until is None:
            self.end()
            rest = 0.0
            if now - self._began >= STEADY:
                self.deaths = 0
            else:
                rest = min(FIRST_WAIT * 2**self.deaths, LONGEST_WAIT)
                self.deaths += 1
            self._rests_until = now + rest
            complain(f"a worker ended ({self.process.returncode}); it starts again in {rest:g} s")
        if now >= self._rests_until:
            self.start()


def supervise(
    command: list[str],
    number: int,
    drain: float,
    announce: Callable[[], None],
) -> int:
    """Run workers until a signal ends them, and return the exit code.

    Arguments:
        command: starts a worker.
        number: how many there are.
        drain: for how many seconds calls may go on after SIGTERM.
        announce: called once all of them listen.
    """
    signals: list[int] = []
    hangups: list[int] = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, frame: signals.append(number))
    signal.signal(signal.SIGHUP, lambda number, frame: hangups.append(number))
    with TemporaryDirectory(prefix="rungwise-metrics-") as folder:
        workers: list[WorkerProcess] = []
        try:
            for _ in range(number):
                workers.append(WorkerProcess(command, {**os.environ, METRICS: folder}))
            if not all(worker.is_ready() for worker in workers):
                complain("a worker did not start")
                return 1
            announce()
            while not signals:
                for worker in workers:
                    worker.look_after()
                if hangups:
                    hangups.clear()
                    for worker in workers:
                        worker.process.send_signal(signal.SIGHUP)
                if min(worker.deaths for worker in workers) >= MOST_DEATHS:
                    complain("no worker lives for long: see above why they died")
                    return 1
                time.sleep(LOOK)
            _drain(workers, signals, drain)
            return 0
        finally:
            for worker in workers:
                worker.end()


def _drain(
    workers: list[WorkerProcess],
    signals: list[int],
    seconds: float,
) -> None:
    """Wait until the workers have drained, or their time is over.

    Arguments:
        workers: all of them.
        signals: those that came; a second one ends what still runs.
        seconds: for how long calls may go on.
    """
    note(f"ending; what runs has {seconds:g} s, or press Ctrl-C again")
    end = time.monotonic() + seconds + GRACE
    sent = 0
    while any(worker.is_alive() for worker in workers) and time.monotonic() < end:
        if sent < min(len(signals), 2):
            passed_on = (signal.SIGTERM, signal.SIGINT)[sent]
            sent += 1
            for worker in workers:
                worker.process.send_signal(passed_on)
        time.sleep(LOOK)


@contextmanager
def held_port(host: str, port: int) -> Iterator[int]:
    """Keep a port for workers, and yield its number; nobody connects to it before they listen.

    Arguments:
        host: the address.
        port: the port, or 0 for a free one.
    """
    if not hasattr(socket, "SO_REUSEPORT"):
        bad_input("--workers needs a system on which processes can share a port (SO_REUSEPORT)")
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            # without sharing, which would let two proxies have one port
            with socket.create_server((host, port)) as free:
                port = free.getsockname()[1]
            held.bind((host, port))
        except OSError as error:
            refuse_address(error, host, port)
        yield port
