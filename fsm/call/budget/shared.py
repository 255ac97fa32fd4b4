"""A budget that many calls share, and the share that one call has of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Literal, NoReturn, TypeVar

from attrs import define, field, setters

from rungwise.fsm.call.budget.costs import Paid
from rungwise.fsm.call.budget.ledger import Ledger, Reservation
from rungwise.fsm.call.budget.queue import ReservationQueue
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import LARGEST, OF_SHARED_BUDGETS, explains_names, is_number
from rungwise.fsm.values.label import short
from rungwise.fsm.values.money import as_money
from rungwise.fsm.values.usage import Usage

ShareT = TypeVar("ShareT", bound="Share")

OF_A_TURN = "the turn's budget"
"""What causes call the budget of a turn, which only the calls of the turn itself share."""

MOST_LEVELS = 32
"""How deep shared budgets may be nested: each attempt is reserved on every level."""


@explains_names(OF_SHARED_BUDGETS)
@define(eq=False, repr=False)
class SharedBudget:
    """Keep many calls under one set of ceilings: a batch, a session, a turn within it. It is never
    refilled.

    Pass it to each call as `within`. A call reserves what an attempt may use before it is sent, on
    every level at once, and settles afterwards, so calls in any threads and event loops cannot
    exceed a ceiling together. If others hold what a call needs, it waits for them in turn, within
    its own time. All the calls must use one clock. In a forked child the budget counts by itself.

    Arguments:
        budget: the ceilings of all calls together; the seconds count from the beginning of the
            first one.
        within: the budget that this one is a part of.
        name: what causes call it. Clients with a store keep a budget with a name there, so that the
            calls of many processes, one after the other as well, share it by that name for as long
            as it is used once a week.
        label: what causes call a budget without a name, which no store keeps.
        without_store: what calls do if that store cannot be reached: "refuse", or "continue" with
            what this process has spent.

    Raises:
        ConfigurationError: a value is of another type, or the budgets are nested too deep.
    """

    budget: Budget = field(on_setattr=setters.frozen)
    within: SharedBudget | None = field(default=None, on_setattr=setters.frozen)
    name: str = field(default="", kw_only=True, on_setattr=setters.frozen)
    label: str = field(default="", kw_only=True, on_setattr=setters.frozen)
    without_store: Literal["refuse", "continue"] = field(
        default="refuse", kw_only=True, on_setattr=setters.frozen
    )
    _ledger: Ledger = field(init=False)
    _ledgers: tuple[Ledger, ...] = field(init=False)
    _queue: ReservationQueue = field(init=False)

    def __attrs_post_init__(self) -> None:
        budget = self.budget
        within = self.within
        if not isinstance(budget, Budget):
            raise ConfigurationError(f"budget must be a Budget, not {type(budget).__name__}")
        check_within(within)
        for field_name in ("name", "label"):
            text = getattr(self, field_name)
            if not isinstance(text, str):
                raise ConfigurationError(f"{field_name} must be a text, not {type(text).__name__}")
        if self.without_store not in ("refuse", "continue"):
            given = short(self.without_store)
            raise ConfigurationError(f"without_store must be 'refuse' or 'continue', not {given}")
        if within is None:
            called = "the shared budget"
            around: tuple[Ledger, ...] = ()
            self._queue = ReservationQueue()
        else:
            called = "the inner shared budget"
            around = within._ledgers
            self._queue = within._queue
        if len(around) >= MOST_LEVELS:
            raise ConfigurationError(
                f"shared budgets must not stand more than {MOST_LEVELS} deep within one another"
            )
        self._ledger = Ledger(
            budget,
            self.name or self.label or called,
            is_stored=bool(self.name),
            continues=self.without_store == "continue",
        )
        self._ledgers = (self._ledger, *around)

    def __repr__(self) -> str:
        ledger = self._ledger
        return f"SharedBudget({self.budget!r}, attempts={ledger.attempts}, usage={ledger.usage!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a SharedBudget cannot be copied or pickled: what is spent of it is counted in one "
            "place"
        )

    @property
    def attempts(self) -> int:
        """The requests that were sent, and those that are about to be."""
        self._queue.catch_up()
        return self._ledger.attempts

    @property
    def usage(self) -> Usage:
        """The tokens of every attempt that has settled."""
        self._queue.catch_up()
        return self._ledger.usage

    @property
    def cost(self) -> float | None:
        """What these cost, in the currency of the prices; None once a backend without prices was
        asked.
        """
        self._queue.catch_up()
        cost = self._ledger.cost
        return None if cost is None else as_money(cost)

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The ceilings of every level, the innermost first."""
        return tuple([ledger.budget for ledger in self._ledgers])

    @property
    def deadline(self) -> float | None:
        """When the time of this budget or one around it is up, on the drivers' clock; None for
        never.
        """
        deadlines = [ledger.deadline for ledger in self._ledgers]
        return min([each for each in deadlines if each is not None], default=None)

    def begin(self, now: float) -> None:
        """Start the seconds, unless they run already; the first call does this by itself.

        Arguments:
            now: seconds on the clock of the calls' drivers.

        Raises:
            ConfigurationError: `now` is no finite number.
        """
        if not is_number(now, -LARGEST, LARGEST):
            raise ConfigurationError(f"now must be seconds, a finite number, not {short(now)}")
        self._queue.begin(self._ledgers, now)

    def shortfall(
        self,
        now: float | None = None,
        *,
        wait: float = 0.0,
        input_tokens: int = 0,
        prices: Prices | None = None,
    ) -> str | None:
        """Name the ceiling, here or in a budget around, that allows no further attempt; None if one
        is possible.

        What calls in flight hold counts as given back.

        Arguments:
            now: the time on the drivers' clock; None leaves out the time.
            wait: seconds until the attempt would go out.
            input_tokens, prices: of the prompt and the backend, for a budget of money.
        """
        self._queue.catch_up()
        late = None
        if now is not None:
            late = self._late_at(now + wait)
        return late or self._shortfall(input_tokens, prices)

    def _shortfall(self, input_tokens: int, prices: Prices | None) -> str | None:
        for ledger in self._ledgers:
            shortfall = ledger.shortfall(input_tokens, prices)
            if shortfall is not None:
                return shortfall
        return None

    def share(self) -> Share:
        """Return a share for a new call."""
        return self.share_by(Share)

    def share_by(
        self, new: Callable[[SharedBudget, ReservationQueue, Reservation], ShareT]
    ) -> ShareT:
        """Return a share for a new call that is made by `new`, such as a subclass of the usual one.

        Arguments:
            new: takes this budget, the queue in which calls wait for it, and a reservation on each
                of its levels that holds nothing yet.
        """
        return new(self, self._queue, Reservation(self._ledgers))

    @property
    def committed(self) -> Paid:
        """What is paid, and what attempts in flight hold, on this level alone."""
        ledger = self._ledger
        tokens = ledger.charged_tokens + ledger.held_tokens
        money = ledger.charged_money + ledger.held_money
        return Paid(ledger.attempts, tokens, money)

    def _late_at(self, at: float) -> str | None:
        for ledger in self._ledgers:
            if ledger.is_late(at):
                return (
                    f"the next attempt would begin after the {ledger.budget.seconds:g} s "
                    f"of {ledger.name}"
                )
        return None


@define(eq=False, repr=False)
class Share:
    """Reserve and settle the attempts of one call."""

    shared: SharedBudget
    _queue: ReservationQueue
    _reservation: Reservation
    # why a store lets nothing go out, if it does not
    refusal: str | None = field(default=None, init=False)
    needs_cap: bool = field(init=False)
    needs_prices: bool = field(init=False)
    _last: list[Reservation] = field(init=False)

    def __attrs_post_init__(self) -> None:
        ledgers = self._reservation.ledgers
        self.needs_cap = any(ledger.rests_on_caps for ledger in ledgers)
        self.needs_prices = any(ledger.budget.money is not None for ledger in ledgers)
        # A call that is dropped before its end must not hold its attempt for ever.
        self._last = [self._reservation]
        finalizer = weakref.finalize(self, _abandon, self._queue, self._last)
        finalizer.atexit = False

    @property
    def cap(self) -> int | None:
        """The granted output cap in tokens; None if none was requested and none is needed."""
        return self._reservation.cap

    @property
    def is_open(self) -> bool:
        """Whether calls of other callers may share any of the budgets."""
        return self.shared.within is not None or self.shared.label != OF_A_TURN

    @property
    def is_stored(self) -> bool:
        """Whether a store keeps any of the budgets."""
        return any(ledger.is_stored for ledger in self._reservation.ledgers)

    @property
    def held(self) -> Reservation | None:
        """What the call holds of an attempt that has not gone out, if it does."""
        return self._reservation if self._reservation.state == "held" else None

    def note(self, change: Callable[[], object]) -> None:
        """Change what ledgers know, while nobody else does."""
        self._queue.do(change)

    def late_at(self, at: float) -> str | None:
        """Name the time that would be up at a moment of the driver's clock, if any."""
        return self.shared._late_at(at)

    def lowered(
        self, cap: int | None, input_tokens: int, prices: Prices | None, reserved: tuple[int, int]
    ) -> int | None:
        """Lower an output cap to what might be paid for: at least 1, or 0 where only what is
        `reserved` is left.

        Arguments:
            cap: the output cap in tokens; None for none.
            input_tokens: those of the prompt.
            prices: those of the backend.
            reserved: tokens, and units of money, for the backends to come.
        """
        if cap is None or not self.needs_cap:
            return cap
        for ledger in self._reservation.ledgers:
            most = ledger.most(input_tokens, prices, with_held=False, reserved=reserved)
            cap = min(cap, most)
        least = 0 if any(reserved) else 1
        return max(least, cap)

    @property
    def attempts_left(self) -> int:
        """How many attempts are left, without those that calls hold."""
        return min(ledger.budget.attempts - ledger.attempts for ledger in self._reservation.ledgers)

    def remaining(self) -> list[tuple[Budget, int, int]]:
        """List the ceilings of each level with the output tokens and the units of money left
        there.
        """
        left = []
        for ledger in self._reservation.ledgers:
            money = max(0, (ledger.most_money or 0) - ledger.charged_money)
            left.append((ledger.budget, ledger.most_tokens(with_held=False), money))
        return left

    def shortfall(
        self, now: float, wait: float, input_tokens: int | None, prices: Prices | None
    ) -> str | None:
        """Name the ceiling that allows no attempt after a wait, if any.

        Arguments:
            now: the time on the driver's clock.
            wait: seconds until the attempt would go out.
            input_tokens: those of the prompt; None for none.
            prices: those of the backend.
        """
        late = self.late_at(now + wait)
        return late or self.shared._shortfall(input_tokens or 0, prices) or self.refusal

    def has_left(self, now: float) -> bool:
        """Tell whether any attempt might go out now."""
        return self.shortfall(now, 0.0, 0, None) is None

    def reserve(
        self,
        cap: int | None,
        input_tokens: int | None,
        prices: Prices | None,
        wake: Callable[[], None] | None = None,
    ) -> bool:
        """Reserve an attempt, or queue for it; tell whether there is nothing to wait for.

        Arguments:
            cap: the output cap in tokens; None for none.
            input_tokens: those of the prompt; None for none.
            prices: those of the backend.
            wake: called when there is nothing to wait for any more.
        """
        reservation = self._reservation
        if reservation.state == "idle":
            reservation.cap = cap
            reservation.input_tokens = input_tokens or 0
            reservation.prices = prices
            reservation.wake = wake
            self._queue.ask(reservation)
        return reservation.state != "waiting"

    def send(self, cap: int | None, input_tokens: int | None, prices: Prices | None) -> str | None:
        """Mark an attempt as gone out, reserving it first if need be; return why it must not go
        out, if so.
        """
        self.reserve(cap, input_tokens, prices)
        reservation = self._reservation
        if self.refusal is not None:
            self.withdraw()
            return self.refusal
        self._queue.send(reservation)
        if reservation.state == "sent":
            return None
        shortfall = reservation.shortfall
        self.withdraw()
        return shortfall or "other calls hold what is left"  # and have let go of it since

    def settle(
        self, usage: Usage, charged: Usage, prices: Prices | None, overran: int | None
    ) -> None:
        """Pay what is charged for an attempt, and give back the rest.

        Arguments:
            usage, charged, prices, overran: see `Reservation.settle`.
        """
        if self._reservation.state == "sent":
            self._queue.settle(self._reservation, usage, charged, prices, overran)
            self._leave()
        else:
            self.withdraw()

    def withdraw(self) -> None:
        """Give back an attempt that has not gone out."""
        if self._reservation.state != "idle":
            self._queue.withdraw(self._reservation)
            self._leave()

    def _leave(self) -> None:
        """Use a new reservation from now on: another thread may still have to settle this one."""
        self._reservation = Reservation(self._reservation.ledgers)
        self._last[0] = self._reservation


def _abandon(queue: ReservationQueue, last: list[Reservation]) -> None:
    """End what a call that was dropped holds; it must not refer to the call itself."""
    queue.abandon(last[0])


def check_within(value: Any) -> None:
    """Raise a ConfigurationError unless this is a shared budget or None."""
    if value is not None and not isinstance(value, SharedBudget):
        raise ConfigurationError(f"within must be a SharedBudget, not {type(value).__name__}")
