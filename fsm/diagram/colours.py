"""The colours of pictures and pages, light and dark.

For colour-blind readers, the kinds of states differ in lightness as well as in hue, and in their shapes.
"""

from __future__ import annotations

from attrs import asdict, frozen

from rungwise.fsm.diagram.model import Kind


@frozen
class Colours:
    """Hold the colours of one scheme; every text has a contrast of 4.5 or more on `page`, `panel` and the fills."""

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

    @property
    def named(self) -> dict[str, str]:
        """Return every colour by its name in style sheets; a kind has one for its fill, and one for its edge."""
        colours = {name: colour for name, colour in asdict(self).items() if isinstance(colour, str)}
        for kind, fill in self.fill.items():
            colours |= {kind: fill, f"{kind}_edge": self.border[kind]}
        return colours


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
        **{"rung": "#c8dafc", "hub": "#dfe2e7", "answer": "#d2f8e2"},
        **{"lesser": "#ffe9a0", "error": "#fdb9ad", "outcome": "#eef0f2"},
    },
    border={
        **{"rung": "#0958d9", "hub": "#57606a", "answer": "#0a9a80"},
        **{"lesser": "#b7780b", "error": "#7d1600", "outcome": "#57606a"},
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
        **{"rung": "#082a78", "hub": "#24282f", "answer": "#10503f"},
        **{"lesser": "#504200", "error": "#521300", "outcome": "#21262d"},
    },
    border={
        **{"rung": "#4792ff", "hub": "#8b949e", "answer": "#30e0bf"},
        **{"lesser": "#f0cf40", "error": "#f0503c", "outcome": "#9da7b3"},
    },
)

MARK = "#c83c8f"
"""The colour of marks in formats that have one colour for light and dark pages."""
