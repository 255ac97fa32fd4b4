"""The colours of the pictures: the Okabe-Ito palette, which colour-blind readers can tell apart, in light and dark."""

from __future__ import annotations

from attrs import frozen

from rungwise.fsm.diagram.model import Kind


@frozen
class Colours:
    """Name the colours of one scheme; every text stands on `page`, `panel` or a fill with a contrast of 4.5 or more."""

    page: str
    panel: str
    edge: str
    ink: str
    faint: str
    line: str
    mark: str
    on_mark: str
    fill: dict[Kind, str]
    border: dict[Kind, str]


LIGHT = Colours(
    page="#ffffff",
    panel="#f6f8fa",
    edge="#d0d7de",
    ink="#1f2328",
    faint="#57606a",
    line="#6e7781",
    mark="#a3256f",
    on_mark="#ffffff",
    fill={"rung": "#dcecf8", "hub": "#f7d68a", "outcome": "#e3f4ee"},
    border={"rung": "#0072b2", "hub": "#a87400", "outcome": "#00795a"},
)

DARK = Colours(
    page="#0d1117",
    panel="#161b22",
    edge="#30363d",
    ink="#e6edf3",
    faint="#9da7b3",
    line="#8b949e",
    mark="#f0a3cf",
    on_mark="#0d1117",
    fill={"rung": "#0c2d48", "hub": "#5a4000", "outcome": "#0b3328"},
    border={"rung": "#56b4e9", "hub": "#e69f00", "outcome": "#2fc79a"},
)
