"""`rungwise proxy`: serve chains to programs in any language, in the protocols of their SDKs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rungwise.adapters.cli.backends import VARIABLE, clients_in
from rungwise.adapters.cli.output import bad_input, complain, note
from rungwise.adapters.cli.shared_options import (
    flag_option,
    folder_option,
    number_option,
    store_option,
)
from rungwise.adapters.cli.workers.http_server import run_workers, serve_app
from rungwise.fsm.values.files import toml_of_file

if TYPE_CHECKING:
    from rungwise.adapters.client import Client
    from rungwise.adapters.gateway.proxy import Proxy
    from rungwise.adapters.gateway.serving.keys import ClientKey, Keys
    from rungwise.fsm.call.run.result import Result
    from rungwise.fsm.values.secret import Secret


@click.command(short_help="Serve chains to the SDKs of any language, in their own protocols.")
@click.argument("chains", type=click.Path(exists=True, dir_okay=False))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@number_option("--port", 8000, (0, 65535), "The port.")
@click.option(
    "--client-key-env",
    metavar="NAME",
    help="The environment variable that holds the key that clients must show. Required to listen "
    "on any address but those of this machine.",
)
@folder_option(
    "--keys",
    "key_folder",
    exists=True,
    help="A folder of files ending in .toml with tables [key.NAME], as CHAINS may have them; read "
    "again when they change.",
)
@click.option(
    "--allowed-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name under which clients may address the proxy; repeatable.  [default: any with a key, "
    "and without one those of this machine]",
)
@click.option(
    "--cors",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="An origin whose web pages may ask, as in https://app.example; repeatable. * for all, "
    "if requests need a key.",
)
@number_option(
    "--max-connections",
    200,
    (1, 100_000),
    "How many requests may run at once in each worker; others get status 503.",
)
@number_option(
    "--workers",
    1,
    (1, 64),
    "How many processes serve the port. They need --store for quotas and budgets that they share.",
)
@click.option("--worker-port", type=int, hidden=True)  # of a worker, which its parent starts
@click.option(
    "--drain",
    type=click.FloatRange(0, 3600),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long running calls may take to end after SIGTERM.",
)
@flag_option("--hold", help="Keep streamed text until it is final, so that none is taken back.")
@click.option(
    "--ping",
    type=click.FloatRange(0, 3600),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="After how long a silence a stream sends a sign of life, so that no load balancer cuts "
    "it; 0 for never.",
)
@flag_option("--forward", help="Forward all other requests, with a backend's key.")
@store_option()
@folder_option("--journals", help="Keep the journal of each call here.")
def proxy(
    chains: str,
    host: str,
    port: int,
    client_key_env: str | None,
    key_folder: str | None,
    max_connections: int,
    workers: int,
    worker_port: int | None,
    drain: float,
    store: str | None,
    **options: Any,
) -> int:
    """Serve the chains of CHAINS, a TOML file, as chat completions, Responses, Anthropic's Messages
    and Gemini.

    The base URL goes to stdout, and stderr shows how to point each SDK at it. The model of a
    request selects a chain by its name; any other model takes the chain `default`, or the only one.

    \b
    The file holds a policy, and a table for each backend of a chain, in order:
      [budget]
      seconds = 60
      [[chain.default]]
      api = "openai"                      # as --api of `rungwise ask`
      model = "gpt-5"
      key_env = "OPENAI_API_KEY"          # "" for a server that takes none
      prices = [1.25, 10]                 # of a million tokens in and out
      [[chain.default]]
      api = "anthropic"
      model = "claude-sonnet-5"
      [key.team-a]                        # who may ask, and spend how much
      key = "sha256:..."
      budget = {money = 50, per = "day"}

    SIGHUP reads it again, and so does a POST to /-/reload by a key with `admin = true`.

    Turn the SDK's own retries off. Each response says in `x-rungwise-...` headers how its call
    went.

    \b
    Examples:
      rungwise proxy chains.toml
      rungwise proxy chains.toml --host 0.0.0.0 --client-key-env PROXY_KEY --journals journals

    \b
    Exit codes:
      0  ended by Ctrl-C or SIGTERM
      1  the workers die again and again
      2  the file cannot be read, or the port is taken
    """
    _check_seconds(drain=drain, ping=options["ping"])
    keys = _keys(key_folder, client_key_env)
    app = _reloading_app(chains, keys, max_connections, workers, store, **options)
    if not keys.is_wanted:
        _refuse_others(host, options["origins"])
    if workers > 1 and worker_port is None:
        return run_workers(host, port, workers, drain, is_alone=store is None)
    serve_app(app, host, port, worker_port, drain=drain, most=max_connections)
    return 0


def _check_seconds(**seconds: float) -> None:
    """Refuse what is no number, and passes for any range."""
    for name, value in seconds.items():
        if value != value:
            bad_input(f"--{name} must be a number of seconds")


def _reloading_app(
    path: str,
    keys: Keys,
    most: int,
    workers: int,
    store: str | None,
    **options: Any,
) -> Proxy:
    """Make the application for a file, which it can read again.

    Arguments:
        path: of the file.
        keys, most, options: as for `_app`.
        workers: how many processes serve it.
        store: the URL by which processes share health, quotas and budgets; None for none.
    """
    if find_spec("uvicorn") is None:
        bad_input("the proxy needs the extra: pip install 'rungwise[proxy]'")
    from rungwise.adapters.gateway.serving.reload import Reloading

    # as many connections as requests, so that none waits for one
    read = partial(_read, path, max_connections=most, store=store)
    clients, listed = read()
    app = _app(clients, keys, most, **options)
    Reloading(app, read, workers > 1 and store is None).begin(clients, listed)
    return app


def _read(path: str, **options: Any) -> tuple[dict[str, Client], list[ClientKey]]:
    """Return the clients of a file, and the keys there."""
    from rungwise.adapters.gateway.serving.keys import keys_in

    return clients_in(path, **options), keys_in(toml_of_file(path), path)


def _refuse_others(host: str, origins: Iterable[str]) -> None:
    """Refuse an address that other machines can reach, and the pages of anybody."""
    if "*" in origins:
        bad_input("--cors '*' lets in the page of anybody: give the proxy a key, or an origin")
    if host not in ("localhost", "::1") and not host.startswith("127."):
        bad_input(
            f"--host {host} can be reached by others: name the variable that holds a key with "
            "--client-key-env, or give keys in the file or with --keys"
        )


def _app(
    clients: dict[str, Client],
    keys: Keys,
    most: int,
    *,
    ping: float,
    hold: bool,
    forward: bool,
    journals: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...] = (),
) -> Proxy:
    """Make the application.

    Arguments:
        clients: the chains, by name.
        keys: those of the proxy's clients.
        most: how many requests may run at once.
        ping: the seconds of silence after which a stream says that it lives; 0 for never.
        hold: whether to keep streamed text until it is final.
        forward: whether to pass on requests that are no model calls.
        journals: the folder for the journals of calls; None for none.
        hosts: the names under which it answers.
        origins: those whose pages may ask.
    """
    from rungwise.adapters.gateway.gateway import Gateway
    from rungwise.adapters.gateway.proxy import Metrics, Proxy
    from rungwise.adapters.gateway.serving.cors import Cors
    from rungwise.adapters.gateway.serving.reload import with_default

    metrics = Metrics() if find_spec("prometheus_client") else None
    folder = None if journals is None else _folder(journals)

    def keep(id: str, result: Result) -> None:
        if metrics is not None:
            metrics.count(result)
        if folder is not None:
            try:
                (folder / f".{id}").write_text(result.journal.to_json(), encoding="utf-8")
                (folder / f".{id}").replace(folder / f"{id}.json")  # nobody reads half of one
            except OSError as error:
                note(f"the journal {id} could not be written: {error.strerror}")

    gateway = Gateway(with_default(clients), hold, keep, ping or None)
    return Proxy(
        gateway,
        keys=keys,
        most=most,
        forwards=forward,
        metrics=metrics,
        hosts=frozenset(map(str.lower, hosts)),
        cors=Cors(origins) if origins else None,
    )


def _keys(folder: str | None, variable: str | None) -> Keys:
    """Return the keys that clients may show, but for those of the file of the chains."""
    from rungwise.adapters.gateway.serving.keys import Keys

    one = None if variable is None else _client_key(variable)
    try:
        return Keys(folder, one=one, tell=complain)
    except OSError as error:
        bad_input(f"--keys {folder}: {error.strerror}")


def _client_key(variable: str) -> Secret:
    """Return the key that clients must show."""
    from rungwise.fsm.values.secret import Secret

    value = os.environ.get(variable, "") if VARIABLE.fullmatch(variable) else ""
    if not value.strip():
        bad_input(
            "--client-key-env must name an environment variable that holds the key of the clients"
        )
    return Secret(value)


def _folder(path: str) -> Path:
    """Make a folder, if it does not exist."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        bad_input(f"--journals {path}: {error.strerror}")
    return folder
