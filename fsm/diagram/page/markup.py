"""The page of diffs around its body."""

from __future__ import annotations

from html import escape

from rungwise.fsm.diagram.page.templates import html, render


def plain_document(title: str, body: str, sheet: str) -> str:
    """Write a page that has no scripts, and may run none.

    Arguments:
        title: plain text.
        body: HTML in which everything from outside is escaped.
        sheet: the name of its style sheet, beside the one of all pages.
    """
    return render("styled", title=title, body=html(body), sheet=sheet)


def section(title: str, body: str, *, name: str = "", classes: str = "") -> str:
    """Write a part of the page under a heading."""
    attributes = (f' id="{name}"' if name else "") + (f' class="{classes}"' if classes else "")
    return f"<section{attributes}><h2>{escape(title)}</h2>\n{body}\n</section>"
