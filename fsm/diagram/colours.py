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
    fill={
        "rung": "#dcecf8",
        "hub": "#eaecef",
        "answer": "#d9f2e8",
        "lesser": "#fbe9b7",
        "error": "#fadfd2",
        "outcome": "#eef0f2",
    },
    border={
        "rung": "#0072b2",
        "hub": "#57606a",
        "answer": "#00795a",
        "lesser": "#946200",
        "error": "#b34a00",
        "outcome": "#57606a",
    },
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
    fill={
        "rung": "#0c2d48",
        "hub": "#2d333b",
        "answer": "#0b3328",
        "lesser": "#443200",
        "error": "#4a1f08",
        "outcome": "#21262d",
    },
    border={
        "rung": "#56b4e9",
        "hub": "#9da7b3",
        "answer": "#2fc79a",
        "lesser": "#e6b422",
        "error": "#ff8a4c",
        "outcome": "#9da7b3",
    },
)

MARK = "#c83c8f"
"""The mark where one colour must do on a light page and on a dark one."""
