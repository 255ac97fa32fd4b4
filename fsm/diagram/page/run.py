"""The page of a recorded run: how it ended, its attempts over time, and the machine with the present step on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

import orjson
from attrs import field, frozen

from rungwise.fsm.diagram import Marks, draw
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.page.machine import Setup, machine_data
from rungwise.fsm.diagram.page.steps import Used, steps_data, used_in
from rungwise.fsm.diagram.page.templates import embedded, html, ladders_html, render
from rungwise.fsm.diagram.page.timeline import Timeline
from rungwise.fsm.journal.digest import Digest, Spent, digest_of
from rungwise.fsm.journal.path import Path

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
