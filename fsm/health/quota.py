"""How many requests and tokens a backend may receive a minute, and how many requests at once,
shared by many calls.

The generic cell rate algorithm (ITU-T I.371): of a rate is kept one number, the moment at which
what was let through would have come if it had come evenly. A minute's worth may come early, as from
the bucket of tokens that providers say they use. What does not fit yet is let through all the same,
for a moment to come, so that callers are served in turn. A request that is out holds a lease; those
that wait for one stand in a queue.

Everything here is pure, and the store in Redis does the same in a script.
"""

from __future__ import annotations

from typing import Final

from attrs import Factory, asdict, astuple, define, field, frozen, validators

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import explains_arguments, whole

MINUTE: Final = 60.0
"""Seconds in which a quota of so many a minute may be used up, and in which it is full again."""

POLL: Final = 0.05
"""Seconds after which whoever is first in the queue for a lease asks again."""

FORGOTTEN: Final = 2.0
"""Seconds after that in which whoever has not asked again has left the queue."""

TINY: Final = 1e-6
"""Seconds that are no wait: sums of times of day are that exact."""

MOST: Final = 10**12
"""The largest limit of a quota."""


@explains_arguments
@frozen(kw_only=True)
class Quota:
    """Say how much a backend may receive with one key. None is no limit.

    Arguments:
        requests_per_minute: how many requests.
        tokens_per_minute: how many tokens: of the prompts, and of the replies as long as their caps
            allow; what a reply has left of its cap is given back.
        concurrent: how many requests at once.

    Raises:
        ConfigurationError: a value is no whole number above 0, or all are None.
    """

    requests_per_minute: int | None = field(
        default=None, validator=validators.optional(whole(1, MOST))
    )
    tokens_per_minute: int | None = field(
        default=None, validator=validators.optional(whole(1, MOST))
    )
    concurrent: int | None = field(default=None, validator=validators.optional(whole(1, MOST)))

    def __attrs_post_init__(self) -> None:
        if not any(astuple(self)):
            raise ConfigurationError(
                "Quota needs requests_per_minute, tokens_per_minute or concurrent"
            )

    def shared_by(self, processes: int) -> Quota:
        """Return what each of several processes may use that do not know of each other."""
        shares = {}
        for name, limit in asdict(self).items():
            if limit is not None:
                shares[name] = max(limit // processes, 1)
        return Quota(**shares)


@frozen
class Claim:
    """Hold what an attempt asks of a quota."""

    attempt: str  # what identifies it; the same attempt is counted once
    tokens: int  # how many it may use
    longest: float  # the seconds that it can wait
    lease: float  # the seconds after which it is lost, if nobody reports its end


@frozen
class Settlement:
    """Hold what is known of a quota after an attempt."""

    attempt: str  # what identifies it
    unused: int = 0  # the tokens that it has not used of those it asked for
    was_sent: bool = True
    requests_left: int | None = None  # as the provider says, if it does
    tokens_left: int | None = None  # likewise
    asked_wait: float | None = None  # the seconds for which the provider asked to be left alone


@define
class QuotaMeter:
    """Hold what is used of the quota of one backend with one key; all times are those of one
    clock.
    """

    # when those that were let through would have come if they had come evenly
    requests: float = 0.0
    tokens: float = 0.0  # likewise
    # the attempts that are let through, each with when it is lost
    leases: dict[str, float] = Factory(dict)
    # those that wait for another to end, in turn, each with when it has left
    queue: dict[str, float] = Factory(dict)

    def take(self, quota: Quota, claim: Claim, now: float) -> tuple[float, bool]:
        """Let an attempt through if it can wait; return the seconds, and whether it goes out or
        asks again then.
        """
        self.leases = {attempt: until for attempt, until in self.leases.items() if until > now}
        self.queue = {attempt: until for attempt, until in self.queue.items() if until > now}
        if claim.attempt in self.leases:
            return 0.0, True
        if quota.concurrent is not None:
            place = len(self.queue)
            if claim.attempt in self.queue:
                place = list(self.queue).index(claim.attempt)
            wait = POLL * (1 + place // (2 * quota.concurrent))  # those far behind ask seldom
            self.queue[claim.attempt] = now + wait + FORGOTTEN  # which keeps its place
            if place >= quota.concurrent - len(self.leases):
                return wait, False
        requests = _later(self.requests, 1, quota.requests_per_minute, now)
        tokens = _later(self.tokens, claim.tokens, quota.tokens_per_minute, now)
        wait = max(requests, tokens) - MINUTE - now
        if wait <= TINY:
            wait = 0.0
        self.queue.pop(claim.attempt, None)
        if wait > claim.longest:
            return wait, False
        self.requests = requests
        self.tokens = tokens
        self.leases[claim.attempt] = now + wait + claim.lease
        return wait, True

    def settle(self, quota: Quota, paid: Settlement, now: float) -> None:
        """Count what an attempt has used, and believe the provider where it says that less is
        left.
        """
        self.queue.pop(paid.attempt, None)
        was_counted = self.leases.pop(paid.attempt, None) is not None
        requests = quota.requests_per_minute
        tokens = quota.tokens_per_minute
        if was_counted and tokens is not None:
            self.tokens -= paid.unused * MINUTE / tokens
        if was_counted and not paid.was_sent and requests is not None:
            self.requests -= MINUTE / requests
        if paid.requests_left is not None and requests is not None:
            full_at = now + MINUTE * (1 - paid.requests_left / requests)
            self.requests = max(self.requests, full_at)
        if paid.tokens_left is not None and tokens is not None:
            full_at = now + MINUTE * (1 - paid.tokens_left / tokens)
            self.tokens = max(self.tokens, full_at)
        if paid.asked_wait is not None:
            # so late that the next request fits when the wait is over
            full_at = now + paid.asked_wait + MINUTE
            if requests is not None:
                full_at -= MINUTE / requests
            self.requests = max(self.requests, full_at)


def _later(even: float, units: int, rate: int | None, now: float) -> float:
    """Return when everything would have come evenly, with some units more.

    Arguments:
        even: when what was let through so far would have come, in seconds.
        units: how many requests or tokens more.
        rate: units a minute; None for no limit, which moves nothing.
        now: the time, in seconds.
    """
    if rate is None:
        return even
    return max(even, now) + units * MINUTE / rate
