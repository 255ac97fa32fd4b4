"""The command: what is measured, how thoroughly, and where the results go."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import machine, pages, report
from benchmarks.bench import Bench
from benchmarks.environments import CACHE, PEERS, ROOT, python_of, variables
from benchmarks.figures import Section
from benchmarks.workers import Worker, serving

MEASURES = ("core", "imports", "calls", "streams", "at_once", "growth")
HERE = Path(__file__).parent
DISTRIBUTIONS = {
    "rungwise": ["anyio", "attrs", "h11", "httpcore", "httpx", "transitions", "matplotlib"],
    "httpx": ["httpx", "tenacity"],
    "openai": ["openai"],
    "litellm": ["litellm"],
    "pydantic-ai": ["pydantic-ai-slim"],
    "langchain": ["langchain-core", "langchain-openai"],
}


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Measure what Rungwise costs, side by side with its peers."
    )
    parser.add_argument(
        "--only", action="append", choices=MEASURES, help="measure this; may be given again"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds and sizes, in about a minute, to try out"
    )
    parser.add_argument(
        "--rounds", type=int, help="rounds of each race (default 30, or 5 with --quick)"
    )
    parser.add_argument(
        "--peers",
        choices=("all", "none"),
        default="all",
        help="none: bare httpx alone to compare with",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the results into it",
    )
    parser.add_argument(
        "--charts",
        type=Path,
        metavar="DIR",
        help="draw the growth curves into it",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=CACHE,
        help="where the environments are kept (build/benchmarks)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the results and charts here, and write the pages"
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the pages from what is kept, and measure nothing",
    )
    parser.add_argument(
        "--here", action="store_true", help="measure in the environment that this runs in; no peers"
    )
    options = parser.parse_args(given)
    if options.keep and (options.only or options.quick or options.here or options.peers == "none"):
        parser.error("what is kept is a whole run, with all peers")
    if options.keep:
        options.json = options.json or pages.RESULTS
        options.charts = options.charts or HERE / "charts"
    return options


def pythons(options: argparse.Namespace) -> dict[str, Path]:
    """Return the interpreters of the contestants; a peer that cannot be installed is left out, and
    named.
    """
    if options.here:
        return dict.fromkeys(("rungwise", "httpx"), Path(sys.executable))
    found = {name: python_of(name, options.cache) for name in ("rungwise", "httpx")}
    for name in PEERS if options.peers == "all" else ():
        try:
            found[name] = python_of(name, options.cache)
        except subprocess.CalledProcessError as error:
            print(f"{name} is left out, for it cannot be installed: {error}", file=sys.stderr)
    return found


def main(given: Sequence[str] | None = None) -> int:
    """Measure, and say whether each goal is held: 1 where one is missed."""
    options = arguments(given)
    if options.write:
        pages.write(pages.kept())
        return 0
    found = pythons(options)
    results = {**machine.announced(), "versions": _versions(found)}
    pace = max(1.0, results["reference_ms"] / machine.REFERENCE_MS)
    sections = list(_measured(options, found, pace))
    verdicts = [each for section in sections for each in section.verdicts]
    print(*report.table(verdicts), sep="\n", flush=True)
    _put(options, {**results, "sections": [asdict(each) for each in sections]}, found["rungwise"])
    return 0 if all(each.held for each in verdicts) else 1


def _measured(
    options: argparse.Namespace, found: dict[str, Path], pace: float
) -> Iterator[Section]:
    with serving(found["rungwise"]) as server:
        bench = Bench(
            found, server, options.rounds or (5 if options.quick else 30), options.quick, pace
        )
        for name in options.only or MEASURES:
            start = time.monotonic()
            for section in import_module(f"benchmarks.measures.{name}").measure(bench):
                print(*report.lines(section), sep="\n", flush=True)
                yield section
            print(f"({name}: {time.monotonic() - start:.0f} s)", file=sys.stderr, flush=True)


def _put(options: argparse.Namespace, results: dict[str, Any], python: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = options.json or Path(folder) / "results.json"
        file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if options.charts:
            drawn = [
                str(python),
                "-m",
                "benchmarks.charts",
                str(file.resolve()),
                str(options.charts.resolve()),
            ]
            subprocess.run(drawn, check=True, env=variables(), cwd=ROOT)
    if options.keep:
        pages.write(results)


def _versions(found: dict[str, Path]) -> dict[str, Any]:
    versions = {}
    for name, python in found.items():
        with Worker(python) as worker:
            versions[name] = worker.ask("machine:versions", distributions=DISTRIBUTIONS[name])
    return versions
