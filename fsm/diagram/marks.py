"""The marks of a line, as Mermaid and DOT both write them: in the HTML of their labels."""

from __future__ import annotations

from rungwise.fsm.diagram.model import Line


def sign(line: Line) -> str:
    """Return the sign of what a change does to a row, to stand before it."""
    return f"<b>{line.sign}</b> " if line.sign else ""


def turn(line: Line) -> str:
    """Return the words of a row that is turned off or on, to stand behind it."""
    return f" <b>{line.turn}</b>" if line.turn else ""


def struck(says: str, is_struck: bool) -> str:
    """Strike a text, where it no longer holds."""
    return f"<s>{says}</s>" if is_struck else says
