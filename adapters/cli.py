"""The command line: `rungwise`, and what all of its commands have in common."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from adapters.cli_ask import ask
from adapters.cli_machine import diagram, verify
from adapters.cli_output import (
    BAD_INPUT,
    CANCELLED,
    PROGRAM,
    STDOUT_GONE,
    StdoutGone,
    complain,
    forgive_encodings,
    silence_stdout,
)
from adapters.cli_review import diff, explain
from adapters.cli_serve import serve
from adapters.demo import demo
from fsm.errors import ConfigurationError


class OneLineErrors(click.Group):
    """Say on one line what is wrong, whatever it is, and end with an exit code that the help explains."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit with its code."""
        forgive_encodings()
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx is not None else PROGRAM
            complain(error.format_message(), hint=f" ({command} --help tells more)")
            code = BAD_INPUT
        except (click.ClickException, ConfigurationError) as error:
            complain(error.format_message() if isinstance(error, click.ClickException) else error)
            code = BAD_INPUT
        except click.Abort:
            code = CANCELLED
        except StdoutGone as gone:
            silence_stdout()
            if not gone.is_quiet:
                complain(f"stdout cannot be written: {gone}")
            code = STDOUT_GONE
        if standalone_mode:
            sys.exit(code)
        return code


def _version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    from importlib.metadata import PackageNotFoundError, version

    if value and not context.resilient_parsing:
        try:
            click.echo(f"rungwise {version('rungwise')}")
        except PackageNotFoundError:
            click.echo("rungwise, from a source tree that is not installed")
        context.exit()


@click.group(
    cls=OneLineErrors,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
@click.pass_context
def main(context: click.Context) -> None:
    """Make one call to a language model succeed, or fail honestly, within a budget that is proved beforehand.

    Answers go to stdout; what happens on the way, and what is wrong, goes to stderr.

    \b
    Begin with:
      rungwise demo        ten calls to a provider that misbehaves; no key, no network
      rungwise ask "Hello" --model gpt-4o-mini
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (demo, ask, serve, diagram, verify, explain, diff):
    main.add_command(command)
