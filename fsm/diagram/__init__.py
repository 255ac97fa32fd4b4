"""Pictures of a machine, drawn from the machine that runs.

A table becomes a neutral `Picture` (`extract.py`), or two tables become one (`merge.py`). Each
renderer writes a picture as text: Mermaid, SVG, DOT or Markdown. There are two views: the hub view
has an arc for each pair of states, the ladder view a list for each event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from rungwise.fsm.diagram import dot, markdown, mermaid
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.model import Marks, Picture, Settings
from rungwise.fsm.diagram.svg.hub import draw_hub_view
from rungwise.fsm.diagram.svg.ladder import draw_ladder_view
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.errors import ConfigurationError, TableError

__all__ = [
    "FORMATS",
    "VIEWS",
    "Format",
    "Marks",
    "Settings",
    "View",
    "draw",
    "render",
    "render_error",
]

Format = Literal["mermaid", "svg", "dot", "rows"]
View = Literal["hub", "ladder"]

FORMATS: tuple[Format, ...] = ("mermaid", "svg", "dot", "rows")
VIEWS: tuple[View, ...] = ("hub", "ladder")

_RENDERERS: dict[str, tuple[Callable[[Picture], str], ...]] = {
    "mermaid": (mermaid.hub_view, mermaid.ladder_view),
    "svg": (draw_hub_view, draw_ladder_view),
    "dot": (dot.hub_view, dot.ladder_view),
    "rows": (markdown.hub_view, markdown.ladder_view),
}
"""The functions that draw the views in each format, in the order of `VIEWS`."""


def render(
    table: Table,
    format: Format,
    view: View = "hub",
    marks: Marks | None = None,
    settings: Settings | None = None,
) -> str:
    """Draw a table as text in one of the formats; the same table always gives the same text.

    Arguments:
        table: the table.
        format: one of `FORMATS`.
        view: one of `VIEWS`.
        marks: a path to show on it, if any.
        settings: the limits, waits and switched-off rows of a policy, if any.

    Raises:
        ConfigurationError: there is no such format or view.
    """
    return draw(picture_of(table, marks, settings), format, view)


def draw(picture: Picture, format: Format, view: View = "hub") -> str:
    """Write a picture as text in one of the formats.

    Raises:
        ConfigurationError: there is no such format or view.
    """
    if format not in FORMATS or view not in VIEWS:
        choices = f"formats: {', '.join(FORMATS)}; views: {', '.join(VIEWS)}"
        raise ConfigurationError(
            f"there is no picture of format {format!r} and view {view!r}; {choices}"
        )
    return _RENDERERS[format][VIEWS.index(view)](picture)


def render_error(error: TableError, format: Format = "svg", view: View = "hub") -> str:
    """Draw a table with the path to its fault painted on it.

    Raises:
        ConfigurationError: the error has no path.
    """
    if error.table is None or not error.path:
        raise ConfigurationError("there is no path to paint: the message names the row at fault")
    return render(error.table, format, view=view, marks=Marks.of_path(error.table, error.path))
