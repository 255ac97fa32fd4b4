"""What an import takes of the processor over a bare interpreter, in a new process each, all of it
compiled before.
"""

import resource
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.environments import ROOT, variables
from benchmarks.figures import Figure, Goal, Section, compared

BARE = "a bare interpreter"
CORE = "from rungwise import Policy; from rungwise.core import Call"
A_CALL = (
    "from rungwise import Policy; from rungwise.core import Call; and a first call "
    "begun, which loads what runs it"
)
IMPORTS = {
    BARE: ("rungwise", "pass"),
    CORE: ("rungwise", CORE),
    A_CALL: ("rungwise", f"{CORE}, Request; Call(Request('Hello.'), Policy()).begin()"),
    "from rungwise import Client, OpenAIChat": (
        "rungwise",
        "from rungwise import Client, OpenAIChat",
    ),
    "import httpx": ("httpx", "import httpx"),
    "from openai import OpenAI": ("openai", "from openai import OpenAI"),
    "from litellm import Router": ("litellm", "from litellm import Router"),
    "pydantic-ai's FallbackModel": (
        "pydantic-ai",
        "import pydantic_ai.direct; from pydantic_ai.models.fallback import FallbackModel; "
        "from pydantic_ai.models.openai import OpenAIChatModel",
    ),
    "from langchain_openai import ChatOpenAI": (
        "langchain",
        "from langchain_openai import ChatOpenAI",
    ),
}
QUICK = 5
"""Interpreters that are started in a round for what takes little: the difference of two small times
is measured.
"""
GOAL = Goal(f"{CORE}, over a bare interpreter", "≤", 150, "ms")


def measure(bench: Bench) -> Iterator[Section]:
    """Start interpreters in turns."""
    wanted = {name: each for name, each in IMPORTS.items() if each[0] in bench.pythons}
    for environment, code in wanted.values():
        _seconds(bench, environment, code)
    rounds = [
        {
            name: min(
                _seconds(bench, environment, code)
                for _ in range(QUICK if environment == "rungwise" else 1)
            )
            for name, (environment, code) in wanted.items()
        }
        for _ in range(2 if bench.quick else max(1, bench.rounds // 6))
    ]
    bare, *others = compared(rounds)
    figures = [
        Figure(each.who, each.median - bare.median, each.best - bare.best) for each in others
    ]
    [own] = [each.best for each in figures if each.who == CORE]
    yield Section(
        "imports",
        "Imports, CPU time over a bare interpreter",
        "s",
        figures,
        [GOAL.of(own * 1e3, bench.pace)],
    )


def _seconds(bench: Bench, environment: str, code: str) -> float:
    start = _used()
    done = subprocess.run(
        [str(bench.pythons[environment]), "-c", code],
        env=variables(),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{code} does not run: {done.stderr}")
    return _used() - start


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
