"""The ledgers of a shared budget and of those around it, as callers read them, and the periods that
have each a ledger.

A new period is a new ledger, so nothing is refilled. A call belongs to the period in which it
begins, with all that it spends later: what it reserves is known to one ledger alone. A clock that
jumps leads to the ledger of the period to which it points, as that ledger was left. So a budget
keeps the ledgers of all its periods, some hundred bytes each.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from rungwise.fsm.call.budget.costs import Paid
from rungwise.fsm.call.budget.ledger import Ledger, late_at, shortfall_of
from rungwise.fsm.call.budget.queue import ReservationQueue
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import LARGEST, is_number
from rungwise.fsm.values.label import short
from rungwise.fsm.values.money import as_money
from rungwise.fsm.values.usage import Usage

Per = Literal["day", "week", "month"]

PERIODS: Final = get_args(Per)

LATEST: Final = 253_000_000_000
"""The last moment of which the period is known, in seconds since 1970: in the year 9987."""


def period_at(per: Per, moment: float) -> tuple[str, float]:
    """Return the words for the period in which a moment lies, and the moment at which it ends.

    Both moments are seconds since 1970. The words are a part of the ledger's name.
    """
    from datetime import UTC, datetime, timedelta  # which most calls do without

    if not is_number(moment, 0, LATEST):
        raise ConfigurationError(f"moment must be seconds since 1970, not {short(moment)}")
    first = datetime.fromtimestamp(moment, UTC)
    first = first.replace(hour=0, minute=0, second=0, microsecond=0)
    following = first + timedelta(days=1)
    if per == "week":
        first -= timedelta(days=first.weekday())
        following = first + timedelta(weeks=1)
    if per == "month":
        first = first.replace(day=1)
        following = (first + timedelta(days=31)).replace(day=1)
    words = f"({per} of {first.date()}; the next begins on {following.date()}, UTC)"
    return words, following.timestamp()


class Ledgers:
    """Read what is spent of a budget, and what is left of it and of those around it."""

    __slots__ = ()

    _ledger: Ledger
    _ledgers: tuple[Ledger, ...]  # with those around it, the innermost first
    _queue: ReservationQueue

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
            late = late_at(self._ledgers, now + wait)
        return late or shortfall_of(self._ledgers, input_tokens, prices)

    @property
    def committed(self) -> Paid:
        """What is paid, and what attempts in flight hold, on this level alone."""
        ledger = self._ledger
        tokens = ledger.charged_tokens + ledger.held_tokens
        money = ledger.charged_money + ledger.held_money
        return Paid(ledger.attempts, tokens, money)
