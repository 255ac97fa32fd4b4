"""`rungwise explain`: show what happened in a recorded call or turn, or play the machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal, get_args

import click

from rungwise.adapters.cli.output import bad_input, is_terminal, note, safe, write_out
from rungwise.adapters.cli.policies import METAVAR, POLICY
from rungwise.adapters.cli.shared_options import BACKENDS, choice_option, flag_option, output_option
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.files import bytes_of_file

if TYPE_CHECKING:
    from rungwise.fsm.diagram import View

Form = Literal["html", "svg", "mermaid", "text", "steps"]


@click.command(short_help="Show what happened in a recorded call or turn, or play the machine.")
@click.argument("file", required=False, metavar="[JOURNAL.json]")
@click.option(
    "--policy",
    type=POLICY,
    metavar=METAVAR,
    help="The policy of the call, if it has a table of your own.",
)
@flag_option("--play", help="Write a page on which you play the machine of a POLICY instead.")
@click.option(
    "--format",
    type=click.Choice(get_args(Form)),
    help="html: a page in one file that works offline. svg, mermaid: a picture. text: a line for "
    "each attempt. steps: a line for each step.  [default: text on a terminal, html otherwise]",
)
@choice_option(
    "--view",
    ("hub", "ladder"),
    "For a picture. hub: the states and the path through them. ladder: every guard that was "
    "tried, in order.",
)
@click.option(
    "--backends", type=BACKENDS, help="With --play: how many backends the chain has.  [default: 1]"
)
@output_option
def explain(
    file: str | None,
    policy: Policy | None,
    play: bool,
    format: Form | None,
    view: View,
    backends: int | None,
    output: str | None,
) -> int:
    """Show what happened in a call or turn: its attempts, why it ended, and what remained of its
    budget.

    JOURNAL.json is written by `rungwise ask --journal` or `result.journal.to_json()`. The page
    plays the attempts over time and shows every step on the diagram. It loads nothing. The page of
    a turn contains the pages of its calls.

    --play needs no journal: on the page you choose what comes back, and see which guard decides and
    what can follow.

    \b
    Exit codes:
      0  written
      2  bad input: no journal, a journal of another machine, or a file that cannot be written

    \b
    Examples:
      rungwise explain steps.json
      rungwise explain steps.json -o steps.html
      rungwise explain steps.json --format steps
      rungwise explain steps.json --format svg --view ladder > steps.svg
      rungwise explain --play policy.toml --backends 3 -o play.html
    """
    policy = policy or DEFAULT_POLICY
    if play:
        from rungwise.fsm.analysis.certificate.shown.page import play_policy

        if format not in (None, "html"):
            bad_input(f"--play writes a page, not {format}: leave --format out")
        chosen = POLICY.convert(file, None, click.get_current_context()) if file else policy
        text = play_policy(chosen, backends or 1)
    elif file is None:
        bad_input("give a JOURNAL.json from rungwise ask --journal, or --play")
    elif backends is not None:
        bad_input("--backends is for --play: a journal has its own chain")
    else:
        is_for_person = output is None and is_terminal(sys.stdout)
        form = format or ("text" if is_for_person else "html")
        text = _explained(file, policy, form, view)
    write_out(output, text)
    if output is not None:
        note(f"written: {safe(output)}")
    return 0


def _explained(file: str, policy: Policy, format: Form, view: View) -> str:
    """Write what a journal holds.

    Arguments:
        file: the journal.
        policy: the policy of its call, with its table.
        format: the form to write.
        view: the view of a picture.
    """
    from rungwise.adapters.cli.describe import brief_text, steps_text
    from rungwise.fsm.diagram import Marks, render
    from rungwise.fsm.turn.explained import explain_call, explain_turn, read_recorded
    from rungwise.fsm.turn.turn_digest import TurnPath

    try:
        recorded = read_recorded(bytes_of_file(file), policy.table)
    except OSError as error:
        bad_input(f"{file} cannot be read ({error.strerror}): give a JOURNAL.json")
    except ConfigurationError as error:
        bad_input(f"{file}: {error}")
    if format == "text":
        return brief_text(recorded)
    if format == "steps":
        return steps_text(recorded)
    if isinstance(recorded, TurnPath):
        if format == "html":
            return explain_turn(recorded)
        path = recorded.path
    else:
        if format == "html":
            return explain_call(recorded)
        path = recorded
    return render(path.table, format, view, Marks.along(path.rows))
