"""`rungwise demo`: a tour of scenes, played by the real client against real servers that misbehave by script."""

from __future__ import annotations

import sys
from typing import Final

import click

from rungwise.adapters.cli.output import StdoutGone, is_terminal, put
from rungwise.adapters.demo.scenes import SCENES

NAMES: Final = tuple(scene.name for scene in SCENES)


def _list(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        width = max(map(len, NAMES))
        put("".join(f"{scene.name.ljust(width)}  {scene.title}: {scene.says}\n" for scene in SCENES))
        context.exit()


@click.command(short_help="Watch ten calls to a provider that misbehaves; needs no key and no network.")
@click.option(
    "--scene",
    "names",
    multiple=True,
    type=click.Choice(NAMES),
    metavar="NAME",
    help="Play this scene; may be repeated. Left out, all are played.",
)
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the scenes.")
def demo(names: tuple[str, ...]) -> int:
    """Watch ten calls to a provider that misbehaves on purpose. Needs no key and no network; takes some 10 seconds.

    Real HTTP servers on this machine play the providers, the real client calls them. Each scene shows the path of
    rungs as it happens, what was sent, what came back, the answer or the honest failure, and what it cost against the
    budget. Waits are shortened, prices are made up; both are marked as such.

    Everything goes to stdout, in plain text where that is no terminal.

    \b
    Exit codes:
      0    played to the end, failures included: some scenes are meant to fail
      130  ended by Ctrl-C

    \b
    Examples:
      rungwise demo
      rungwise demo --list
      rungwise demo --scene rate-limit --scene all-broken
    """
    from rungwise.adapters.demo.tour import tour

    scenes = tuple(scene for scene in SCENES if not names or scene.name in names)
    try:
        tour(scenes, is_watched=is_terminal(sys.stdout))
    except BrokenPipeError as error:
        raise StdoutGone(error) from None
    return 0
