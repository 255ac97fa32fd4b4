"""The places and connections of a client: each goes to whose turn it is, and no step costs more
among thousands.
"""

import socket
import time
from typing import Any

import pytest

from rungwise.adapters.http import connection as connections
from rungwise.adapters.http.connection import KEEP, Connection
from rungwise.adapters.http.pool import SOON, Pool
from support.growth import calls_made


class CountedOrigin(tuple[str, str, int]):
    """Count how often origins are compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedOrigin.compared += 1
        return tuple.__eq__(self, other)

    __hash__ = tuple.__hash__


class Waiter:
    """Wait for a place, and count how often this one is compared with others."""

    compared = 0

    def __init__(self, log: list[Any] | None = None) -> None:
        self.has_place = False
        self._log = [] if log is None else log

    def wake(self) -> None:
        self._log.append(self)

    def __eq__(self, other: object) -> bool:
        Waiter.compared += 1
        return self is other

    __hash__ = object.__hash__


def origin(host: str = "x") -> CountedOrigin:
    return CountedOrigin(("http", host, 80))


def idle(pool: Pool, host: str = "x", *, since: float = 0.0) -> Connection:
    """Make a connection that has been idle for so many seconds."""
    made = Connection(origin(host), socket.socket())
    made.idle_since = time.monotonic() - since
    pool.give_back(made, is_usable=True)
    return made


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "is_quiet", lambda sock: True)


def pool_of(count: int, **given: Any) -> Pool:
    """Return a pool with idle connections to two places, in turn; they are never used, so one
    socket serves them.
    """
    pool = Pool(max_connections=3_000)
    sock = socket.socket()
    for number in range(count):
        made = Connection(origin("xy"[number % 2]), sock)
        made.idle_since = time.monotonic()
        pool.give_back(made, is_usable=True)
    return pool


def work_of(pool: Pool) -> tuple[int, int]:
    """Return how many functions are called, and how many origins compared, while connections are
    taken and kept.
    """

    def work() -> None:
        for _ in range(20):
            for host in ("x", "y", "z"):
                taken = pool.take(origin(host), is_fresh=False)
                if taken is not None:
                    pool.give_back(taken, is_usable=True)

    work()
    CountedOrigin.compared = 0
    return calls_made(work), CountedOrigin.compared


@pytest.mark.parametrize("closes", [False, True], ids=["one that keeps", "one that closes"])
def test_to_take_a_connection_costs_the_same_however_many_are_idle(closes: bool) -> None:
    few = pool_of(10)
    many = pool_of(2_000)
    if closes:
        for pool in (few, many):
            pool.lost(origin("x"), 0.0)
    assert work_of(many) == work_of(few)


def test_the_queue_is_left_at_the_same_cost_however_long_it_is() -> None:
    def left(count: int) -> tuple[int, int]:
        pool = Pool(max_connections=1)
        waiters = [Waiter() for _ in range(count)]
        for waiter in waiters:
            pool.take_place(waiter)
        Waiter.compared = 0
        return calls_made(lambda: pool.leave(waiters[-2])), Waiter.compared

    assert left(2_000) == left(10)


def test_places_are_given_in_turn_and_not_to_those_who_left() -> None:
    pool = Pool(max_connections=2)
    woken = list[Any]()
    waiters = [Waiter(woken) for _ in range(6)]
    assert [pool.take_place(waiter) for waiter in waiters] == [True] * 2 + [False] * 4
    pool.leave(waiters[3])
    for place in (0, 1, 2):
        pool.leave(waiters[place])
    assert [waiters.index(each) for each in woken] == [2, 4, 5]
    for waiter in waiters:
        pool.leave(waiter)
        pool.leave(waiter)  # a second time is nothing
    assert [pool.take_place(Waiter()) for _ in range(3)] == [True, True, False]


def test_the_connection_that_was_used_last_serves_first() -> None:
    pool = Pool(max_connections=10)
    first = idle(pool)
    second = idle(pool)
    other = idle(pool, "other")
    assert [pool.take(origin(), is_fresh=False) for _ in range(3)] == [second, first, None]
    assert pool.take(origin("other"), is_fresh=False) is other


def test_old_connections_are_closed_wherever_they_lead() -> None:
    pool = Pool(max_connections=10)
    old = [idle(pool, host, since=KEEP + 1) for host in ("a", "b")]
    young = idle(pool, "a")
    assert pool.take(origin("a"), is_fresh=False) is young
    assert [each.sock.fileno() for each in old] == [-1, -1]


def test_a_fresh_connection_is_made_in_the_place_of_all_that_are_idle_there() -> None:
    pool = Pool(max_connections=10)
    useless = [idle(pool), idle(pool)]
    other = idle(pool, "other")
    assert pool.take(origin(), is_fresh=True) is None
    assert [each.sock.fileno() for each in useless] == [-1, -1]
    assert pool.take(origin("other"), is_fresh=False) is other


def test_of_a_server_that_closes_only_a_connection_that_has_stayed_open_is_used() -> None:
    pool = Pool(max_connections=10)
    kept = idle(pool, since=SOON + 0.5)
    young = idle(pool)
    pool.lost(origin(), 0.0)
    assert pool.take(origin(), is_fresh=False) is kept
    pool.lost(origin(), 0.0)
    assert pool.take(origin(), is_fresh=False) is None
    assert young.sock.fileno() >= 0, "it may be closed at any moment, or else serve later"


def test_the_connection_that_was_idle_for_longest_makes_room_for_a_new_one() -> None:
    pool = Pool(max_connections=2)
    first = idle(pool, "a")
    second = idle(pool, "b")
    pool.take_place(Waiter())
    assert pool.take(origin("c"), is_fresh=False) is None
    assert first.sock.fileno() == -1
    assert second.sock.fileno() >= 0
