"""The connections of the proxy, so that strangers do not shut out those who hold the key.

Theory
------

A connection costs nothing until its request has a head, and a head may come as slowly as its
client likes. Whoever opens many of them and sends half a head on each would hold all connections
there are (the attack is known as Slowloris). Two bounds stand against that:

* A head must have come some seconds after its first byte, or after the connection was made.
* Whoever has not shown the key yet is a stranger. If there are too many strangers, the one that
  came first is sent away. A client that has the key sends it at once, so it has been read long
  before its turn comes; an attacker only drives away other connections of the same kind. From then
  on its connection is counted apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

HEAD_SECONDS: Final = 10.0
"""The longest time in which the head of a request must have come."""

Headers = Iterable[tuple[bytes, bytes]]


def guarded(most: int, is_known: Callable[[Headers], bool]) -> type[asyncio.Protocol]:
    """Return a protocol for uvicorn that bounds heads and strangers.

    Arguments:
        most: how many strangers may have a connection at once.
        is_known: tells whether the headers of a request hold the key.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    strangers: dict[H11Protocol, None] = {}  # in the order in which they came

    class Guarded(H11Protocol):
        watch: asyncio.TimerHandle | None = None  # until the head has come

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            while len(strangers) >= most:
                first = next(iter(strangers))
                del strangers[first]
                first.transport.abort()
            strangers[self] = None
            self.await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            strangers.pop(self, None)
            self.end_watch()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is None or self.cycle.response_complete:
                self.await_head()
                return
            self.end_watch()
            if is_known(self.scope["headers"]):
                strangers.pop(self, None)

        def await_head(self) -> None:
            if self.watch is None:
                self.watch = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

        def end_watch(self) -> None:
            if self.watch is not None:
                self.watch.cancel()
                self.watch = None

    return Guarded
