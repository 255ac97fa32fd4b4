"""What leaves a call of a fuzz run little room.

Theory. Most calls that are drawn at random have plenty of everything, so the rows that decide when
something runs out are hardly ever taken. A `Squeeze` leaves a call little room on purpose: one or
two counters, prices at which a second request cannot be afforded, a shared budget that others hold.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import attrs
from attrs import define, field, frozen

from rungwise.fsm.call.budget.shared import Share, SharedBudget
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Budget, Policy, Waits
from rungwise.fsm.testing.scripted import VirtualClock

CHEAP = Prices(1.0, 10.0)  # dollars for a million tokens of input and of output
DEAR = Prices(1e12, 1e12)
MONEY = 1.0  # dollars: enough for cheap requests, and for no dear one
CHAINS = (
    (CHEAP, DEAR),
    (DEAR, CHEAP),
    (DEAR, DEAR, DEAR),
    (DEAR, DEAR, CHEAP),
    (CHEAP, DEAR, CHEAP),
    (CHEAP,) * 3,
)
SHARED = (Budget(money=MONEY), Budget(money=MONEY, seconds=60.0), Budget(attempts=3))
LEFT = (frozenset({"retries"}), frozenset({"retries", "continuations"}))
PATIENT = Waits(
    retry_base=0.0,
    reask_base=10.0,
    jitter=0.0,
    longest_asked=0.0,
)
"""Waits that differ most between a retry and what is asked again."""


@frozen
class Squeeze:
    """Narrow a policy, and set prices and a shared budget for the call that runs under it.

    Arguments:
        prices: of each backend; empty for those of the case.
        attempts: of the call; None for those of the policy.
        left: the counters that keep a unit; None leaves all as they are.
        waits: instead of the policy's.
        money: dollars of the call; None for those of the policy.
        shared: a budget that other calls use, too.
        held: seconds for which others hold the shared budget before each attempt.
        is_certified: whether the call is held against a certificate, which each budget needs one
            of: one that is drawn from many does without.
    """

    prices: tuple[Prices, ...] = ()
    attempts: int | None = None
    left: frozenset[str] | None = None
    waits: Waits | None = None
    money: float | None = None
    shared: Budget | None = None
    held: float = 0.0
    is_certified: bool = True

    def policy(self, policy: Policy) -> Policy:
        """Return what remains of a policy."""
        budget = policy.budget
        if self.attempts is not None:
            budget = attrs.evolve(budget, attempts=self.attempts)
        if self.money is not None:
            budget = attrs.evolve(budget, money=self.money)
        limits = self._limits(policy.limits)
        waits = self.waits or policy.waits
        return attrs.evolve(
            policy,
            budget=budget,
            limits=limits,
            waits=waits,
        )

    def _limits(self, limits: Limits) -> Limits:
        """Return limits with one unit at most in the counters that keep one; fallbacks stay."""
        if self.left is None:
            return limits
        narrowed = dict(limits)
        for name in limits.keys() - {"fallbacks"}:
            limit = limits[name] or 0
            narrowed[name] = min(1, limit) if name in self.left else 0
        return Limits(**narrowed)

    def options(self, clock: VirtualClock, seconds: float | None) -> dict[str, Any]:
        """Return further options of the call.

        Arguments:
            clock: says when the call begins.
            seconds: of its own budget; None for no ceiling.
        """
        if self.shared is None:
            return {}
        ends = math.inf if seconds is None else clock.now + seconds
        return {
            "within": HeldBudget(
                self.shared,
                clock=clock,
                held=self.held,
                ends=ends,
            )
        }


@define(eq=False, repr=False)
class HeldBudget(SharedBudget):
    """A shared budget that other calls hold before each attempt.

    The clock moves on by the seconds for which they hold it, or as far as the call would wait.
    """

    clock: VirtualClock = field(kw_only=True)
    held: float = field(kw_only=True)
    ends: float = field(kw_only=True)  # when the call must have ended by its own budget

    def share(self) -> Share:
        """Return a share for a new call."""
        return self.share_by(_HeldShare)


@define(eq=False, repr=False)
class _HeldShare(Share):
    def reserve(self, *asked: Any, **options: Any) -> bool:
        if self._reservation.state == "idle":
            budget: Any = self.shared
            ends = budget.ends
            if budget.deadline is not None:
                ends = min(ends, budget.deadline)
            left = max(0.0, ends - budget.clock.now)
            budget.clock.advance(min(budget.held, left))
        return super().reserve(*asked, **options)


def squeeze_by(random: Random) -> Squeeze:
    """Draw what leaves a call little room."""
    attempts = random.choice((2, 3, None))
    waits = random.choice((PATIENT, PATIENT, None))
    money = random.choice((MONEY, None))
    shared = random.choice((None, random.choice(SHARED)))
    held = random.choice((0.0, 20.0, 40.0, 100.0))
    return Squeeze(
        prices=random.choice(CHAINS),
        attempts=attempts,
        left=random.choice(LEFT),
        waits=waits,
        money=money,
        shared=shared,
        held=held,
    )
