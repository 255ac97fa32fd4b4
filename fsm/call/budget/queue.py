"""The queue of reservations on a tree of shared budgets.

Theory

The problem: many calls, in any threads and event loops, must not exceed a ceiling together, and a
call must not hang because another was dropped.

* **Reserve, then settle.** Before an attempt goes out, a call reserves the most that it may cost:
  one attempt, its prompt at the dearest price, an output cap with what servers count beside it.
  When the reply is in, it pays what was used and gives the rest back. What is paid and held
  together never exceeds a ceiling, so nothing that goes out can exceed it, in whatever order the
  replies come. (Banks call this authorisation and capture; it is also the banker's rule of Dijkstra
  for one resource, where each customer states the most that he will need.)
* **All levels or none.** A budget may stand within others. One lock guards the ledgers of the whole
  tree, so an amount is held on every level or on none. A call that waits holds nothing. So there is
  no cycle of calls each of which waits for what another holds: no deadlock.
* **In turn.** The queue is first in, first out on each ledger: nobody overtakes a call on a ledger
  that it waits for (`barred`). Without that, calls with small caps could pass a large one for ever.
  A call of another branch, whose ledgers are free, is served all the same.
* **Waits end.** A call waits only for what others hold and may give back. What nobody will give
  back is refused at once (`Reservation.decide` asks each ledger for a `shortfall` first).

The lock has one difficulty: the garbage collector. A stream that is dropped settles in a finalizer,
which may run anywhere, in any thread, even in the middle of the work under the lock. So settling
never waits. Each change is a task in a deque (whose `append` and `popleft` are atomic); whoever has
the lock does all tasks there are before it lets go, and looks once more afterwards. A thread that
meets its own work (`_owner` is its own ident) leaves the task to itself, further out on the stack.

What it costs: after each task the queue looks at every call that waits, so the work of one reply is
linear in their number. Why not otherwise: a condition variable for each call would need a thread to
wait in, which an event loop does not have. A lock for each ledger would need an order of locks, and
a call of one branch could be served between two levels of another.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from rungwise.fsm.call.budget.ledger import Ledger, Reservation
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.values.forks import renewed_in_children
from rungwise.fsm.values.usage import Usage


class ReservationQueue:
    """Serve the reservations on one tree of shared budgets, for any number of threads and event
    loops.

    See the theory above.
    """

    __slots__ = ("__weakref__", "_holding", "_lock", "_owner", "_served", "_tasks", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._owner: int | None = None  # the thread that does the tasks, by its ident
        self._tasks: deque[Callable[[], object]] = deque()
        self._waiting: deque[Reservation] = deque()
        self._served: deque[Callable[[], None]] = deque()
        self._holding: set[Reservation] = set()
        _queues.add(self)

    def begin(self, ledgers: tuple[Ledger, ...], now: float) -> None:
        """Start the time of the ledgers where it has not begun."""
        self.do(partial(self._begin, ledgers, now))

    def ask(self, reservation: Reservation) -> None:
        """Reserve what is requested, refuse it, or let it wait in turn."""
        self.do(partial(self._queue, reservation))

    def send(self, reservation: Reservation) -> None:
        """Mark a reserved attempt as gone out."""
        self.do(reservation.send)

    def settle(
        self,
        reservation: Reservation,
        usage: Usage,
        charged: Usage,
        prices: Prices | None,
        overran: int | None,
    ) -> None:
        """Pay what is charged, give the rest back, and serve those that wait.

        Arguments:
            reservation: what the call holds of the attempt.
            usage, charged, prices, overran: see `Reservation.settle`.
        """
        self.do(partial(self._settle, reservation, usage, charged, prices, overran), waits=False)

    def withdraw(self, reservation: Reservation) -> None:
        """Give back what has not gone out, or leave the queue."""
        if reservation.state != "idle":
            self.do(partial(self._withdraw, reservation), waits=False)

    def abandon(self, reservation: Reservation) -> None:
        """End the reservation of a call that was dropped: what went out is counted as used up."""
        if reservation.state == "sent":
            usage = Usage(reservation.input_tokens, reservation.tokens, estimated=True)
            self.settle(reservation, usage, usage, reservation.prices, None)
        else:
            self.withdraw(reservation)

    def catch_up(self) -> None:
        """Finish the tasks that others have left, and wait for the one that runs."""
        self.do(lambda: None)

    def _begin(self, ledgers: tuple[Ledger, ...], now: float) -> None:
        for ledger in ledgers:
            if ledger.began is None:
                ledger.began = now

    def _queue(self, reservation: Reservation) -> None:
        reservation.state = "waiting"
        self._waiting.append(reservation)

    def _settle(
        self,
        reservation: Reservation,
        usage: Usage,
        charged: Usage,
        prices: Prices | None,
        overran: int | None,
    ) -> None:
        """Settle under the lock.

        Arguments:
            reservation: what the call holds of the attempt.
            usage, charged, prices, overran: see `Reservation.settle`.
        """
        reservation.settle(usage, charged, prices, overran)
        self._holding.discard(reservation)

    def _withdraw(self, reservation: Reservation) -> None:
        with suppress(ValueError):
            self._waiting.remove(reservation)
        reservation.give_back()
        self._holding.discard(reservation)

    def do(self, task: Callable[[], object], *, waits: bool = True) -> None:
        """Do a task and serve those that wait; without `waits`, a task may be left to the thread
        that has the lock.
        """
        self._tasks.append(task)
        this_thread = threading.get_ident()
        if self._owner == this_thread:  # the garbage collector runs inside the loop below
            return
        while True:
            try:
                if not self._lock.acquire(blocking=waits):
                    return
                self._owner = this_thread
                while self._tasks:
                    next_task = self._tasks.popleft()
                    next_task()
                    self._serve()
            finally:
                if self._owner == this_thread:
                    self._owner = None
                # A signal may come right after the lock was taken, before its owner is noted. Only
                # the lock itself knows then: it refuses to be released by a thread without it.
                with suppress(RuntimeError):
                    self._lock.release()
            self._wake()
            if not self._tasks:  # another thread may have left one since
                return

    def _wake(self) -> None:
        """Wake, without the lock, the calls that need not wait any more; what is left, the next
        thread does.
        """
        while self._served:
            try:
                wake = self._served.popleft()
            except IndexError:  # another thread was quicker
                return
            try:
                wake()
            except Exception as error:  # the error of another call
                logging.getLogger("rungwise").warning(
                    "what wakes a waiting call raised %s", type(error).__name__
                )

    def _serve(self) -> None:
        """Decide for those that wait, in turn."""
        barred: set[Ledger] = set()
        for reservation in tuple(self._waiting):
            if not barred.isdisjoint(reservation.ledgers):
                continue
            blocking = reservation.decide()
            if blocking is None:
                self._waiting.remove(reservation)
                if reservation.state == "held":
                    self._holding.add(reservation)
                if reservation.wake is not None:
                    self._served.append(reservation.wake)
                    reservation.wake = None  # it may be all that keeps the call alive
                continue
            barred.add(blocking)
            is_outermost = blocking is reservation.ledgers[-1]
            if is_outermost and blocking.ends is None:  # it stands around all
                break

    def forget(self) -> None:
        """Begin anew in a forked child: what the parent's calls hold belongs to the parent."""
        self._lock = threading.RLock()
        self._owner = None
        self._tasks = deque()
        self._waiting = deque()
        self._served = deque()
        for reservation in self._holding:
            reservation.give_back()
        self._holding = set()


_queues = renewed_in_children(ReservationQueue.forget)
