"""The HTML of the page around its picture: one file that loads nothing and runs offline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

import orjson
from attrs import frozen

from rungwise.fsm.diagram.page.templates import render


@frozen(kw_only=True)
class Page:
    """Hold one page in its parts.

    Arguments:
        title: plain text.
        parts: the HTML of its body, in which everything from outside is escaped; what pages share is a part alone.
        data: what the scripts read.
    """

    title: str
    parts: tuple[str, ...]
    data: Mapping[str, Any]

    @property
    def html(self) -> str:
        """Write the whole page."""
        return document(self.title, "".join(self.parts), self.data)


def document(title: str, body: str, data: Mapping[str, Any]) -> str:
    """Write the whole page.

    Arguments:
        title: plain text.
        body: HTML in which everything from outside is escaped.
        data: what the scripts read.
    """
    to_title, to_body, to_data, to_end = shell()
    return "".join([to_title, escape(title), to_body, body, to_data, _embedded(data), to_end])


def shell() -> tuple[str, ...]:
    """Return what stands around the title, the body and the data of every page."""
    return tuple(render("scripted", title=_CUT, body=_CUT, data=_CUT).split(_CUT))


def plain_document(title: str, body: str, sheet: str) -> str:
    """Write a page that has no scripts, and may run none.

    Arguments:
        title: plain text.
        body: HTML in which everything from outside is escaped.
        sheet: the name of its style sheet, beside the one of all pages.
    """
    before, after = render("styled", title=title, body=_CUT, sheet=sheet).split(_CUT)
    return f"{before}{body}{after}"


def section(title: str, body: str, *, name: str = "", classes: str = "") -> str:
    """Write a part of the page under a heading."""
    attributes = (f' id="{name}"' if name else "") + (f' class="{classes}"' if classes else "")
    return f"<section{attributes}><h2>{escape(title)}</h2>\n{body}\n</section>"


def picture(svg: str) -> str:
    """Put the picture into a frame that scrolls by itself where the page is narrower."""
    label = "The diagram of the machine, with the present step"
    return f'<div id="picture" tabindex="0" role="region" aria-label="{label}">{svg}</div>'


def columns(side: str, main: str) -> str:
    """Put two parts beside each other where there is room."""
    return f'<main class="columns"><div class="side">{side}</div><div class="side">{main}</div></main>'


def _embedded(data: Mapping[str, Any]) -> str:
    """Write JSON that cannot end the element that it stands in."""
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", orjson.dumps(data, default=dict).decode())


_CUT = "\0"
