"""Measure what the transport and the proxy cost, beside the SDK alone and LiteLLM's proxy.

    python tests/benchmarks/gateway.py [--quick] [--here] [--json FILE]

It sets itself up, and takes some minutes: LiteLLM's proxy alone is 742 MB. The exit code is 1 where
a goal is missed.
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import machine, report  # noqa: E402  (the folder must be found first)
from benchmarks.bench import Bench, race  # noqa: E402
from benchmarks.contestants import Contestant  # noqa: E402
from benchmarks.environments import CACHE, python_of, variables  # noqa: E402
from benchmarks.figures import Goal, Section, Verdict  # noqa: E402
from benchmarks.processors import keep_to  # noqa: E402
from benchmarks.workers import Worker, serving  # noqa: E402

ALONE = Contestant("openai alone", "openai_client", "gateway")
OVER = Contestant("openai over the transport", "openai_transport", "gateway")
RACES = (
    (
        "a whole call",
        "call",
        {},
        Goal("a whole call over the transport, over the SDK alone", "≤", 1.7),
    ),
    (
        "a stream of 20 chunks",
        "stream",
        {},
        Goal("a stream over the transport, over the SDK alone", "≤", 1.3),
    ),
    (
        "a stream of 20 chunks that come apart",
        "stream",
        {"kind": "apart"},
        Goal("a stream whose chunks come apart, over the SDK alone", "≤", 1.3),
    ),
)
UPSTREAM = "the server itself"
OURS = "rungwise proxy"
TWO_WORKERS = "with two workers"
LITELLM = "LiteLLM's proxy"
FASTER = Goal("calls a second of rungwise proxy, over LiteLLM's", "≥", 4.0)
ADDED = Goal("what rungwise proxy adds to a call, at the median", "≤", 0.002, "s")
STARTS_WITHIN = 120.0
ROUNDS = 30
KEY = "sk-1f38"
A_SECOND = 300
"""Calls a second at which the 99th percentile is measured."""


def main() -> int:
    """Measure, print the tables, and say whether each goal is held: 1 where one is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few rounds, to try it out")
    parser.add_argument(
        "--here", action="store_true", help="in the environment that this runs in; without LiteLLM"
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the figures into it",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=CACHE,
        help="where the environments are made",
    )
    options = parser.parse_args()
    python = Path(sys.executable) if options.here else python_of("gateway", options.cache)
    litellm = None if options.here else python_of("litellm-proxy", options.cache)
    described = machine.announced()
    with serving(python) as server:
        sections = list(
            _transport(Bench({"gateway": python}, server, 3 if options.quick else ROUNDS))
        )
        proxied, verdicts = _proxies(server, python, litellm, 2 if options.quick else ROUNDS)
    for section in sections:
        print(*report.lines(section), sep="\n")
    print(*_table(proxied), sep="\n")
    verdicts = [each for section in sections for each in section.verdicts] + verdicts
    print(*report.table(verdicts), sep="\n")
    if options.json:
        options.json.write_text(
            json.dumps({"machine": described, "proxies": proxied}, indent=1), encoding="utf-8"
        )
    return 0 if all(each.held for each in verdicts) else 1


def _transport(bench: Bench) -> Iterator[Section]:
    with bench.team([ALONE, OVER]) as workers:
        for title, way, kind, goal in RACES:
            url = bench.url(**kind)
            alone, over = race(bench, workers, [(ALONE, way, {}), (OVER, way, {})], url)
            ratio = over.ratio or 0.0
            yield Section(title, title, "s", [alone, over], [goal.of(ratio)])


def _proxies(
    server: str,
    python: Path,
    litellm: Path | None,
    rounds: int,
) -> tuple[dict[str, list[dict[str, Any]]], list[Verdict]]:
    """Call through each proxy in turn, round by round: on one connection, on sixteen and on 64, and
    at a fixed rate.
    """
    upstream = f"{server}/0-20-plain/v1"
    found: dict[str, list[dict[str, Any]]] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = {
            UPSTREAM: (upstream, 0),
            OURS: stack.enter_context(rungwise_proxy(python, folder, upstream)),
            TWO_WORKERS: stack.enter_context(rungwise_proxy(python, folder, upstream, workers=2)),
        }
        if litellm is not None:
            places[LITELLM] = stack.enter_context(litellm_proxy(litellm, folder, upstream))
        worker = stack.enter_context(Worker(python))
        worker.ask("inside.knocking:begin")
        knock = partial(worker.ask, "inside.knocking:knock")
        pace = partial(worker.ask, "inside.knocking:pace", a_second=A_SECOND)
        for who, (url, _) in places.items():
            # the first calls of a process load what calls are made with
            knock(url=url, connections=1, seconds=0.5)
            found[who] = []
        for _ in range(rounds):
            for who, (url, pid) in places.items():
                one = knock(url=url, connections=1, seconds=0.2)
                before = processor_time(pid)
                many = knock(url=url, connections=16, seconds=0.5)
                cpu = (processor_time(pid) - before) / max(1, many["calls"])
                crowd = knock(url=url, connections=64, seconds=0.5)
                # the rate is too much for a proxy that answers fewer
                paced = pace(url=url, seconds=1.0) if who != LITELLM else None
                of_round = {"one": one, "many": many, "crowd": crowd, "paced": paced, "cpu": cpu}
                found[who].append(of_round)
    return found, _verdicts(found)


def _verdicts(found: dict[str, list[dict[str, Any]]]) -> list[Verdict]:
    """Hold the goals against the best rounds: whatever else the machine does only adds to what a
    call takes.
    """
    ours = found[OURS]
    verdicts = [ADDED.of(_least(ours) - _least(found[UPSTREAM]))]
    if theirs := found.get(LITELLM):
        verdicts.append(FASTER.of(_most(ours) / _most(theirs)))
    return verdicts


def _least(rounds: list[dict[str, Any]]) -> float:
    """Return what a call took on one connection in the best round, at its median."""
    return min(float(each["one"]["median"]) for each in rounds)


def _most(rounds: list[dict[str, Any]], way: str = "many") -> float:
    """Return the calls a second on sixteen connections, or another way, in the best round."""
    return max(float(each[way]["a_second"]) for each in rounds)


def _table(found: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    yield ""
    heads = ("1 connection", "16", "64", f"p99 at {A_SECOND}/s", "CPU of a call")
    yield f"  {'whole calls':<24}" + "".join(f" {head:>16}" for head in heads)
    for who, rounds in found.items():
        cpu = min(each["cpu"] for each in rounds)
        paced = [each["paced"]["p99"] for each in rounds if each["paced"]]
        columns = (
            report.told(_least(rounds), "s"),
            f"{report.number(_most(rounds))} calls/s",
            f"{report.number(_most(rounds, 'crowd'))} calls/s",
            report.told(min(paced), "s") if paced else "",
            report.told(cpu, "s") if cpu else "",
        )
        yield f"  {who:<24}" + "".join(f" {column:>16}" for column in columns)


def processor_time(pid: int) -> float:
    """Return the seconds that a process and its children have run, where the system tells; 0 is
    none.
    """
    if not pid or not Path(f"/proc/{pid}/stat").exists():
        return 0.0
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ticks = 0
    for each in (str(pid), *children):
        user, system = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[11:13]
        ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def rungwise_proxy(
    python: Path,
    folder: Path,
    upstream: str,
    *,
    workers: int = 1,
) -> Iterator[tuple[str, int]]:
    """Run `rungwise proxy` with one backend, and give its base URL and the id of its process.

    Several workers take whichever processors they get.
    """
    chains = folder / "chains.toml"
    backend = f'api = "openai"\nmodel = "bench"\nbase_url = "{upstream}"\nkey_env = ""\n'
    chains.write_text(f"[[chain.default]]\n{backend}", encoding="utf-8")
    port = _free_port()
    command = [str(python), "-m", "rungwise", "proxy", str(chains), "--port", str(port)]
    command += ["--workers", str(workers)]
    up = f"http://127.0.0.1:{port}/healthz"
    with _running(command, up, folder / f"rungwise{workers}.txt", keeps=workers == 1) as pid:
        yield f"http://127.0.0.1:{port}/v1", pid


@contextlib.contextmanager
def litellm_proxy(python: Path, folder: Path, upstream: str) -> Iterator[tuple[str, int]]:
    """Run LiteLLM's proxy with one model, and give its base URL and the id of its process."""
    config = folder / "litellm.yaml"
    config.write_text(
        f"model_list:\n- model_name: bench\n  litellm_params:\n    model: openai/bench\n    "
        f"api_base: {upstream}\n"
        f"    api_key: {KEY}\n",
        encoding="utf-8",
    )
    port = _free_port()
    command = [
        str(python.with_name("litellm")),
        "--config",
        str(config),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    own = {"LITELLM_MASTER_KEY": KEY, "HOME": str(folder)}
    with _running(
        command, f"http://127.0.0.1:{port}/health/liveliness", folder / "litellm.txt", own
    ) as pid:
        yield f"http://127.0.0.1:{port}/v1", pid


@contextlib.contextmanager
def _running(
    command: list[str],
    url: str,
    log: Path,
    own: dict[str, str] | None = None,
    *,
    keeps: bool = True,
) -> Iterator[int]:
    """Run a server; it is up once the URL answers.

    Arguments:
        command: starts it.
        url: where it answers.
        log: what it prints goes there.
        own: what its environment has beside the usual.
        keeps: whether it keeps to the last processor.
    """
    environment = {**variables(), **(own or {})}
    with (
        log.open("w") as written,
        subprocess.Popen(
            command,
            stdout=written,
            stderr=written,
            env=environment,
            cwd=log.parent,
            preexec_fn=partial(keep_to, -1) if keeps and os.name == "posix" else None,
        ) as process,
    ):
        try:
            _wait_for(url, process, log)
            yield process.pid
        finally:
            process.kill()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    import urllib.request

    end = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(f"it did not start: {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
