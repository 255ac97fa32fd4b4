"""What a store is: it holds what several calls share.

Its operations are generators and never wait by themselves. An operation yields each command for a
server and receives the answer; those of a store in memory yield nothing. So threads and event loops
run the same operations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread

from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.health.health import BackendHealth, Health, HealthChoice, Symptom
from rungwise.fsm.health.quota import Claim, Quota, Settlement

T = TypeVar("T")
C = TypeVar("C")
Command = tuple[Any, ...]
Work = Generator[Command, Any, T]
"""An operation of a store, which returns a `T`."""


class Store(Protocol):
    """Hold what several calls share."""

    def now(self) -> float:
        """Return the seconds on the clock of the store."""

    def key_of(self, link: Backend) -> Hashable:
        """Return what identifies a backend with its key here."""

    def choose(
        self,
        keys: Sequence[Any],
        rules: Health,
        lease: float,
    ) -> Work[tuple[HealthChoice, Sequence[BackendHealth]]]:
        """Choose which backend a call asks.

        Arguments:
            keys: the keys of the backends, in the order of the chain.
            rules: when a backend opens and closes.
            lease: the seconds for which a probe keeps other probes away.

        Returns:
            The choice, and what is remembered of the backends; nothing if all are closed.
        """

    def note(
        self,
        key: Any,
        symptom: Symptom,
        rules: Health,
        *,
        sent_at: float,
        was_probe: bool,
    ) -> Work[None]:
        """Remember what an attempt has shown of its backend.

        Arguments:
            key: the key of the backend.
            symptom: what the attempt has shown.
            rules: when a backend opens and closes.
            sent_at: when the attempt was sent, on the clock of the store.
            was_probe: whether it was sent to try a backend that was open.
        """

    def read(self, keys: Sequence[Any]) -> Work[Sequence[BackendHealth]]:
        """Return what is remembered of some backends."""

    def take(
        self,
        key: Any,
        quota: Quota,
        claim: Claim,
    ) -> Work[tuple[float, bool]]:
        """Let an attempt through, if it need not wait for too long; see `QuotaMeter.take`."""

    def pay(
        self,
        key: Any,
        quota: Quota,
        paid: Settlement,
    ) -> Work[None]:
        """Count what an attempt has used; see `QuotaMeter.settle`."""

    def execute(self, command: Command) -> Any:
        """Send a command to the server, and wait for its answer."""


def perform(store: Store, work: Work[T]) -> T:
    """Run an operation in this thread."""
    return driven(work, store.execute)


async def aperform(store: Store, work: Work[T]) -> T:
    """Run an operation in an event loop. Each command waits in a worker thread."""

    async def execute(command: Command) -> Any:
        with anyio.CancelScope(shield=True):  # the store's own timeouts end it
            return await anyio.to_thread.run_sync(store.execute, command)

    return await adriven(work, execute)


def driven(work: Generator[C, Any, T], answer: Callable[[C], Any]) -> T:
    """Run a generator, answer what it yields, and return its result."""
    try:
        command = next(work)
        while True:
            command = work.send(answer(command))
    except StopIteration as end:
        result: T = end.value
        return result


async def adriven(work: Generator[C, Any, T], answer: Callable[[C], Awaitable[Any]]) -> T:
    """Do the same in an event loop."""
    try:
        command = next(work)
        while True:
            command = work.send(await answer(command))
    except StopIteration as end:
        result: T = end.value
        return result
