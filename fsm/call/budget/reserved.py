"""What a call keeps of its budgets for the backends that are still to come."""

from __future__ import annotations

from attrs import frozen


@frozen
class Kept:
    """Hold what no attempt at the current backend may use; it is worked out when that backend is entered.

    Arguments:
        attempts: one for each backend to come.
        shared_attempts: likewise, of the budgets that the call shares, as far as there are enough.
        seconds: for each of them.
        ends_after: when the attempts here must have ended, in seconds from the beginning of the call; None for whenever
            the call must.
        output_tokens, money: of all of them together, in the call's own budget.
        shared_tokens, shared_money: likewise, in the budgets that it shares.
        money_each, shared_money_each: the most that is kept for one of them; what it needs grows with the text.
    """

    attempts: int = 0
    shared_attempts: int = 0
    seconds: float = 0.0
    ends_after: float | None = None
    output_tokens: int = 0
    shared_tokens: int = 0
    money: float = 0.0
    shared_money: float = 0.0
    money_each: float = 0.0
    shared_money_each: float = 0.0


NOTHING_KEPT = Kept()
"""Where no other backend can be asked, or the policy keeps nothing."""
