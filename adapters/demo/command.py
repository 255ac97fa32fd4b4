"""`rungwise demo`: the real client calls real servers that misbehave by script."""

from __future__ import annotations

import sys

import click

from rungwise.adapters.cli.output import is_terminal, put
from rungwise.adapters.cli.shared_options import choice_option
from rungwise.adapters.demo.scenarios import SCENARIOS
from rungwise.adapters.wires.registry import APIS


def _list(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        width = max(map(len, SCENARIOS))
        for each in SCENARIOS.values():
            put(f"{each.name.ljust(width)}  {each.title}: {each.says}\n")
        context.exit()


@click.command(
    short_help="Watch calls and turns with providers that misbehave; needs no key, no network."
)
@click.option(
    "--scenario",
    "--scene",
    "names",
    multiple=True,
    type=click.Choice(tuple(SCENARIOS)),
    metavar="NAME",
    help="Run this scenario; may be repeated.  [default: all]",
)
@choice_option("--api", tuple(APIS), "The protocol to ask the providers in.")
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list,
    help="List the scenarios.",
)
def demo(names: tuple[str, ...], api: str) -> int:
    """Watch twelve calls and two turns with providers that misbehave on purpose.

    Needs no key and no network; takes some 15 seconds. Where the extra `durable` is installed, a
    process kills itself amid an answer at the end, and another one goes on with it.

    Real HTTP servers on this machine play the providers, and the real client calls them. Each
    scenario shows the rungs as they happen, what was sent, what came back, the answer or the honest
    failure, and the cost against the budget. Waits are shortened and prices are made up; the output
    marks both.

    Everything goes to stdout, as plain text if that is not a terminal.

    \b
    Exit codes:
      0    ran to the end; some scenarios are meant to fail
      130  ended by Ctrl-C

    \b
    Examples:
      rungwise demo
      rungwise demo --list
      rungwise demo --scenario rate-limit --scenario all-broken
      rungwise demo --api anthropic
    """
    from rungwise.adapters.demo.scenes import run_demo

    scenarios = tuple(
        scenario for name, scenario in SCENARIOS.items() if not names or name in names
    )
    run_demo(scenarios, api, is_watched=is_terminal(sys.stdout))
    return 0
