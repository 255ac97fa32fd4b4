"""Pictures of a machine, drawn from the machine that runs: as Mermaid, SVG, DOT and Markdown, in two views.

And what independent checkers read of it: a model for SPIN, and a TLA+ specification with what TLC is told of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from rungwise.fsm.diagram import dot, markdown, mermaid, promela, tla
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.model import Marks, Picture, Settings
from rungwise.fsm.diagram.svg.hub import draw_hub_view
from rungwise.fsm.diagram.svg.ladder import draw_ladder_view
from rungwise.fsm.errors import ConfigurationError, TableError
from rungwise.fsm.machine.table import Table

__all__ = [
    "FORMATS",
    "MODELS",
    "VIEWS",
    "Format",
    "Marks",
    "Model",
    "Settings",
    "View",
    "draw",
    "model",
    "render",
    "render_error",
]

Format = Literal["mermaid", "svg", "dot", "rows"]
View = Literal["hub", "ladder"]
Model = Literal["promela", "tla", "tlc"]

_RENDERERS: dict[tuple[str, str], Callable[[Picture], str]] = {
    ("mermaid", "hub"): mermaid.hub_view,
    ("mermaid", "ladder"): mermaid.ladder_view,
    ("svg", "hub"): draw_hub_view,
    ("svg", "ladder"): draw_ladder_view,
    ("dot", "hub"): dot.hub_view,
    ("dot", "ladder"): dot.ladder_view,
    ("rows", "hub"): markdown.hub_view,
    ("rows", "ladder"): markdown.ladder_view,
}
FORMATS: tuple[Format, ...] = ("mermaid", "svg", "dot", "rows")
VIEWS: tuple[View, ...] = ("hub", "ladder")

_MODELS: dict[Model, Callable[[Table, Mapping[str, int | None] | None], str]] = {
    "promela": promela.model,
    "tla": tla.specification,
    "tlc": tla.configuration,
}
MODELS: tuple[Model, ...] = tuple(_MODELS)


def render(
    table: Table, format: Format, view: View = "hub", marks: Marks | None = None, settings: Settings | None = None
) -> str:
    """Draw a table as text in one of the formats; the same table always gives the same text.

    Arguments:
        format: `mermaid`, `svg`, `dot`, or `rows` for Markdown.
        view: `hub` for the states and what leads from one to another, `ladder` for the order in which guards are tried.
        marks: the path of a call, to be painted on the picture.
        settings: what a policy makes of the table: `rungwise.fsm.certificate.shown.settings.settings_of` reads it.

    Raises:
        ConfigurationError: there is no such format or view.
    """
    return draw(picture_of(table, marks, settings), format, view)


def draw(picture: Picture, format: Format, view: View = "hub") -> str:
    """Write a picture as text in one of the formats.

    Raises:
        ConfigurationError: there is no such format or view.
    """
    renderer = _RENDERERS.get((format, view))
    if renderer is None:
        known = f"formats: {', '.join(FORMATS)}; views: {', '.join(VIEWS)}"
        raise ConfigurationError(f"there is no picture of format {format!r} and view {view!r}; {known}")
    return renderer(picture)


def model(table: Table, format: Model, limits: Mapping[str, int | None] | None = None) -> str:
    """Write a table for an independent checker; the same table and limits always give the same text.

    Arguments:
        format: `promela` for SPIN, `tla` for the specification, `tlc` for the configuration that TLC reads beside it.
        limits: the limit of each counter; by default as the rungs declare it. None is one fallback.

    Raises:
        ConfigurationError: there is no such format.
    """
    writer = _MODELS.get(format)
    if writer is None:
        raise ConfigurationError(f"there is no model of format {format!r}; formats: {', '.join(MODELS)}")
    return writer(table, limits)


def render_error(error: TableError, format: Format = "svg", view: View = "hub") -> str:
    """Paint the path to what is wrong with a table on the diagram of that table.

    Raises:
        ConfigurationError: there is no path, because a row alone is at fault.
    """
    if error.table is None or not error.path:
        raise ConfigurationError("there is no path to paint: the message names the row at fault")
    return render(error.table, format, view=view, marks=Marks.of_path(error.table, error.path))
