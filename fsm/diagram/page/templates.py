"""The templates of the pages, in one Jinja2 environment.

A template of HTML escapes every value but `Markup`, which `html` makes; a template of plain text
escapes none. Jinja2 is loaded when the first page is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import orjson

from rungwise.fsm.diagram.colours import DARK, LIGHT
from rungwise.fsm.diagram.model import ENDS, DecisionList, Picture
from rungwise.fsm.engine.journal.amounts import counted, plain, seconds_text
from rungwise.fsm.engine.journal.digest import END_SIGNS, Digest

if TYPE_CHECKING:
    from jinja2 import Environment


CHANGES: Final[Mapping[str, tuple[str, str]]] = {
    "added": ("+", "new"),
    "removed": ("−", "removed"),
    "moved": ("↕", "moved"),
    "off": ("−", "turned off"),
    "on": ("+", "turned on"),
}
"""The sign of each change of a line, and its word."""


def render(name: str, /, **values: object) -> str:
    """Render a file of `templates/` to HTML.

    A missing variable raises an error.
    """
    return render_text(f"{name}.html", **values)


def render_text(name: str, /, **values: object) -> str:
    """Render a file of `templates/` to plain text, such as Markdown.

    A missing variable raises an error.
    """
    return _environment().get_template(f"{name}.j2").render(values)


def html(text: str) -> str:
    """Mark a text as HTML, which templates then do not escape."""
    from markupsafe import Markup

    return Markup(text)


def embedded(data: Mapping[str, Any]) -> str:
    """Write JSON for a `<script>` element, which nothing in the JSON can end."""
    json = orjson.dumps(data, default=dict).decode()
    return html(re.sub("[<>&]", _json_escape, json))


def _json_escape(sign: re.Match[str]) -> str:
    return f"\\u{ord(sign[0]):04x}"


def ladders_html(picture: Picture, decisions: Iterable[DecisionList] | None = None) -> str:
    """Write decision lists of a picture, all of them by default.

    Each line carries the data attributes of its row, as in the SVG.
    """
    shown = picture.decisions if decisions is None else decisions
    return html(render("ladders", picture=picture, decisions=shown))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=_is_html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"counted": counted, "plain": plain, "seconds": seconds_text}
    environment.globals |= {
        "file": _file,
        "colours": {"light": _variables(LIGHT), "dark": _variables(DARK)},
        "CHANGES": CHANGES,
        "ENDS": ENDS,
        "END_SIGNS": END_SIGNS,
    }
    return environment


def _is_html(name: str | None) -> bool:
    """Tell whether a template writes HTML, by its name."""
    return name is not None and name.endswith(".html.j2")


def _file(name: str) -> str:
    """Return a file of this package, such as a script, as HTML."""
    return html(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _variables(colours: Mapping[str, str]) -> str:
    """Write the colours of the pictures as CSS variables, so that pages and pictures agree."""
    variables = []
    for name, value in colours.items():
        variables.append(f"--{name.replace('_', '-')}:{value};")
    return "".join(variables)


MOST_LINES: Final = 60  # the most lines shown of a run, and of each run within it


def digest_html(digest: Digest) -> str:
    """Write a run in brief; it is escaped, and styles nothing but itself."""
    return render("notebook", digest=digest, most=MOST_LINES)
