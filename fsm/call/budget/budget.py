"""What one call has spent of its budget, what it reserves, and what its next attempt may spend."""

from __future__ import annotations

from attrs import frozen

from rungwise.fsm.call.budget.costs import Charges, bought, dearest_output, dearest_prompt
from rungwise.fsm.call.budget.metering import reserve_of
from rungwise.fsm.call.budget.shared import Share
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.values.checks import LARGEST, is_number
from rungwise.fsm.values.label import short
from rungwise.fsm.values.money import units_of


@frozen
class Reserved:
    """Hold what no attempt at the current backend may use: the reserve of the backends to come,
    with money in units.
    """

    attempts: int = 0  # of the call's own budget, one for each of them
    shared_attempts: int = 0  # of the shared budgets
    seconds: float = 0.0  # for each of them
    # when attempts here must have ended, in seconds from the beginning of the call
    ends_after: float | None = None
    output_tokens: int = 0  # for all of them together, as are the next three
    shared_tokens: int = 0
    money: int = 0
    shared_money: int = 0
    money_each: int = 0  # the most for one of them; what it needs grows with the text
    shared_money_each: int = 0


NOTHING_RESERVED = Reserved()
"""The reserve if no other backend can be asked, or the policy reserves nothing."""


def check_time(now: object) -> None:
    """Raise a ConfigurationError unless this is a finite number of seconds."""
    if not is_number(now, -LARGEST, LARGEST):
        shown = short(now) if isinstance(now, (int, float)) else type(now).__name__
        raise ConfigurationError(f"now must be seconds, a finite number, not {shown}")


def check_deadline(value: object) -> None:
    """Raise a ConfigurationError unless this is a finite number of seconds or None."""
    if value is not None and not is_number(value, -LARGEST, LARGEST):
        raise ConfigurationError(
            f"deadline must be a moment on the driver's clock, in seconds, not {short(value)}"
        )


class Spending(Charges):
    """Count what a call spends. A budget is never refilled."""

    __slots__ = (
        "began",
        "budget",
        "elapsed",
        "given_deadline",
        "most_money",
        "needs_cap",
        "needs_prices",
        "overran",
        "share",
    )

    def __init__(self, budget: Budget, share: Share | None = None) -> None:
        super().__init__()
        self.budget = budget
        self.share = share
        self.most_money = None if budget.money is None else units_of(budget.money)
        self.began: float | None = None
        self.elapsed = 0.0  # seconds since it began
        # the cap that a provider ignored, in tokens; no attempt is sent after that
        self.overran: int | None = None
        self.given_deadline: float | None = None  # the caller's, on the driver's clock
        self.needs_prices = budget.money is not None or (share is not None and share.needs_prices)
        needs_cap = budget.output_tokens is not None or (share is not None and share.needs_cap)
        self.needs_cap = self.needs_prices or needs_cap

    def begin(self, now: float) -> None:
        """Begin the call at a moment of the driver's clock."""
        if self.began is not None:
            raise IllegalEvent("the call has begun already")
        check_time(now)
        self.began = now

    def pass_time(self, now: float | None) -> None:
        """Set the time; None leaves it as it is, and it never goes back."""
        if self.began is None:
            raise IllegalEvent("the call has not begun")
        if now is None:
            return
        check_time(now)
        self.elapsed = max(self.elapsed, now - self.began)

    def deadline(self) -> float | None:
        """Return when the call must have ended, on the driver's clock; None without a limit."""
        limit = self.budget.seconds
        if self.given_deadline is not None or self.share is not None:
            limit = self.limit
        if limit is None:
            return None
        return (self.began or 0.0) + limit

    @property
    def limit(self) -> float | None:
        """Return the seconds after which the call must have ended, the same in a replay; None
        without a limit.
        """
        limit = self.budget.seconds
        began = self.began or 0.0
        deadlines = [self.given_deadline]
        if self.share is not None:
            deadlines.append(self.share.shared.deadline)
        for deadline in deadlines:
            if deadline is not None and (limit is None or deadline - began < limit):
                limit = deadline - began
        return limit

    def allows_wait(self, seconds: float) -> bool:
        """Tell whether the call would still have time after waiting."""
        if self._late_after(seconds) is not None:
            return False
        return self.share is None or self.share.late_at(self.now + seconds) is None

    def _late_after(self, wait: float) -> str | None:
        """Name the time of the call's own that would be up after a wait, if any."""
        seconds = self.budget.seconds
        if seconds is not None and self.elapsed + wait >= seconds:
            return f"the next attempt would begin after the {seconds:g} s of the budget"
        if self.given_deadline is not None:
            remaining = self.given_deadline - (self.began or 0.0)
            if self.elapsed + wait >= remaining:
                return "the next attempt would begin after the deadline"
        return None

    @property
    def now(self) -> float:
        """Return the time as it was last set, on the driver's clock."""
        return (self.began or 0.0) + self.elapsed

    def lowered(
        self,
        cap: int | None,
        input_tokens: int,
        prices: Prices | None,
        reserved: Reserved,
    ) -> int | None:
        """Lower an output cap to what the call's own budget can pay for: below 1 if nothing is
        left.

        Arguments:
            cap: the output cap in tokens; None for none.
            input_tokens: those of the prompt.
            prices: those of the backend; None counts no money.
            reserved: what is out of reach.
        """
        caps = [] if cap is None else [cap]
        if self.budget.output_tokens is not None:
            caps.append(self.tokens_left(self.budget.output_tokens) - reserved.output_tokens)
        if self.most_money is not None and prices is not None:
            caps.append(self._affordable(self.most_money, input_tokens, prices, reserved.money))
        return min(caps, default=None)

    def tokens_left(self, most: int) -> int:
        """Return what is left of a budget of `most` output tokens."""
        return most - reserve_of(most) - self.charged_tokens

    def _affordable(self, money: int, tokens: int, prices: Prices, reserved: int) -> int:
        """Return the output tokens that are left of a budget of money.

        Arguments:
            money: the whole budget, in units.
            tokens: those of the prompt.
            prices: those of the backend.
            reserved: units of money that are out of reach.
        """
        money_left = money - reserved - self.charged_money - dearest_prompt(tokens, prices)
        if money_left <= 0:
            return 0
        output_tokens = bought(money_left, prices)
        if dearest_output(prices):
            output_tokens -= reserve_of(bought(money, prices))
        return output_tokens

    def spent(self, attempts: int) -> str | None:
        """Name the ceiling of the call's own that allows no attempt at any backend after so many,
        if any.
        """
        if attempts >= self.budget.attempts:
            return f"all {self.budget.attempts} attempts of the budget are used"
        if self.overran is not None:
            return (
                f"a reply was longer than its output cap of {self.overran} tokens, so no cap can "
                "be relied on"
            )
        return None

    def shortfall(
        self,
        wait: float,
        cap: int | None,
        input_tokens: int,
        prices: Prices | None,
    ) -> str | None:
        """Name the ceiling of the call's own that does not allow the next attempt, besides those of
        `spent`, if any.

        Arguments:
            wait: seconds until the attempt would go out.
            cap: the output cap in tokens that can be paid for; None for none.
            input_tokens: those of the prompt.
            prices: those of the backend; None counts no money.
        """
        late = self._late_after(wait)
        if late is not None or cap is None or cap >= 1:
            return late
        most = self.budget.output_tokens
        if most is not None and self.tokens_left(most) <= 0:
            return f"the output tokens of the budget cannot pay for another attempt{self.note}"
        note = self.money_note(self.most_money, input_tokens, prices) + self.note
        return f"the money of the budget cannot pay for another attempt{note}"
