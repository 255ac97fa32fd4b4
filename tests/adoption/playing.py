"""Play the sixteen faults to a program that gained the ladder, and note what it printed and what
the provider got.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import attrs
from attrs import frozen

from benchmarks.environments import variables
from failover.endpoint import chains
from failover.faults import FAULTS, Fault
from failover.provider import FaultyProvider
from failover.scaling import scaled
from rungwise import Policy
from rungwise.adapters.exam.answer import ANSWER
from support.proxies import policy_toml, proxy
from support.waiting import patience

HERE: Final = Path(__file__).parent
PROGRAMS: Final = HERE / "programs"
WAYS: Final = ("whole", "stream", "awhole", "astream")
SCALE: Final = 0.1
JSON_ANSWER: Final = json.dumps({"answer": ANSWER}, separators=(",", ":"))
SECONDS: Final = 120.0


@frozen
class Came:
    """Hold what one call of a program came to.

    Arguments:
        fault, way: what was played, and which of the program's functions was called.
        text: what it returned; None where it raised.
        error: the class of what it raised, with its library, and what that says.
        requests: how many requests the provider got.
    """

    fault: str
    way: str
    text: str | None
    error: tuple[str, str] | None
    requests: int

    @property
    def is_whole(self) -> bool:
        """Tell whether the program got the whole healthy answer."""
        return self.text is not None and self.text.split() == ANSWER.split()


def play(
    program: str,
    python: Path,
    faults: Iterable[str] = FAULTS,
    *,
    answer: str = ANSWER,
    alone: bool = False,
) -> list[Came]:
    """Play faults to each way of a program, each by a provider and a chain of its own.

    Arguments:
        program: the name of its file.
        python: the interpreter that has its library.
        faults: the names of the faults.
        answer: what the provider answers when it is well.
        alone: whether calls follow one another, for the program changes what its process shares.
    """
    with ExitStack() as stack:
        provider = stack.enter_context(FaultyProvider(SCALE, answer))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scenes = {
            (way, name): provider.play(once(FAULTS[name]), (f"{way}-primary", f"{way}-fallback"))
            for name in faults
            for way in WAYS
        }
        models = {key: (scene.primary, scene.fallback) for key, scene in scenes.items()}
        policy = policy_toml(scaled(Policy.interactive(), SCALE))
        served = {pair[0]: pair for pair in models.values()}
        base_url = ""
        if "PROXY" in (PROGRAMS / f"{program}.py").read_text(encoding="utf-8"):
            chain_file = chains(served, provider.base_url, policy)
            base_url = stack.enter_context(proxy(chain_file, folder)).base_url.removesuffix("/v1")
        calls = [
            {
                "way": way,
                "fault": name,
                "models": pair,
            }
            for (way, name), pair in models.items()
        ]
        setting = {
            "provider": provider.base_url,
            "proxy": base_url,
            "scale": SCALE,
            "alone": alone,
            "calls": calls,
        }
        ended = _run(python, folder, program, setting)
        attempts = {key: len(scene.recover()) for key, scene in scenes.items()}
    return [_came(each, attempts[each["way"], each["fault"]]) for each in ended]


def once(fault: Fault) -> Fault:
    """Return a fault for a single call, that does not end by itself."""
    return attrs.evolve(fault, dead_for=None, calls=1)


def _came(ended: Mapping[str, Any], requests: int) -> Came:
    error = (ended["error"], ended["says"]) if "error" in ended else None
    return Came(ended["fault"], ended["way"], ended.get("text"), error, requests)


def _run(
    python: Path,
    folder: Path,
    program: str,
    setting: Mapping[str, Any],
) -> list[dict[str, Any]]:
    given = folder / "setting.json"
    output = folder / "output.json"
    whole = {
        **setting,
        "program": str(PROGRAMS / f"{program}.py"),
        "output": str(output),
    }
    given.write_text(json.dumps(whole), encoding="utf-8")
    done = subprocess.run(
        [str(python), "-m", "adoption.inside", str(given)],
        capture_output=True,
        text=True,
        timeout=patience(SECONDS),
        check=False,
        env=variables() | {"HOME": str(folder), "PATH": os.environ["PATH"]},
    )
    assert output.exists(), done.stdout[-2000:] + done.stderr[-4000:]
    ended: list[dict[str, Any]] = json.loads(output.read_text(encoding="utf-8"))
    return ended
