"""One self-contained HTML page: the path of a recorded run, or the machine to be played by whoever reviews it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from attrs import field, frozen

from rungwise.fsm.diagram import Marks, render
from rungwise.fsm.diagram.extract import kind_of
from rungwise.fsm.diagram.model import Node
from rungwise.fsm.diagram.page.frames import frames_data
from rungwise.fsm.diagram.page.ladder import state_chip
from rungwise.fsm.diagram.page.machine import machine_data
from rungwise.fsm.diagram.page.markup import Page, columns, document, picture, section
from rungwise.fsm.diagram.page.steps import Used, steps_data, used_in
from rungwise.fsm.diagram.page.timeline import timeline
from rungwise.fsm.journal.path import Path
from rungwise.fsm.journal.record import Step
from rungwise.fsm.machine.table import Table

__all__ = ["NO_BUDGET", "Page", "Setup", "Told", "explain_page", "page_of", "play_page", "summary_of"]

NO_BUDGET: Mapping[str, float | None] = dict.fromkeys(("attempts", "seconds", "output_tokens", "money"))


@frozen(kw_only=True)
class Setup:
    """Hold what a machine runs with.

    Arguments:
        limits: the limit of each counter.
        budget: the most `attempts`, `seconds`, `output_tokens` and `money` of a whole run; None for no limit.
        lanes: the backends, in the order in which a timeline shows them.
    """

    limits: Mapping[str, int]
    budget: Mapping[str, float | None] = NO_BUDGET
    lanes: tuple[str, ...] = ()


@frozen(kw_only=True)
class Told:
    """Hold what the page of a recorded run tells besides its path.

    Arguments:
        used: what was used up after each step.
        summary: what stands in its head, by name.
        timeline: the HTML of its timeline.
        asides: what stands beside a step in the list, by its number.
        pages: the pages of the runs within, to be opened inside it.
        inner: which of them, from 1, a step leads to, by its number.
    """

    used: Sequence[Used]
    summary: Mapping[str, Any]
    timeline: str
    asides: Mapping[int, str] = field(factory=dict)
    pages: Sequence[Page | None] = ()
    inner: Mapping[int, int] = field(factory=dict)


def explain_page(path: Path, setup: Setup, *, money: Sequence[float | None] = ()) -> Page:
    """Make the page of a recorded run: its path on the diagram, its timeline, and every step to be selected.

    Arguments:
        path: the path of the run; everything that a stranger wrote into it is escaped.
        setup: what it ran with.
        money: what was spent after each step; None where that is not known.
    """
    used = used_in(path, money)
    backend = path.steps[-1].backend
    summary = {**summary_of(used[-1], setup), **({"backend": backend} if backend else {})}
    return page_of(path, setup, Told(used=used, summary=summary, timeline=timeline(path, setup.lanes)))


def summary_of(used: Used, setup: Setup) -> Mapping[str, Any]:
    """Return what the head of a page tells of what was used up."""
    most = setup.budget["attempts"]
    return {
        "attempts": f"{used.attempts} of {most}" if most is not None else used.attempts,
        "seconds": f"{used.seconds:.4g}",
        "output tokens": used.output_tokens,
    }


def page_of(path: Path, setup: Setup, told: Told) -> Page:
    """Make the page of a recorded run from what is told of it.

    Arguments:
        path: the path of the run; everything that a stranger wrote into it is escaped.
        setup: what it ran with.
        told: the rest.
    """
    side = "\n".join(
        [
            section("Steps", _step_list(path, told.asides), name="path-box"),
            section("What decided", '<p id="says" role="status"></p><div id="guards"></div><div id="details"></div>'),
        ]
    )
    head = f"<p>{_ending_chip(path)}</p>{_summary(told.summary)}"
    body = "\n".join(
        [
            f"<header><h1>One {escape(path.table.name)}, step by step</h1>{head}</header>",
            section("Time", told.timeline, name="time"),
            columns(side, _LEFT + section("Path", picture(_PLACE), classes="path")),
        ]
    )
    before, _, after = body.rpartition(_PLACE)
    data = {
        "machine": machine_data(path.table, setup.limits),
        "budget": setup.budget,
        "call": steps_data(path, told.used, told.inner),
        **({"frames": frames_data(told.pages)} if told.pages else {}),
    }
    svg = render(path.table, "svg", marks=Marks.along(path.rows))
    return Page(title=f"{path.table.name}: {_ending(path)}", before=before, picture=svg, after=after, data=data)


def play_page(
    table: Table,
    setup: Setup,
    *,
    heading: str,
    at_first: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
    unit: str = "attempt",
) -> str:
    """Write the page on which a reviewer plays a machine.

    Arguments:
        table: the machine; it must have been proved.
        setup: what it runs with.
        heading: what to know before playing, in a sentence or two.
        at_first: the facts that are set at first.
        facts: for each event, the facts that usually hold `now`, and those of them that still do `later`.
        unit: what a step to the hub is called.
    """
    body = "\n".join(
        [
            f"<header><h1>Play the {escape(table.name)}</h1><p>{escape(heading)}</p></header>",
            columns(
                _PLAY.replace(_NAME, escape(table.name)),
                _LEFT + section("Machine", picture(render(table, "svg")), classes="path"),
            ),
        ]
    )
    data = {
        "machine": machine_data(table, setup.limits),
        "budget": setup.budget,
        "usual": {"at_first": list(at_first), "events": facts or {}, "unit": unit},
    }
    return document(f"Play the {table.name}", body, data)


def _ending(path: Path) -> str:
    return path.record.outcome or "not ended"


def _ending_chip(path: Path) -> str:
    outcome = path.record.outcome
    return (
        state_chip(Node(outcome, kind_of(path.table, outcome)))
        if outcome
        else '<span class="chip outcome">not ended</span>'
    )


def _summary(told: Mapping[str, Any]) -> str:
    items = "".join(f"<div><dt>{name}</dt><dd>{escape(str(value))}</dd></div>" for name, value in told.items())
    return f'<dl class="summary">{items}</dl>'


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
"""Where the picture will stand; nothing from outside can hold it unescaped."""

_LEFT = section("What is left", '<ul id="budget" class="amounts"></ul><ul id="counters" class="amounts"></ul>')

_NAME = "{name}"
_PLAY = "\n".join(
    [
        section(
            f"Where the {_NAME} is",
            '<p class="where"><span id="state"></span> <span id="says" role="status"></span></p><p id="worst"></p>',
        ),
        section(
            "What happens next",
            '<div id="events" class="events" role="radiogroup" aria-label="Event"></div>'
            '<fieldset id="facts-box"><legend>Facts (in italics: no difference here)</legend>'
            '<div id="facts" class="boxes"></div></fieldset>'
            '<div id="guards"></div>'
            '<p><button id="take" class="main">Take this step</button></p>',
            name="choice",
        ),
        section(
            "Path so far",
            '<p id="no-path" class="faint">No step yet.</p><ol id="path" tabindex="0" aria-label="Path so far"></ol>'
            '<p class="buttons"><button id="undo">Undo a step</button> <button id="restart">Restart</button> '
            '<button id="copy">Copy path</button> <span id="copied" role="status"></span></p>'
            '<textarea id="text" readonly hidden rows="6" aria-label="The path as text"></textarea>',
        ),
    ]
)
