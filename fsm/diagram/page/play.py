"""The page on which a reviewer plays a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rungwise.fsm.diagram import Settings, draw
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.page.machine import Setup, machine_data
from rungwise.fsm.diagram.page.templates import embedded, html, ladders_html, render
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
    """Write the page on which a reviewer plays a machine that has been proved."""
    picture = picture_of(table, settings=settings)
    data = {
        "machine": machine_data(table, setup.limits),
        "budget": setup.budget,
        "usual": {"at_first": list(at_first), "events": facts or {}, "unit": unit},
    }
    return render(
        "play",
        title=f"Play the {table.name}",
        name=table.name,
        heading=heading,
        ladders=ladders_html(picture),
        svg=html(draw(picture, "svg")),
        data=embedded(data),
    )
