"""`rungwise diff`: what a change of policy does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from rungwise.adapters.cli.options import BACKENDS, choice_option, max_tokens_option
from rungwise.adapters.cli.output import put
from rungwise.adapters.cli.policies import POLICY

if TYPE_CHECKING:
    from rungwise.fsm.call.policy import Policy


@click.command(short_help="Show what a change of policy does: fields, rows, worst cases.")
@click.argument("old", type=POLICY, metavar="OLD")
@click.argument("new", type=POLICY, metavar="NEW")
@click.option("--backends", type=BACKENDS, default=1, show_default=True, help="How many backends the chain has.")
@max_tokens_option
@choice_option("--format", ("text", "markdown"), "Text for a terminal, or Markdown for a pull request.")
def diff(old: Policy, new: Policy, backends: int, max_tokens: int | None, format: Literal["text", "markdown"]) -> int:
    """Show what a change of policy does, before it is merged.

    It lists the fields that change, the rows of the machine that can no longer be taken or can be again, and the worst
    cases of a call before and after: requests, seconds of waiting, output tokens. OLD and NEW are each a POLICY.toml or
    module:POLICY.

    \b
    Exit codes:
      0  compared, whatever came out
      2  bad input

    \b
    Examples:
      rungwise diff old.toml new.toml
      rungwise diff old.toml new.toml --backends 3 --max-tokens 1000 --format markdown
    """
    from rungwise.fsm.certificate.diff import diff_policies

    found = diff_policies(old, new, backends, max_tokens=max_tokens)
    put(found.to_markdown() if format == "markdown" else found.to_text())
    return 0
