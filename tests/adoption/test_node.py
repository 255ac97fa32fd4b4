"""The official Node SDK streams through `rungwise proxy` and gets every fault rescued, one process
for each.
"""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from adoption.environments import CACHE
from adoption.playing import PROGRAMS, SCALE, once
from adoption.test_programs import REQUESTS
from failover.endpoint import chains
from failover.faults import FAULTS
from failover.provider import FaultyProvider
from failover.scaling import scaled
from rungwise import Policy
from rungwise.adapters.exam.answer import ANSWER
from support.missing import missing
from support.proxies import policy_toml, proxy
from support.waiting import patience

PROGRAM = PROGRAMS / "with_node.mjs"
NEWEST = "22"
INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--loglevel=error")


@pytest.fixture
def node() -> tuple[str, Path]:
    """Return node 22, which npm brings where it is not there, and the program beside its SDK."""
    if shutil.which("npm") is None:
        missing("there is no npm")
    home = CACHE / f"node-{NEWEST}"
    home.mkdir(parents=True, exist_ok=True)
    try:
        if not (home / "node_modules" / "openai").exists():
            wanted = ["openai@7"] if _is_new("node") else [f"node@{NEWEST}", "openai@7"]
            subprocess.run(
                [*INSTALL, *wanted],
                cwd=home,
                check=True,
                capture_output=True,
                timeout=patience(300),
            )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        missing(f"npm cannot bring node {NEWEST} and openai: {error}")
    own = home / "node_modules" / ".bin" / "node"
    program = home / PROGRAM.name  # a module looks for what it imports beside itself
    shutil.copy(PROGRAM, program)
    return (str(own) if own.exists() else "node"), program


def _is_new(node: str) -> bool:
    if shutil.which(node) is None:
        return False
    told = subprocess.run(
        [node, "--version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return int(told.removeprefix("v").partition(".")[0]) >= int(NEWEST)


@pytest.mark.full
def test_a_node_program_gains_the_ladder(node: tuple[str, Path], tmp_path: Path):
    command, program = node
    with FaultyProvider(SCALE) as provider:
        scenes = {name: provider.play(once(fault)) for name, fault in FAULTS.items()}
        models = {scene.primary: (scene.primary, scene.fallback) for scene in scenes.values()}
        toml = chains(models, provider.base_url, policy_toml(scaled(Policy.interactive(), SCALE)))
        with proxy(toml, tmp_path) as served, ThreadPoolExecutor(4) as threads:

            def run(name: str) -> subprocess.CompletedProcess[str]:
                own = {
                    **os.environ,
                    "PROXY": served.base_url.removesuffix("/v1"),
                    "MODEL": name,
                }
                return subprocess.run(
                    [command, str(program)], capture_output=True, text=True, check=False, env=own
                )

            done = dict(zip(FAULTS, threads.map(run, FAULTS), strict=True))
        requests = {name: len(scene.recover()) for name, scene in scenes.items()}
    refused = done.pop("S13")
    assert refused.returncode == 1
    assert "BadRequestError: 400 The prompt was rejected by the content filter." in refused.stderr
    printed = {name: " ".join(each.stdout.split()) for name, each in done.items()}
    assert printed == dict.fromkeys(done, ANSWER), {
        name: each.stderr for name, each in done.items()
    }
    assert requests == REQUESTS
