"""Write the sections on costs of the READMEs and of the site from the stored results of the last
run.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.report import number, told

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE / "README.md"
FRONT = HERE.parents[1] / "README.md"
SITE = HERE.parents[1] / "docs/pages/performance.md"
HOME = "tests/benchmarks"
ONLINE = f"https://github.com/rungwise/rungwise/blob/main/{HOME}"
HEADING = "## What it costs\n"
LAST_RUN = "## The last run\n"
SHORT = {
    "httpx, bare": "httpx",
    "LiteLLM's router": "LiteLLM",
    "pydantic-ai's FallbackModel": "pydantic-ai",
    "langchain's with_fallbacks": "langchain",
    "from openai import OpenAI": "openai",
    "from litellm import Router": "LiteLLM",
    "from langchain_openai import ChatOpenAI": "langchain",
    "import httpx": "httpx",
}
MOST_IN_FRONT = 4
WHY_STREAMED = textwrap.wrap(
    "A call streams underneath because only a stream shows silence early, and keeps what arrived "
    "when it breaks off. `Client(chain, stream_calls=False)` turns that off, for short answers, "
    "and for servers that stream badly.",
    119,
)


def kept() -> dict[str, Any]:
    """Return the stored results."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def write(results: Mapping[str, Any]) -> None:
    """Write the pages."""
    for path, heading, text in (
        (FRONT, HEADING, front(results)),
        (PAGE, LAST_RUN, page(results)),
        (SITE, HEADING, site(results)),
    ):
        old = path.read_text(encoding="utf-8")
        found = re.search(rf"^{re.escape(heading)}.*?(?=^## |\Z)", old, re.MULTILINE | re.DOTALL)
        assert found is not None, f"{path} has no section {heading!r}"
        rest = old[found.end() :]
        path.write_text(
            old[: found.start()] + text + ("\n" if rest else "") + rest, encoding="utf-8"
        )


def front(results: Mapping[str, Any]) -> str:
    """Return the section of the README: three figures, and where the others stand."""
    lines = []
    for each in _in_short({each["name"]: each for each in results["sections"]}):
        lines += textwrap.wrap(f"* {each}", 119, subsequent_indent="  ")
    others = "[All figures](docs/pages/performance.md), and what a fault costs."
    return "\n".join([HEADING, *lines, "", *_circumstances(results, HOME, others)]) + "\n"


def site(results: Mapping[str, Any]) -> str:
    """Return the section of the site: every figure beside those of others."""
    sections = {each["name"]: each for each in results["sections"]}
    lines = ["| what | Rungwise | beside it | goal |", "| --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(each)} |" for each in _rows(sections)]
    circumstances = _circumstances(results, ONLINE)
    return "\n".join([HEADING, *lines, "", *WHY_STREAMED, *circumstances]) + "\n"


def _in_short(sections: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each figure that a user cares about."""
    call = sections["calls.call"]
    streamed = told(_streamed(call)["ratio"], "×")
    [whole] = call["verdicts"]
    yield (
        f"One call takes {streamed} the time of one over bare httpx "
        f"({_peers(call, 'ratio', '×')}). It streams underneath, to notice silence early; with "
        f"`stream_calls=False` it takes {_found(whole)}."
    )
    load = sections["at_once.256"]
    yield (
        f"256 calls at once: {number(_most_at_once(load))} in a second "
        f"({_peers(load, 'best', '', bare=True)})."
    )
    imports = sections["imports"]
    yield (
        f"The first call begins {told(_until_first_call(imports), 's')} after the import does "
        f"(importing alone: {_peers(imports, 'best', 's')})."
    )


def _rows(sections: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    [sync], [asynchronous] = (sections[name]["verdicts"] for name in ("calls.call", "calls.acall"))
    both = f"{_found(sync)}, {_found(asynchronous)}"
    names = ("calls.call", "calls.acall", "calls.chunks.200")
    streamed = ", ".join(told(_streamed(sections[name])["ratio"], "×") for name in names)
    what = (
        "one call over bare httpx, by default (it streams underneath): sync, async, sync "
        "with 200 chunks"
    )
    yield what, streamed, _peers(sections["calls.call"], "ratio", "×"), ""
    yield "the same with `stream_calls=False`: sync, async", both, "", _goal(sync)
    streams = [
        verdict
        for name, each in sections.items()
        if name.startswith("streams.")
        for verdict in each["verdicts"]
    ]
    slowest = max(streams, key=lambda each: each["figure"])
    beside = _peers(sections["streams.OpenAIChat.plain.2000"], "ratio", "×")
    yield (
        f"a stream, over its raw bytes: the slowest of {len(streams)} kinds",
        _found(slowest),
        beside,
        _goal(slowest),
    )
    load = sections["at_once.256"]
    beside = _peers(load, "best", "", bare=True)
    yield (
        "256 calls at once, in a second",
        number(_most_at_once(load)),
        beside,
        f"{_goal(load['verdicts'][0])} httpx",
    )
    happy, long = sections["core.calls"]["verdicts"]
    yield (
        "the core alone: a happy call, 20 attempts that fail",
        f"{_found(happy)}, {_found(long)}",
        "",
        (f"{_goal(happy)}, {_goal(long)}"),
    )
    [imports] = sections["imports"]["verdicts"]
    first = told(_until_first_call(sections["imports"]), "s")
    yield (
        "`from rungwise import Policy; from rungwise.core import Call`; with a first call begun",
        f"{_found(imports)}; {first}",
        _peers(sections["imports"], "best", "s"),
        _goal(imports),
    )


def _streamed(section: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the figures of a call as users get it by default."""
    found: Mapping[str, Any] = next(
        each for each in section["figures"] if "by default" in each["who"]
    )
    return found


def _most_at_once(section: Mapping[str, Any]) -> float:
    """Return the most calls in a second."""
    own = [each["best"] for each in section["figures"] if each["who"].startswith("Rungwise")]
    return float(max(own))


def _until_first_call(section: Mapping[str, Any]) -> float:
    """Return the seconds from the import to the first call."""
    [first] = [each["best"] for each in section["figures"] if "first call" in each["who"]]
    return float(first)


def _found(verdict: Mapping[str, Any]) -> str:
    return told(verdict["figure"], verdict["unit"])


def _goal(verdict: Mapping[str, Any]) -> str:
    goal = verdict["goal"]  # in seconds, it depends on the machine
    return f"{verdict['sense']} {goal if goal < 100 else round(goal):g} {verdict['unit']}"


def _peers(
    section: Mapping[str, Any],
    key: str,
    unit: str,
    *,
    bare: bool = False,
) -> str:
    others = [
        each
        for each in section["figures"]
        if "ungwise" not in each["who"] and (bare or each["who"] != "httpx, bare")
    ]
    others = [each for each in others if "tenacity" not in each["who"]]
    return ", ".join(
        f"{SHORT.get(each['who'], each['who'])} {told(each[key], unit).strip()}"
        for each in others[: MOST_IN_FRONT + bare]
    )


def _circumstances(results: Mapping[str, Any], home: str, before: str = "") -> list[str]:
    day = date.fromisoformat(results["date"])
    versions = {
        name: version for each in results["versions"].values() for name, version in each.items()
    }
    named = {
        "httpx": "httpx",
        "openai": "openai",
        "litellm": "LiteLLM",
        "pydantic-ai-slim": "pydantic-ai",
    }
    named |= {"langchain-openai": "langchain-openai"}
    told_versions = ", ".join(
        f"{word} {versions[name]}" for name, word in named.items() if name in versions
    )
    text = (
        f"{before} [Measured]() on {day.day} {day:%B %Y} by `python tests/benchmarks/run.py`: "
        f"{results['cores']} cores"
        f" ({results['cpu']}), Python {results['python']}, {told_versions}."
    )
    measured = f"[Measured]({home}/README.md)"
    return textwrap.wrap(text.replace("[Measured]()", measured).strip(), 119)


def page(results: Mapping[str, Any]) -> str:
    """Return the section of the benchmarks' own page."""
    day = date.fromisoformat(results["date"])
    lines = [
        f"{day.day} {day:%B %Y}, Python {results['python']}, {results['system']}, {results['cpu']},"
        f" {results['cores']} cores; a fixed loop of plain Python took {results['reference_ms']} "
        f"ms.",
        "",
    ]
    for environment, versions in results["versions"].items():
        lines.append(
            f"* {environment}: "
            f"{', '.join(f'{name} {version}' for name, version in versions.items())}"
        )
    lines += ["", "| what | figure | goal | |", "| --- | --- | --- | --- |"]
    for section in results["sections"]:
        for each in section["verdicts"]:
            held = (
                each["figure"] <= each["goal"]
                if each["sense"] == "≤"
                else each["figure"] >= each["goal"]
            )
            lines.append(
                f"| {each['what']} | {_found(each)} | {_goal(each)} | "
                f"{'met' if held else 'missed'} |"
            )
    lines += [
        "",
        "![Cost against size](charts/growth.svg)",
        "",
        "![Calls a second](charts/at_once.svg)",
    ]
    for section in results["sections"]:
        if section["figures"]:
            lines += ["", f"### {section['title']}", "", *_figures(section)]
    growths = [growth for section in results["sections"] for growth in section["growths"]]
    lines += ["", "### Growth", "", "| what | slope | sizes and CPU time |", "| --- | --- | --- |"]
    for each in growths:
        points = ", ".join(
            f"{size}: {told(at, 's')}"
            for size, at in zip(each["sizes"], each["seconds"], strict=True)
        )
        lines.append(f"| {each['name']} | {each['slope']:.2f} | {points} |")
    return "\n".join([LAST_RUN, *lines]) + "\n"


def _figures(section: Mapping[str, Any]) -> Iterator[str]:
    yield "| who | median | best | over the first | CPU | |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for each in section["figures"]:
        ratio = "" if each["ratio"] is None else told(each["ratio"], "×")
        cpu = "" if each["cpu"] is None else told(each["cpu"], "s")
        median = told(each["median"], section["unit"])
        best = told(each["best"], section["unit"])
        yield f"| {each['who']} | {median} | {best} | {ratio} | {cpu} | {each['note']} |"
