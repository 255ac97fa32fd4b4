"""Headings over the options of a command in its `--help`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

Decorator = Callable[[Any], Any]

_HEADINGS: Final[dict[click.Parameter, str]] = {}
"""The headings of options. Any other stands under `OTHERS`."""

OTHERS: Final = "Options"


def under(heading: str, *options: Decorator) -> Decorator:
    """Add options to a command, under a heading of their own in its help.

    Arguments:
        heading: what stands above them.
        options: decorators, such as those of `click.option`, in the order of the help.
    """

    def add(command: Any) -> Any:
        for option in reversed(options):
            before = len(getattr(command, "__click_params__", ()))
            command = option(command)
            for parameter in command.__click_params__[before:]:
                _HEADINGS[parameter] = heading
        return command

    return add


class HeadedCommand(click.Command):
    """Show options in sections, in the order in which the command names them."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those of a heading together."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                heading = _HEADINGS.get(parameter, OTHERS)
                sections.setdefault(heading, []).append(record)
        sections[OTHERS] = sections.pop(OTHERS, [])  # the last one; `--help` is in it
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
