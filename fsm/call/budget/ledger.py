"""Where calls reserve and settle what they share: one at a time, in turn, on every budget around them at once."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal

from rungwise.fsm.call.budget.account import Account
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.call.budget.prices import LARGEST_PRICED_CAP, dearest_prompt, price_of
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.values.log import logger
from rungwise.fsm.values.usage import Usage

State = Literal["idle", "waiting", "refused", "held", "sent"]


class Reservation:
    """Hold what one call has of shared budgets: at most one attempt at a time.

    Arguments:
        accounts: of the budgets around the call, the innermost first.
        state: `idle` holds nothing; `held` and `sent` hold an attempt that has not gone out, or has.
        cap: the output cap that is wanted, in tokens, and then the one that is granted; None wants none.
        input_tokens: the tokens of the prompt.
        prices: of the backend that is asked.
        lacking: why it was refused, or has to wait.
        tokens, money: what is held beside the attempt.
        wake: is called when it need not wait any more.
    """

    __slots__ = ("accounts", "cap", "input_tokens", "lacking", "money", "prices", "state", "tokens", "wake")

    def __init__(self, accounts: tuple[Account, ...]) -> None:
        self.accounts = accounts
        self.state: State = "idle"
        self.cap: int | None = None
        self.input_tokens = 0
        self.prices: Prices | None = None
        self.lacking: str | None = None
        self.tokens = 0
        self.money = 0.0
        self.wake: Callable[[], None] | None = None

    def decide(self) -> Account | None:
        """Hold what is wanted, or refuse it; return the account whose holders must settle first, if any.

        A cap is made smaller only to what would be left if everything that others hold came back.
        """
        cap = LARGEST_PRICED_CAP if self.cap is None else self.cap
        for account in self.accounts:
            self.lacking = account.lacking(self.input_tokens, self.prices)
            if self.lacking is not None:
                self.state = "refused"
                return None
            cap = min(cap, account.most(self.input_tokens, self.prices, held=False))
        for account in self.accounts:
            is_short = account.attempts >= account.budget.attempts
            if is_short or cap > account.most(self.input_tokens, self.prices, held=True):
                self.lacking = f"other calls hold what is left of {account.name}"
                return account
        self._hold(cap)
        return None

    def _hold(self, cap: int) -> None:
        if self.cap is not None or any(account.rests_on_caps for account in self.accounts):
            self.cap = cap
        self.tokens = 0 if self.cap is None else most_counted(cap)
        self.money = 0.0
        if self.prices is not None:
            answer = price_of(Usage(output_tokens=self.tokens), self.prices)
            self.money = dearest_prompt(self.input_tokens, self.prices) + answer
        for account in self.accounts:
            account.hold(self.tokens, self.money)
        self.state = "held"

    def send(self) -> None:
        """Note that the attempt goes out: from now on nothing gives it back."""
        if self.state == "held":
            self.state = "sent"
            for account in self.accounts:
                account.unsent -= 1

    def settle(self, usage: Usage, prices: Prices | None, overran: int | None) -> None:
        """Pay what an attempt has used, and give the rest back.

        Arguments:
            usage: what it is counted as.
            prices: of the backend that was asked.
            overran: the cap that it took no notice of, in tokens.
        """
        for account in self.accounts:
            account.pay(usage, prices)
            if overran is not None and account.rests_on_caps:
                account.overran = overran
        self.give_back()

    def give_back(self) -> None:
        """Hold nothing any more; an attempt that has not gone out was none."""
        state, self.state, self.wake = self.state, "idle", None
        if state not in ("held", "sent"):
            return
        for account in self.accounts:
            account.release(self.tokens, self.money)
            if state == "held":
                account.unsent -= 1
                account.attempts -= 1


class Desk:
    """Do the work on the accounts of one tree of shared budgets, for any number of threads and event loops.

    One lock guards them all, so what is held is held on every level or on none, and no order of locks can be wrong.
    Who settles never waits for the lock: the garbage collector may end a stream anywhere, also in the middle of the
    work here. What it leaves is done by whoever has the lock. Who cannot be served waits in turn and holds nothing;
    nobody passes by on an account that another one waits for.
    """

    __slots__ = ("__weakref__", "_holding", "_lock", "_served", "_tasks", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tasks: deque[Callable[[], None]] = deque()
        self._waiting: deque[Reservation] = deque()
        self._served: deque[Callable[[], None]] = deque()
        self._holding: set[Reservation] = set()
        _desks.add(self)

    def begin(self, accounts: tuple[Account, ...], now: float) -> None:
        """Let the time of some accounts begin, where it has not."""
        with self._lock:
            for account in accounts:
                if account.began is None:
                    account.began = now
        if self._tasks:  # which the collector has left
            self.catch_up()

    def ask(self, reservation: Reservation) -> None:
        """Reserve what is wanted, or refuse it, or have it wait in turn."""
        self._do(partial(self._queue, reservation), waits=True)

    def send(self, reservation: Reservation) -> None:
        """Note that a reserved attempt goes out."""
        self._do(reservation.send, waits=True)

    def settle(self, reservation: Reservation, usage: Usage, prices: Prices | None, overran: int | None) -> None:
        """Pay what an attempt has used, give the rest back, and serve who waits; see `Reservation.settle`."""
        self._do(partial(self._settle, reservation, usage, prices, overran), waits=False)

    def withdraw(self, reservation: Reservation) -> None:
        """Give back what has not gone out, or leave the queue."""
        if reservation.state != "idle":
            self._do(partial(self._withdraw, reservation), waits=False)

    def abandon(self, reservation: Reservation) -> None:
        """End the reservation of a call that nobody holds any more: what went out is counted as used up."""
        if reservation.state == "sent":
            usage = Usage(reservation.input_tokens, reservation.tokens, estimated=True)
            self.settle(reservation, usage, reservation.prices, None)
        else:
            self.withdraw(reservation)

    def catch_up(self) -> None:
        """Do what others have left to be done, and wait for what they are doing."""
        self._do(_nothing, waits=True)

    def _queue(self, reservation: Reservation) -> None:
        reservation.state = "waiting"
        self._waiting.append(reservation)

    def _settle(self, reservation: Reservation, usage: Usage, prices: Prices | None, overran: int | None) -> None:
        reservation.settle(usage, prices, overran)
        self._holding.discard(reservation)

    def _withdraw(self, reservation: Reservation) -> None:
        with suppress(ValueError):
            self._waiting.remove(reservation)
        reservation.give_back()
        self._holding.discard(reservation)

    def _do(self, task: Callable[[], None], *, waits: bool) -> None:
        """Do a task, or leave it to whoever is at work, and serve who waits.

        Arguments:
            waits: whether it must be done on return.
        """
        self._tasks.append(task)
        if self._lock._is_owned():  # type: ignore[attr-defined] # the collector has come in the middle of the loop below
            return
        while True:
            try:
                if not self._lock.acquire(blocking=waits):
                    return
                while self._tasks:
                    self._tasks.popleft()()
                    self._serve()
            finally:  # a signal may come between the lock and whoever is told of it
                if self._lock._is_owned():  # type: ignore[attr-defined]
                    self._lock.release()
            self._wake()
            if not self._tasks:  # or somebody has left one since
                return

    def _wake(self) -> None:
        """Wake who need not wait any more, without the lock; what an interrupted thread leaves, the next one does."""
        while self._served:
            try:
                wake = self._served.popleft()
            except IndexError:  # another thread was quicker
                return
            try:
                wake()
            except Exception as error:  # it is another call's
                logger().warning("what wakes a waiting call raised %s", type(error).__name__)

    def _serve(self) -> None:
        """Decide for who waits, in turn."""
        barred: set[Account] = set()
        for reservation in tuple(self._waiting):
            if not barred.isdisjoint(reservation.accounts):
                continue
            blocking = reservation.decide()
            if blocking is None:
                self._waiting.remove(reservation)
                if reservation.state == "held":
                    self._holding.add(reservation)
                if reservation.wake is not None:
                    self._served.append(reservation.wake)
                    reservation.wake = None  # which may hold the call, that nobody else may hold
                continue
            barred.add(blocking)
            if blocking is reservation.accounts[-1]:  # the outermost, which is around all
                break

    def forget(self) -> None:
        """Begin anew in a forked child: what the parent's calls hold is the parent's own."""
        self._lock = threading.RLock()
        self._tasks, self._waiting, self._served = deque(), deque(), deque()
        for reservation in self._holding:
            reservation.give_back()
        self._holding = set()


def _nothing() -> None:
    pass


_desks: weakref.WeakSet[Desk] = weakref.WeakSet()


def _forget() -> None:
    for desk in list(_desks):
        desk.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
