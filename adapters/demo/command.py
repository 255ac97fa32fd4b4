"""`rungwise demo`: the real client calls real servers that misbehave by script."""

from __future__ import annotations

import sys
from typing import Final

import click

from rungwise.adapters.cli.output import is_terminal, put
from rungwise.adapters.cli.shared_options import choice_option, flag_option
from rungwise.adapters.demo.scenarios import SCENARIOS
from rungwise.adapters.wires.registry import APIS

FIRST: Final = 3
"""How many scenarios run unless more are asked for."""


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
    help=f"Run this scenario; may be repeated.  [default: the first {FIRST}]",
)
@flag_option("--all", "runs_all", help="Run all scenarios.")
@choice_option("--api", tuple(APIS), "The protocol to ask the providers in.")
@flag_option(
    "--list",
    is_eager=True,
    expose_value=False,
    callback=_list,
    help="List the scenarios.",
)
def demo(names: tuple[str, ...], runs_all: bool, api: str) -> int:
    """Watch three calls with providers that misbehave on purpose; with --all, twelve calls and two
    turns.

    Needs no key and no network; takes some 5 seconds, with --all some 15. If the extra `durable` is
    installed, --all ends with a process that kills itself in the middle of an answer, and another
    one that resumes it.

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
      rungwise demo --all
      rungwise demo --list
      rungwise demo --scenario rate-limit --scenario all-broken
      rungwise demo --api anthropic
    """
    from rungwise.adapters.demo.scenes import run_demo

    scenarios = tuple(SCENARIOS.values())
    if names:
        scenarios = tuple(each for each in scenarios if each.name in names)
    elif not runs_all:
        scenarios = scenarios[:FIRST]
    run_demo(scenarios, api, is_watched=is_terminal(sys.stdout))
    return 0
