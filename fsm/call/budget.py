"""What one call has spent of its budget, and what its next attempt may spend."""

from __future__ import annotations

from attrs import define

from rungwise.fsm.call.metering import reserve_of
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.call.request import Prices
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.values.usage import NO_USAGE, Usage

TOKENS_PRICED = 1_000_000
"""Prices are given for a million tokens."""

LARGEST_PRICED_CAP = 10**12
"""Output tokens that money may buy at most: keeps a price near zero from overflowing."""


@define(eq=False)
class Spending:
    """Count what a call spends; nothing here is ever given back.

    Arguments:
        budget: the ceilings.
        usage: the tokens of every attempt so far.
        cost: in the currency of the prices; None once a backend without prices was paid.
        began: when the call began, in seconds on the driver's clock; None before that.
        elapsed: seconds since then.
        overran: the cap that a provider took no notice of, in tokens; nothing is reserved for an attempt after that.
    """

    budget: Budget
    usage: Usage = NO_USAGE
    cost: float | None = 0.0
    began: float | None = None
    elapsed: float = 0.0
    overran: int | None = None

    def begin(self, now: float) -> None:
        """Note when the call begins.

        Raises:
            IllegalEvent: it has begun already.
            ConfigurationError: this is no time.
        """
        if self.began is not None:
            raise IllegalEvent("the call has begun already")
        if not isinstance(now, (int, float)):
            raise ConfigurationError(f"now must be seconds, a number, not {type(now).__name__}")
        self.began = now

    def pass_time(self, now: float | None) -> None:
        """Note the time; None leaves it as it is, and an earlier one never turns it back.

        Raises:
            IllegalEvent: the call has not begun.
            ConfigurationError: this is no time.
        """
        if self.began is None:
            raise IllegalEvent("the call has not begun")
        if now is None:
            return
        try:
            self.elapsed = max(self.elapsed, now - self.began)
        except TypeError:
            raise ConfigurationError(f"now must be seconds, a number, not {type(now).__name__}") from None

    @property
    def needs_cap(self) -> bool:
        """Tell whether the budget forbids to send a request without an output cap."""
        return self.budget.output_tokens is not None or self.budget.money is not None

    @property
    def deadline(self) -> float | None:
        """Return when the call must have ended, on the driver's clock; None if its time has no limit."""
        return None if self.budget.seconds is None else (self.began or 0.0) + self.budget.seconds

    def pay(self, usage: Usage, prices: Prices | None) -> None:
        """Add what one attempt has used."""
        if usage is NO_USAGE or usage == NO_USAGE:  # the first is quicker, the second holds in a replay as well
            return
        self.usage = usage if self.usage is NO_USAGE else self.usage + usage
        if prices is None:
            self.cost = None
        elif self.cost is not None:
            self.cost += price_of(usage, prices)

    def allows_wait(self, seconds: float) -> bool:
        """Tell whether the call would still have time after waiting."""
        return self.budget.seconds is None or self.elapsed + seconds < self.budget.seconds

    def lowered(self, cap: int | None, input_tokens: int, prices: Prices | None) -> int | None:
        """Return an output cap as far as the budget can pay for it: below 1 if nothing is left.

        Arguments:
            cap: the output cap that is wanted, in tokens; None wants none.
            input_tokens: the tokens of the prompt, which a budget of money has to pay first.
            prices: of the backend that is asked.
        """
        budget = self.budget
        if budget.output_tokens is not None:
            left = self._tokens_left(budget.output_tokens)
            cap = left if cap is None else min(cap, left)
        if budget.money is not None and prices is not None:
            left = self._affordable(budget.money, input_tokens, prices)
            cap = left if cap is None else min(cap, left)
        return cap

    def _tokens_left(self, most: int) -> int:
        return most - reserve_of(most) - self.usage.output_tokens

    def _affordable(self, money: float, tokens: int, prices: Prices) -> int:
        left = money - (self.cost or 0.0) - tokens * dearest_input(prices) / TOKENS_PRICED
        if left <= 0:
            return 0
        if not prices.output:
            return LARGEST_PRICED_CAP
        whole, bought = (int(min(paid * TOKENS_PRICED / prices.output, LARGEST_PRICED_CAP)) for paid in (money, left))
        return bought - reserve_of(whole)

    def lacking(self, attempts: int, wait: float, cap: int | None) -> str | None:
        """Name the part of the budget that does not allow the next attempt, if any.

        Arguments:
            attempts: how many were made.
            wait: seconds until the next one goes out.
            cap: its output cap in tokens, lowered to what is left.
        """
        budget = self.budget
        if attempts >= budget.attempts:
            return f"all {budget.attempts} attempts of the budget are used"
        if self.overran is not None:
            return f"a reply was longer than its output cap of {self.overran} tokens, so no cap can be relied on"
        if not self.allows_wait(wait):
            return f"the next attempt would begin after the {budget.seconds:g} s of the budget"
        if cap is not None and cap < 1:
            tokens_left = budget.output_tokens is None or self._tokens_left(budget.output_tokens) > 0
            return f"the {'money' if tokens_left else 'output tokens'} of the budget cannot pay for another attempt"
        return None


def dearest_input(prices: Prices) -> float:
    """Return the most that an input token can cost: who reserves money does not know what will be cached."""
    return max(prices.input, prices.cache_read or 0.0, prices.cache_creation or 0.0)


def price_of(usage: Usage, prices: Prices) -> float:
    """Return what an attempt costs, in the currency of the prices; input that nobody reported, at its dearest."""
    if usage.estimated:
        input_cost = usage.input_tokens * dearest_input(prices)
        return (input_cost + usage.output_tokens * prices.output) / TOKENS_PRICED
    plain = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_creation_tokens)
    read = prices.input if prices.cache_read is None else prices.cache_read
    created = prices.input if prices.cache_creation is None else prices.cache_creation
    total = plain * prices.input + usage.cache_read_tokens * read + usage.cache_creation_tokens * created
    return (total + usage.output_tokens * prices.output) / TOKENS_PRICED
