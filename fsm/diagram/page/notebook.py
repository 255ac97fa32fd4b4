"""A run in brief as HTML for a notebook."""

from __future__ import annotations

from typing import Final

from rungwise.fsm.diagram.page.templates import render
from rungwise.fsm.journal.digest import Digest

MOST_LINES: Final = 60
"""The most lines shown of a run, and of each run within it."""


def digest_html(digest: Digest) -> str:
    """Write a run in brief; it is escaped, and styles nothing but itself."""
    return render("notebook", digest=digest, most=MOST_LINES)
