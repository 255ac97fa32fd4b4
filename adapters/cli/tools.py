"""Tools as the command line is given them: `module:NAME` of a function, a `Tool`, several of them, or a `Toolbox`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from rungwise.adapters.cli.imports import IN_PYTHON, import_named
from rungwise.adapters.cli.output import prints_aside
from rungwise.fsm.errors import ConfigurationError

if TYPE_CHECKING:
    from rungwise.fsm.turn.tools import Toolbox


class ToolsParameter(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Read tools."""

    name = "tools"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Toolbox:
        """Return the tools that a module holds."""
        from rungwise.fsm.turn.tools import Tool, Toolbox

        if isinstance(value, Toolbox):
            return value
        if not IN_PYTHON.fullmatch(value):
            self.fail(f"{value!r} is not of the form module:NAME, as in birds:TOOLS.", param, ctx)
        with prints_aside():
            found = import_named(value, param, ctx)
        if callable(found) or isinstance(found, Tool):
            found = [found]
        if not isinstance(found, Toolbox | Iterable) or isinstance(found, str | bytes):
            kinds = "a function, a rungwise.Tool, a list or mapping of them, or a rungwise.Toolbox"
            self.fail(f"{value} is a {type(found).__name__}, and must be {kinds}.", param, ctx)
        try:
            tools = Toolbox.of(found)
        except ConfigurationError as error:
            self.fail(f"{value}: {error}.", param, ctx)
        except Exception as error:  # it is a stranger's object
            self.fail(f"{value} cannot be read: it raised {type(error).__name__}.", param, ctx)
        if not tools:
            self.fail(f"{value} holds no tools.", param, ctx)
        return tools


TOOLS: Final = ToolsParameter()
