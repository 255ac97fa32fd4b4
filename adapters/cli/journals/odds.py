"""`rungwise rates` and `rungwise odds`: count what came of past calls, and compute from that what
future calls will probably come to.
"""

from __future__ import annotations

import os
from typing import Any

import attrs
import click

from rungwise.adapters.cli.journals.stats import count_journals, where_journals_are
from rungwise.adapters.cli.output import bad_input, check_writable, note, put, write_out
from rungwise.adapters.cli.policies import EITHER_OR_DEFAULT, METAVAR, default_of, turn_option
from rungwise.adapters.cli.shared_options import flag_option, output_option
from rungwise.fsm.analysis.odds.counted import RatesCount
from rungwise.fsm.analysis.odds.odds import odds as odds_of
from rungwise.fsm.analysis.odds.prism import prism_of
from rungwise.fsm.analysis.odds.rates import Rates
from rungwise.fsm.analysis.odds.shown import FORMS, AnyOdds, compare
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.engine.journal.record import json_of
from rungwise.fsm.turn.policy import TurnPolicy


@click.command(
    short_help="Compute how often, how long and how expensive calls under a policy will be."
)
@click.argument("policy", required=False, type=EITHER_OR_DEFAULT, metavar=f"[{METAVAR}]")
@click.option(
    "--rates",
    "path",
    metavar="FILE",
    help="The rates of each backend, in TOML.  [default: an example]",
)
@click.option(
    "--against",
    type=EITHER_OR_DEFAULT,
    metavar=METAVAR,
    help="Compare with an older policy against the same rates.",
)
@turn_option
@flag_option("--json", "as_json", help="Print every figure as JSON.")
@click.option(
    "--format", type=click.Choice(["prism"]), help="Write the Markov chain, for PRISM and Storm."
)
@output_option
def odds(
    policy: Policy | TurnPolicy | None,
    *,
    path: str | None,
    against: Policy | TurnPolicy | None,
    turn: bool,
    as_json: bool,
    format: str | None,
    output: str | None,
) -> int:
    """Compute the probability of each outcome, and the attempts, seconds, tokens and money of calls
    under a policy.

    With --turn it computes those of turns, with their calls and rounds of tools. What tools bring
    stands in the rates.

    The figures are computed, not simulated: exact for these rates but for a probability that is
    left out and printed, at most 1 in 1 000 000 unless a dozen events come in some per cent of the
    attempts each. The backends of the rates are the chain. Without a policy it is the default one.
    -o FILE.svg or FILE.html draws them.

    \b
    Exit codes:
      0  computed
      2  bad input, or numpy is missing: pip install 'rungwise[odds]'

    \b
    Examples:
      rungwise rates journals/ -o rates.toml
      rungwise odds policy.toml --rates rates.toml
      rungwise odds --rates rates.toml --json
      rungwise odds new.toml --rates rates.toml --against old.toml -o odds.html
      rungwise odds policy.toml --rates rates.toml --format prism
      rungwise odds --turn turn.toml --rates rates.toml
    """
    form = FORMS.get("" if output is None else os.path.splitext(output)[1] or "none")
    if format and (as_json or against):
        bad_input(
            "--format prism writes neither JSON nor a comparison: leave out --json and --against"
        )
    if form is None and not format:
        bad_input(f"a picture ends in .svg or .html, and {output} does not")
    check_writable(output)
    policy = policy or default_of(turn=turn)
    rates = read_rates(path)
    if form is None or format:
        if isinstance(policy, TurnPolicy):
            bad_input("--format prism writes the chain of a call: leave out --turn")
        write_out(output, prism_of(policy, rates))
        return 0
    new = odds_of(policy, rates)
    old = None if against is None else odds_of(against, rates)
    if as_json:
        put(json_of(_as_mapping(new, old), is_indented=True) + "\n")
    if output is not None or not as_json:
        write_out(output, form(new, old))
    return 0


def read_rates(path: str | None) -> Rates:
    """Read the rates of a file, or those of the example, and show their warnings."""
    if path is None:
        rates = Rates.example()
        note("rates of an example, with their sources; count yours with rungwise rates")
    else:
        rates = Rates.load(path)
    for warning in rates.warnings:
        note(warning)
    return rates


def _as_mapping(new: AnyOdds, old: AnyOdds | None) -> dict[str, Any]:
    """Return odds as plain values, beside older ones if there are any."""
    plain = attrs.asdict(new)
    if old is None:
        return plain
    comparison = attrs.asdict(compare(old, new))
    return {"old": attrs.asdict(old), "new": plain, "comparison": comparison}


@click.command(
    short_help="Count from recorded calls how often each event came, for `rungwise odds`."
)
@where_journals_are
@output_option
def rates(paths: tuple[str, ...], database: str | None, output: str | None) -> int:
    """Count what came of each attempt, by backend and position: fresh, after a wait, after a
    continuation.

    JOURNALS are files and folders, as for `rungwise stats`. The rates are TOML that you can read
    and edit: the share of each event with its interval of 95 %, and histograms of its seconds and
    tokens. stderr warns if few were seen.

    \b
    Exit codes:
      0  counted; files that are not journals are skipped, with a note
      2  bad input: no journal with an attempt, or a file that cannot be written

    \b
    Examples:
      rungwise rates journals/ -o rates.toml
      rungwise odds policy.toml --rates rates.toml
    """
    check_writable(output)
    count = RatesCount()
    count_journals(paths, database, count.add)
    if not count.counts:
        bad_input("the journals hold no attempt of which anything came back")
    counted = count.rates()
    for name in count.prices.keys() - {each.name for each in counted.backend}:
        note(f"{name}: never asked, so it has no rates")
    for warning in counted.warnings:
        note(warning)
    write_out(output, counted.to_toml())
    return 0
