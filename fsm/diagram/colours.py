"""The colours of pictures and pages, light and dark.

For colour-blind readers, the kinds of states differ in lightness as well as in hue, and in their
shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_COLOURS: Final = {
    "page": ("#ffffff", "#0d1117"),
    "panel": ("#f6f8fa", "#161b22"),
    "edge": ("#d0d7de", "#30363d"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#57606a", "#9da7b3"),
    "line": ("#6e7781", "#8b949e"),
    "mark": ("#a3256f", "#f0a3cf"),
    "on_mark": ("#ffffff", "#0d1117"),
    "rung": ("#c8dafc", "#082a78"),
    "rung_edge": ("#0958d9", "#4792ff"),
    "hub": ("#dfe2e7", "#24282f"),
    "hub_edge": ("#57606a", "#8b949e"),
    "answer": ("#d2f8e2", "#10503f"),
    "answer_edge": ("#0a9a80", "#30e0bf"),
    "lesser": ("#ffe9a0", "#504200"),
    "lesser_edge": ("#b7780b", "#f0cf40"),
    "error": ("#fdb9ad", "#521300"),
    "error_edge": ("#7d1600", "#f0503c"),
    "outcome": ("#eef0f2", "#21262d"),
    "outcome_edge": ("#57606a", "#9da7b3"),
}
"""Each colour by light and by dark; a kind of states has one for its fill, and one for its edge.

Every text has a contrast of 4.5 or more on `page`, `panel` and the fills.
"""

LIGHT: Final[Mapping[str, str]] = {name: light for name, (light, _) in _COLOURS.items()}
DARK: Final[Mapping[str, str]] = {name: dark for name, (_, dark) in _COLOURS.items()}

MARK: Final = "#c83c8f"
"""The colour of marks in formats that have one colour for light and dark pages."""
