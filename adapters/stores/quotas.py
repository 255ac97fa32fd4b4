"""How calls use the quotas of backends: each asks for room before an attempt, and reports what the attempt has used."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from rungwise.adapters.stores.store import Store, Work
from rungwise.adapters.stores.watch import LONGEST_ATTEMPT, MARGIN
from rungwise.adapters.wires.backend import Backend, pool_of
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.run.sending import OPEN
from rungwise.fsm.health.quota import Claim, Quota, Settlement
from rungwise.fsm.values.moments import write_moment

REQUESTS_LEFT = ("x-ratelimit-remaining-requests", "anthropic-ratelimit-requests-remaining")
TOKENS_LEFT = ("x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-remaining")
"""The headers in which providers say what is left of a minute's quota."""


def quota_of(backend: object) -> Quota | None:
    """Return the quota of a backend; None if it has none."""
    quota: Quota | None = getattr(backend, "quota", None)
    return quota


@frozen
class Place:
    """Hold the room that an attempt was given."""

    where: tuple[int, int]  # the backend and its key, by index
    key: Any
    quota: Quota
    claim: Claim


@define(eq=False)
class CallQuota:
    """Follow one call.

    Arguments:
        chain: the backends of the call.
    """

    store: Store
    wall_clock: Callable[[], float]
    chain: Sequence[Backend]
    waited: float = field(default=0.0, init=False)  # seconds, before the attempt that is next
    _place: Place | None = field(default=None, init=False)
    _is_given: bool = field(default=False, init=False)

    def admit(self, call: Call, send: Send) -> Work[Send | None]:
        """Return `send` itself if it may go out now; else what is to be waited for, or where the call turns instead."""
        quota = quota_of(self.chain[call.backend])
        needs = None if quota is None else call.needs()
        where = None if needs is None else (needs.backend, needs.key)
        if self._place is not None and self._place.where != where:
            yield from self.settle(None, {}, was_sent=False)  # the budget has led elsewhere
        if quota is None or needs is None or where is None or self._is_given:
            return send
        if self._place is None:
            lease = (call.policy.timeouts.total or LONGEST_ATTEMPT) + MARGIN
            key = self.store.key_of(pool_of(self.chain[needs.backend])[needs.key])
            self._place = Place(where, key, quota, Claim(secrets.token_hex(8), needs.tokens, needs.longest, lease))
        place, left = self._place, self._place.claim.longest - self.waited
        wait, self._is_given = yield from self.store.take(place.key, quota, evolve(place.claim, longest=left))
        if wait > left:
            yield from self.settle(None, {}, was_sent=False)
            return call.found_open(f"{OPEN}{write_moment(self.wall_clock() + wait)}: its quota is used up")
        self.waited += wait
        return evolve(send, wait=wait, needs_compaction=False) if wait else send

    def settle(
        self, observation: Observation | None, headers: Mapping[str, str], *, was_sent: bool = True
    ) -> Work[None]:
        """Report what the attempt has used; without an observation all that it asked for, if it was sent at all."""
        place, self._place, self._is_given, self.waited = self._place, None, False, 0.0
        if place is None:
            return
        used, asked_wait = place.claim.tokens if was_sent else 0, None  # all, of an attempt that was broken off
        if observation is not None:
            used, asked_wait = observation.evidence.usage.total_tokens, observation.evidence.asked_wait
        paid = Settlement(
            place.claim.attempt,
            unused=place.claim.tokens - used,
            requests_left=_count(headers, REQUESTS_LEFT),
            tokens_left=_count(headers, TOKENS_LEFT),
            asked_wait=asked_wait,
        )
        yield from self.store.pay(place.key, place.quota, paid)


def _count(headers: Mapping[str, str], names: Sequence[str]) -> int | None:
    """Return a number that a provider's header holds, if it has one of the names, and holds one."""
    text = next((headers[name] for name in names if name in headers), "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else None
