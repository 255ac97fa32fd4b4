"""How long a rung waits and which output cap it sends: the numbers behind the rungs, for the call and the checker."""

from __future__ import annotations

from rungwise.fsm.call.backoff import backoff, longest_backoff
from rungwise.fsm.call.ladder import Ladder
from rungwise.fsm.call.policy import Policy, Waits
from rungwise.fsm.failures.failure import Failure

MAY_ASK = frozenset({"interrupted", "malformed", "failed_transiently", "rejected_fixably"})
"""The events of a failure that may pass: a wait that the service asks for is kept before it is asked again."""

LEAVES = frozenset({"fallback", "compact"})
"""The rungs that keep no wait: one asks another backend, the other sends something else."""


def keeps_asked_wait(event: str, rung: str) -> bool:
    """Tell whether a wait that the service asks for is kept between an event and a rung."""
    return event in MAY_ASK and rung not in LEAVES


def retry_series(waits: Waits, event: str, failure: Failure | None) -> tuple[float, float]:
    """Return base and cap, in seconds, of the waits before a retry after `event`."""
    if event == "malformed":
        return waits.reask_base, waits.reask_cap
    if failure is not None and failure.reason == "overloaded":
        return waits.retry_base, waits.overload_cap
    return waits.retry_base, waits.retry_cap


def wait_of(waits: Waits, ladder: Ladder, event: str, failure: Failure | None, draw: float) -> float:
    """Return the seconds to wait in the ladder's rung.

    Arguments:
        event: what led to the rung.
        failure: what failed; a wait that the service asked for is kept as it is.
        draw: a number from 0 to 1 that places the jitter.
    """
    if failure is not None and failure.asked_wait is not None and keeps_asked_wait(event, ladder.rung):
        return failure.asked_wait
    if ladder.rung == "retry" and not ladder.connection_was_stale:
        base, cap = retry_series(waits, event, failure)
        return backoff(ladder.retries, base, cap, waits.jitter, draw)
    if ladder.rung == "reask":
        return backoff(ladder.reasks, waits.reask_base, waits.reask_cap, waits.jitter, draw)
    return 0.0


def is_drawn(ladder: Ladder, event: str, asked_wait: float | None) -> bool:
    """Tell whether chance places the wait in the ladder's rung."""
    if asked_wait is not None and keeps_asked_wait(event, ladder.rung):
        return False
    return ladder.rung == "reask" or (ladder.rung == "retry" and not ladder.connection_was_stale)


def longest_wait(waits: Waits, ladder: Ladder, event: str) -> float:
    """Return the most seconds that the ladder's rung can wait after an event."""
    asked = waits.longest_asked if keeps_asked_wait(event, ladder.rung) else 0.0
    if ladder.rung == "retry":
        pairs = {retry_series(waits, event, None), retry_series(waits, event, Failure("overloaded"))}
        return max(asked, *(longest_backoff(ladder.retries, base, cap, waits.jitter) for base, cap in pairs))
    if ladder.rung == "reask":
        return max(asked, longest_backoff(ladder.reasks, waits.reask_base, waits.reask_cap, waits.jitter))
    return asked


def cap_of(policy: Policy, ladder: Ladder, asked: int | None) -> int | None:
    """Return the output cap in tokens before any budget or provider lowers it; None sends none.

    Every continuation and every enlargement raises it by the base once more, up to the policy's largest cap, and never
    below what the caller asked for.
    """
    raises = ladder.continuations + ladder.enlargements
    if raises == 0:
        return asked
    base = asked if asked is not None else policy.base_cap
    return max(min(base * (raises + 1), policy.largest_cap), asked or 0)
