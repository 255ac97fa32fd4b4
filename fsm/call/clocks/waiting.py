"""How long a rung waits and which output cap it sends, for the call and the checker."""

from __future__ import annotations

from typing import Final

from rungwise.fsm.call.policy import Policy, Waits
from rungwise.fsm.call.table import keeps_asked_wait
from rungwise.fsm.engine.machine.declare import Rung
from rungwise.fsm.replies.failures.failure import Failure

_LARGEST_EXPONENT = 1023  # of a float; every cap is reached long before


def backoff(n: int, base: float, cap: float, jitter: float, draw: float) -> float:
    """Return the wait in seconds before a repetition: doubled each time, capped, jittered.

    The jitter is added, so that a wait is never below what the series says: a service that asked
    for a pause gets it. Why there is one: clients that fail together would come back together
    (M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015).

    Arguments:
        n: which repetition it is, counted from 1.
        base, cap: the first and the longest wait, in seconds, before jitter.
        jitter: the largest share of the wait that is added to it; 0.5 adds up to half.
        draw: a random number from 0 to 1, drawn by the caller so that a replay can use the same
            one.
    """
    doublings = min(max(n, 1) - 1, _LARGEST_EXPONENT)
    delay = min(base * 2.0**doublings, cap)
    return delay + draw * jitter * delay


_OVERLOADED: Final = Failure("overloaded")

BROKEN: Final = frozenset({"malformed", "interrupted"})
"""The events of a reply that came broken, after which a retry waits as long as a reask: nobody
asked for less load.
"""


def drawn_wait(
    waits: Waits, rung: Rung, number: int, event: str, failure: Failure | None, draw: float
) -> float:
    """Return the seconds to wait in a rung that has a series of waits.

    Arguments:
        waits: the waits of the policy.
        rung: the rung.
        number: how many times it is taken now, counted from 1.
        event: what it follows.
        failure: the failure that it follows, if any.
        draw: a random number from 0 to 1.
    """
    base, cap = series_of(waits, rung, event, failure)
    return backoff(number, base, cap, waits.jitter, draw)


def longest_wait(waits: Waits, rung: Rung, number: int, event: str) -> float:
    """Return the most seconds that a rung can wait after an event.

    Arguments:
        waits: the waits of the policy.
        rung: the rung.
        number: how many times it is taken, counted from 1.
        event: what it follows.
    """
    longest = 0.0
    if keeps_asked_wait(event, rung.name):
        longest = waits.longest_asked
    if rung.wait is None:
        return longest
    for failure in (None, _OVERLOADED):
        base, cap = series_of(waits, rung, event, failure)
        longest = max(longest, backoff(number, base, cap, waits.jitter, 1.0))
    return longest


def series_of(
    waits: Waits, rung: Rung, event: str = "", failure: Failure | None = None
) -> tuple[float, float]:
    """Return base and cap, in seconds, of the waits in a rung after an event.

    Arguments:
        waits: the waits of the policy.
        rung: the rung, which has waits of its own.
        event: what it follows; "" for any.
        failure: the failure that it follows, if any.
    """
    if rung.wait == "reask" or event in BROKEN:
        return waits.reask_base, waits.reask_cap
    if failure is not None and failure.reason == "overloaded":
        return waits.retry_base, waits.overload_cap
    return waits.retry_base, waits.retry_cap


def cap_of(policy: Policy, raises: int, requested: int | None) -> int | None:
    """Return the output cap in tokens before any budget or provider lowers it; None sends none.

    Each raise adds the base once more, up to the policy's largest cap, and never below the
    caller's.
    """
    if raises == 0:
        return requested
    base = policy.base_cap if requested is None else requested
    raised = min(base * (raises + 1), policy.largest_cap)
    return max(raised, requested or 0)


RAISING = ("continuations", "enlargements")
"""The counters whose rungs raise the output cap."""
