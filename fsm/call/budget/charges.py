"""What attempts have used, and what of it counts against a budget."""

from __future__ import annotations

from attrs import define, field

from rungwise.fsm.call.budget.prices import price_of
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.values.usage import NO_USAGE, Usage


@define(eq=False, repr=False, weakref_slot=False)
class Charges:
    """Add up what attempts have used.

    Arguments:
        usage: as the providers reported it, or as it is estimated.
        cost: what that costs, in units; None once a backend without prices was paid.
        charged_tokens, charged_money: the output tokens, and units of money, that count against a budget: more than
            were used where a stream broke off and nobody reported what it cost, which keeps all that was reserved.
    """

    usage: Usage = field(default=NO_USAGE, init=False)
    cost: int | None = field(default=0, init=False)
    charged_tokens: int = field(default=0, init=False)
    charged_money: int = field(default=0, init=False)

    @property
    def note(self) -> str:
        """Say, behind what is spent, that something is charged beyond what was used; "" if nothing is."""
        is_more = self.charged_tokens > self.usage.output_tokens
        return "; what broke off unreported keeps what was reserved for it" if is_more else ""

    def add(self, usage: Usage, charged: Usage, prices: Prices | None) -> None:
        """Add an attempt: what it used, and what is charged for it."""
        if usage == NO_USAGE:
            return
        self.usage += usage
        self.charged_tokens += charged.output_tokens
        if prices is None:
            self.cost = None
            return
        cost = price_of(usage, prices)
        self.cost = None if self.cost is None else self.cost + cost
        self.charged_money += cost if charged is usage else price_of(charged, prices)
