"""What leaves a call of a fuzz run little room: few units, dear backends, and a budget that other calls hold."""

from __future__ import annotations

import math
from typing import Any

import attrs
from attrs import define, field, frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.call.budget.shared import Share, SharedBudget
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Budget, Policy, Waits
from rungwise.fsm.testing.backend import VirtualClock

CHEAP, DEAR = Prices(1.0, 10.0), Prices(1e12, 1e12)
MONEY = 1.0
CHAINS = ((CHEAP, DEAR), (DEAR, CHEAP), (DEAR, DEAR, DEAR), (DEAR, DEAR, CHEAP), (CHEAP, DEAR, CHEAP), (CHEAP,) * 3)
PATIENT = Waits(retry_base=0.0, reask_base=10.0, jitter=0.0, longest_asked=0.0)
"""Waits that differ most between a retry and what is asked again."""


@frozen
class Squeeze:
    """Narrow a policy, and set prices and a shared budget for the call that runs under it."""

    prices: tuple[Prices, ...] = ()  # of each backend; empty for those of the case
    attempts: int | None = None  # of the call; None for those of the policy
    left: frozenset[str] | None = None  # the counters that keep a unit; None leaves all as they are
    waits: Waits | None = None
    money: float | None = None
    shared: Budget | None = None
    held: float = 0.0  # seconds for which other calls hold the shared budget before each attempt

    def policy(self, policy: Policy) -> Policy:
        """Return what remains of a policy."""
        narrowed = {name: getattr(self, name) for name in ("attempts", "money") if getattr(self, name) is not None}
        kept, others = self.left or (), policy.limits.keys() - {"fallbacks"}
        limits = {name: min(1, policy.limits[name] or 0) if name in kept else 0 for name in others}
        return attrs.evolve(
            policy,
            budget=attrs.evolve(policy.budget, **narrowed),
            limits=policy.limits if self.left is None else Limits(**{**policy.limits, **limits}),
            waits=self.waits or policy.waits,
        )

    def options(self, clock: VirtualClock, seconds: float | None) -> dict[str, Any]:
        """Return what the call is given besides; it begins now, with a budget of so many seconds."""
        if self.shared is None:
            return {}
        ends = math.inf if seconds is None else clock.now + seconds
        return {"within": HeldBudget(self.shared, clock=clock, held=self.held, ends=ends)}


@define(eq=False, repr=False)
class HeldBudget(SharedBudget):
    """Let other calls hold the budget before each attempt, for as long as a call would wait for them at most."""

    clock: VirtualClock = field(kw_only=True)
    held: float = field(kw_only=True)
    ends: float = field(kw_only=True)  # when the call must have ended by its own budget

    def share(self) -> Share:
        """Return a share for a new call."""
        plain = SharedBudget.share(self)
        return _HeldShare(self, plain._queue, plain._reservation)


@define(eq=False, repr=False)
class _HeldShare(Share):
    def reserve(self, *asked: Any, **options: Any) -> bool:
        if self._reservation.state == "idle":
            budget: Any = self.shared
            ends = min(budget.ends, math.inf if self.deadline is None else self.deadline)
            budget.clock.advance(min(budget.held, max(0.0, ends - budget.clock.now)))
        return super().reserve(*asked, **options)


def squeezes() -> SearchStrategy[Squeeze]:
    """Generate calls with little room."""
    shared = st.sampled_from((Budget(money=MONEY), Budget(money=MONEY, seconds=60.0), Budget(attempts=3)))
    return st.builds(
        Squeeze,
        prices=st.sampled_from(CHAINS),
        attempts=st.sampled_from((2, 3, None)),
        left=st.sampled_from((frozenset({"retries"}), frozenset({"retries", "continuations"}))),
        waits=st.just(PATIENT),
        money=st.sampled_from((MONEY, None)),
        shared=st.none() | shared,
        held=st.sampled_from((0.0, 20.0, 40.0, 100.0)),
    )
