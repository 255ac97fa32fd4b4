"""`rungwise diff`: what a change of policy does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from rungwise.adapters.cli.options import BACKENDS, choice_option, max_tokens_option
from rungwise.adapters.cli.output import put
from rungwise.adapters.cli.policies import EITHER, turn_option

if TYPE_CHECKING:
    from rungwise.fsm.call.policy import Policy
    from rungwise.fsm.turn.policy import TurnPolicy


@click.command(short_help="Show what a change of policy does: fields, rows, worst cases.")
@click.argument("old", type=EITHER, metavar="OLD")
@click.argument("new", type=EITHER, metavar="NEW")
@turn_option
@click.option("--backends", type=BACKENDS, default=1, show_default=True, help="How many backends the chain has.")
@max_tokens_option
@choice_option("--format", ("text", "markdown"), "Text for a terminal, or Markdown for a pull request.")
def diff(
    old: Policy | TurnPolicy,
    new: Policy | TurnPolicy,
    turn: bool,
    backends: int,
    max_tokens: int | None,
    format: Literal["text", "markdown"],
) -> int:
    """Show what a change of policy does, before it is merged.

    It lists the fields that change, the rows of the machine that can no longer be taken or can be again, and the worst
    cases of a call before and after: requests, seconds of waiting, output tokens. OLD and NEW are each a POLICY.toml or
    module:POLICY; with --turn the files are of turns, and what changes for their calls stands below.

    \b
    Exit codes:
      0  compared, whatever came out
      2  bad input

    \b
    Examples:
      rungwise diff old.toml new.toml
      rungwise diff old.toml new.toml --backends 3 --max-tokens 1000 --format markdown
      rungwise diff old.toml new.toml --turn
    """
    from rungwise.fsm.certificate.diff import diff_policies

    found = diff_policies(old, new, backends, max_tokens=max_tokens)
    put(found.to_markdown() if format == "markdown" else found.to_text())
    return 0
