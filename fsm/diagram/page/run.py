"""The page of a recorded run: how it ended, its attempts over time, and the machine with the present step on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from attrs import field, frozen

from rungwise.fsm.diagram import Marks, draw
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.model import Node
from rungwise.fsm.diagram.page.attempts import attempt_list
from rungwise.fsm.diagram.page.frames import frames_data
from rungwise.fsm.diagram.page.ladder import ladder, state_chip
from rungwise.fsm.diagram.page.machine import machine_data
from rungwise.fsm.diagram.page.machine_views import machine_views
from rungwise.fsm.diagram.page.markup import Page, columns, section
from rungwise.fsm.diagram.page.setup import Setup
from rungwise.fsm.diagram.page.steps import Used, steps_data, used_in
from rungwise.fsm.journal.digest import Digest, Spent, digest_of
from rungwise.fsm.journal.digest.words import plain
from rungwise.fsm.journal.path import Path
from rungwise.fsm.journal.record import Step


@frozen(kw_only=True)
class Told:
    """Hold what the page of a recorded run tells besides its path.

    Arguments:
        digest: the run in brief.
        used: what was used up after each step.
        unit: what a line of it is called.
        legend: what each kind of bar means.
        asides: what stands beside a step in the list, by its number.
        pages: the pages of the runs within, to be opened inside it.
        inner: which of them, from 1, a step leads to, by its number.
    """

    digest: Digest
    used: Sequence[Used]
    unit: str = "attempt"
    legend: Mapping[str, str] = field(factory=dict)
    asides: Mapping[int, str] = field(factory=dict)
    pages: Sequence[Page | None] = ()
    inner: Mapping[int, int] = field(factory=dict)


def explain_page(path: Path, setup: Setup, *, digest: Digest | None = None, money: Sequence[float | None] = ()) -> Page:
    """Make the page of a recorded run: its attempts over time, its path on the diagram, and every step to be selected.

    Arguments:
        path: the path of the run; everything that a stranger wrote into it is escaped.
        setup: what it ran with.
        digest: the run in brief; without one it is told from the path alone.
        money: what was spent after each step; None where that is not known.
    """
    used = used_in(path, money)
    if digest is None:
        digest = digest_of(path, spent=Spent(attempts=used[-1].attempts, seconds=used[-1].seconds), most=setup.budget)
    return page_of(path, setup, Told(used=used, digest=digest))


def page_of(path: Path, setup: Setup, told: Told) -> Page:
    """Make the page of a recorded run from what is told of it.

    Arguments:
        path: the path of the run; everything that a stranger wrote into it is escaped.
        setup: what it ran with.
        told: the rest.
    """
    name, digest = escape(path.table.name), told.digest
    picture = picture_of(path.table, Marks.along(path.rows))
    views = machine_views(ladder(picture_of(path.table)), draw(picture, "svg"))
    unit = escape(told.unit)
    main = [
        section(f"This {unit}", '<div id="details"></div>'),
        f'<details class="box" id="table-view"><summary>The view of the table: every step, with its guards and counters'
        f'</summary>{_step_list(path, told.asides)}<p id="says"></p><div id="guards"></div></details>',
    ]
    start, *rest = columns("\n".join(main), f"{LEFT}{_PLACE}").partition(_PLACE)
    before = "\n".join(
        [
            f'<header class="run"><h1>One {name}, step by step</h1>{_ending(path, digest)}</header>',
            section(f"{told.unit.capitalize()}s over time", attempt_list(digest, path, told), name="attempts-box"),
            start,
        ]
    )
    data = {
        "machine": machine_data(path.table, setup.limits),
        "budget": setup.budget,
        "call": steps_data(path, told.used, told.inner),
        "unit": told.unit,
        **({"frames": frames_data(told.pages)} if told.pages else {}),
    }
    return Page(
        title=f"{path.table.name}: {digest.outcome or 'not ended'}", parts=(before, *views, rest[-1]), data=data
    )


def _ending(path: Path, digest: Digest) -> str:
    chip = '<span class="chip outcome">not ended</span>'
    if digest.outcome:
        chip = state_chip(Node(plain(digest.outcome), digest.kind))
    cause = f'<span class="cause">{escape(digest.cause)}</span>' if digest.cause else ""
    told = {**digest.amounts, **({"left": digest.left} if digest.left else {})}
    if backend := path.steps[-1].backend:
        told["last backend"] = backend
    items = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in told.items())
    return f'<p class="outcome-line">{chip} {cause}</p><dl class="summary">{items}</dl>'


def _step_list(path: Path, asides: Mapping[int, str]) -> str:
    options = "".join(_step(step, asides.get(step.number, "")) for step in path.steps)
    return (
        f'<ol id="steps" role="listbox" tabindex="0" aria-label="Steps of the {escape(path.table.name)}">{options}</ol>'
    )


def _step(step: Step, aside: str) -> str:
    guard = f' <span class="faint">[{escape(step.guard)}]</span>' if step.guard else ""
    beside = f'<span class="aside">{escape(aside)}</span>' if aside else ""
    return (
        f'<li role="option" id="step-{step.number}" aria-selected="false"><span class="badge">{step.number}</span>'
        f'<code>{escape(step.event)}{guard}</code>{beside}<span class="to">{escape(step.target)}</span></li>'
    )


_PLACE = "<svg></svg>"
"""Where the machine will stand; nothing from outside can hold it unescaped."""

LEFT = section("What is left", '<ul id="budget" class="amounts"></ul><ul id="counters" class="amounts"></ul>')
