"""The ledgers of shared budgets, and what one call holds of them.

A call reserves and settles on every budget around it at once; `queue.py` says in which order, and
why no ceiling is ever exceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    ends: float | None = None  # when its period does, in seconds since 1970
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
        self.limit(self.budget, self.continues)

    def limit(self, budget: Budget, continues: bool) -> None:
        """Set the ceilings, and whether calls go on where a store cannot be reached."""
        self.budget = budget
        self.continues = continues
        self.most_money = None if budget.money is None else units_of(budget.money)

    @property
    def rests_on_caps(self) -> bool:
        """Tell whether every request under the budget needs an output cap."""
        return self.budget.output_tokens is not None or self.budget.money is not None

    @property
    def deadline(self) -> float | None:
        """Return when its time is up, on the drivers' clock; None without a limit, or before the
        first call.
        """
        if self.budget.seconds is None or self.began is None:
            return None
        return self.began + self.budget.seconds

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

        Arguments:
            input_tokens: those of the prompt.
            prices: those of the backend; None counts no money.
            with_held: whether what calls hold is out of reach.
            reserved: tokens, and units of money, that are out of reach.
        """
        reserved_tokens, reserved_money = reserved
        tokens = self.most_tokens(with_held=with_held)
        if self.budget.output_tokens:
            tokens -= reserved_tokens
        money = self._most_of_money(
            input_tokens, prices, with_held=with_held, reserved=reserved_money
        )
        return min(tokens, money)

    def most_tokens(self, *, with_held: bool) -> int:
        """Return the output tokens that are left; see `most` for `with_held`."""
        if self.budget.output_tokens is None:
            return LARGEST_PRICED_CAP
        tokens = self.budget.output_tokens - self.charged_tokens - self.others.tokens
        if with_held:
            tokens -= self.held_tokens
        if tokens <= 0:
            return 0
        return tokens - reserve_of(tokens)

    def _most_of_money(
        self,
        input_tokens: int,
        prices: Prices | None,
        *,
        with_held: bool,
        reserved: int = 0,
    ) -> int:
        """Return the output tokens that the money pays for; see `most` for the arguments.

        Arguments:
            reserved: units of money that are out of reach.
        """
        if self.most_money is None or prices is None:
            return LARGEST_PRICED_CAP
        money = self.most_money - reserved - self.charged_money - self.others.money
        if with_held:
            money -= self.held_money
        money -= dearest_prompt(input_tokens, prices)
        if money <= 0:
            return 0
        tokens = bought(money, prices)
        return tokens - reserve_of(tokens)

    def shortfall(self, input_tokens: int, prices: Prices | None) -> str | None:
        """Name the ceiling that allows no further attempt even if calls give back all that they
        hold, if any.
        """
        if self.attempts + self.others.attempts - self.unsent >= self.budget.attempts:
            return f"all {self.budget.attempts} attempts of {self.name} are used"
        if self.overran is not None:
            return (
                f"a reply under {self.name} was longer than its output cap of {self.overran} "
                "tokens, so no cap can be relied on"
            )
        if self.most_tokens(with_held=False) < 1:
            return f"the output tokens of {self.name} cannot pay for another attempt{self.note}"
        if self._most_of_money(input_tokens, prices, with_held=False) < 1:
            most = self.most_money and self.most_money - self.others.money
            note = self.money_note(most, input_tokens, prices) + self.note
            return f"the money of {self.name} cannot pay for another attempt{note}"
        return None

    def is_late(self, at: float) -> bool:
        """Tell whether its time is up at a moment of the drivers' clock."""
        deadline = self.deadline
        return deadline is not None and at >= deadline

    def note_others(self, paid: Paid, began: float) -> None:
        """Note what all processes have paid together, and when the first of them began, on the
        drivers' clock.
        """
        own = self.reported
        self.others = Paid(
            attempts=max(paid.attempts - own.attempts, 0),
            tokens=max(paid.tokens - own.tokens, 0),
            money=max(paid.money - own.money, 0),
        )
        if self.began is None or began < self.began:
            self.began = began

    def note_reported(self, paid: Paid) -> None:
        """Note that it is reported to the store what an attempt of this process has paid."""
        before = self.reported
        self.reported = Paid(
            attempts=before.attempts + paid.attempts,
            tokens=before.tokens + paid.tokens,
            money=before.money + paid.money,
        )

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


def late_at(ledgers: Iterable[Ledger], at: float) -> str | None:
    """Name the time that is up at a moment of the drivers' clock, if any."""
    for ledger in ledgers:
        if ledger.is_late(at):
            return (
                f"the next attempt would begin after the {ledger.budget.seconds:g} s "
                f"of {ledger.name}"
            )
    return None


def shortfall_of(ledgers: Iterable[Ledger], input_tokens: int, prices: Prices | None) -> str | None:
    """Name the first ceiling that allows no further attempt; see `Ledger.shortfall`."""
    for ledger in ledgers:
        shortfall = ledger.shortfall(input_tokens, prices)
        if shortfall is not None:
            return shortfall
    return None


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
            self.money = dearest_prompt(self.input_tokens, self.prices)
            self.money += price_of_output(self.tokens, self.prices)
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
        self,
        usage: Usage,
        charged: Usage,
        prices: Prices | None,
        overran: int | None,
    ) -> None:
        """Pay what is charged for an attempt, and give the rest back.

        Arguments:
            usage: what it used, as reported or estimated.
            charged: what is charged for it, which may be more.
            prices: those of its backend.
            overran: the cap in tokens that it has ignored; None if it has not.
        """
        first = self.ledgers[0]
        tokens_before = first.charged_tokens
        money_before = first.charged_money
        for ledger in self.ledgers:
            ledger.add(usage, charged, prices)
            if overran is not None and ledger.rests_on_caps:
                ledger.overran = overran
        self.paid = Paid(
            attempts=1,
            tokens=first.charged_tokens - tokens_before,
            money=first.charged_money - money_before,
        )
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
