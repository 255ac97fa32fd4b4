"""The timeline of a run, to scale; of a call, what each backend was asked when, and the waits between."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from itertools import pairwise
from typing import Final

from attrs import frozen

from rungwise.fsm.journal.path import SKIPPED, Path

MOST_TICKS = 6
SHORTEST = 1e-9
"""Seconds below which no clock tells one time from another, and no number is round."""


@frozen
class Bar:
    """Hold one stretch of time.

    Arguments:
        kind: what it is drawn as; of a call, `attempt`, `end` for the attempt that ended it, or `wait`.
        step: the step that a click on it selects.
        start, seconds: when it began, and how long it lasted.
        says: what it was, in words.
    """

    kind: str
    step: int
    start: float
    seconds: float
    says: str


def lanes_of(path: Path, lanes: Iterable[str] = ()) -> dict[str, list[Bar]]:
    """Sort the attempts and the waits of a run by backend, in the order of `lanes`."""
    bars: dict[str, list[Bar]] = {name: [] for name in lanes}
    for backend, bar in _bars(path):
        bars.setdefault(backend, []).append(bar)
    return bars


def _bars(path: Path) -> Iterator[tuple[str, Bar]]:
    steps = [step for step in path.steps if step.event != SKIPPED]
    for step, after in pairwise(steps):
        seconds = after.at - step.at
        if step.target == path.table.hub:
            kind = "end" if after.target in path.table.outcomes else "attempt"
            says = f"attempt {step.attempts}, {seconds:.3g} s: {after.event}"
            yield step.backend, Bar(kind, after.number, step.at, seconds, says)
        elif step.wait and seconds > 0:
            yield after.backend, Bar("wait", step.number, step.at, seconds, f"wait of {seconds:.3g} s")
    if steps and (last := steps[-1]).target == path.table.hub:
        yield last.backend, Bar("attempt", last.number, last.at, 0.0, f"attempt {last.attempts}, not ended")


def ticks(seconds: float) -> list[float]:
    """Return round times from 0 to the end, a handful of them."""
    if seconds < SHORTEST:
        return [0.0]
    rough = seconds / (MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= rough), 10 * power)
    return [place * step for place in range(int(seconds / step + 1e-9) + 1)]


def timeline(path: Path, lanes: Iterable[str] = ()) -> str:
    """Draw the timeline of a call as HTML: its attempts and waits, a lane for each backend."""
    return drawn(lanes_of(path, lanes), path, _summary(path), OF_CALL)


OF_CALL: Final = {"attempt": "attempt", "end": "the attempt that ended it", "wait": "wait"}


def drawn(lanes: Mapping[str, list[Bar]], path: Path, summary: str, legend: Mapping[str, str]) -> str:
    """Draw lanes of bars as HTML; the bars are placed in percent, so that all is as wide as the page.

    Arguments:
        lanes: the bars of each lane, by its name.
        path: the run that they are of.
        summary: what they show, for who cannot see them.
        legend: what each kind of bar means.
    """
    total = path.steps[-1].at
    if total < SHORTEST:
        return f'<p class="faint">No time passed in this {escape(path.table.name)}, or none was recorded.</p>'
    rows = "".join(_lane(name, bars, total) for name, bars in lanes.items())
    marks = "".join(f'<i style="left:{_percent(at, total)}"><b>{at:g} s</b></i>' for at in ticks(total))
    signs = " ".join(f'<i class="bar {kind}"></i> {escape(means)}' for kind, means in legend.items())
    return (
        f'<div class="lanes" role="img" aria-label="{escape(summary)}">{rows}'
        f'<div class="lane axis"><span></span><div class="track">{marks}</div></div></div>'
        f'<p class="legend faint">{signs}</p>'
    )


def _lane(backend: str, bars: list[Bar], total: float) -> str:
    inside = "".join(
        f'<i class="bar {bar.kind}" data-step="{bar.step}" title="{escape(bar.says)}" '
        f'style="left:{_percent(bar.start, total)};width:{_percent(bar.seconds, total)}"></i>'
        for bar in bars
    )
    name = escape(backend)
    return f'<div class="lane"><span title="{name}">{name}</span><div class="track">{inside}</div></div>'


def _percent(part: float, total: float) -> str:
    return f"{100 * part / total:.3f}".rstrip("0").rstrip(".") + "%"


def _summary(path: Path) -> str:
    waited = sum(bar.seconds for _, bar in _bars(path) if bar.kind == "wait")
    total = path.steps[-1].at
    return f"{path.steps[-1].attempts} attempts in {total:.3g} s, of which {waited:.3g} s were waits"
