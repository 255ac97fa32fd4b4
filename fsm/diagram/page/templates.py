"""The templates of the pages: one Jinja2 environment, in which HTML escapes every value but
`Markup`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import orjson

from rungwise.fsm.diagram.colours import DARK, LIGHT
from rungwise.fsm.diagram.model import ENDS, Decision, Picture
from rungwise.fsm.engine.journal.amounts import counted, plain, seconds_text
from rungwise.fsm.engine.journal.digest import END_SIGNS, Digest

if TYPE_CHECKING:
    from jinja2 import Environment


PACKAGE: Final = __name__.rpartition(".")[0]
CHANGES: Final[Mapping[str, tuple[str, str]]] = {
    "added": ("+", "new"),
    "removed": ("−", "removed"),
    "moved": ("↕", "moved"),
    "off": ("−", "turned off"),
    "on": ("+", "turned on"),
}
"""The sign of each change of a line, and its word."""


def render(name: str, /, **values: object) -> str:
    """Render a file of `templates/` to HTML; a missing variable raises an error."""
    return render_text(f"{name}.html", **values)


def render_text(name: str, /, **values: object) -> str:
    """Render a file of `templates/` to plain text, such as Markdown; a missing variable raises an
    error.
    """
    return _environment().get_template(f"{name}.j2").render(values)


def html(text: str) -> str:
    """Mark a text as HTML, which templates then do not escape."""
    from markupsafe import Markup

    return Markup(text)


def embedded(data: Mapping[str, Any]) -> str:
    """Write JSON for a `<script>` element, which nothing in the JSON can end."""
    return html(
        re.sub(
            "[<>&]",
            lambda sign: f"\\u{ord(sign[0]):04x}",
            orjson.dumps(data, default=dict).decode(),
        )
    )


def ladders_html(picture: Picture, decisions: Iterable[Decision] | None = None) -> str:
    """Write decision lists of a picture, all of them by default; each line carries its row as in
    the SVG.
    """
    shown = picture.decisions if decisions is None else decisions
    return html(render("ladders", picture=picture, decisions=shown))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"counted": counted, "plain": plain, "seconds": seconds_text}
    environment.globals |= {
        "file": lambda name: html(files(PACKAGE).joinpath(name).read_text(encoding="utf-8")),
        "colours": {"light": _variables(LIGHT), "dark": _variables(DARK)},
        "CHANGES": CHANGES,
        "ENDS": ENDS,
        "END_SIGNS": END_SIGNS,
    }
    return environment


def _variables(colours: Mapping[str, str]) -> str:
    """Write the colours of the pictures as CSS variables, so that pages and pictures agree."""
    return "".join(f"--{name.replace('_', '-')}:{value};" for name, value in colours.items())


MOST_LINES: Final = 60  # the most lines shown of a run, and of each run within it


def digest_html(digest: Digest) -> str:
    """Write a run in brief; it is escaped, and styles nothing but itself."""
    return render("notebook", digest=digest, most=MOST_LINES)
