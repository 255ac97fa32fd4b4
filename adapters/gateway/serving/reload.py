"""Chains that are read again while the proxy runs.

Calls that run finish on the clients that they began with. The new ones use the same connections,
and remember the same health, quotas and retries; budgets belong to the names of keys. What is read
is checked as a whole before anything is replaced, so a mistake changes nothing.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import anyio
from anyio.to_thread import run_sync
from attrs import define, evolve, field

from rungwise.adapters.client import Client
from rungwise.adapters.gateway.gateway import ANY
from rungwise.adapters.gateway.proxy import Proxy
from rungwise.adapters.gateway.serving.keys import Check, ClientKey
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import short

Chains = Mapping[str, Client]
Read = Callable[[], tuple[Chains, list[ClientKey]]]
"""Read the file: the clients by the names of their chains, and the keys."""


_SHARED: Final = "name a Redis server with --store, by which the workers share it"


def with_default(clients: Chains) -> dict[str, Client]:
    """Return the chains of a file, with `default` or the only one for every other model."""
    chains = dict(clients)
    if len(clients) == 1 or "default" in clients:
        [first, *_] = clients.values()
        chains[ANY] = clients.get("default", first)
    return chains


def check_by(chains: Chains, *, are_alone: bool) -> Check:
    """Return what refuses a key that names no chain of these, or whose budget cannot be kept.

    Arguments:
        chains: those that there are.
        are_alone: whether several processes serve them, which share nothing.
    """

    def check(key: ClientKey) -> None:
        caller = key.caller
        if caller.within is not None and are_alone:
            raise ConfigurationError(
                f"key.{caller.name} has a budget, and each worker would have one: {_SHARED}"
            )
        names = [name for name in chains if name != ANY]
        for name in caller.chains or ():
            if name not in names:
                known = ", ".join(names)
                raise ConfigurationError(
                    f"key.{caller.name}: there is no chain {short(name)}; there are: {known}"
                )
        if not caller.needs_prices:
            return
        for name in caller.allowed(chains):
            for backend in chains[name].chain:
                if backend.prices is None:
                    raise ConfigurationError(
                        f"key.{caller.name} has a budget of money, and {backend.name} of the chain "
                        f"{short(name)} has no prices"
                    )

    return check


def check_quotas(chains: Chains) -> None:
    """Refuse quotas: they would be as many times too large as there are processes."""
    for client in chains.values():
        for backend in client.chain:
            if backend.quota is not None:
                raise ConfigurationError(
                    f"the quota of {backend.name} would be one of each worker: {_SHARED}"
                )


@define(eq=False)
class Reloading:
    """Let a proxy serve a file as it is now.

    Arguments:
        app: the proxy.
        read: reads the file, in a thread.
        are_alone: whether several processes serve it, which share nothing.
    """

    app: Proxy
    read: Read
    are_alone: bool = False
    _lock: anyio.Lock = field(factory=anyio.Lock, init=False)

    def begin(self, clients: Chains, listed: list[ClientKey]) -> None:
        """Serve these from now on.

        Arguments:
            clients: those of the file.
            listed: the keys there.

        Raises:
            ConfigurationError: a key or a quota is wrong; then everything is as before.
        """
        before = self.app.gateway.chains
        chains = with_default(clients)
        if self.are_alone:
            check_quotas(chains)
        # The last step that may fail: nothing has changed so far.
        self.app.keys.take(listed, check_by(chains, are_alone=self.are_alone))
        shared = [client.runtime for client in (*before.values(), *clients.values())]
        for name, client in clients.items():
            client.runtime.share(shared)
            if name in before:
                client.runtime.throttle = before[name].runtime.throttle
        self.app.gateway = evolve(self.app.gateway, chains=chains)
        self.app.reload = self.again

    async def again(self) -> None:
        """Read the file again.

        Raises:
            ConfigurationError: it has a mistake; then everything is as before.
        """
        async with self._lock:
            self.begin(*await run_sync(self.read))


def reload_at_hangup(reload: Callable[[], Awaitable[None]], tell: Callable[[str], object]) -> None:
    """Reload at SIGHUP, where there is one, from this event loop on.

    Arguments:
        reload: reads the file again.
        tell: called with what came of it.
    """
    running: set[asyncio.Task[None]] = set()

    async def reload_and_tell() -> None:
        try:
            await reload()
            tell("the chains are read again")
        except ConfigurationError as error:
            tell(f"everything is as before: {error}")

    def begin() -> None:
        task = loop.create_task(reload_and_tell())
        running.add(task)
        task.add_done_callback(running.discard)

    if hasattr(signal, "SIGHUP"):
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, begin)
