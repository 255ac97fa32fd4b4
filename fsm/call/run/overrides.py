"""What a test overrides in every call of the process: whether calls wait, and how often they try.

Drivers ask `waits_are_off` before each wait, and whoever builds a call passes its policy through `with_overrides`.
"""

from __future__ import annotations

import threading

from attrs import evolve, frozen

from rungwise.fsm.call.policy import Policy


@frozen
class Overrides:
    """Hold what is overridden; nothing by default.

    Arguments:
        waits: whether drivers wait.
        attempts: the most attempts that any call may make; None leaves that to its budget.
    """

    waits: bool = True
    attempts: int | None = None


_lock = threading.Lock()
_overrides = Overrides()


def waits_are_off() -> bool:
    """Tell whether a driver must not wait before it sends."""
    return not _overrides.waits


def with_overrides(policy: Policy) -> Policy:
    """Return the policy, with its budget of attempts lowered to what a test allows."""
    most = _overrides.attempts
    if most is None or policy.budget.attempts <= most:
        return policy
    return evolve(policy, budget=evolve(policy.budget, attempts=most))


def set_overrides(overrides: Overrides) -> Overrides:
    """Put these overrides in force and return those that were in force before."""
    global _overrides
    with _lock:
        before, _overrides = _overrides, overrides
    return before
