"""`rungwise completion`: what a shell reads to complete commands and options."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from rungwise.adapters.cli.output import PROGRAM, put

SHELLS: Final = ("bash", "zsh", "fish")


@click.command(short_help="Write what bash, zsh or fish reads to complete commands and options.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Write a script for SHELL to stdout. The shell that reads it completes commands, options and
    their values.

    \b
    Examples:
      rungwise completion bash >> ~/.bashrc
      rungwise completion zsh >> ~/.zshrc
      rungwise completion fish > ~/.config/fish/completions/rungwise.fish
    """
    from rungwise.adapters.cli.command import main

    writer = get_completion_class(shell)
    assert writer is not None
    put(writer(main, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source() + "\n")
