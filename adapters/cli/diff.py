"""`rungwise diff`: what a change of policy does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from rungwise.adapters.cli.chains import check_prices, price_list
from rungwise.adapters.cli.output import bad_input, laid_out, note, one_line, safe, write_out
from rungwise.adapters.cli.policies import EITHER_OR_DEFAULT, NAMED, turn_option
from rungwise.adapters.cli.shared_options import (
    BACKENDS,
    TOKENS,
    choice_option,
    file_option,
    flag_option,
    max_tokens_option,
    output_option,
    prices_option,
)
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.values.files import bytes_of_file

if TYPE_CHECKING:
    from rungwise.fsm.analysis.odds.rates import Rates
    from rungwise.fsm.analysis.replay.what_if import WhatIf
    from rungwise.fsm.analysis.review.diff import PolicyDiff
    from rungwise.fsm.diagram import View

Form = Literal["text", "html", "svg", "markdown"]
SUFFIXES: dict[str, Form] = {".html": "html", ".htm": "html", ".svg": "svg", ".md": "markdown"}
"""The default format of a file, by its suffix."""


def _remember(
    ctx: click.Context, param: click.Parameter, value: Policy | TurnPolicy
) -> Policy | TurnPolicy:
    """Record in the context how a policy was named."""
    ctx.meta[f"{__name__}.{param.name}"] = ctx.meta.pop(NAMED, "default")
    return value


@click.command(short_help="Show what a change of policy does: costs, events, rows, past calls.")
@click.argument("old", type=EITHER_OR_DEFAULT, metavar="OLD", callback=_remember)
@click.argument("new", type=EITHER_OR_DEFAULT, metavar="NEW", callback=_remember)
@turn_option
@click.option(
    "--backends", type=BACKENDS, help="The length of the chain.  [default: one, two and three]"
)
@max_tokens_option
@click.option(
    "--input-tokens", type=TOKENS, metavar="N", help="The tokens of the prompt, for the cost."
)
@prices_option("at every backend")
@file_option(
    "--journal",
    "journals",
    multiple=True,
    help="The journal of a past call or turn: what would it have done? Repeatable.",
)
@file_option(
    "--rates",
    help="Add what calls will probably come to: rates in TOML, with backends and prices of their "
    "own.",
)
@click.option(
    "--format",
    type=click.Choice(get_args(Form)),
    help="Text for a terminal, a page in one file, the picture of the change, or Markdown for a "
    "pull request.  [default: by the suffix of FILE, or text]",
)
@flag_option("--markdown", help="Short for --format markdown.")
@choice_option(
    "--view",
    ("hub", "ladder"),
    "For a picture: the states and the transitions between them; or the order of guards.",
)
@output_option
@flag_option(
    "--fail-if-dearer",
    help="Exit with 1 if a worst case is higher now, or no longer bounded.",
)
@flag_option(
    "--fail-if-worse",
    help="Exit with 1 if calls end worse now after some trouble: an answer (done) is better than "
    "less than a whole one (salvaged, partial), and that than an error (any other outcome).",
)
def diff(
    old: Policy | TurnPolicy,
    new: Policy | TurnPolicy,
    prices: Prices | None,
    journals: Sequence[str],
    rates: str | None,
    format: Form | None,
    markdown: bool,
    view: View,
    output: str | None,
    turn: bool,
    fail_if_dearer: bool,
    fail_if_worse: bool,
    **options: Any,
) -> int:
    """Show what a change of policy does, before it is merged.

    The first lines sum up the change, outcomes that got worse first. Then follow what calls do on a
    429, an empty reply or a refusal, before and now; the worst cases; the fields; what each event
    leads to; the rows of the machine that are new, gone, off or on; and the longest paths. With
    --journal it shows what past calls would have done, as far as their journals show.

    OLD and NEW are each a POLICY.toml or module:POLICY. The word default stands for the default
    policy, for a file that is new or deleted. With --rates it adds the odds as `rungwise odds`
    computes them, for the backends and prices of the rates. With --turn the files are policies of
    turns, and what changes for their calls follows.

    \b
    Exit codes:
      0  compared, whatever the result
      1  what --fail-if-dearer or --fail-if-worse asks for; stderr names it
      2  bad input, or a policy that cannot be proved

    \b
    Examples:
      rungwise diff old.toml new.toml
      rungwise diff old.toml new.toml --max-tokens 1000 --input-tokens 2000 --prices 2.5/10 \\
          -o page.html
      rungwise diff old.toml new.toml --markdown
      rungwise diff default new.toml --backends 2
      rungwise diff old.toml new.toml --journal monday.json --journal tuesday.json
      rungwise diff old.toml new.toml --rates rates.toml
      rungwise diff old.toml new.toml --turn
      rungwise diff old.toml new.toml --fail-if-dearer --fail-if-worse
    """
    from rungwise.fsm.analysis.review.words import worse_texts

    form = _form(format, output, is_markdown=markdown)
    changes = _compared(
        old, new, price_list(prices).dearest, journals, rates=_rates(rates), **options
    )
    _show(changes, form, view, output)
    faults: list[str] = []
    if fail_if_worse:
        faults += worse_texts(changes.worse)
    if fail_if_dearer:
        faults += _dearer(changes)
    for fault in faults:
        note(fault)
    return int(bool(faults))


def _compared(
    old: Policy | TurnPolicy,
    new: Policy | TurnPolicy,
    prices: Prices | None,
    journals: Sequence[str],
    **options: Any,
) -> PolicyDiff:
    """Compare the policies.

    Arguments:
        old, new: the policies.
        prices: at every backend.
        journals: the files of past calls.
        options: others of `diff_policies`.
    """
    from rungwise.fsm.analysis.review.diff import diff_policies

    for policy in (old, new):
        check_prices(policy, prices)
    past = [_past(file, old, new) for file in journals]
    named = click.get_current_context().meta
    names = (named[f"{__name__}.old"], named[f"{__name__}.new"])
    return diff_policies(old, new, prices=prices, journals=past, names=names, **options)


def _dearer(changes: PolicyDiff) -> Iterator[str]:
    """Yield the worst cases that are higher now, of a turn and of its calls."""
    from rungwise.fsm.analysis.certificate.certificate import backends_text
    from rungwise.fsm.analysis.review.summary import worst_text

    for part in filter(None, (changes, changes.calls)):
        for count, worst in part.chains.items():
            for each in worst:
                if each.is_dearer:
                    yield f"Dearer: a {part.table} with {backends_text(count)}. {worst_text(each)}"


def _form(format: Form | None, output: str | None, *, is_markdown: bool) -> Form:
    """Return the format that the options ask for."""
    if is_markdown and format not in (None, "markdown"):
        bad_input(f"--markdown and --format {format} exclude each other: give one of them")
    if is_markdown:
        return "markdown"
    return format or SUFFIXES.get(Path(output or "").suffix.lower(), "text")


def _show(changes: PolicyDiff, form: Form, view: View, output: str | None) -> None:
    """Write what a change does.

    Arguments:
        changes: what it does.
        form: the format.
        view: the view of a picture.
        output: the file; None for stdout.
    """
    from rungwise.fsm.diagram import draw

    match form:
        case "svg":
            text = draw(changes.picture, "svg", view)
        case "html":
            text = changes.to_html()
        case "markdown":
            text = changes.to_markdown()
        case "text":
            text = changes.to_text()
            if output is None:
                text = laid_out(text)
    write_out(output, text)
    if output is not None:
        note(f"written: {safe(output)}")


def _rates(file: str | None) -> Rates | None:
    """Read the rates of `--rates`, and show their warnings."""
    from rungwise.adapters.cli.journals.odds import read_rates

    return None if file is None else read_rates(file)


def _past(file: str, old: Policy | TurnPolicy, new: Policy | TurnPolicy) -> WhatIf:
    """Replay a past call or turn under the new policy."""
    from rungwise.fsm.analysis.replay.what_if_turns import what_if_recorded
    from rungwise.fsm.call.run.call_journal import Journal
    from rungwise.fsm.turn.explained import read_recorded
    from rungwise.fsm.turn.turn_digest import TurnPath
    from rungwise.fsm.turn.turn_journal import TurnJournal

    table = old.of_calls.table if isinstance(old, TurnPolicy) else old.table
    try:
        recorded = read_recorded(bytes_of_file(file), table)
        record = recorded.path.record if isinstance(recorded, TurnPath) else recorded.record
        assert isinstance(record, (Journal, TurnJournal))
        return what_if_recorded(record, new, name=one_line(Path(file).name), old_table=table)
    except OSError as error:
        bad_input(f"{file} cannot be read ({error.strerror}): give a JOURNAL.json")
    except ConfigurationError as error:
        bad_input(f"{file}: {error}")
