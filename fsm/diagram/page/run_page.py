"""The page of a recorded run: how it ended, its attempts over time, and the machine with the
present step on it.
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

MOST_TICKS = 6
SHORTEST = 1e-9  # seconds below which no clock can tell two times apart, and no number is round


@frozen
class Bar:
    """Hold one stretch of time."""

    kind: str  # `attempt` or `wait` for a call
    start: float
    seconds: float
    says: str


def bars_of(line: AttemptLine, since: float = 0.0) -> tuple[Bar, ...]:
    """Return the wait before an attempt, if there was one, and the attempt, in seconds since its
    run began.
    """
    attempt = line.attempt
    sent = attempt.sent.at
    seconds = attempt.seconds
    took = "not ended" if seconds is None else seconds_text(seconds)
    own = Bar(
        line.kind,
        since + sent,
        seconds or 0.0,
        f"{attempt.number} {attempt.rung}, {took}: {line.came}",
    )
    if attempt.waited <= 0:
        return (own,)
    return Bar(
        "wait",
        since + sent - attempt.waited,
        attempt.waited,
        f"wait of {seconds_text(attempt.waited)}",
    ), own


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
        """Return a handful of round times from 0 to the end."""
        if not self.has_time:
            return [0.0]
        rough = self.total / (MOST_TICKS - 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next((factor * power for factor in (1, 2, 5) if factor * power >= rough), 10 * power)
        return [place * step for place in range(int(self.total / step + 1e-9) + 1)]

    bars = staticmethod(bars_of)

    def percent(self, seconds: float) -> str:
        """Write a stretch of time as a share of the axis, in CSS."""
        return f"{100 * min(seconds / self.total, 1.0):.3f}".rstrip("0").rstrip(".") + "%"


@frozen
class Used:
    """Hold what was used up after a step, of what the budget of a whole run limits."""

    attempts: int
    seconds: float
    output_tokens: int
    money: float | None = None  # None where that is not known


def steps_data(path: Path, used: Sequence[Used], inner: Mapping[int, int]) -> Plain:
    """Return what a script needs to show each step of a run, and the number of the inner page that
    it leads to.
    """
    return {
        "outcome": path.record.outcome,
        "rows": [None if row is None else path.table.rows.index(row) for row in path.rows],
        "steps": [
            {
                **{name: getattr(step, name) for name in _SHOWN},
                "spent": dict(step.spent),
                "usage": {name: count for name, count in asdict(step.usage).items() if count},
                "used": asdict(each),
            }
            for step, each in zip(path.steps, used, strict=True)
        ],
        "inner": [inner.get(step.number) for step in path.steps],
    }


LEGEND: Final[Mapping[str, str]] = {"attempt": "in flight", "wait": "wait"}
_CUT: Final = "<!--cut-->"
"""Stands in a rendered body where it is cut into parts; text from outside is escaped and cannot
contain it.
"""


@frozen(kw_only=True)
class Page:
    """Hold one page in its parts."""

    title: str  # plain text
    # the HTML of its body; what many pages have in common is a part of its own
    parts: tuple[str, ...]
    data: Mapping[str, Any]  # what the scripts read

    @property
    def html(self) -> str:
        """Write the whole page."""
        return render(
            "scripted", title=self.title, body=html("".join(self.parts)), data=embedded(self.data)
        )


@frozen(kw_only=True)
class RunDetails:
    """Hold what the page of a recorded run shows besides its path."""

    digest: Digest
    used: Sequence[Used]  # after each step
    unit: str = "attempt"  # what a line of the run is called
    legend: Mapping[str, str] = LEGEND  # what each kind of bar means
    # what stands beside a step in the list, by the step's number
    asides: Mapping[int, str] = field(factory=dict)
    pages: Sequence[Page | None] = ()  # of the runs within this one
    # the page, from 1, that a step opens, by the step's number
    inner: Mapping[int, int] = field(factory=dict)


def explain_page(
    path: Path, setup: Setup, *, digest: Digest | None = None, money: Sequence[float | None] = ()
) -> Page:
    """Make the page of a recorded run; everything in its path is escaped, and the default digest is
    read from it.
    """
    tokens = accumulate(step.usage.output_tokens for step in path.steps)
    together = zip(path.steps, tokens, money or [None] * len(path.steps), strict=True)
    used = [Used(step.attempts, step.at, count, paid) for step, count, paid in together]
    if digest is None:
        digest = digest_of(
            path,
            spent=Spent(attempts=used[-1].attempts, seconds=used[-1].seconds),
            most=setup.budget,
        )
    return page_of(path, setup, RunDetails(used=used, digest=digest))


def page_of(path: Path, setup: Setup, details: RunDetails) -> Page:
    """Make the page of a recorded run with details of your own, with everything in its path
    escaped.
    """
    digest = details.digest
    backend = path.steps[-1].backend
    amounts = {**digest.amounts, "left": digest.left, "last backend": backend}
    body = render(
        "run",
        path=path,
        digest=digest,
        amounts={name: value for name, value in amounts.items() if value},
        timeline=Timeline(path.steps[-1].at),
        unit=details.unit,
        legend=details.legend,
        asides=details.asides,
        ladders=ladders_html(picture_of(path.table)),
        svg=html(draw(picture_of(path.table, Marks.along(path.rows)), "svg")),
        cut=html(_CUT),
    )
    data = {
        "machine": machine_data(path.table, setup.limits),
        "budget": setup.budget,
        "call": steps_data(path, details.used, details.inner),
        "unit": details.unit,
        **({"frames": _frames_data(details.pages)} if details.pages else {}),
    }
    title = f"{path.table.name}: {digest.outcome or 'not ended'}"
    return Page(title=title, parts=tuple(body.split(_CUT)), data=data)


def _frames_data(pages: Sequence[Page | None]) -> dict[str, Any]:
    """Return what a script needs to write each page when it is opened; what the pages share is
    there once.
    """
    pool: dict[str, int] = {}
    machines: dict[bytes, int] = {}
    entries: list[dict[str, Any] | None] = []
    for page in pages:
        if page is None:
            entries.append(None)
            continue
        rest = dict(page.data)
        machine = machines.setdefault(
            orjson.dumps(rest.pop("machine"), default=dict), len(machines)
        )
        parts = [pool.setdefault(part, len(pool)) for part in page.parts]
        entries.append(
            {"title": escape(page.title), "parts": parts, "machine": machine, "data": rest}
        )
    cut = html(_CUT)
    return {
        "shell": render("scripted", title=cut, body=cut, data=cut).split(_CUT),
        "pool": list(pool),
        "machines": [orjson.Fragment(machine) for machine in machines],
        "pages": entries,
    }
