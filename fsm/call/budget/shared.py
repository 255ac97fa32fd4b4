"""A budget that many calls share, and the share that one call has of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NoReturn, TypeVar

from attrs import define, field, setters

from rungwise.fsm.call.budget.ledger import Ledger, Reservation, late_at, shortfall_of
from rungwise.fsm.call.budget.ledgers import PERIODS, Ledgers, Per, period_at
from rungwise.fsm.call.budget.queue import ReservationQueue
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import OF_SHARED_BUDGETS, explains_names
from rungwise.fsm.values.label import short
from rungwise.fsm.values.usage import Usage

ShareT = TypeVar("ShareT", bound="Share")

OF_A_TURN = "the turn's budget"
"""What causes call the budget of a turn, which only the calls of the turn itself share."""

MOST_LEVELS = 32
"""How deep shared budgets may be nested: each attempt is reserved on every level."""


@explains_names(OF_SHARED_BUDGETS)
@define(eq=False, repr=False)
class SharedBudget(Ledgers):
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
        per: "day", "week" (from Monday) or "month", in UTC: each has these ceilings anew, for the
            calls that begin in it by the client's wall clock. `attempts`, `usage` and `cost` are
            those of the period for which it was asked last, by a call or by `at`.

    Raises:
        ConfigurationError: a value is of another type, the budgets are nested too deep, or a budget
            of a period has seconds.
    """

    budget: Budget = field(on_setattr=setters.frozen)
    within: SharedBudget | None = field(default=None, on_setattr=setters.frozen)
    name: str = field(default="", kw_only=True, on_setattr=setters.frozen)
    label: str = field(default="", kw_only=True, on_setattr=setters.frozen)
    without_store: Literal["refuse", "continue"] = field(
        default="refuse", kw_only=True, on_setattr=setters.frozen
    )
    per: Per | None = field(default=None, kw_only=True, on_setattr=setters.frozen)
    # whether it, or one around it, has a ledger for each period
    _has_periods: bool = field(init=False)
    _called: str = field(init=False)
    _by_name: dict[str, Ledger] = field(init=False)  # those of all its periods
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
        self._check_period()
        if within is None:
            called = "the shared budget"
            around: tuple[Ledger, ...] = ()
            self._queue = ReservationQueue()
            self._has_periods = self.per is not None
        else:
            called = "the inner shared budget"
            around = within._ledgers
            self._queue = within._queue
            self._has_periods = within._has_periods or self.per is not None
        if len(around) >= MOST_LEVELS:
            raise ConfigurationError(
                f"shared budgets must not stand more than {MOST_LEVELS} deep within one another"
            )
        self._called = self.name or self.label or called
        self._ledger = Ledger(
            budget,
            self._called,
            is_stored=bool(self.name),
            continues=self.without_store == "continue",
        )
        self._ledgers = (self._ledger, *around)
        self._by_name = {self._called: self._ledger}

    def _check_period(self) -> None:
        per = self.per
        if per is None:
            return
        if per not in PERIODS:
            allowed = ", ".join(map(repr, PERIODS))
            raise ConfigurationError(f"per must be one of {allowed}, or None, not {short(per)}")
        if self.budget.seconds is not None:
            raise ConfigurationError(
                f"a budget per {per} has no seconds: give it Budget(..., seconds=None)"
            )

    def at(self, moment: float) -> SharedBudget:
        """Return the budget of the period in which a moment lies, within those around it.

        This one shows that period from then on: in its repr, and to budgets that are made within
        it.

        A client does so for each call when it is made; a `rungwise.core.Call` takes what this
        returns. A budget without periods, here and around, returns itself.

        Arguments:
            moment: seconds since 1970.

        Raises:
            ConfigurationError: it is no such moment.
        """
        if not self._has_periods:
            return self
        names: dict[str, Any] = {"name": self.name, "label": self.label}
        ends = None
        if self.per is not None:
            words, ends = period_at(self.per, moment)
            names["name" if self.name else "label"] = f"{self._called} {words}"
        around = None if self.within is None else self.within.at(moment)
        found = SharedBudget(self.budget, around, without_store=self.without_store, **names)
        # What is spent of a period is counted once, whatever is around it, and under one lock.
        found._ledger.ends = ends
        found._ledger = self._by_name.setdefault(found._called, found._ledger)
        found._ledgers = (found._ledger, *found._ledgers[1:])
        found._queue = self._queue
        self._ledger = found._ledger
        self._ledgers = found._ledgers
        return found

    def adopt(self, other: SharedBudget) -> None:
        """Take the ceilings of another budget, and what it does without a store, in every period.

        What is spent stays spent. A call that runs keeps to what it began with: it waits for no
        price that it does not know.

        Raises:
            ConfigurationError: the other one has another name or other periods.
        """
        if (other.name, other.label, other.per) != (self.name, self.label, self.per):
            raise ConfigurationError("a budget adopts one of its own name and period")
        for name in ("budget", "without_store"):
            object.__setattr__(self, name, getattr(other, name))
        for ledger in self._by_name.values():
            self._queue.do(partial(ledger.limit, other.budget, other._ledger.continues))

    def __repr__(self) -> str:
        ledger = self._ledger
        return f"SharedBudget({self.budget!r}, attempts={ledger.attempts}, usage={ledger.usage!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a SharedBudget cannot be copied or pickled: what is spent of it is counted in one "
            "place"
        )

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

        Raises:
            ConfigurationError: nobody has said which period it is; see `at`.
        """
        if self._has_periods:
            raise ConfigurationError(
                f"within: {self._called} is counted by periods: pass within=budget.at(time.time())"
            )
        return new(self, self._queue, Reservation(self._ledgers))


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
        return late_at(self._reservation.ledgers, at)

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
        short_of = shortfall_of(self._reservation.ledgers, input_tokens or 0, prices)
        return late or short_of or self.refusal

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

    def send(
        self,
        cap: int | None,
        input_tokens: int | None,
        prices: Prices | None,
    ) -> str | None:
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
