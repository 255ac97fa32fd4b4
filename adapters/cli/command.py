"""The command `rungwise`: its subcommands, its errors and its exit codes."""

from __future__ import annotations

import sys

try:
    from collections.abc import Mapping
    from importlib import import_module
    from typing import Any, Final

    import click

    from rungwise.adapters.cli.output import (
        BAD_INPUT,
        CANCELLED,
        PROGRAM,
        STDOUT_GONE,
        StdoutGone,
        complain,
        prepare_streams,
        put,
        require_stdout,
    )
except KeyboardInterrupt:  # before main() runs, nothing else can catch it
    sys.exit(130)

_HERE: Final = ("ask", "check", "diagram", "diff", "fuzz", "health", "proxy", "serve", "verify")
COMMANDS: Final[Mapping[str, str]] = {
    **{name: f"rungwise.adapters.cli.{name}" for name in _HERE},
    **{name: f"rungwise.adapters.cli.durable.{name}" for name in ("batch", "calls", "worker")},
    **{
        name: f"rungwise.adapters.cli.journals.{name}"
        for name in ("explain", "odds", "stats", "tune")
    },
    "rates": "rungwise.adapters.cli.journals.odds",
    "completion": "rungwise.adapters.cli.command",
    "demo": "rungwise.adapters.demo.command",
    "exam": "rungwise.adapters.exam.command",
}
"""The module of each command, imported when the command runs."""

MAY_WRITE_FILES: Final = frozenset({"diagram", "diff", "explain", "fuzz", "rates", "stats"})
"""Commands that can run without stdout: an option names an output file."""


class _Commands(click.Group):
    """Import a command when it runs, within reach of Ctrl-C.

    Every error is reported on one line, with its exit code.
    """

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        try:
            code = self._run(*args, **extra)
        except KeyboardInterrupt:
            code = CANCELLED
        if standalone_mode:
            sys.exit(code)
        return code

    def _run(self, *args: Any, **extra: Any) -> Any:
        prepare_streams()
        try:
            return super().main(*args, **{**extra, "standalone_mode": False})
        except click.UsageError as error:
            command = PROGRAM if error.ctx is None else error.ctx.command_path
            complain(error.format_message(), hint=f" (see {command} --help)")
            return BAD_INPUT
        except click.ClickException as error:
            complain(error.format_message())
            return BAD_INPUT
        except click.Abort:
            return CANCELLED
        except StdoutGone as gone:
            gone.tell()
            return STDOUT_GONE
        except Exception as error:
            from rungwise.fsm.errors import ConfigurationError

            if not isinstance(error, ConfigurationError):
                raise
            complain(error)
            return BAD_INPUT

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; for an unknown name, import all of them to suggest the nearest."""
        names = [cmd_name] if cmd_name in COMMANDS else list(COMMANDS)
        for name in names:
            if name not in self.commands:
                self.add_command(getattr(import_module(COMMANDS[name]), name), name)
        return super().get_command(ctx, cmd_name)


def _version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    from importlib.metadata import PackageNotFoundError, version

    if value and not context.resilient_parsing:
        try:
            put(f"rungwise {version('rungwise')}\n")
        except PackageNotFoundError:
            put("rungwise, from a source tree that is not installed\n")
        context.exit()


@click.group(
    cls=_Commands,
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
    """Make one call to a language model succeed, or fail honestly, within a budget that is proved
    beforehand.

    Answers go to stdout, progress and errors to stderr. For every command, exit code 130 means
    Ctrl-C, and 141 that stdout was closed or could not be written.

    \b
    Start with:
      rungwise demo        calls and turns with providers that misbehave; no key
      rungwise ask "Hello" --model gpt-4o-mini
    """
    if context.invoked_subcommand is None:
        put(context.get_help() + "\n")
    elif context.invoked_subcommand not in MAY_WRITE_FILES:
        require_stdout()


@click.command(short_help="Write what bash, zsh or fish reads to complete commands and options.")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Write a script for SHELL to stdout. The shell that reads it completes commands, options and
    their values.

    \b
    Examples:
      rungwise completion bash >> ~/.bashrc
      rungwise completion zsh >> ~/.zshrc
      rungwise completion fish > ~/.config/fish/completions/rungwise.fish
    """
    from click.shell_completion import get_completion_class

    writer = get_completion_class(shell)
    assert writer is not None
    put(writer(main, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source() + "\n")
