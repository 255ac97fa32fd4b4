"""The HTTP server of `rungwise proxy`: in this process, or in workers that a parent looks after."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from rungwise.adapters.cli.output import complain, note, put
from rungwise.adapters.cli.serve import pointers, refuse_address
from rungwise.adapters.cli.workers.supervisor import held_port, supervise

if TYPE_CHECKING:
    import uvicorn

    from rungwise.adapters.gateway.proxy import Proxy


def run_workers(
    host: str,
    port: int,
    number: int,
    drain: float,
    *,
    is_alone: bool,
) -> int:
    """Serve an address by workers until a signal ends them, and return the exit code.

    Arguments:
        host: the address.
        port: the port, or 0 for a free one.
        number: how many workers there are.
        drain: for how many seconds calls may go on after SIGTERM.
        is_alone: whether each worker remembers for itself.
    """
    if is_alone:
        note("without --store, each worker finds out by itself which backends are down", dim=True)
    with held_port(host, port) as held:
        name, *arguments = sys.argv[1:]
        worker = ["-m", "rungwise", name, "--worker-port", str(held), *arguments]
        return supervise(
            [sys.executable, *worker],
            number,
            drain,
            lambda: _announce(host, held),
        )


def serve_app(
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
    listening = listen(host, worker_port or port, is_shared=is_worker)
    server = server_of(app, drain, most, is_worker=is_worker)
    if is_worker:
        _end_with_parent(server)
        app.reload_others = partial(_tell_parent, os.getppid())
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


def _end_with_parent(server: uvicorn.Server) -> None:
    """Let a worker drain where its parent dies."""

    def wait() -> None:
        os.read(0, 1)  # stdin, which the parent never writes to
        server.should_exit = True

    Thread(target=wait, daemon=True).start()


def _tell_parent(parent: int) -> None:
    """Have the parent tell all workers to read the chains again, unless it has died."""
    if os.getppid() == parent:
        os.kill(parent, signal.SIGHUP)


def listen(
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


def server_of(
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

    import uvicorn

    from rungwise.adapters.gateway.connections import guarded
    from rungwise.adapters.gateway.serving.reload import reload_at_hangup

    class Draining(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if app.reload is not None:
                reload_at_hangup(app.reload, complain)

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
