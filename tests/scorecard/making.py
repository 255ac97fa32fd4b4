"""Examine programs on several libraries, and write their grades as a table."""

from __future__ import annotations

import datetime
import re
import shutil
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from attrs import frozen

from rungwise.adapters.exam.examinees import Program
from rungwise.adapters.exam.examining import Exam, examine

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parents[1] / "docs/pages/exam.md"
AT_ONCE: Final = 6
SYSTEMS_AT_ONCE: Final = 3
HEAD: Final = "| | configuration | pass | partial | safe | fail | what failed |"
RULE: Final = "| --- | --- | --- | --- | --- | --- | --- |"


@frozen
class System:
    """Describe a system of the scorecard.

    Arguments:
        name: what the table calls it.
        configuration: how it is set up.
        command: the program; `PYTHON` stands for the interpreter that has its library, or for the
            folder with the `node_modules`.
        needs: the environment of its library; "" for this one.
    """

    name: str
    configuration: str
    command: tuple[str, ...]
    needs: str = ""


def script(name: str) -> str:
    """Return the path of a program."""
    return str(HERE / "programs" / name)


SYSTEMS: Final = (
    System("Rungwise", "defaults, two backends", ("PYTHON", script("with_rungwise.py"))),
    System(
        "Rungwise",
        "interactive, two backends",
        ("PYTHON", script("with_rungwise.py"), "interactive"),
    ),
    System("openai-python", "defaults, streamed", ("PYTHON", script("openai_sdk.py"))),
    System("anthropic-python", "defaults, streamed", ("PYTHON", script("anthropic_sdk.py"))),
    System("google-genai", "defaults, streamed", ("PYTHON", script("google_genai_sdk.py"))),
    System(
        "LangChain",
        "`with_fallbacks`, two models",
        ("PYTHON", script("langchain_fallbacks.py")),
        "langchain",
    ),
    System(
        "LiteLLM's router",
        "`fallbacks`, two retries, 30 s",
        ("PYTHON", script("litellm_router.py")),
        "litellm",
    ),
    System("openai for Node", "defaults, streamed", ("node", "PYTHON/node_openai.mjs"), "node"),
    System("curl in a shell script", "`--retry 3`, `--max-time 60`", (script("curl.sh"),)),
)


def examined(system: System, python: str) -> Exam:
    """Examine a system with the first twenty cases that fit it."""
    if system.needs == "node":  # which looks for packages beside a program
        shutil.copy(script("node_openai.mjs"), python)
    command = [word.replace("PYTHON", python) for word in system.command]
    return examine(Program(command), at_once=AT_ONCE)


def row(system: System, exam: Exam) -> str:
    """Write a line of the table."""
    counts = " | ".join(exam.total.split("-"))
    failed = ", ".join(exam.of("fail"))
    return f"| {system.name} | {system.configuration} | {counts} | {failed} |"


def table(rows: Iterable[str], versions: str, on: datetime.date) -> str:
    """Write the table, with its date."""
    dated = f"Made on {on.day} {on:%B %Y} by `python tests/scorecard`, with {versions}."
    return "\n".join([dated, "", HEAD, RULE, *rows])


def main(pythons: Iterable[str]) -> int:
    """Examine all systems and renew the page.

    Arguments:
        pythons: `langchain=PATH` and `litellm=PATH` name the interpreters of their environments,
            `node=FOLDER` the folder with the `node_modules`. A system whose environment is not
            named is left out.
    """
    environments = {"": sys.executable, **dict(each.split("=", 1) for each in pythons)}
    systems = [each for each in SYSTEMS if each.needs in environments]
    with ThreadPoolExecutor(SYSTEMS_AT_ONCE) as threads:
        exams = list(threads.map(lambda each: examined(each, environments[each.needs]), systems))
    rows = [row(*pair) for pair in zip(systems, exams, strict=True)]
    written = table(rows, versions(), datetime.date.today())
    page = PAGE.read_text(encoding="utf-8")
    marked = f"<!-- begin scorecard -->\n\n{written}\n\n<!-- end scorecard -->"
    pattern = r"<!-- begin scorecard -->.*<!-- end scorecard -->"
    PAGE.write_text(re.sub(pattern, lambda _: marked, page, flags=re.DOTALL), encoding="utf-8")
    print(written)
    return 0


def versions() -> str:
    """Return the versions of the libraries of this environment."""
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("openai", "anthropic", "google-genai"))
