"""The templates of the pages: one Jinja2 environment, in which every value is escaped unless it is `Markup`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from rungwise.fsm.diagram.colours import DARK, LIGHT, Colours
from rungwise.fsm.diagram.model import ENDS
from rungwise.fsm.diagram.page.ladder import CHANGES, change_in
from rungwise.fsm.journal.digest.words import END_SIGNS

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = __name__.rpartition(".")[0]


def render(name: str, **values: object) -> str:
    """Render a template to HTML.

    Arguments:
        name: the file in `templates/`, without `.html.j2`.
        values: the variables of the template; a missing one raises an error.
    """
    return _environment().get_template(f"{name}.html.j2").render(values)


@cache
def _environment() -> Environment:
    # Jinja2 takes 50 ms to load: only those wait for it who write a page.
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "file": lambda name: Markup(files(PACKAGE).joinpath(name).read_text(encoding="utf-8")),
        "colours": {"light": _variables(LIGHT), "dark": _variables(DARK)},
        "change_in": change_in,
        "CHANGES": CHANGES,
        "ENDS": ENDS,
        "END_SIGNS": END_SIGNS,
    }
    return environment


def _variables(colours: Colours) -> str:
    """Write the colours of the pictures as CSS variables, so that pages and pictures always agree."""
    plain = ("page", "panel", "edge", "ink", "faint", "line", "mark", "on_mark")
    names = {name.replace("_", "-"): getattr(colours, name) for name in plain}
    for kind in colours.fill:
        names |= {kind: colours.fill[kind], f"{kind}-edge": colours.border[kind]}
    return "".join(f"--{name}:{value};" for name, value in names.items())
