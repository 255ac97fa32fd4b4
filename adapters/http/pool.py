"""The connections of one client: which are idle, how many there may be, and which calls wait for a
place.

Theory. A *place* is the right to have a connection. A call takes a place, then a connection: an
idle one to the same origin, or a new one. So the limit is on calls in flight, and a call that waits
for its turn counts that time against the call, not against an attempt.

* **Places** are a counter and a queue, first come, first served. A call that leaves hands its place
  to the first in the queue under the lock (direct handoff), so no newcomer can slip in between. It
  wakes the waiter outside the lock.
* **Idle connections** are taken last in, first out: the one used last is the least likely to have
  been closed by the server, and the others grow old and are closed after `KEEP` seconds. Each
  connection stands in two ordered dicts, one of all idle connections and one of those to its
  origin. Every operation looks at an end of these, so it costs O(1), however many connections there
  are. httpcore looks at every connection for every request: with 256 calls at once, each costs
  5.5 ms there, and 0.47 ms here (`README.md`).
* **Servers that close after a reply** without saying so, as llama.cpp does after a stream, would
  lose every other request: last in, first out hits just the connection that is about to close. Once
  that happens, the pool takes the connection to this origin that has been idle for longest, and
  only after `SOON` seconds, until one turns out to be usable.

Tried before: a list of idle connections that each request searched for its origin, and a deque that
a cancelled waiter had to be searched in. Both cost O(n) for every call, and n calls at once O(n²).
A lock that is not reentrant would hang: the garbage collector may close a forgotten stream, and so
enter the pool, in the middle of any method here.
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
"""Seconds after a reply within which a server closes its connection, if it does. One that is idle
for longer stays open.
"""


class Waiter(ABC):
    """Wait for a place of a pool, and hold it.

    Arguments:
        pool: the pool.
        seconds: how long to wait; None for no limit.
        cancellation: ends the wait from outside.
    """

    __slots__ = ("_cancellation", "_pool", "_seconds", "has_place")

    def __init__(self, pool: Pool, seconds: float | None, cancellation: Cancellation) -> None:
        self.has_place = False
        self._pool = pool
        self._seconds = seconds
        self._cancellation = cancellation

    def __del__(self) -> None:
        # a signal may interrupt the end of the block that holds the place
        self._pool.leave(self)

    @abstractmethod
    def wake(self) -> None:
        """Wake it: it has a place now."""


@define(eq=False)
class Pool:
    """Keep idle connections, and limit how many calls have a place; the others wait in turn."""

    max_connections: int  # how many connections there may be, idle ones included
    # Reentrant: the garbage collector may close a forgotten stream in the middle of any of these
    # methods.
    _lock: threading.RLock = field(factory=threading.RLock, init=False)
    _taken: int = field(default=0, init=False)  # places
    _waiting: OrderedDict[Waiter, None] = field(factory=OrderedDict, init=False)
    # All idle connections, and those to each origin, in the order in which they became idle.
    _idle: OrderedDict[Connection, None] = field(factory=OrderedDict, init=False)
    _idle_to: dict[Origin, OrderedDict[Connection, None]] = field(factory=dict, init=False)
    _active: set[Connection] = field(factory=set, init=False)
    # the origins whose servers close connections after a reply
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
        """Take an idle connection to an origin.

        Arguments:
            origin: where it must lead.
            is_fresh: whether only a new one will do. Then the idle ones to the origin are closed.

        Returns:
            The connection; None if a new one is needed, for which there is room then.
        """
        useless: list[Connection] = []
        with self._lock:
            while self._idle:
                oldest = next(iter(self._idle))
                if not oldest.is_old:
                    break
                self._remove(oldest)
                useless.append(oldest)
            connection = self._usable(origin, useless, is_fresh=is_fresh)
            is_full = len(self._idle) + self._taken > self.max_connections
            if connection is None and self._idle and is_full:
                oldest = next(iter(self._idle))
                self._remove(oldest)
                useless.append(oldest)
        for each in useless:
            each.close()
        return connection

    def _usable(
        self,
        origin: Origin,
        useless: list[Connection],
        *,
        is_fresh: bool,
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
        """Note that the server closed an idle connection before any byte of an answer.

        Arguments:
            origin: where the connection led.
            idle_seconds: how long it had been idle when the request went out.
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
                there = self._idle_to.setdefault(connection.origin, OrderedDict())
                there[connection] = None
        if not stays:
            connection.close()

    def close(self) -> None:
        """Close every idle connection now, and the others when they are given back."""
        with self._lock:
            self._is_closed = True
            idle = self._idle
            self._idle = OrderedDict()
            self._idle_to = {}
        for connection in idle:
            connection.close()

    def forget(self) -> None:
        """Start anew in a forked child: the connections belong to the parent."""
        self._lock = threading.RLock()
        connections = [*self._idle, *self._active]
        self._taken = 0
        self._waiting = OrderedDict()
        self._active = set()
        self._idle = OrderedDict()
        self._idle_to = {}
        for connection in connections:
            connection.close()


_pools = renewed_in_children(Pool.forget)
