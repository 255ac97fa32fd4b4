"""The account of one shared budget: what was paid from it, what calls hold of it, and what that leaves."""

from __future__ import annotations

from rungwise.fsm.call.budget.metering import reserve_of
from rungwise.fsm.call.budget.prices import LARGEST_PRICED_CAP, bought, dearest_prompt, price_of
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.values.usage import NO_USAGE, Usage


class Account:
    """Count what many calls pay from one budget and hold of it; what was paid never comes back.

    It knows no threads: `Desk` lets one do its work at a time. Each method adds before it takes away, so that one
    that is interrupted leaves too much counted and never too little.

    Arguments:
        budget: the ceilings.
        name: what errors call it.
        began: when its time began, in seconds on the drivers' clock; None before the first call.
        attempts: those that have gone out, and those that calls hold.
        usage: the tokens that were paid.
        cost: in the currency of the prices; None once a backend without prices was paid.
        overran: the cap that a provider took no notice of, in tokens; nothing is reserved after that.
        holders: how many attempts hold something.
        unsent: how many of those have not gone out.
        held_tokens, held_money: what they hold.
    """

    __slots__ = (
        *("attempts", "began", "budget", "cost", "held_money", "held_tokens"),
        *("holders", "name", "overran", "unsent", "usage"),
    )

    def __init__(self, budget: Budget, name: str) -> None:
        self.budget, self.name = budget, name
        self.began: float | None = None
        self.attempts = 0
        self.usage: Usage = NO_USAGE
        self.cost: float | None = 0.0
        self.overran: int | None = None
        self.holders = 0
        self.unsent = 0
        self.held_tokens = 0
        self.held_money = 0.0

    @property
    def rests_on_caps(self) -> bool:
        """Tell whether the budget forbids to send a request without an output cap."""
        return self.budget.output_tokens is not None or self.budget.money is not None

    @property
    def deadline(self) -> float | None:
        """Return when its time is up, on the drivers' clock; None if that has no limit or has not begun."""
        return None if self.budget.seconds is None or self.began is None else self.began + self.budget.seconds

    def most(
        self,
        input_tokens: int,
        prices: Prices | None,
        *,
        held: bool,
        kept_tokens: int = 0,
        kept_money: float = 0.0,
    ) -> int:
        """Return the largest output cap that can be paid for, with what a server may count beside it.

        Arguments:
            input_tokens: the tokens of the prompt, which money has to pay first.
            prices: of the backend that is asked.
            held: whether what calls hold is out of reach; otherwise it is taken as if all of it came back.
            kept_tokens, kept_money: what the call that asks keeps for other backends.
        """
        money = self._most_of_money(input_tokens, prices, held=held, kept=kept_money)
        return min(self._most_of_tokens(held=held) - (kept_tokens if self.budget.output_tokens else 0), money)

    @property
    def tokens_left(self) -> int:
        """Return the output tokens that are left, with what calls hold of them."""
        return self._most_of_tokens(held=False)

    @property
    def money_left(self) -> float:
        """Return the money that is left, with what calls hold of it."""
        return max(0.0, (self.budget.money or 0.0) - (self.cost or 0.0))

    def _most_of_tokens(self, *, held: bool) -> int:
        if self.budget.output_tokens is None:
            return LARGEST_PRICED_CAP
        left = self.budget.output_tokens - self.usage.output_tokens - (self.held_tokens if held else 0)
        return left - reserve_of(left) if left > 0 else 0

    def _most_of_money(self, input_tokens: int, prices: Prices | None, *, held: bool, kept: float = 0.0) -> int:
        if self.budget.money is None or prices is None:
            return LARGEST_PRICED_CAP
        spent = (self.cost or 0.0) + (self.held_money if held else 0.0)
        left = self.budget.money - kept - spent - dearest_prompt(input_tokens, prices)
        tokens = bought(left, prices) if left > 0 else 0
        return tokens - reserve_of(tokens)

    def lacking(self, input_tokens: int, prices: Prices | None) -> str | None:
        """Name the part of the budget that allows no further attempt whatever comes back of what calls hold, if any.

        Arguments:
            input_tokens: the tokens of the prompt.
            prices: of the backend that is asked.
        """
        if self.attempts - self.unsent >= self.budget.attempts:
            return f"all {self.budget.attempts} attempts of {self.name} are used"
        if self.overran is not None:
            longer = f"a reply under {self.name} was longer than its output cap of {self.overran} tokens"
            return f"{longer}, so no cap can be relied on"
        if self._most_of_tokens(held=False) < 1:
            return f"the output tokens of {self.name} cannot pay for another attempt"
        if self._most_of_money(input_tokens, prices, held=False) < 1:
            return f"the money of {self.name} cannot pay for another attempt"
        return None

    def is_late(self, at: float) -> bool:
        """Tell whether its time is up at a moment of the drivers' clock."""
        deadline = self.deadline
        return deadline is not None and at >= deadline

    def hold(self, tokens: int, money: float) -> None:
        """Set aside one attempt, and what it may use."""
        self.attempts += 1
        self.unsent += 1
        self.holders += 1
        self.held_tokens += tokens
        self.held_money += money

    def pay(self, usage: Usage, prices: Prices | None) -> None:
        """Add what an attempt has used."""
        if usage == NO_USAGE:
            return
        self.usage += usage
        if prices is None:
            self.cost = None
        elif self.cost is not None:
            self.cost += price_of(usage, prices)

    def release(self, tokens: int, money: float) -> None:
        """Take back what an attempt held."""
        self.holders -= 1
        self.held_tokens -= tokens
        self.held_money = self.held_money - money if self.holders else 0.0  # sums of floats leave a rest
