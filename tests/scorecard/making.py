"""Examine programs on several libraries, and write their grades as a table."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import frozen

from adoption.environments import python_for
from adoption.readers import node_with
from benchmarks.environments import variables
from rungwise.adapters.exam.examinees import ExaminedGateway, Program, configuration
from rungwise.adapters.exam.examining import Exam, examine
from support.waiting import answers, until

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parents[1] / "docs/pages/exam.md"
AT_ONCE: Final = 6
PROXY: Final = "litellm-proxy"
PORT: Final = 4000
MASTER_KEY: Final = "LITELLM_MASTER_KEY"
QUESTION: Final = "What should a caller expect?"
NODE_PACKAGES: Final = ("openai@7", "ai@7", "@ai-sdk/openai")
HEAD: Final = "| | on | configuration | pass | partial | safe | fail | what failed |"
RULE: Final = "| --- | --- | --- | --- | --- | --- | --- | --- |"


@frozen
class System:
    """Describe a system of the scorecard.

    Arguments:
        name: what the table calls it.
        package: whose version the table has.
        configuration: how it is set up.
        program: what runs, and its arguments; a file stands in `programs/`.
        needs: the environment of its library; "" for this one.
    """

    name: str
    package: str
    configuration: str
    program: tuple[str, ...]
    needs: str = ""


@frozen
class Place:
    """Hold where a system runs.

    Arguments:
        interpreter: Python, or Node.
        folder: with the `node_modules` of Node; None for Python.
    """

    interpreter: str
    folder: Path | None = None

    def command(self, program: Sequence[str]) -> list[str]:
        """Return the words that run a program here."""
        name, *arguments = program
        if name.endswith(".sh"):
            return [script(name), *arguments]
        if not (HERE / "programs" / name).exists():
            return [self.interpreter, "-m", *program]
        path = script(name)
        if self.folder is not None:  # Node looks for packages beside a program
            path = str(shutil.copy(path, self.folder))
        return [self.interpreter, path, *arguments]

    def version(self, package: str) -> str:
        """Return the version of a package here."""
        if self.folder is not None:
            file = self.folder / "node_modules" / package / "package.json"
            return str(json.loads(file.read_text(encoding="utf-8"))["version"])
        asked = f"from importlib.metadata import version; print(version({package!r}))"
        return subprocess.check_output([self.interpreter, "-c", asked], text=True).strip()


def script(name: str) -> str:
    """Return the path of a program."""
    return str(HERE / "programs" / name)


DEFAULTS: Final = "defaults, streamed"
SYSTEMS: Final = (
    System("Rungwise", "", "defaults, two backends", ("with_rungwise.py",)),
    System("Rungwise", "", "interactive, two backends", ("with_rungwise.py", "interactive")),
    System("openai-python", "openai", DEFAULTS, ("openai_sdk.py",)),
    System("anthropic-python", "anthropic", DEFAULTS, ("anthropic_sdk.py",)),
    System("google-genai", "google-genai", DEFAULTS, ("google_genai_sdk.py",)),
    System(
        "LangChain",
        "langchain-openai",
        "`with_fallbacks`, two models",
        ("langchain_fallbacks.py",),
        "langchain",
    ),
    System(
        "LiteLLM's router",
        "litellm",
        "`fallbacks`, two retries, 30 s, two models",
        ("litellm_router.py",),
        "openai2",
    ),
    System(
        "LiteLLM's proxy",
        "litellm",
        "`default_fallbacks`, two retries, 30 s, two models",
        (),
        PROXY,
    ),
    System(
        "Pydantic AI",
        "pydantic-ai-slim",
        "`FallbackModel`, two models, the SDK's retries off",
        ("pydantic_ai_fallback.py",),
        "pydantic-ai",
    ),
    System(
        "Instructor",
        "instructor",
        "defaults, `Mode.JSON_SCHEMA`",
        ("instructor_sdk.py",),
        "instructor",
    ),
    System(
        "LlamaIndex",
        "llama-index-llms-openai",
        DEFAULTS,
        ("llama_index_llm.py",),
        "openai2",
    ),
    System("DSPy", "dspy", "defaults", ("dspy_lm.py",), "openai2"),
    System("`llm`", "llm", DEFAULTS, ("llm", "-m", "gpt-4o-mini", QUESTION), "llm"),
    System("openai for Node", "openai", DEFAULTS, ("node_openai.mjs",), "node"),
    System("Vercel's `ai`", "ai", DEFAULTS, ("vercel_ai.mjs",), "node"),
    System("curl in a shell script", "", "`--retry 3`, `--max-time 60`", ("curl.sh",)),
)


def place_of(needs: str) -> Place | None:
    """Return an environment, which is made where it is not there yet; None if it cannot be made."""
    try:
        if needs == "node":
            interpreter, folder = node_with("node-scorecard", NODE_PACKAGES)
            return Place(str(interpreter), folder)
        return Place(str(python_for(needs)))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        print(f"no environment for {needs}: {error}", file=sys.stderr)
        return None


def made(system: System) -> str | None:
    """Examine a system with the first twenty cases that fit it, and return its row; None if it has
    no environment.
    """
    place = place_of(system.needs)
    if place is None:
        return None
    print(f"examining {system.name}", file=sys.stderr, flush=True)
    if system.needs == PROXY:
        with litellm_proxy(place) as gateway:
            exam = examine(gateway)
    else:
        exam = examine(Program(place.command(system.program)), at_once=AT_ONCE)
    version = place.version(system.package) if system.package else ""
    return row(system, version, exam)


@contextmanager
def litellm_proxy(place: Place) -> Iterator[ExaminedGateway]:
    """Run LiteLLM's proxy as the page shows, with the file that `--print-config` prints."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        (folder / "config.yaml").write_text(configuration("litellm"), encoding="utf-8")
        binary = str(Path(place.interpreter).with_name("litellm"))
        process = subprocess.Popen(
            [binary, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(PORT)],
            cwd=folder,
            env={**variables(), MASTER_KEY: os.environ[MASTER_KEY], "HOME": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.enter_context(process)
        stack.callback(process.terminate)
        url = f"http://127.0.0.1:{PORT}"
        until(lambda: answers(f"{url}/health/liveliness"), 300)
        yield stack.enter_context(ExaminedGateway(url, "m-{}", MASTER_KEY))


def row(system: System, version: str, exam: Exam) -> str:
    """Write a line of the table."""
    cells = [f"{system.name} {version}".strip(), str(datetime.date.today()), system.configuration]
    cells += exam.total.split("-")
    cells.append(", ".join(exam.of("fail")))
    return f"| {' | '.join(cells)} |"


def row_of(system: System, lines: Iterable[str]) -> str | None:
    """Return the row of a system among the lines of a page; None if it has none."""
    for line in lines:
        if line.startswith(f"| {system.name} ") and f"| {system.configuration} |" in line:
            return line
    return None


def table(rows: Iterable[str], left_out: Iterable[str]) -> str:
    """Write the table, and the names of the systems that are not in it."""
    lines = ["Made by `python tests/scorecard`.", "", HEAD, RULE, *rows]
    names = ", ".join(left_out)
    if names:
        lines += ["", f"Not examined yet: {names}."]
    return "\n".join(lines)


def main(names: Collection[str]) -> int:
    """Examine systems, one after the other, and renew their rows in the page.

    Arguments:
        names: whose rows; none for all.
    """
    os.environ.setdefault(MASTER_KEY, "sk-scorecard")
    page = PAGE.read_text(encoding="utf-8")
    rows = []
    left_out = []
    for system in SYSTEMS:
        line = made(system) if not names or system.name in names else None
        line = line or row_of(system, page.splitlines())
        if line is None:
            left_out.append(system.name)
        else:
            rows.append(line)
    marked = f"<!-- begin scorecard -->\n\n{table(rows, left_out)}\n\n<!-- end scorecard -->"
    pattern = r"<!-- begin scorecard -->.*<!-- end scorecard -->"
    PAGE.write_text(re.sub(pattern, lambda _: marked, page, flags=re.DOTALL), encoding="utf-8")
    return 0
