"""`rungwise explain` and `rungwise diff`: what a reviewer holds in their hands, of one call and of one change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from rungwise.adapters.cli.output import bad_input, note, put, safe
from rungwise.adapters.cli.policies import METAVAR, POLICY, default_policy
from rungwise.adapters.cli.prices import TOKENS
from rungwise.fsm.errors import ConfigurationError

if TYPE_CHECKING:
    from rungwise.fsm.call.policy import Policy

_OUTPUT = click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write to a file.")
_BACKENDS = click.option(
    "--backends",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="How many backends the chain has.",
)


@click.command(short_help="Show the path of a recorded call on the diagram, or play the machine.")
@click.argument("file", required=False, metavar="[JOURNAL.json]")
@click.option("--policy", type=POLICY, metavar=METAVAR, help="The policy that the call had, if its table is your own.")
@click.option("--play", is_flag=True, help="Write the page that plays the machine of the POLICY given in its place.")
@click.option(
    "--format",
    type=click.Choice(["html", "svg", "mermaid"]),
    default="html",
    show_default=True,
    help="A page in one file that works offline, or a picture.",
)
@click.option(
    "--view",
    type=click.Choice(["hub", "ladder"]),
    default="hub",
    show_default=True,
    help="For a picture: the states and the way through them; or every guard that was tried, in order.",
)
@click.option(
    "--backends",
    type=click.IntRange(1, 100),
    default=None,
    help="With --play: how many backends the chain has.  [default: 1]",
)
@_OUTPUT
def explain(
    file: str | None,
    policy: Policy | None,
    play: bool,
    format: Literal["html", "svg", "mermaid"],
    view: Literal["hub", "ladder"],
    backends: int | None,
    output: str | None,
) -> int:
    """Show what happened in one call: its path on the diagram, when and why, and what was left of its budget.

    JOURNAL.json is what `rungwise ask --journal` writes, or `result.journal.to_json()`. The page has the diagram, the
    timeline and every step to click on; nothing in it is loaded from anywhere.

    With --play there is no journal: choose what comes back, and see which guard decides and what can still follow.

    \b
    Exit codes:
      0  written
      2  bad input: no journal, a journal of another machine, or a file that cannot be written

    \b
    Examples:
      rungwise explain steps.json -o steps.html
      rungwise explain steps.json --format svg --view ladder > steps.svg
      rungwise explain --play policy.toml --backends 3 -o play.html
    """
    if play:
        if format != "html":
            bad_input(f"--play writes a page, which a picture of format {format} is not: leave --format out")
        chosen = POLICY.convert(file, None, click.get_current_context()) if file else policy
        return _write(_playground(chosen or default_policy(), backends or 1), output)
    if file is None:
        bad_input("give a JOURNAL.json, as rungwise ask --journal writes it; or --play for no journal at all")
    if backends is not None:
        bad_input("--backends is for --play: a journal holds its own chain")
    return _write(_explained(file, policy or default_policy(), format, view), output)


def _explained(
    file: str, policy: Policy, format: Literal["html", "svg", "mermaid"], view: Literal["hub", "ladder"]
) -> str:
    from rungwise.fsm.call.explained import explain_call, read_call
    from rungwise.fsm.diagram import Marks, render

    try:
        text = Path(file).read_bytes()
    except OSError as error:
        bad_input(f"{file} cannot be read ({error.strerror}): give a JOURNAL.json")
    try:
        path = read_call(text, policy.table)
    except ConfigurationError as error:
        bad_input(f"{file}: {error}")
    if format == "html":
        return explain_call(path)
    return render(path.table, format, view, Marks.along(path.rows))


def _playground(policy: Policy, backends: int) -> str:
    from rungwise.fsm.certificate.play import play_policy

    return play_policy(policy, backends)


def _write(text: str, output: str | None) -> int:
    if output is None:
        put(text)
        return 0
    try:
        Path(output).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        bad_input(f"{output} cannot be written ({error.strerror}): name a writable place")
    note(f"written: {safe(output)}")
    return 0


@click.command(short_help="Show what a change of policy does: fields, rows, worst cases.")
@click.argument("old", type=POLICY, metavar="OLD")
@click.argument("new", type=POLICY, metavar="NEW")
@_BACKENDS
@click.option("--max-tokens", type=TOKENS, metavar="N", help="The output cap that calls ask for.")
@click.option(
    "--format",
    type=click.Choice(["text", "markdown"]),
    default="text",
    show_default=True,
    help="Text for a terminal, or Markdown for a pull request.",
)
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
