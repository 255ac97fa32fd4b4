"""The page on which a reviewer plays a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rungwise.fsm.diagram import Settings, draw
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.page.ladder import ladder
from rungwise.fsm.diagram.page.machine import machine_data
from rungwise.fsm.diagram.page.machine_views import machine_views
from rungwise.fsm.diagram.page.markup import columns, document, section
from rungwise.fsm.diagram.page.run import LEFT
from rungwise.fsm.diagram.page.setup import Setup
from rungwise.fsm.machine.table import Table


def play_page(
    table: Table,
    setup: Setup,
    *,
    heading: str,
    at_first: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
    unit: str = "attempt",
    settings: Settings | None = None,
) -> str:
    """Write the page on which a reviewer plays a machine.

    Arguments:
        table: the machine; it must have been proved.
        setup: what it runs with.
        heading: what to know before playing, in a sentence or two.
        at_first: the facts that are set at first.
        facts: for each event, the facts that usually hold `now`, and those of them that still do `later`.
        unit: what a step to the hub is called.
        settings: what a policy makes of the table.
    """
    picture = picture_of(table, settings=settings)
    body = "\n".join(
        [
            f"<header><h1>Play the {escape(table.name)}</h1><p>{escape(heading)}</p></header>",
            columns(
                _PLAY.replace(_NAME, escape(table.name)),
                LEFT + "".join(machine_views(ladder(picture), draw(picture, "svg"))),
            ),
        ]
    )
    data = {
        "machine": machine_data(table, setup.limits),
        "budget": setup.budget,
        "usual": {"at_first": list(at_first), "events": facts or {}, "unit": unit},
    }
    return document(f"Play the {table.name}", body, data)


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
