"""The ledgers of shared budgets: calls reserve and settle there, in turn, on every budget around
them at once.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal

from attrs import define, field

from rungwise.fsm.call.budget.costs import (
    LARGEST_PRICED_CAP,
    NOTHING_PAID,
    Charges,
    Paid,
    bought,
    dearest_prompt,
    price_of_output,
)
from rungwise.fsm.call.budget.metering import most_counted, reserve_of
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.values.forks import renewed_in_children
from rungwise.fsm.values.money import units_of
from rungwise.fsm.values.usage import Usage


@define(eq=False, repr=False, weakref_slot=False)
class Ledger(Charges):
    """Count what many calls have paid from one shared budget, and what they hold of it, with money
    in units.

    A `ReservationQueue` guards it. Each method adds before it subtracts, so an interrupted one
    never counts too little.
    """

    budget: Budget
    name: str
    is_stored: bool = False  # whether a store keeps it
    continues: bool = False  # whether calls go on where that store cannot be reached
    others: Paid = NOTHING_PAID  # by calls of other processes
    reported: Paid = NOTHING_PAID  # by calls of this process, as far as the store knows of it
    most_money: int | None = field(init=False)
    began: float | None = None  # with the first call, on the drivers' clock
    attempts: int = 0  # those that went out, and those that calls hold
    # the cap that a provider ignored, in tokens; nothing is reserved after that
    overran: int | None = None
    holders: int = 0  # the attempts that hold something
    unsent: int = 0  # those of them that have not gone out
    held_tokens: int = 0
    held_money: int = 0

    def __attrs_post_init__(self) -> None:
        self.most_money = None if self.budget.money is None else units_of(self.budget.money)

    @property
    def rests_on_caps(self) -> bool:
        """Tell whether every request under the budget needs an output cap."""
        return self.budget.output_tokens is not None or self.budget.money is not None

    @property
    def deadline(self) -> float | None:
        """Return when its time is up, on the drivers' clock; None without a limit, or before the
        first call.
        """
        return (
            None
            if self.budget.seconds is None or self.began is None
            else self.began + self.budget.seconds
        )

    def most(
        self,
        input_tokens: int,
        prices: Prices | None,
        *,
        with_held: bool,
        reserved: tuple[int, int] = (0, 0),
    ) -> int:
        """Return the largest output cap that can be paid for, with what a server may count beside
        it.

        `reserved` tokens and money are out of reach, as is what calls hold if it is counted
        `with_held`.
        """
        money = self._most_of_money(input_tokens, prices, with_held=with_held, reserved=reserved[1])
        return min(
            self.most_tokens(with_held=with_held)
            - (reserved[0] if self.budget.output_tokens else 0),
            money,
        )

    def most_tokens(self, *, with_held: bool) -> int:
        """Return the output tokens that are left; see `most` for `with_held`."""
        if self.budget.output_tokens is None:
            return LARGEST_PRICED_CAP
        tokens = self.budget.output_tokens - self.charged_tokens - self.others.tokens
        tokens -= self.held_tokens if with_held else 0
        return tokens - reserve_of(tokens) if tokens > 0 else 0

    def _most_of_money(
        self, input_tokens: int, prices: Prices | None, *, with_held: bool, reserved: int = 0
    ) -> int:
        if self.most_money is None or prices is None:
            return LARGEST_PRICED_CAP
        spent = self.charged_money + self.others.money + (self.held_money if with_held else 0)
        money = self.most_money - reserved - spent - dearest_prompt(input_tokens, prices)
        tokens = bought(money, prices) if money > 0 else 0
        return tokens - reserve_of(tokens)

    def shortfall(self, input_tokens: int, prices: Prices | None) -> str | None:
        """Name the ceiling that allows no further attempt even if calls give back all that they
        hold, if any.
        """
        if self.attempts + self.others.attempts - self.unsent >= self.budget.attempts:
            return f"all {self.budget.attempts} attempts of {self.name} are used"
        if self.overran is not None:
            longer = (
                f"a reply under {self.name} was longer than its output cap of {self.overran} tokens"
            )
            return f"{longer}, so no cap can be relied on"
        if self.most_tokens(with_held=False) < 1:
            return f"the output tokens of {self.name} cannot pay for another attempt{self.note}"
        if self._most_of_money(input_tokens, prices, with_held=False) < 1:
            return f"the money of {self.name} cannot pay for another attempt{self.note}"
        return None

    def is_late(self, at: float) -> bool:
        """Tell whether its time is up at a moment of the drivers' clock."""
        deadline = self.deadline
        return deadline is not None and at >= deadline

    def note_others(self, paid: Paid, began: float) -> None:
        """Note what all processes have paid together, and when the first of them began, on the
        drivers' clock.
        """
        self.others = Paid(
            *(max(all_paid - own, 0) for all_paid, own in zip(paid, self.reported, strict=True))
        )
        self.began = began if self.began is None else min(self.began, began)

    def note_reported(self, paid: Paid) -> None:
        """Note that it is reported to the store what an attempt of this process has paid."""
        self.reported = Paid(*map(sum, zip(self.reported, paid, strict=True)))

    def hold(self, tokens: int, money: int) -> None:
        """Set aside one attempt, and what it may use."""
        self.attempts += 1
        self.unsent += 1
        self.holders += 1
        self.held_tokens += tokens
        self.held_money += money

    def release(self, tokens: int, money: int) -> None:
        """Give back what an attempt held."""
        self.holders -= 1
        self.held_tokens -= tokens
        self.held_money -= money


State = Literal["idle", "waiting", "refused", "held", "sent"]


@define(eq=False, repr=False, weakref_slot=False)
class Reservation:
    """Hold what one call has of shared budgets: at most one attempt at a time."""

    ledgers: tuple[Ledger, ...]
    # `held` and `sent` hold an attempt that has not gone out, or has; `idle` holds nothing
    state: State = "idle"
    cap: int | None = None  # the requested output cap in tokens, then the granted one
    input_tokens: int = 0
    prices: Prices | None = None
    shortfall: str | None = None
    tokens: int = 0  # what is held beside the attempt
    money: int = 0  # likewise, in units
    wake: Callable[[], None] | None = None
    paid: Paid | None = None

    def decide(self) -> Ledger | None:
        """Hold what is requested, or refuse it; return the ledger whose holders must settle first,
        if any.

        A cap is lowered only to what would be left if others gave back all that they hold.
        """
        cap = LARGEST_PRICED_CAP if self.cap is None else self.cap
        for ledger in self.ledgers:
            self.shortfall = ledger.shortfall(self.input_tokens, self.prices)
            if self.shortfall is not None:
                self.state = "refused"
                return None
            cap = min(cap, ledger.most(self.input_tokens, self.prices, with_held=False))
        for ledger in self.ledgers:
            is_short = ledger.attempts + ledger.others.attempts >= ledger.budget.attempts
            if is_short or cap > ledger.most(self.input_tokens, self.prices, with_held=True):
                self.shortfall = f"other calls hold what is left of {ledger.name}"
                return ledger
        if self.cap is not None or any(ledger.rests_on_caps for ledger in self.ledgers):
            self.cap = cap
        self.tokens = 0 if self.cap is None else most_counted(cap)
        self.money = 0
        if self.prices is not None:
            self.money = dearest_prompt(self.input_tokens, self.prices) + price_of_output(
                self.tokens, self.prices
            )
        for ledger in self.ledgers:
            ledger.hold(self.tokens, self.money)
        self.state = "held"
        return None

    def send(self) -> None:
        """Mark the attempt as gone out: from now on nothing gives it back."""
        if self.state == "held":
            self.state = "sent"
            for ledger in self.ledgers:
                ledger.unsent -= 1

    def settle(
        self, usage: Usage, charged: Usage, prices: Prices | None, overran: int | None
    ) -> None:
        """Pay what is charged for an attempt, and give the rest back; `overran` is a cap that it
        has ignored.
        """
        first = self.ledgers[0]
        before = first.charged_tokens, first.charged_money
        for ledger in self.ledgers:
            ledger.add(usage, charged, prices)
            if overran is not None and ledger.rests_on_caps:
                ledger.overran = overran
        self.paid = Paid(1, first.charged_tokens - before[0], first.charged_money - before[1])
        self.give_back()

    def give_back(self) -> None:
        """Hold nothing any more; an attempt that has not gone out does not count."""
        state = self.state
        self.state = "idle"
        self.wake = None
        if state not in ("held", "sent"):
            return
        for ledger in self.ledgers:
            ledger.release(self.tokens, self.money)
            if state == "held":
                ledger.unsent -= 1
                ledger.attempts -= 1


class ReservationQueue:
    """Serve the reservations on one tree of shared budgets, for any number of threads and event
    loops.

    One lock guards all ledgers, so an amount is held on every level or on none. Settling never
    waits for the lock: the garbage collector may end a stream anywhere, even amid the work here;
    whoever has the lock then does that task. A call that cannot be served waits in turn and holds
    nothing; nobody overtakes it on a ledger that it waits for.
    """

    __slots__ = ("__weakref__", "_holding", "_lock", "_served", "_tasks", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tasks: deque[Callable[[], object]] = deque()
        self._waiting: deque[Reservation] = deque()
        self._served: deque[Callable[[], None]] = deque()
        self._holding: set[Reservation] = set()
        _queues.add(self)

    def begin(self, ledgers: tuple[Ledger, ...], now: float) -> None:
        """Start the time of the ledgers where it has not begun."""
        with self._lock:
            for ledger in ledgers:
                if ledger.began is None:
                    ledger.began = now
        if self._tasks:  # left by the garbage collector
            self.catch_up()

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
        """Pay what is charged, give the rest back, and serve those that wait; see
        `Reservation.settle`.
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
        if self._lock._is_owned():  # type: ignore[attr-defined] # the garbage collector runs inside the loop below
            return
        while True:
            try:
                if not self._lock.acquire(blocking=waits):
                    return
                while self._tasks:
                    self._tasks.popleft()()
                    self._serve()
            finally:  # a signal may come right after the lock was taken
                if self._lock._is_owned():  # type: ignore[attr-defined]
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
            if blocking is reservation.ledgers[-1]:  # the outermost: it stands around all
                break

    def forget(self) -> None:
        """Begin anew in a forked child: what the parent's calls hold belongs to the parent."""
        self._lock = threading.RLock()
        self._tasks, self._waiting, self._served = deque(), deque(), deque()
        for reservation in self._holding:
            reservation.give_back()
        self._holding = set()


_queues = renewed_in_children(ReservationQueue.forget)
