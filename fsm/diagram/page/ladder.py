"""Pieces of pages for the page of diffs."""

from __future__ import annotations

from collections.abc import Iterable

from rungwise.fsm.diagram.model import Decision, Line, Node, Picture
from rungwise.fsm.diagram.page.templates import CHANGES, ladders_html, render

__all__ = ["CHANGES", "change_in", "ladder_of", "state_chip"]


def ladder_of(picture: Picture, decisions: Iterable[Decision]) -> str:
    """Write some of the lists of a picture."""
    return ladders_html(picture, decisions)


def state_chip(node: Node) -> str:
    """Write a state as small as a word."""
    return render("chip", node=node)


def change_in(line: Line) -> str | None:
    """Name what a change does to a line; None where it leaves it as it is."""
    return line.difference
