"""The files of `docs/deployment`: they name metrics that exist, and what they start works."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from rungwise.adapters.gateway.proxy import Metrics
from rungwise.fsm.call.table import CALL
from rungwise.testing import ScriptedReply
from support import protocols, sdks
from support.command_line import ROOT, environment, invoke, read_until
from support.gateways import client_over, written
from support.postgres_server import PostgresServer
from support.runs import Stage, Stages
from support.waiting import let_ctrl_c_interrupt, patience, until
from support.workers import workers_of

FOLDER: Final = ROOT / "docs/deployment"
TEXT: Final = "In the reeds, mostly."
COMPOSE: Final = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))["services"]


def unit(name: str) -> Mapping[str, str]:
    """Return the service of a unit of systemd."""
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(FOLDER / f"rungwise-{name}.service", encoding="utf-8")
    return parser["Service"]


COMMANDS: Final = {
    "compose": {name: COMPOSE[name]["command"] for name in ("proxy", "worker")},
    "systemd": {name: shlex.split(unit(name)["ExecStart"]) for name in ("proxy", "worker")},
}


# metrics


def expressions() -> Iterator[str]:
    """Yield each expression of the dashboard and of the alerts."""
    dashboard = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    alerts = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))
    for group in alerts["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


def test_dashboard_alerts_and_page_name_what_the_proxy_serves(stages: Stages) -> None:
    stages[0].play([ScriptedReply(TEXT)])
    metrics = Metrics()
    with client_over(["openai"], stages) as client:
        metrics.count(client.call("Where do storks nest?"))
    body = metrics.response().body
    assert isinstance(body, bytes)
    served = body.decode()
    names = {re.split(r"[ {]", line)[0] for line in served.splitlines() if line[:1] != "#"}
    labels = set(re.findall(r"[{,](\w+)=", served))
    asked = [*expressions()]
    assert len(asked) == 17
    for expression in asked:
        named = set(re.findall(r"rungwise_\w+", expression))
        assert named or expression == 'up{job="rungwise"} == 0'
        assert named <= names, expression
        used = set(re.findall(r"(\w+)=", expression)) - {"job"}
        for grouped in re.findall(r"by \((\w+)\)", expression):
            used.add(grouped)
        assert used <= labels, expression
        for outcomes in re.findall(r'outcome=~?"([^"]*)"', expression):
            assert set(outcomes.split("|")) <= set(CALL.outcomes), expression
        assert expression.count("(") == expression.count(")")
    page = (ROOT / "docs/pages/deployment.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(rungwise_\w+)`", page, re.MULTILINE))
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name in names if "_created" not in name}
    assert listed == shown


# commands


def test_both_ways_start_the_same() -> None:
    """But for where Redis and Postgres are."""
    for name, command in COMMANDS["compose"].items():
        alike = [
            re.sub(r"//(rungwise@)?(redis|postgres):", r"//\g<1>127.0.0.1:", each)
            for each in command
        ]
        assert COMMANDS["systemd"][name] == ["/opt/rungwise/bin/rungwise", *alike[1:]]


def test_what_runs_has_the_time_that_it_is_promised() -> None:
    drain = int(COMPOSE["proxy"]["command"][-1])
    assert COMPOSE["proxy"]["command"][-2] == "--drain"
    assert int(COMPOSE["proxy"]["stop_grace_period"].removesuffix("s")) > drain + 10
    assert int(unit("proxy")["TimeoutStopSec"]) > drain + 10


@contextmanager
def started(command: list[str], places: Mapping[str, str], **more: str) -> Iterator[Any]:
    """Run a command, with other places in it, until the block ends; it must end well then."""
    words = []
    for word in command[1:]:
        for place, here in places.items():
            word = re.sub(place, here, word)
        words.append(word)
    process = subprocess.Popen(
        [sys.executable, "-m", "rungwise", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**more),
        preexec_fn=let_ctrl_c_interrupt,
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=patience())
        assert process.returncode == 0, told
    finally:
        process.kill()
        process.communicate()


def chains_over(stage: Stage, folder: Path) -> Path:
    """Write the file of the chains with both backends at a server of the test."""
    text = (FOLDER / "chains.toml").read_text(encoding="utf-8")
    base = stage.provider.base_url
    text = text.replace('api = "openai"', f'api = "openai"\nbase_url = "{base}"')
    base = base.removesuffix("/v1")
    text = text.replace('api = "anthropic"', f'api = "anthropic"\nbase_url = "{base}"')
    path = folder / "chains.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.full
@pytest.mark.parametrize("way", COMMANDS)
def test_what_the_files_start_answers_and_ends(
    way: str,
    tmp_path: Path,
    stages: Stages,
    redis_url: str,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stages[0].play([ScriptedReply(TEXT)])
    chains = chains_over(stages[0], tmp_path)
    database = postgres_server.new_database()
    places = {
        r"^/etc/rungwise/chains\.toml$": str(chains),
        r"^/var/lib/rungwise/journals$": str(tmp_path / "journals"),
        r"^8000$": "0",
        r"^redis://.*": redis_url,
        r"^postgresql://.*": database,
    }
    example = (FOLDER / "keys.env.example").read_text(encoding="utf-8")
    keys = dict.fromkeys(re.findall(r"^(\w+)=$", example, re.MULTILINE), protocols.KEY)
    keys["PROXY_KEY"] = sdks.KEY
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    commands = COMMANDS[way]
    with ExitStack() as running:
        proxy = running.enter_context(started(commands["proxy"], places, **keys))
        running.enter_context(started(commands["worker"], places, **keys))
        line = read_until(proxy.stdout.fileno(), b"\n").decode().strip()
        url = line.removesuffix("/v1").replace("0.0.0.0", "127.0.0.1")
        assert len(workers_of(proxy.pid)) == 2
        own = {"authorization": f"Bearer {sdks.KEY}"}
        for _ in range(4):
            body = {**written("openai"), "model": "default"}
            answer = httpx.post(
                f"{url}/v1/chat/completions", json=body, headers=own, timeout=patience()
            )
            assert answer.status_code == 200, answer.text
        assert httpx.get(f"{url}/healthz", timeout=patience()).status_code == 200
        page = httpx.get(f"{url}/metrics", headers=own, timeout=patience()).text
        assert "rungwise_calls_total{backend=" in page
        assert len([*(tmp_path / "journals").glob("*.json")]) == 4
        assert invoke("health", "--store", redis_url).exit_code == 0
        prompts = tmp_path / "prompts.jsonl"
        prompts.write_text('{"prompt": "Where do storks nest?"}\n' * 3)
        left = ["batch", prompts, "--config", chains, "--database", database]
        assert invoke(*left, "--enqueue").exit_code == 0
        until(lambda: len(stages[0].requests) == 7, 60.0)
        answers = tmp_path / "answers.jsonl"
        assert invoke(*left, "-o", answers).exit_code == 0
        texts = [json.loads(line)["text"] for line in answers.read_text().splitlines()]
        assert texts == [TEXT] * 3
    assert len(stages[0].requests) == 7
