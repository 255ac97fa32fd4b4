"""`rungwise diagram`: draw the machine of a policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from rungwise.adapters.cli.output import bad_input, complain, counted, note, put, write_out
from rungwise.adapters.cli.policies import default_of, either_policy
from rungwise.adapters.cli.shared_options import choice_option, folder_option, output_option
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.turn.policy import TurnPolicy

if TYPE_CHECKING:
    from rungwise.fsm.diagram import Format, View


@click.command(short_help="Draw the machine that every call, or every turn, runs on.")
@either_policy
@choice_option(
    "--format",
    ("mermaid", "svg", "dot", "rows", "html"),
    "Mermaid, SVG, Graphviz DOT, the rows as a Markdown table, or an HTML page on which you play "
    "the machine.",
)
@choice_option(
    "--view",
    ("hub", "ladder"),
    "hub: the states and their transitions. ladder: for each event, its guards in the order they "
    "are tried.",
)
@choice_option(
    "--off",
    ("grey", "hide"),
    "Rows that the policy switches off, such as by a limit of 0: greyed with the reason, or "
    "hidden.",
)
@output_option
@folder_option("--write", "write_to", help="Write all files to DIR.")
@folder_option("--check", exists=True, help="List the files in DIR that are out of date.")
def diagram(
    policy: Policy | TurnPolicy | None,
    turn: bool,
    format: Format | Literal["html"],
    view: View,
    off: Literal["grey", "hide"],
    output: str | None,
    write_to: str | None,
    check: str | None,
) -> int:
    """Draw the machine of a policy from the rows that run it, with the policy's limits and waits.

    Without POLICY this is the default policy. With --turn it is the machine of a turn, the loop
    above the call.

    The picture goes to stdout unless -o names a file. --write and --check are for a repository that
    stores the pictures of calls and turns: --write renews them, --check fails if one is out of
    date.

    \b
    Exit codes:
      0  drawn; or with --check, everything agrees
      1  with --check: files are out of date; stdout lists them
      2  bad input, or a file that cannot be written

    \b
    Examples:
      rungwise diagram > call.mmd
      rungwise diagram --format svg -o call.svg
      rungwise diagram --format html -o play.html
      rungwise diagram --format rows --view ladder
      rungwise diagram --turn --format svg -o turn.svg
      rungwise diagram ours.policies:POLICY --format svg -o ours.svg
      rungwise diagram policy.toml --off hide --view ladder
      rungwise diagram --check diagrams || rungwise diagram --write diagrams
    """
    if write_to is not None and check is not None:
        bad_input("--write and --check exclude each other: give one of them")
    if (write_to or check) and output:
        bad_input("-o is for a single picture: leave it out with --write and --check")
    if off == "hide" and (write_to or check or format == "html"):
        bad_input("--off hide is for a single picture, and not for a page: leave it out")
    directory = write_to if check is None else check
    if directory is None and format == "html" and view == "ladder":
        bad_input(
            "--format html shows the hub view, with the ladder of each event in it: "
            "leave --view out"
        )
    policy = policy or default_of(turn=turn)
    try:
        if directory is not None:
            return _files(policy, Path(directory), writes=check is None)
        write_out(output, _drawn(policy, format, view, hides_off=off == "hide"))
        return 0
    except OSError as error:
        place = error.filename or write_to
        bad_input(f"{place} cannot be written ({error.strerror}): name a writable place")


def _drawn(
    policy: Policy | TurnPolicy,
    format: Format | Literal["html"],
    view: View,
    *,
    hides_off: bool,
) -> str:
    """Return the picture, or the page.

    Arguments:
        policy: what to draw.
        format: the form of it.
        view: the view of a picture.
        hides_off: whether to hide the rows that the policy switches off.
    """
    from rungwise.fsm.analysis.certificate.shown.page import play_policy
    from rungwise.fsm.analysis.certificate.shown.pictures import draw_policy

    if format == "html":
        return play_policy(policy)
    return draw_policy(policy, format, view, hides_off=hides_off)


def _files(policy: Policy | TurnPolicy, directory: Path, *, writes: bool) -> int:
    """Write or check the files in a directory, list those that differ, and return the exit code."""
    from rungwise.fsm.analysis.certificate.shown.pictures import drift, write_all

    renew = write_all if writes else drift
    stale = renew(directory, policy)
    put("".join(f"{directory / name}\n" for name in stale))
    files = counted(len(stale), "file")
    if writes and stale:
        note(f"{files} changed")
    elif writes:
        note("everything was up to date")
    elif stale:
        complain(f"{files} out of date: run rungwise diagram --write {directory}")
        return 1
    return 0
