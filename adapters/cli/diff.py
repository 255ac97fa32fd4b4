"""`rungwise diff`: what a change of policy does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from rungwise.adapters.cli.options import (
    BACKENDS,
    TOKENS,
    check_prices,
    choice_option,
    max_tokens_option,
    output_option,
    prices_option,
)
from rungwise.adapters.cli.output import bad_input, note, one_line, safe, write_out
from rungwise.adapters.cli.policies import EITHER_OR_DEFAULT, NAMED, turn_option
from rungwise.fsm.errors import ConfigurationError

if TYPE_CHECKING:
    from rungwise.fsm.call.conversation.link import Prices
    from rungwise.fsm.call.policy import Policy
    from rungwise.fsm.diagram import View
    from rungwise.fsm.machine.table import Table
    from rungwise.fsm.replay.what_if import WhatIf
    from rungwise.fsm.review.diff import PolicyDiff
    from rungwise.fsm.turn.policy import TurnPolicy

Form = Literal["text", "html", "svg", "markdown"]
SUFFIXES: dict[str, Form] = {".html": "html", ".htm": "html", ".svg": "svg", ".md": "markdown"}
"""What a file is written as where nothing else is asked for."""


def _remember(ctx: click.Context, param: click.Parameter, value: Policy | TurnPolicy) -> Policy | TurnPolicy:
    """Remember how a policy was named."""
    ctx.meta[f"{__name__}.{param.name}"] = ctx.meta.pop(NAMED, "default")
    return value


@click.command(short_help="Show what a change of policy does: costs, events, rows, past calls.")
@click.argument("old", type=EITHER_OR_DEFAULT, metavar="OLD", callback=_remember)
@click.argument("new", type=EITHER_OR_DEFAULT, metavar="NEW", callback=_remember)
@turn_option
@click.option("--backends", type=BACKENDS, help="How many backends the chain has.  [default: one, two and three]")
@max_tokens_option
@click.option("--input-tokens", type=TOKENS, metavar="N", help="The tokens of the prompt, which the money needs.")
@prices_option("at every backend")
@click.option(
    "--journal",
    "journals",
    multiple=True,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The journal of a past call or turn: what would it have done? May be given again.",
)
@click.option(
    "--format",
    type=click.Choice(("text", "html", "svg", "markdown")),
    help="Lines of text, a page in one file, the picture of the change, or Markdown for a pull request."
    "  [default: what FILE ends in, or text]",
)
@click.option("--markdown", is_flag=True, help="Short for --format markdown.")
@choice_option(
    "--view",
    ("hub", "ladder"),
    "For a picture: the states and what leads from one to another; or the order in which guards are tried.",
)
@output_option
def diff(
    old: Policy | TurnPolicy,
    new: Policy | TurnPolicy,
    turn: bool,
    backends: int | None,
    max_tokens: int | None,
    input_tokens: int | None,
    prices: Prices | None,
    journals: Sequence[str],
    format: Form | None,
    markdown: bool,
    view: View,
    output: str | None,
) -> int:
    """Show what a change of policy does, before it is merged.

    It says in a sentence what changes, then the worst cases before and now, what each event leads to (a 429, an empty
    reply, a refusal), the rows of the machine that are new, gone, off or on, and the longest paths. With --journal it
    says what past calls would have done, as far as their journals tell.

    OLD and NEW are each a POLICY.toml or module:POLICY, or the word default for the policy that holds where none is
    given, as for a file that is new or deleted. With --turn the files are of turns, and what changes for their calls
    stands below.

    \b
    Exit codes:
      0  compared, whatever came out
      2  bad input, or a policy that cannot be proved

    \b
    Examples:
      rungwise diff old.toml new.toml
      rungwise diff old.toml new.toml --max-tokens 1000 --input-tokens 2000 --prices 2.5/10 -o page.html
      rungwise diff old.toml new.toml --markdown
      rungwise diff default new.toml --backends 2
      rungwise diff old.toml new.toml --journal monday.json --journal tuesday.json
      rungwise diff old.toml new.toml --turn
    """
    from rungwise.fsm.review.diff import diff_policies

    form = _form(format, output, markdown=markdown)
    for policy in (old, new):
        check_prices(policy, prices)
    past = [_past(file, old, new) for file in journals]
    meta = click.get_current_context().meta
    names = meta[f"{__name__}.old"], meta[f"{__name__}.new"]
    try:
        found = diff_policies(
            old,
            new,
            backends,
            max_tokens=max_tokens,
            input_tokens=input_tokens,
            prices=prices,
            journals=past,
            names=names,
        )
    except ConfigurationError as error:
        bad_input(str(error))
    write_out(output, _written(found, form, view))
    if output is not None:
        note(f"written: {safe(output)}")
    return 0


def _form(format: Form | None, output: str | None, *, markdown: bool) -> Form:
    if markdown and format not in (None, "markdown"):
        bad_input(f"--markdown and --format {format} exclude each other: give one of them")
    if markdown:
        return "markdown"
    return format or SUFFIXES.get(Path(output or "").suffix.lower(), "text")


def _written(found: PolicyDiff, form: Form, view: View) -> str:
    from rungwise.fsm.diagram import draw

    if form == "svg":
        return draw(found.picture, "svg", view)
    return {"text": found.to_text, "html": found.to_html, "markdown": found.to_markdown}[form]()


def _past(file: str, old: Policy | TurnPolicy, new: Policy | TurnPolicy) -> WhatIf:
    """Say what a past call or turn would have done under the new policy."""
    from rungwise.fsm.call.run.journal import Journal
    from rungwise.fsm.replay.what_if_turn import what_if_recorded
    from rungwise.fsm.turn.explained import TurnPath, read_recorded
    from rungwise.fsm.turn.journal import TurnJournal

    table = _table(old)
    try:
        found = read_recorded(Path(file).read_bytes(), table)
        record = found.path.record if isinstance(found, TurnPath) else found.record
        assert isinstance(record, (Journal, TurnJournal))
        return what_if_recorded(record, new, name=one_line(Path(file).name), old_table=table)
    except OSError as error:
        bad_input(f"{file} cannot be read ({error.strerror}): give a JOURNAL.json")
    except ConfigurationError as error:
        bad_input(f"{file}: {error}")


def _table(policy: Policy | TurnPolicy) -> Table:
    """Return the machine that calls ran on under a policy."""
    from rungwise.fsm.turn.policy import TurnPolicy

    return policy.of_calls.table if isinstance(policy, TurnPolicy) else policy.table
