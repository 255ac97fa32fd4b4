"""`rungwise proxy`: serve chains to programs in any language, in the protocols of their SDKs."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rungwise.adapters.cli.backends import VARIABLE, clients_in
from rungwise.adapters.cli.output import bad_input, complain, note, put
from rungwise.adapters.cli.serve import pointers, refuse_address
from rungwise.adapters.cli.shared_options import number_option, store_option
from rungwise.adapters.cli.workers.supervisor import (
    end_with_parent,
    refuse_unshared,
    reload_of_all,
    run_workers,
)
from rungwise.fsm.values.files import toml_of_file

if TYPE_CHECKING:
    import uvicorn

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
@click.option(
    "--keys",
    "key_folder",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
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
    "where requests need a key.",
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
    "How many processes serve the port. They need --store for quotas that they share.",
)
@click.option("--worker-port", type=int, hidden=True)  # of a worker, which its parent starts
@click.option(
    "--drain",
    type=click.FloatRange(0, 3600),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long running calls may go on after SIGTERM.",
)
@click.option(
    "--hold", is_flag=True, help="Keep streamed text until it is final, so that none is taken back."
)
@click.option(
    "--ping",
    type=click.FloatRange(0, 3600),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="Say that a stream lives after so long a silence, before a load balancer cuts it; 0 for "
    "never.",
)
@click.option(
    "--forward",
    is_flag=True,
    help="Pass on requests that are no model calls, with a backend's key.",
)
@store_option()
@click.option(
    "--journals",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Keep the journal of each call here.",
)
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
    for name, seconds in (("--drain", drain), ("--ping", options["ping"])):
        if seconds != seconds:  # nan passes for any range
            bad_input(f"{name} must be a number of seconds")
    keys = _keys(key_folder, client_key_env)
    is_one_of_many = workers > 1 or worker_port is not None
    app = _reloading_app(
        chains,
        keys,
        max_connections,
        store,
        shares_budgets=store is not None or not is_one_of_many,
        **options,
    )
    if not keys.is_wanted:
        _refuse_others(host, options["origins"])
    if workers > 1 and worker_port is None:
        refuse_unshared(app.gateway.chains, store)
        return run_workers(host, port, workers, drain, _announce)
    _serve(app, host, port, worker_port, drain=drain, most=max_connections)
    return 0


def _serve(
    app: Proxy,
    host: str,
    port: int,
    worker_port: int | None,
    *,
    drain: float,
    most: int,
) -> None:
    """Serve until a signal ends it, and a worker until its parent dies.

    Arguments:
        app: what it serves.
        host, port: the address.
        worker_port: the port that a worker shares; None if this is no worker.
        drain: for how many seconds calls may go on after SIGTERM.
        most: how many requests may run at once.
    """
    is_worker = worker_port is not None
    listening = _listen(host, worker_port or port, is_shared=is_worker)
    server = _server(app, drain, most, is_worker=is_worker)
    if is_worker:
        end_with_parent(server)
        if app.reload is not None:
            app.reload = reload_of_all(app.reload)
        put("it listens\n")
    else:
        _announce(host, listening.getsockname()[1])
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listening])


def _announce(host: str, port: int) -> None:
    """Print the base URL, and how to point each SDK at it."""
    base_url = f"http://{host}:{port}/v1"
    put(f"{base_url}\n")
    for pointer in pointers(base_url, of_gateway=True):
        note(f"  {pointer}", dim=True)


def _reloading_app(
    path: str,
    keys: Keys,
    most: int,
    store: str | None,
    *,
    shares_budgets: bool,
    **options: Any,
) -> Proxy:
    """Make the application for a file, which it can read again.

    Arguments:
        path: of the file.
        keys, most, options: as for `_app`.
        store: the URL by which processes share health, quotas and budgets; None for none.
        shares_budgets: whether a budget of a key is one, however many workers there are.
    """
    if find_spec("uvicorn") is None:
        bad_input("the proxy needs the extra: pip install 'rungwise[proxy]'")
    from rungwise.adapters.gateway.serving.reload import Reloading

    # as many connections as requests, so that none waits for one
    read = partial(_read, path, max_connections=most, store=store)
    clients, listed = read()
    app = _app(clients, keys, most, **options)
    Reloading(app, read, shares_budgets=shares_budgets).begin(clients, listed)
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


def _listen(
    host: str,
    port: int,
    *,
    is_shared: bool = False,
) -> socket.socket:
    """Return a socket whose connections send at once.

    asyncio sets the option only on sockets that it makes itself.

    Arguments:
        host, port: the address.
        is_shared: whether other processes listen there, too.
    """
    try:
        listening = socket.create_server((host, port), backlog=2048, reuse_port=is_shared)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        refuse_address(error, host, port)
    return listening


def _server(
    app: Proxy,
    drain: float,
    most: int,
    *,
    is_worker: bool = False,
) -> uvicorn.Server:
    """Return a server that ends what still runs some time after SIGTERM.

    Arguments:
        app: what it serves.
        drain: for how many seconds calls may go on after SIGTERM.
        most: how many requests may run at once.
        is_worker: whether a parent tells the user what happens, and SIGINT alone ends what runs.
    """
    import asyncio
    import signal

    import uvicorn

    from rungwise.adapters.gateway.connections import guarded
    from rungwise.adapters.gateway.serving.reload import reload_at_hangup

    reload = app.reload

    class Draining(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if reload is not None:
                reload_at_hangup(reload, complain)

        def handle_exit(self, sig: int, frame: Any) -> None:
            if self.should_exit:
                if sig == signal.SIGINT or not is_worker:
                    asyncio.get_running_loop().call_soon_threadsafe(app.end)
                return
            self.should_exit = (
                True  # without uvicorn's own, which raises the signal again at the end
            )
            if not is_worker:
                note(f"ending; what runs has {drain:g} s, or press Ctrl-C again")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().call_later(drain, app.end)
            await super().shutdown(sockets)

    connections = 4 * most + 100  # idle ones too
    config = uvicorn.Config(
        app,
        http=guarded(connections, app.knows),
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=2 * connections,  # with the strangers
        timeout_graceful_shutdown=int(drain) + 2,
    )
    return Draining(config)


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
