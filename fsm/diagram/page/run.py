"""The page of a recorded run: how it ended, its attempts over time, and the machine with the present step on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import accumulate
from typing import Any, Final

import orjson
from attrs import asdict, field, frozen

from rungwise.fsm.diagram import Marks, draw
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.page.machine import Setup, machine_data
from rungwise.fsm.diagram.page.templates import embedded, html, ladders_html, render
from rungwise.fsm.diagram.page.timeline import Timeline
from rungwise.fsm.journal.digest import Digest, Spent, digest_of
from rungwise.fsm.journal.path import Path
from rungwise.fsm.journal.record import Step

Plain = dict[str, Any]


_SHOWN = (
    *("event", "source", "target", "at", "attempts", "facts", "backend", "wait", "cap", "stop_raw", "status", "reason"),
    *("code", "note", "asked_wait", "draw", "content"),
)


@frozen
class Used:
    """Hold what was used up after a step, of what the budget of a whole run limits.

    Arguments:
        attempts, seconds, output_tokens: as in the budget.
        money: in the currency of the prices; None where that is not known.
    """

    attempts: int
    seconds: float
    output_tokens: int
    money: float | None = None


def used_in(path: Path, money: Sequence[float | None] = ()) -> tuple[Used, ...]:
    """Return what a run had used after each of its steps.

    Arguments:
        money: what was spent after each step; None where that is not known.
    """
    tokens = accumulate(step.usage.output_tokens for step in path.steps)
    spent = money or [None] * len(path.steps)
    together = zip(path.steps, tokens, spent, strict=True)
    return tuple(Used(step.attempts, step.at, count, paid) for step, count, paid in together)


def steps_data(path: Path, used: Sequence[Used], inner: Mapping[int, int]) -> Plain:
    """Return what a script needs to show each step of a run.

    Arguments:
        used: what was used up after each step.
        inner: the number of the inner page that a step leads to, by the number of the step.
    """
    return {
        "outcome": path.record.outcome,
        "rows": [None if row is None else path.table.rows.index(row) for row in path.rows],
        "steps": [_step(step, each) for step, each in zip(path.steps, used, strict=True)],
        "inner": [inner.get(step.number) for step in path.steps],
    }


def _step(step: Step, used: Used) -> Plain:
    return {
        **{name: getattr(step, name) for name in _SHOWN},
        "spent": dict(step.spent),
        "usage": {name: count for name, count in asdict(step.usage).items() if count},
        "used": asdict(used),
    }


LEGEND: Final[Mapping[str, str]] = {"attempt": "in flight", "wait": "wait"}
_CUT: Final = "<!--cut-->"
"""Stands in a rendered body where it is cut into parts; text from outside is escaped and cannot contain it."""


@frozen(kw_only=True)
class Page:
    """Hold one page in its parts.

    Arguments:
        title: plain text.
        parts: the HTML of its body; what many pages have in common is a part of its own.
        data: what the scripts read.
    """

    title: str
    parts: tuple[str, ...]
    data: Mapping[str, Any]

    @property
    def html(self) -> str:
        """Write the whole page."""
        return render("scripted", title=self.title, body=html("".join(self.parts)), data=embedded(self.data))


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


def explain_page(path: Path, setup: Setup, *, digest: Digest | None = None, money: Sequence[float | None] = ()) -> Page:
    """Make the page of a recorded run.

    Arguments:
        path: the path of the run; everything in it is escaped.
        setup: what the run ran with.
        digest: the run in brief; by default it is read from the path alone.
        money: what was spent after each step; None where that is not known.
    """
    used = used_in(path, money)
    if digest is None:
        digest = digest_of(path, spent=Spent(attempts=used[-1].attempts, seconds=used[-1].seconds), most=setup.budget)
    return page_of(path, setup, RunDetails(used=used, digest=digest))


def page_of(path: Path, setup: Setup, details: RunDetails) -> Page:
    """Make the page of a recorded run with details of your own.

    Arguments:
        path: the path of the run; everything in it is escaped.
        setup: what the run ran with.
        details: what the page shows besides.
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
    """Return what a script needs to write each page when it is opened; what the pages share is there once."""
    pool: dict[str, int] = {}
    machines: dict[bytes, int] = {}
    written: list[dict[str, Any] | None] = []
    for page in pages:
        if page is None:
            written.append(None)
            continue
        rest = dict(page.data)
        machine = orjson.dumps(rest.pop("machine"), default=dict)
        written.append(
            {
                "title": escape(page.title),
                "parts": [pool.setdefault(part, len(pool)) for part in page.parts],
                "machine": machines.setdefault(machine, len(machines)),
                "data": rest,
            }
        )
    cut = html(_CUT)
    return {
        "shell": render("scripted", title=cut, body=cut, data=cut).split(_CUT),
        "pool": list(pool),
        "machines": [orjson.Fragment(machine) for machine in machines],
        "pages": written,
    }
