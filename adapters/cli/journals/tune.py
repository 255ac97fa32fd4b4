"""`rungwise tune`: the limits, waits and order of the chain with which calls meet targets."""

from __future__ import annotations

import pickle
import re
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

from rungwise.adapters.cli.output import (
    bad_input,
    check_writable,
    note,
    progress_bar,
    put,
    write_out,
)
from rungwise.adapters.cli.policies import METAVAR, POLICY
from rungwise.adapters.cli.shared_options import number_option, output_option
from rungwise.fsm.analysis.odds.candidates import WRITTEN, Candidate, Targets, Tuned
from rungwise.fsm.analysis.odds.rates import Rates
from rungwise.fsm.analysis.odds.tune import CANDIDATES
from rungwise.fsm.analysis.odds.tune import tune as tune_policy
from rungwise.fsm.analysis.stats import lines_of
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.diagram.page.templates import render
from rungwise.fsm.diagram.svg.document import document
from rungwise.fsm.engine.journal.record import json_of
from rungwise.fsm.values.label import label

WORKERS: Final = 2
MOST_SHOWN: Final = 30
PICTURE: Final = "Candidates: calls done against P99 and mean cost"
UNITS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|)", re.ASCII)

_PERCENT: Final = click.FloatRange(0, 100, min_open=True)

ASSUMED: Final = """\
The rates do not say how long a call waited: a short wait is taken to help as much as a long one. Compare the policy
with the one that you have before you use it, and count the rates again afterwards.
"""  # noqa: E501


def _seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    found = None if value is None else _DURATION.fullmatch(value)
    if value is not None and found is None:
        raise click.BadParameter(f"{value!r} is no duration, as in 20s, 1.5m or 800ms")
    return None if found is None else float(found[1]) * UNITS[found[2]]


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
    callback=_seconds,
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
@click.option("--json", "as_json", is_flag=True, help="Print the front with every figure as JSON.")
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
    something with these rates; the rest of the policy stays. stderr shows the candidates than which
    none is better in all of: calls done, P99, mean cost; figures that agree to three digits count
    as equal. Each is verified. What cannot be met is explained, with the best value that was found.
    `-o FILE.svg` draws all candidates.

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
    targets = Targets(**{**goal, "done": goal["done"] and goal["done"] / 100})
    rates = Rates.load(path)
    for warning in rates.warnings:
        note(warning)
    with progress_bar("{task.completed} candidates") as bar, _pool((policy, rates)) as each:
        more: dict[str, Any] = {}
        if bar is not None:
            update = bar.update
            task = bar.add_task("", total=candidates)
            more["progress"] = lambda tried: update(task, completed=tried)
        start = policy or DEFAULT_POLICY
        found = tune_policy(start, rates, targets, candidates=candidates, each=each, **more)
    _show(found, as_json)
    if output is not None:
        write_out(output, _picture(found))
    return int(found.best is None)


@contextmanager
def _pool(work: object) -> Iterator[Callable[..., Iterable[Any]]]:
    """Give what does the work of `map` in processes side by side, or `map` where that cannot be."""
    try:
        pickle.dumps(work)
    except Exception:  # a table of one's own can hold anything
        yield map
        return
    # it ends this process, which ends them
    ignore_ctrl_c = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(WORKERS, get_context("spawn"), ignore_ctrl_c)
    try:
        yield pool.map
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _show(found: Tuned, as_json: bool) -> None:
    best = found.best
    if as_json:
        front = [_plain(each, found.targets) for each in found.front]
        whole = {
            "targets": found.targets.asked,
            "tried": len(found.tried),
            "combinations": found.combinations,
        }
        whole |= {
            "best": None if best is None else found.front.index(best),
            "reasons": found.reasons,
            "front": front,
        }
        put(json_of(whole, is_indented=True) + "\n")
        return
    shown = sorted(found.front, key=lambda each: len(found.targets.missed(each.figures)))[
        :MOST_SHOWN
    ]
    rows: list[Any] = [("", ["done", "P99", "mean cost", "attempts", "at worst"], ())]
    rows += [("*" if each is best else "", _cells(each), ()) for each in shown]
    for cells, changes in zip(
        lines_of(rows), ["changes", *(each.summary for each in shown)], strict=True
    ):
        note(f"{cells}  {changes}")
    note(
        f"{len(found.front)} on the front, of {len(found.tried)} tried, of {found.combinations} "
        f"combinations"
    )
    for says in (*found.reasons, ASSUMED):
        note(says)
    own = next(
        (
            each
            for each in found.tried
            if not each.changes and not found.targets.missed(each.figures)
        ),
        None,
    )
    if own is not None and own is not best:
        note(f"the policy as it is meets the targets too: {', '.join(_cells(own)[:3])}")
    if best is not None:
        if "chain" in best.changes:
            note(
                f"put the backends of your chain, and those of the rates, in this order: "
                f"{best.chain}"
            )
        put(best.to_toml())


def _cells(each: Candidate) -> list[str]:
    figures = [WRITTEN[name][1](value) for name, value in each.figures._asdict().items()]
    return [*figures, f"{each.odds.attempts.mean:.4g}", str(_worst(each).get("attempts", ""))]


def _worst(each: Candidate) -> dict[str, Any]:
    return (
        {}
        if each.certificate is None
        else {case.name: case.value for case in each.certificate.worst}
    )


def _plain(each: Candidate, targets: Targets) -> dict[str, Any]:
    changes = {**each.changes, **({"chain": each.chain} if "chain" in each.changes else {})}
    found = {
        "changes": changes,
        "chain": [backend.name for backend in each.rates.backend],
        "policy": each.to_toml(),
    }
    found |= {
        "figures": each.figures._asdict(),
        "missed": [*targets.missed(each.figures)],
        "worst": _worst(each),
    }
    return {**found, "odds": attrs.asdict(each.odds)}


def _picture(found: Tuned) -> str:
    """Draw all candidates: how many calls are done against P99, and against the mean cost."""
    front = {each.point for each in found.front}
    tried = sorted(found.tried, key=lambda each: each.point in front)
    panels = []
    for name in ("p99", "cost"):
        spots = [(getattr(each.figures, name), each, each.point in front) for each in tried]
        panels.append(
            (
                *WRITTEN[name],
                found.targets.asked.get(name),
                [spot for spot in spots if spot[0] < inf],
            )
        )
    values = {
        "title": PICTURE,
        "panels": panels,
        "asked": found.targets.asked,
        "best": found.best,
        "cells": _cells,
    }
    marks = render(
        "candidates", **values, label=label, failures=lambda done: log10(max(1 - done, 1e-7))
    )
    return document(1010, 440, PICTURE, [marks])
