"""The HTML of the page around its picture: one file that loads nothing and runs offline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Any

import orjson
from attrs import frozen

from rungwise.fsm.diagram.colours import DARK, LIGHT, Colours

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
"""What the page may load and where it may send: nothing and nowhere. Only what stands in it is run."""

SCRIPTS = ("machine.js", "view.js", "frames.js", "explain.js", "play.js", "start.js")


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


def shell() -> tuple[str, str, str, str]:
    """Return what stands around the title, the body and the data of every page."""
    return (
        "\n".join(
            [
                "<!doctype html>",
                '<html lang="en">',
                "<head>",
                '<meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                '<meta name="color-scheme" content="light dark">',
                "<title>",
            ]
        ),
        f"</title>\n<style>\n{_colours()}{_file('page.css')}{_file('explain.css')}</style>\n</head>\n<body>\n",
        "\n<noscript><p>Without scripts there is the picture, but nothing can be selected or played.</p></noscript>\n"
        '<script type="application/json" id="data">',
        '</script>\n<script>\n"use strict";\n' + "\n".join(map(_file, SCRIPTS)) + "</script>\n</body>\n</html>\n",
    )


def plain_document(title: str, body: str, sheet: str) -> str:
    """Write a page that has no scripts, and may run none.

    Arguments:
        title: plain text.
        body: HTML in which everything from outside is escaped.
        sheet: the name of its style sheet, beside the one of all pages.
    """
    policy = POLICY.replace("script-src 'unsafe-inline'", "script-src 'none'")
    head = shell()[0].replace(escape(POLICY, quote=False), escape(policy, quote=False))
    styles = f"{_colours()}{_file('page.css')}{_file(sheet)}"
    return f"{head}{escape(title)}</title>\n<style>\n{styles}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"


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


@lru_cache(maxsize=16)
def _file(name: str) -> str:
    return files(__name__.rpartition(".")[0]).joinpath(name).read_text(encoding="utf-8")


def _colours() -> str:
    """Write the colours of the pictures as variables, so that page and picture always agree."""
    return f":root{{{_variables(LIGHT)}}}\n@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}\n"


def _variables(colours: Colours) -> str:
    plain = ("page", "panel", "edge", "ink", "faint", "line", "mark", "on_mark")
    names = {name.replace("_", "-"): getattr(colours, name) for name in plain}
    for kind in colours.fill:
        names |= {kind: colours.fill[kind], f"{kind}-edge": colours.border[kind]}
    return "".join(f"--{name}:{value};" for name, value in names.items())
