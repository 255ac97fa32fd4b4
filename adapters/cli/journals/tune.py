"""`rungwise tune`: the limits, waits and order of the chain with which calls meet targets."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from math import inf, log10
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import attrs
import click

from rungwise.adapters.cli.journals.odds import read_rates
from rungwise.adapters.cli.output import (
    bad_input,
    check_writable,
    note,
    progress_bar,
    put,
    write_out,
)
from rungwise.adapters.cli.policies import METAVAR, POLICY
from rungwise.adapters.cli.shared_options import duration, flag_option, number_option, output_option
from rungwise.fsm.analysis.odds.candidates import WRITTEN, Candidate, Targets, Tuned
from rungwise.fsm.analysis.odds.tune import CANDIDATES
from rungwise.fsm.analysis.odds.tune import tune as tune_policy
from rungwise.fsm.analysis.stats.shown import lines_of
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.diagram.page.templates import render
from rungwise.fsm.diagram.svg.document import document
from rungwise.fsm.engine.journal.record import json_of
from rungwise.fsm.values.label import label

WORKERS: Final = 2  # processes that try candidates
MOST_SHOWN: Final = 30  # candidates of the front
PICTURE: Final = "Candidates: calls done against P99 and mean cost"
LEAST_FAILURES: Final = 1e-7  # the smallest share that a picture on a scale of logarithms shows
SAFE_PATH: Final = "PYTHONSAFEPATH"  # keeps the current folder out of the path of new interpreters

_PERCENT: Final = click.FloatRange(0, 100, min_open=True)

ASSUMED: Final = """\
The rates do not say how long a call waited: a short wait is taken to help as much as a long one. Compare the policy
with the one that you have before you use it, and count the rates again afterwards.
"""  # noqa: E501


@click.command(
    short_help="Search for the limits, waits and order of the chain with which calls meet targets."
)
@click.argument("policy", required=False, type=POLICY, metavar=f"[{METAVAR}]")
@click.option(
    "--rates", "path", required=True, metavar="FILE", help="The rates of each backend, in TOML."
)
@click.option(
    "--done", type=_PERCENT, metavar="PERCENT", help="The calls that end `done`, at least."
)
@click.option(
    "--p99",
    callback=duration,
    metavar="TIME",
    help="The time of 99 of 100 calls at most: 20s, 1.5m, 800ms.",
)
@click.option(
    "--cost",
    type=click.FloatRange(0, min_open=True),
    metavar="MONEY",
    help="The mean cost of a call at most.",
)
@number_option("--candidates", CANDIDATES, (1, 100_000), "How many policies are tried at most.")
@flag_option("--json", "as_json", help="Print the front with every figure as JSON.")
@output_option
def tune(
    policy: Policy | None,
    *,
    path: str,
    candidates: int,
    as_json: bool,
    output: str | None,
    **goal: float | None,
) -> int:
    """Search for policies that meet targets against rates, and print the cheapest as TOML.

    Limits, waits, `timeouts.total` and the order of the chain are varied, as far as they change
    something with these rates; the rest of the policy stays. stderr shows the Pareto front: the
    candidates that no other beats on calls done, P99 and mean cost together. Figures that agree to
    three digits count as equal. Each candidate is verified. If a target cannot be met, stderr says
    why, with the best value that was found. `-o FILE.svg` draws all candidates.

    \b
    Exit codes:
      0  a policy meets the targets
      1  none was found that meets all of them
      2  bad input, or numpy is missing: pip install 'rungwise[odds]'

    \b
    Examples:
      rungwise tune policy.toml --rates rates.toml --done 99.95 --p99 20s --cost 0.02 > tuned.toml
      rungwise tune --rates rates.toml --done 99.9 -o front.svg
    """
    if output is not None and Path(output).suffix != ".svg":
        bad_input(f"-o: {output} must end in .svg")
    check_writable(output)
    if goal["done"] is not None:
        goal["done"] /= 100
    targets = Targets(**goal)
    rates = read_rates(path)
    with progress_bar("{task.completed} candidates") as bar, _pool((policy, rates)) as each:
        more: dict[str, Any] = {}
        if bar is not None:
            update = bar.update
            task = bar.add_task("", total=candidates)
            more["progress"] = lambda tried: update(task, completed=tried)
        start = policy or DEFAULT_POLICY
        tuned = tune_policy(start, rates, targets, candidates=candidates, each=each, **more)
    if as_json:
        put(json_of(_as_mapping(tuned), is_indented=True) + "\n")
    else:
        _show(tuned)
    if output is not None:
        write_out(output, _picture(tuned))
    return int(tuned.best is None)


@contextmanager
def _pool(work: object) -> Iterator[Callable[..., Iterable[Any]]]:
    """Yield a `map` that works in processes side by side.

    It is the `map` of this process if the work cannot be pickled.
    """
    try:
        pickle.dumps(work)
    except Exception:  # a table of the user's own can hold anything
        yield map
        return
    # Ctrl-C ends this process, which ends them
    ignore_ctrl_c = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    with _isolated():
        pool = ProcessPoolExecutor(WORKERS, get_context("spawn"), ignore_ctrl_c)
        try:
            yield pool.map
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _isolated() -> Iterator[None]:
    """Keep new processes from running a stranger's `random.py` in the current folder."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        del os.environ[SAFE_PATH]
        if before is not None:
            os.environ[SAFE_PATH] = before


def _show(tuned: Tuned) -> None:
    """List the front on stderr, say why targets are missed, and print the best policy."""
    best = tuned.best
    targets = tuned.targets
    front = sorted(tuned.front, key=lambda each: len(targets.missed(each.figures)))[:MOST_SHOWN]
    rows: list[Any] = [("", ["done", "P99", "mean cost", "attempts", "at worst"], ())]
    for each in front:
        rows.append(("*" if each is best else "", _cells(each), ()))
    summaries = ["changes", *(each.summary for each in front)]
    for cells, changes in zip(lines_of(rows), summaries, strict=True):
        note(f"{cells}  {changes}")
    note(
        f"{len(tuned.front)} on the front, of {len(tuned.tried)} tried, of {tuned.combinations} "
        "combinations"
    )
    for reason in tuned.reasons:
        note(reason)
    note(ASSUMED)
    for each in tuned.tried:
        if each.changes or targets.missed(each.figures):
            continue
        if each is not best:
            note(f"the policy as it is meets the targets too: {', '.join(_cells(each)[:3])}")
        break
    if best is None:
        return
    if "chain" in best.changes:
        note(f"put the backends of your chain, and those of the rates, in this order: {best.chain}")
    put(best.to_toml())


def _cells(each: Candidate) -> list[str]:
    """Return the figures of a candidate, for a line of the table."""
    cells: list[str] = []
    for name, value in each.figures._asdict().items():
        _, write = WRITTEN[name]
        cells.append(write(value))
    cells.append(f"{each.odds.attempts.mean:.4g}")
    cells.append(str(_worst(each).get("attempts", "")))
    return cells


def _worst(each: Candidate) -> dict[str, Any]:
    """Return the worst cases of a candidate, by name."""
    if each.certificate is None:
        return {}
    return {case.name: case.value for case in each.certificate.worst}


def _as_mapping(tuned: Tuned) -> dict[str, Any]:
    """Return what was found as plain values."""
    best = tuned.best
    return {
        "targets": tuned.targets.asked,
        "tried": len(tuned.tried),
        "combinations": tuned.combinations,
        "best": None if best is None else tuned.front.index(best),
        "reasons": tuned.reasons,
        "front": [_candidate(each, tuned.targets) for each in tuned.front],
    }


def _candidate(each: Candidate, targets: Targets) -> dict[str, Any]:
    """Return a candidate as plain values."""
    changes = dict(each.changes)
    if "chain" in changes:
        changes["chain"] = each.chain
    return {
        "changes": changes,
        "chain": [backend.name for backend in each.rates.backend],
        "policy": each.to_toml(),
        "figures": each.figures._asdict(),
        "missed": list(targets.missed(each.figures)),
        "worst": _worst(each),
        "odds": attrs.asdict(each.odds),
    }


def _picture(tuned: Tuned) -> str:
    """Draw all candidates: how many calls are done against P99, and against the mean cost."""
    front = {each.point for each in tuned.front}
    tried = sorted(tuned.tried, key=lambda each: each.point in front)
    panels = []
    for name in ("p99", "cost"):
        title, write = WRITTEN[name]
        spots = []
        for each in tried:
            value = getattr(each.figures, name)
            if value < inf:
                spots.append((value, each, each.point in front))
        panels.append((title, write, tuned.targets.asked.get(name), spots))
    marks = render(
        "candidates",
        title=PICTURE,
        panels=panels,
        asked=tuned.targets.asked,
        best=tuned.best,
        cells=_cells,
        label=label,
        failures=lambda done: log10(max(1 - done, LEAST_FAILURES)),
    )
    return document(1010, 440, PICTURE, [marks])
