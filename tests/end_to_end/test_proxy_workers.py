"""`rungwise proxy --workers`: several processes on one port, which together are one proxy."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Final

import attrs
import httpx
import pytest

from rungwise.adapters.provider.server import render
from rungwise.testing import ReceivedRequest, ScriptedReply
from support import sdks
from support.gateways import PATHS, written
from support.runs import Stages
from support.waiting import patience, until
from support.workers import runs, workers_of, working

TEXT: Final = "In the reeds, mostly; some of them in the alders behind the boathouse."


def hanging(request: ReceivedRequest) -> ScriptedReply:
    """Fall silent for ever in the middle of a text."""
    reply = ScriptedReply(TEXT, chunk_size=20, hang=True)
    pieces = render(reply, request.body, path=request.path).pieces
    return attrs.evolve(reply, cut_after=sum(map(len, pieces[:3])))


def chains(folder: Path, url: str, more: str = "") -> Path:
    """Write the file of a chain of one backend."""
    path = folder / "chains.toml"
    backend = f'api = "openai"\nmodel = "m"\nbase_url = "{url}"\nkey_env = "BACKEND_KEY"\n'
    path.write_text(f"[budget]\nseconds = 60\n[[chain.default]]\n{backend}{more}")
    return path


def metric(url: str, name: str) -> float:
    """Return the sum of what a metric says, asked on a new connection."""
    lines = httpx.get(f"{url}/metrics", timeout=patience()).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def running(url: str) -> int:
    """Return how many requests run in the worker that answers on a new connection."""
    return int(httpx.get(f"{url}/healthz", timeout=patience()).json()["running"])


def test_two_workers_are_one_proxy(tmp_path: Path, stages: Stages) -> None:
    """One run shows it all: the workers take seconds to start."""
    stages[0].play([ScriptedReply(TEXT)])
    file = chains(tmp_path, stages[0].provider.base_url)
    with ThreadPoolExecutor() as pool, working(file, "--drain", "0.2") as (process, url):
        asked = [
            httpx.post(url + PATHS["openai"], json=written("openai"), timeout=patience())
            for _ in range(6)
        ]
        assert {answer.status_code for answer in asked} == {200}
        stages[0].play([hanging])
        whole = pool.submit(sdks.ask, "openai", "whole", base_url=url)
        until(lambda: len(stages[0].requests) == 1)
        seen: set[int] = set()
        until(lambda: seen.add(running(url)) or seen == {0, 1})
        for _ in range(8):  # whichever worker answers
            assert metric(url, "rungwise_calls_total") == 6
            assert metric(url, "rungwise_attempts_total") == 6
            assert metric(url, "rungwise_call_seconds_count") == 6
            assert metric(url, "rungwise_requests_running") == 1
        process.send_signal(signal.SIGTERM)
        assert whole.result().status == 503
        assert "shutting down" in whole.result().message
        _, told = process.communicate(timeout=patience())
    assert process.returncode == 0
    assert told.count(b"ending; what runs has 0.2 s") == 1, told
    assert b"Traceback" not in told


@pytest.mark.full
def test_a_worker_that_dies_is_started_again_and_its_calls_stay_counted(
    tmp_path: Path, stages: Stages
) -> None:
    stages[0].play([ScriptedReply(TEXT)])
    with working(chains(tmp_path, stages[0].provider.base_url)) as (process, url):
        for _ in range(12):
            assert (
                httpx.post(
                    url + PATHS["openai"], json=written("openai"), timeout=patience()
                ).status_code
                == 200
            )
        stages[0].play([hanging])
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(sdks.ask, "openai", "whole", base_url=url) for _ in range(8)]
            until(lambda: metric(url, "rungwise_requests_running") == 8)
            first, second = workers_of(process.pid)
            os.kill(first, signal.SIGKILL)
            until(lambda: len({*workers_of(process.pid)} - {first, second}) > 0)
            until(lambda: metric(url, "rungwise_requests_running") < 8)
            assert metric(url, "rungwise_calls_total") == 12
            assert second in workers_of(process.pid)
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=patience())
            assert {each.result().status for each in asked} <= {None, 503}
    assert process.returncode == 0
    assert b"a worker ended (-9); it starts again" in told


@pytest.mark.full
def test_the_parents_death_ends_the_workers(tmp_path: Path, stages: Stages) -> None:
    with working(chains(tmp_path, stages[0].provider.base_url)) as (process, _):
        workers = workers_of(process.pid)
        assert len(workers) == 2
        assert all(map(runs, workers))
        process.kill()
        until(lambda: not any(map(runs, workers)))


@pytest.mark.full
def test_sigterm_for_every_process_drains_too(tmp_path: Path, stages: Stages) -> None:
    """So systemd and `kill` with a process group do."""
    stages[0].play([ScriptedReply(TEXT, delay=1.0)])
    file = chains(tmp_path, stages[0].provider.base_url)
    with ThreadPoolExecutor() as pool, working(file) as (process, url):
        whole = pool.submit(sdks.ask, "openai", "whole", base_url=url)
        until(lambda: stages[0].requests)
        for each in (*workers_of(process.pid), process.pid):
            os.kill(each, signal.SIGTERM)
        assert whole.result().text == TEXT
        process.communicate(timeout=patience())
    assert process.returncode == 0


@pytest.mark.full
def test_a_quota_is_one_of_all_workers(tmp_path: Path, stages: Stages, redis_url: str) -> None:
    came: list[float] = []

    def slowly(request: ReceivedRequest) -> ScriptedReply:
        came.append(time.monotonic())
        return ScriptedReply(TEXT, delay=0.2)

    stages[0].play([slowly])
    file = chains(tmp_path, stages[0].provider.base_url, "quota = {concurrent = 1}\n")
    with ThreadPoolExecutor(8) as pool, working(file, "--store", redis_url) as (process, url):
        asked = [pool.submit(sdks.ask, "openai", "whole", base_url=url) for _ in range(8)]
        assert {each.result().text for each in asked} == {TEXT}
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=patience())
    assert len(came) == 8
    if b"the store" not in told:  # where Redis answers late, each worker has a share of its own
        assert min(later - before for before, later in pairwise(came)) >= 0.2


@pytest.mark.full
def test_one_reload_is_one_of_all_workers(tmp_path: Path, stages: Stages) -> None:
    key = "an-administrators-key"
    admin = f'[key.ops]\nkey = "{key}"\nadmin = true\n'
    url = stages[0].provider.base_url
    own = {"authorization": f"Bearer {key}"}

    def models() -> set[str]:
        """Return what the workers list on new connections."""
        found = set()
        for _ in range(12):
            listed = httpx.get(f"{proxy}/v1/models", headers=own, timeout=patience()).json()["data"]
            found.add(",".join(each["id"] for each in listed))
        return found

    with working(chains(tmp_path, url, admin)) as (_, proxy):
        assert models() == {"default"}
        file = chains(tmp_path, url, admin)
        file.write_text(file.read_text().replace("chain.default", "chain.renamed"))
        assert httpx.post(f"{proxy}/-/reload", headers=own, timeout=patience()).status_code == 200
        until(lambda: models() == {"renamed"})
        file.write_text("[budget")
        assert httpx.post(f"{proxy}/-/reload", headers=own, timeout=patience()).status_code == 409
        assert models() == {"renamed"}
