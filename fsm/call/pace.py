"""Whether calls wait and how often they try: one switch for the whole process, for the tests of those who use us.

Drivers ask `waits_are_off` before each wait, and whoever builds a call passes its policy through `paced`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import attrs
from attrs import frozen

if TYPE_CHECKING:
    from rungwise.fsm.call.policy import Policy


@frozen
class Pace:
    """Hold the state of the switch.

    Arguments:
        waits: whether waits are waited.
        attempts: the most attempts that any call may make; None leaves that to its budget.
    """

    waits: bool = True
    attempts: int | None = None


_lock = threading.Lock()
_pace = Pace()


def waits_are_off() -> bool:
    """Tell whether a driver must not wait before it sends."""
    return not _pace.waits


def paced(policy: Policy) -> Policy:
    """Return the policy, with its budget of attempts lowered to what the switch allows."""
    most = _pace.attempts
    if most is None or policy.budget.attempts <= most:
        return policy
    return attrs.evolve(policy, budget=attrs.evolve(policy.budget, attempts=most))


def set_pace(pace: Pace) -> Pace:
    """Turn the switch and return how it stood before."""
    global _pace
    with _lock:
        before, _pace = _pace, pace
    return before
