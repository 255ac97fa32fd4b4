"""The connections of one client: which are idle, how many there may be, and which calls wait for a
place.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict

from attrs import define, field

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.connection import Connection, Origin
from rungwise.fsm.values.forks import renewed_in_children

SOON = 1.0
"""Seconds within which a server closes its connections after a reply, if it does; one idle for
longer stays open.
"""


class Waiter(ABC):
    """Wait for a place of a pool, and hold it."""

    __slots__ = ("_cancellation", "_pool", "_seconds", "has_place")

    def __init__(self, pool: Pool, seconds: float | None, cancellation: Cancellation) -> None:
        self.has_place = False
        self._pool = pool
        self._seconds = seconds
        self._cancellation = cancellation

    def __del__(self) -> None:
        self._pool.leave(self)  # a signal may come just before the block that holds the place ends

    @abstractmethod
    def wake(self) -> None:
        """Wake it: it has a place now."""


@define(eq=False)
class Pool:
    """Keep idle connections and limit how many calls have one; the others wait in turn."""

    max_connections: int  # how many connections there may be, idle ones included
    # Reentrant: the garbage collector may close a forgotten stream in the middle of any of these
    # methods.
    _lock: threading.RLock = field(factory=threading.RLock, init=False)
    _taken: int = field(default=0, init=False)
    _waiting: OrderedDict[Waiter, None] = field(factory=OrderedDict, init=False)
    # In the order in which they became idle, all of them and those to each origin: no step looks at
    # more than one end.
    _idle: OrderedDict[Connection, None] = field(factory=OrderedDict, init=False)
    _idle_to: dict[Origin, OrderedDict[Connection, None]] = field(factory=dict, init=False)
    _active: set[Connection] = field(factory=set, init=False)
    _closers: set[Origin] = field(factory=set, init=False)
    _is_closed: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        _pools.add(self)

    def take_place(self, waiter: Waiter) -> bool:
        """Take a place, or join the queue; tell which."""
        with self._lock:
            if self._taken < self.max_connections:
                self._taken += 1
                waiter.has_place = True
            else:
                self._waiting[waiter] = None
            return waiter.has_place

    def leave(self, waiter: Waiter) -> None:
        """Give a place back, or leave the queue."""
        with self._lock:
            if not waiter.has_place:
                self._waiting.pop(waiter, None)
                return
            waiter.has_place = False
            if not self._waiting:
                self._taken = max(0, self._taken - 1)  # a place from before a fork does not count
                return
            following, _ = self._waiting.popitem(last=False)
            following.has_place = True
        following.wake()

    def take(self, origin: Origin, *, is_fresh: bool) -> Connection | None:
        """Take the idle connection to an origin that was used last; None if a new one is needed.

        If only a new one will do (`is_fresh`), the idle ones to the origin are closed.
        """
        useless: list[Connection] = []
        with self._lock:
            while self._idle and (oldest := next(iter(self._idle))).is_old:
                self._remove(oldest)
                useless.append(oldest)
            connection = self._usable(origin, useless, is_fresh=is_fresh)
            if (
                connection is None
                and self._idle
                and len(self._idle) + self._taken > self.max_connections
            ):
                oldest = next(iter(self._idle))
                self._remove(oldest)
                useless.append(oldest)
        for each in useless:
            each.close()
        return connection

    def _usable(
        self, origin: Origin, useless: list[Connection], *, is_fresh: bool
    ) -> Connection | None:
        """Take the next connection that can serve, and collect the useless ones."""
        while idle := self._idle_to.get(origin):
            connection = next(reversed(idle))
            if not is_fresh and origin in self._closers:
                # The one idle for longest. The server may close any other at any moment; a later
                # call takes it.
                connection = next(iter(idle))
                if connection.idle_seconds < SOON:
                    return None
            self._remove(connection)
            if not is_fresh and connection.is_usable:
                self._closers.discard(origin)
                self._active.add(connection)
                return connection
            useless.append(connection)
        return None

    def _remove(self, connection: Connection) -> None:
        del self._idle[connection]
        there = self._idle_to[connection.origin]
        del there[connection]
        if not there:
            del self._idle_to[connection.origin]

    def lost(self, origin: Origin, idle_seconds: float) -> None:
        """Note that the server closed an idle connection under a request, before any byte of an
        answer.

        llama.cpp's does so after each stream, though it announces otherwise: every other request
        would be lost.
        """
        if idle_seconds < SOON:
            with self._lock:
                self._closers.add(origin)

    def add(self, connection: Connection) -> None:
        """Count a new connection."""
        with self._lock:
            self._active.add(connection)

    def give_back(self, connection: Connection, *, is_usable: bool) -> None:
        """Keep a connection for the next request, or close it."""
        with self._lock:
            self._active.discard(connection)
            stays = is_usable and not self._is_closed
            if stays:
                self._idle[connection] = None
                self._idle_to.setdefault(connection.origin, OrderedDict())[connection] = None
        if not stays:
            connection.close()

    def close(self) -> None:
        """Close every idle connection, and the others when they are given back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle, self._idle_to = self._idle, OrderedDict(), {}
        for connection in idle:
            connection.close()

    def forget(self) -> None:
        """Start anew in a forked child: the connections belong to the parent."""
        self._lock = threading.RLock()
        connections = [*self._idle, *self._active]
        self._taken, self._waiting, self._active = 0, OrderedDict(), set()
        self._idle = OrderedDict()
        self._idle_to = {}
        for connection in connections:
            connection.close()


_pools = renewed_in_children(Pool.forget)
