"""The workers of `rungwise proxy`: what is refused, and how often one that dies starts again."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rungwise.adapters.cli.workers import supervisor
from rungwise.adapters.cli.workers.supervisor import METRICS, WorkerProcess, held_port, supervise
from support.command_line import refused
from support.waiting import until

DIES = [sys.executable, "-S", "-c", "raise SystemExit(3)"]
LIVES = [sys.executable, "-S", "-c", "print('it listens', flush=True); input()"]
CHAIN = "[[chain.default]]\nmodel = 'm'\nkey_env = ''\nbase_url = 'http://localhost/v1'\n"


class Clock:
    """Time that passes when a test says so, or whoever sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(supervisor, "time", clock)
    return clock


@pytest.fixture
def worker(tmp_path: Path, clock: Clock) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(LIVES, {**os.environ, METRICS: str(tmp_path)})
    yield worker
    worker.end()


def test_a_worker_that_dies_soon_waits_twice_as_long_each_time(
    worker: WorkerProcess, clock: Clock
) -> None:
    waits = []
    for _ in range(8):
        worker.process.kill()
        worker.process.wait()
        before = clock.now
        worker.look_after()
        while not worker.is_alive():
            clock.sleep(0.25)
            worker.look_after()
        waits.append(clock.now - before)
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]
    clock.sleep(supervisor.STEADY)
    worker.process.kill()
    worker.process.wait()
    worker.look_after()
    assert worker.is_alive(), "one that had lived for long starts at once"
    assert worker.deaths == 0


def test_what_ran_in_a_worker_that_died_is_counted_no_more(
    worker: WorkerProcess, tmp_path: Path
) -> None:
    live = tmp_path / f"gauge_livesum_{worker.process.pid}.db"
    total = tmp_path / f"counter_{worker.process.pid}.db"
    live.touch()
    total.touch()
    worker.process.kill()
    worker.process.wait()
    worker.look_after()
    assert not live.exists()
    assert total.exists()


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Restore how this process handles signals."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


HANGS_UP = """
import os, signal, sys
signal.signal(signal.SIGHUP, lambda *_: open(f"{sys.argv[1]}/{os.getpid()}", "w").close())
print("it listens", flush=True)
input()
"""


def test_sighup_goes_on_to_each_worker_and_sigterm_ends_them(
    tmp_path: Path, own_signals: None
) -> None:
    def end() -> None:
        until(lambda: len([*tmp_path.iterdir()]) == 2)
        os.kill(os.getpid(), signal.SIGTERM)

    ender = threading.Thread(target=end)

    def announce() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        ender.start()

    command = [sys.executable, "-S", "-c", HANGS_UP, str(tmp_path)]
    assert supervise(command, 2, 1.0, announce) == 0
    ender.join()


def test_workers_that_do_not_start_end_the_command(own_signals: None) -> None:
    announced: list[bool] = []
    assert supervise(DIES, 2, 1.0, lambda: announced.append(True)) == 1
    assert announced == []


def test_workers_that_die_again_and_again_end_the_command(
    own_signals: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_WAIT", 0.0)
    monkeypatch.setattr(supervisor, "STEADY", 1e9)
    monkeypatch.setattr(supervisor, "LOOK", 0.01)
    one_line = [sys.executable, "-S", "-c", "print('it listens', flush=True)"]
    assert supervise(one_line, 2, 1.0, lambda: None) == 1
    told = capsys.readouterr().err
    assert "no worker lives for long" in told


def test_no_two_proxies_have_one_port() -> None:
    with held_port("127.0.0.1", 0) as port:
        shared: dict[str, Any] = {"reuse_port": True}
        with socket.create_server(("127.0.0.1", port), **shared):
            pass
        with (
            socket.create_server(("127.0.0.1", port), **shared),
            pytest.raises(Exception, match="is taken"),
            held_port("127.0.0.1", port),
        ):
            pass


def test_a_quota_of_each_worker_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chains.toml"
    path.write_text(f"{CHAIN}quota = {{concurrent = 5}}\n")
    assert "--store" in refused("proxy", path, "--workers", 2, "--port", 0)


def test_a_budget_of_each_worker_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chains.toml"
    path.write_text(CHAIN)
    keys = tmp_path / "keys"
    keys.mkdir()
    key = '[key.team]\nkey = "0123456789abcdef"\nbudget = {attempts = 5, per = "day"}\n'
    (keys / "team.toml").write_text(key)
    told = refused("proxy", path, "--keys", keys, "--workers", 2, "--port", 0)
    assert "--store" in told
    assert "key.team" in told


@pytest.mark.parametrize("number", ["0", "65", "two"])
def test_a_number_of_workers_that_cannot_be_is_refused(number: str, tmp_path: Path) -> None:
    path = tmp_path / "chains.toml"
    path.write_text(CHAIN)
    assert "--workers" in refused("proxy", path, "--workers", number)
