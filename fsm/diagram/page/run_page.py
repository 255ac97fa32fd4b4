"""The page of a recorded run.

It shows how the run ended, its attempts over time, and the machine with the present step on it.
Everything in the path of a run may come from outside, so it is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import accumulate
from typing import Any, Final

import orjson
from attrs import asdict, field, frozen

from rungwise.fsm.diagram import Marks, draw
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.page.machine_page import Plain, Setup, machine_data
from rungwise.fsm.diagram.page.templates import embedded, html, ladders_html, render
from rungwise.fsm.engine.journal.amounts import seconds_text
from rungwise.fsm.engine.journal.digest import AttemptLine, Digest, Spent, digest_of
from rungwise.fsm.engine.journal.path import Path
from rungwise.fsm.engine.journal.record import Step

_SHOWN = (
    "event",
    "source",
    "target",
    "at",
    "attempts",
    "facts",
    "backend",
    "wait",
    "cap",
    "stop_raw",
    "status",
    "reason",
    "code",
    "note",
    "asked_wait",
    "draw",
    "content",
)
"""The fields of a step that the page shows."""

MOST_TICKS = 6
SHORTEST = 1e-9  # seconds below which no clock can tell two times apart, and no number is round


@frozen
class Bar:
    """Hold one stretch of time.

    Arguments:
        kind: what it was: for a call, `attempt` or `wait`.
        start: when it began, in seconds since the run began.
        seconds: how long it lasted.
        says: what it was, in words.
    """

    kind: str
    start: float
    seconds: float
    says: str


def bars_of(line: AttemptLine, since: float = 0.0) -> tuple[Bar, ...]:
    """Return the bars of an attempt: the wait before it, if there was one, and the attempt itself.

    Arguments:
        line: the attempt.
        since: when its own run began, in seconds since the run of the page began.
    """
    attempt = line.attempt
    began = since + attempt.sent.at
    took = "not ended" if attempt.seconds is None else seconds_text(attempt.seconds)
    own = Bar(
        line.kind,
        start=began,
        seconds=attempt.seconds or 0.0,
        says=f"{attempt.number} {attempt.rung}, {took}: {line.came}",
    )
    if attempt.waited <= 0:
        return (own,)
    wait = Bar(
        "wait",
        start=began - attempt.waited,
        seconds=attempt.waited,
        says=f"wait of {seconds_text(attempt.waited)}",
    )
    return wait, own


@frozen
class Timeline:
    """Place bars on an axis that lasts `total` seconds, as the run did."""

    total: float

    @property
    def has_time(self) -> bool:
        """Tell whether any time passed."""
        return self.total >= SHORTEST

    @property
    def ticks(self) -> list[float]:
        """Return a handful of round times from 0 to the end.

        Their distance is 1, 2, 5 or 10 times a power of ten: the first that is long enough.
        """
        if not self.has_time:
            return [0.0]
        rough = self.total / (MOST_TICKS - 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = 10 * power
        for factor in (5, 2, 1):
            if factor * power >= rough:
                step = factor * power
        # the quotient of two floats may fall just short of the whole number that it is
        last = int(self.total / step + 1e-9)
        return [place * step for place in range(last + 1)]

    bars = staticmethod(bars_of)

    def percent(self, seconds: float) -> str:
        """Write a stretch of time as a share of the axis, in CSS."""
        share = 100 * min(seconds / self.total, 1.0)
        digits = f"{share:.3f}".rstrip("0").rstrip(".")
        return f"{digits}%"


@frozen
class Used:
    """Hold what was used up after a step, of what the budget of a whole run limits.

    Arguments:
        attempts: how many were sent.
        seconds: the time since the run began.
        output_tokens: the tokens that the model wrote.
        money: what it cost; None if that is not known.
    """

    attempts: int
    seconds: float
    output_tokens: int
    money: float | None = None


def steps_data(path: Path, used: Sequence[Used], inner: Mapping[int, int]) -> Plain:
    """Return what a script needs to show each step of a run.

    Arguments:
        path: the run.
        used: what was used up after each step.
        inner: the number of the inner page that a step leads to, by the step's number.
    """
    rows = []
    for row in path.rows:
        rows.append(None if row is None else path.table.rows.index(row))
    steps = []
    for step, used_by_then in zip(path.steps, used, strict=True):
        steps.append(_step_data(step, used_by_then))
    return {
        "outcome": path.record.outcome,
        "rows": rows,
        "steps": steps,
        "inner": [inner.get(step.number) for step in path.steps],
    }


def _step_data(step: Step, used: Used) -> Plain:
    """Return one step as a script reads it."""
    counts = asdict(step.usage)
    data = {name: getattr(step, name) for name in _SHOWN}
    data["spent"] = dict(step.spent)
    data["usage"] = {name: count for name, count in counts.items() if count}
    data["used"] = asdict(used)
    return data


LEGEND: Final[Mapping[str, str]] = {"attempt": "in flight", "wait": "wait"}
_CUT: Final = "<!--cut-->"
"""Stands in a rendered body where it is cut into parts; text from outside is escaped and cannot
contain it.
"""


@frozen(kw_only=True)
class Page:
    """Hold one page in its parts.

    Arguments:
        title: its title, as plain text.
        parts: the HTML of its body; what many pages have in common is a part of its own.
        data: what the scripts read.
    """

    title: str
    parts: tuple[str, ...]
    data: Mapping[str, Any]

    @property
    def html(self) -> str:
        """Write the whole page."""
        body = html("".join(self.parts))
        return render("scripted", title=self.title, body=body, data=embedded(self.data))


@frozen(kw_only=True)
class RunDetails:
    """Hold what the page of a recorded run shows besides its path.

    Arguments:
        digest: the run in brief.
        used: what was used up after each step.
        unit: what a line of the run is called.
        legend: what each kind of bar means.
        asides: what stands beside a step in the list, by the step's number.
        pages: the pages of the runs within this one.
        inner: the number of the page, from 1, that a step opens, by the step's number.
    """

    digest: Digest
    used: Sequence[Used]
    unit: str = "attempt"
    legend: Mapping[str, str] = LEGEND
    asides: Mapping[int, str] = field(factory=dict)
    pages: Sequence[Page | None] = ()
    inner: Mapping[int, int] = field(factory=dict)


def explain_page(
    path: Path, setup: Setup, *, digest: Digest | None = None, money: Sequence[float | None] = ()
) -> Page:
    """Make the page of a recorded run.

    Arguments:
        path: the run.
        setup: its limits and its budget.
        digest: the run in brief; None reads it from the path.
        money: what the run had cost after each step, if that is known.
    """
    tokens = accumulate(step.usage.output_tokens for step in path.steps)
    costs = money or [None] * len(path.steps)
    used = []
    for step, output_tokens, cost in zip(path.steps, tokens, costs, strict=True):
        used.append(Used(step.attempts, step.at, output_tokens, cost))
    if digest is None:
        spent = Spent(attempts=used[-1].attempts, seconds=used[-1].seconds)
        digest = digest_of(path, spent=spent, most=setup.budget)
    return page_of(path, setup, RunDetails(used=used, digest=digest))


def page_of(path: Path, setup: Setup, details: RunDetails) -> Page:
    """Make the page of a recorded run with details of your own."""
    digest = details.digest
    last = path.steps[-1]
    amounts = {**digest.amounts, "left": digest.left, "last backend": last.backend}
    known_amounts = {name: value for name, value in amounts.items() if value}
    plain = picture_of(path.table)
    marked = picture_of(path.table, Marks.along(path.rows))
    body = render(
        "run",
        path=path,
        digest=digest,
        amounts=known_amounts,
        timeline=Timeline(last.at),
        unit=details.unit,
        legend=details.legend,
        asides=details.asides,
        ladders=ladders_html(plain),
        svg=html(draw(marked, "svg")),
        cut=html(_CUT),
    )
    steps = steps_data(path, details.used, details.inner)
    data = {
        "machine": machine_data(path.table, setup.limits),
        "budget": setup.budget,
        "call": steps,
        "unit": details.unit,
    }
    if details.pages:
        data["frames"] = _frames_data(details.pages)
    title = f"{path.table.name}: {digest.outcome or 'not ended'}"
    return Page(title=title, parts=tuple(body.split(_CUT)), data=data)


def _frames_data(pages: Sequence[Page | None]) -> dict[str, Any]:
    """Return what a script needs to write each page when somebody opens it.

    The pages of a turn share most of their text and their machine. So each part and each machine is
    in the pool once, and a page names them by their numbers.
    """
    pool: dict[str, int] = {}
    machines: dict[bytes, int] = {}
    entries: list[dict[str, Any] | None] = []
    for page in pages:
        if page is None:
            entries.append(None)
            continue
        rest = dict(page.data)
        machine = orjson.dumps(rest.pop("machine"), default=dict)
        entries.append(
            {
                "title": escape(page.title),
                "parts": [pool.setdefault(part, len(pool)) for part in page.parts],
                "machine": machines.setdefault(machine, len(machines)),
                "data": rest,
            }
        )
    cut = html(_CUT)
    shell = render("scripted", title=cut, body=cut, data=cut)
    return {
        "shell": shell.split(_CUT),
        "pool": list(pool),
        "machines": list(map(orjson.Fragment, machines)),
        "pages": entries,
    }
