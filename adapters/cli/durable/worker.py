"""`rungwise worker`: run what others have left in a database."""

from __future__ import annotations

import signal
import threading

import click

from rungwise.adapters.cli.durable.batch import (
    CHAIN_OPTION,
    CONCURRENCY_OPTION,
    CONFIG_OPTION,
    database_option,
)
from rungwise.adapters.cli.output import note


@click.command(short_help="Run the calls that wait in a database.")
@CONFIG_OPTION
@CHAIN_OPTION
@database_option("The database: postgresql://..., or sqlite:///FILE on one machine.", required=True)
@CONCURRENCY_OPTION
@click.option(
    "--module",
    "modules",
    multiple=True,
    metavar="NAME",
    help="A module or package whose functions stored turns and calls may name; repeatable.",
)
def worker(
    config: str,
    chain: str | None,
    database: str,
    concurrency: int,
    modules: tuple[str, ...],
) -> int:
    """Run the calls that wait in a database, and those that dead workers have left, until Ctrl-C or
    SIGTERM.

    Start as many as you like. If a worker dies, another one takes over its calls within seconds.

    \b
    Exit codes:
      0  ended by Ctrl-C or SIGTERM
      2  bad input, or the database cannot be used

    \b
    Examples:
      rungwise worker --config chains.toml --database postgresql://host/db --concurrency 200
    """
    from rungwise.adapters.cli.backends import client_in
    from rungwise.adapters.durable.durable import Durable

    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    client = client_in(config, chain, max_connections=concurrency)
    with client, Durable(client, database, modules=modules, concurrency=concurrency):
        note("waiting for calls; Ctrl-C ends the worker, and others take over its calls")
        while not ended.wait(1.0):
            pass
    return 0
