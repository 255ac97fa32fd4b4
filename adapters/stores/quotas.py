"""How calls use the quotas of backends: each asks for room before an attempt, and reports what the
attempt has used.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from rungwise.adapters.stores.store import Store, Work
from rungwise.adapters.stores.watch import lease_of
from rungwise.adapters.wires.backend import Backend, pool_of
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.run.sending import FULL, Needs
from rungwise.fsm.health.quota import Claim, Quota, Settlement

REQUESTS_LEFT = ("x-ratelimit-remaining-requests", "anthropic-ratelimit-requests-remaining")
TOKENS_LEFT = ("x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-remaining")
"""The headers in which providers say what is left of a minute's quota."""

LONGEST_COUNT = 12
"""Digits of a number in such a header. A longer one is not a count."""


@frozen
class Place:
    """Hold the room that an attempt was given."""

    where: tuple[int, int]  # the backend and its key, by index
    key: Any
    quota: Quota
    claim: Claim


@define(eq=False)
class CallQuota:
    """Follow one call."""

    store: Store
    chain: Sequence[Backend]
    waited: float = field(default=0.0, init=False)  # seconds, before the attempt that is next
    was_sent: bool = field(default=False, init=False)  # whether that went out
    _place: Place | None = field(default=None, init=False)
    _is_given: bool = field(default=False, init=False)

    def admit(self, call: Call, send: Send) -> Work[Send | None]:
        """Decide whether an attempt may go out now.

        Returns:
            `send` itself if it may; the same with a wait, after which to ask again; or what the
            call sends elsewhere if the wait is too long, None if that ended the call.
        """
        quota = self.chain[call.backend].quota
        needs = None if quota is None else call.needs()
        where = None if needs is None else (needs.backend, needs.keys[0])
        if self._place is not None and self._place.where != where:
            yield from self.settle(None, {})  # the budget has led elsewhere
        if quota is None or needs is None or self._is_given:
            return send
        if self._place is None and len(needs.keys) > 1:
            yield from self._take_any_key(call, quota, needs)
            if self._is_given:
                return send
        left = needs.longest - self.waited
        wait = yield from self._take(call, quota, needs, key=needs.keys[0], longest=left)
        if wait > left:
            yield from self.settle(None, {})
            return call.found_open(f"{FULL}; {wait:.3g} s are more than the call can wait")
        self.waited += wait
        if wait == 0:
            return send
        return evolve(send, wait=wait, needs_compaction=False)

    def _take_any_key(
        self,
        call: Call,
        quota: Quota,
        needs: Needs,
    ) -> Work[None]:
        """Take the first key that has room at once, if there is one."""
        for number, key in enumerate(needs.keys):
            yield from self._take(call, quota, needs, key=key, longest=0.0)
            if self._is_given:
                if number:
                    call.arrive(needs.keys[number:], is_probe=False)
                return
            yield from self.settle(None, {})

    def _take(
        self,
        call: Call,
        quota: Quota,
        needs: Needs,
        *,
        key: int,
        longest: float,
    ) -> Work[float]:
        """Ask for room with a key, and note whether it was given.

        Arguments:
            call: the call whose attempt asks.
            quota: the quota of the backend.
            needs: the backend, its keys, and the tokens of the attempt.
            key: which of the keys, by index.
            longest: the seconds that the attempt can wait.

        Returns:
            The seconds to wait.
        """
        if self._place is None:
            claim = Claim(secrets.token_hex(8), needs.tokens, longest, lease_of(call))
            link = pool_of(self.chain[needs.backend])[key]
            self._place = Place((needs.backend, key), self.store.key_of(link), quota, claim)
        place = self._place
        claim = evolve(place.claim, longest=longest)
        wait, self._is_given = yield from self.store.take(place.key, quota, claim)
        return wait

    def settle(self, observation: Observation | None, headers: Mapping[str, str]) -> Work[None]:
        """Report what the attempt has used.

        Arguments:
            observation: what came back. Without one, an attempt that went out was broken off, and
                has used all that it asked for; any other has used nothing.
            headers: those of the response, which may say what is left.
        """
        place = self._place
        was_sent = self.was_sent
        self._place = None
        self._is_given = False
        self.waited = 0.0
        self.was_sent = False
        if place is None:
            return
        used = place.claim.tokens if was_sent else 0
        asked_wait = None
        if observation is not None:
            used = observation.evidence.usage.total_tokens
            asked_wait = observation.evidence.asked_wait
        claim = place.claim
        paid = Settlement(
            claim.attempt,
            unused=claim.tokens - used,
            was_sent=was_sent,
            asked_wait=asked_wait,
            requests_left=_count(headers, REQUESTS_LEFT),
            tokens_left=_count(headers, TOKENS_LEFT),
        )
        yield from self.store.pay(place.key, place.quota, paid)


def _count(headers: Mapping[str, str], names: Sequence[str]) -> int | None:
    """Return the number in the first header of these names; None if it holds none."""
    text = next((headers[name] for name in names if name in headers), "")
    is_count = text.isascii() and text.isdigit() and len(text) <= LONGEST_COUNT
    return int(text) if is_count else None
