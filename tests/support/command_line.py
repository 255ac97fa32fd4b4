"""The command line, in this process."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from rungwise.adapters.cli.command import main


def invoke(*arguments: object, **options: Any) -> Result:
    """Run `rungwise` with arguments and return Click's result. The options go to Click's runner."""
    return CliRunner().invoke(main, list(map(str, arguments)), **options)
