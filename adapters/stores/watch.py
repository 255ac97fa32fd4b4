"""How calls use what is remembered of backends: each asks before it arrives at one, and reports each attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field, frozen

from rungwise.adapters.stores.store import Store, Work, aperform, perform
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.link import Link
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.run.sending import OPEN
from rungwise.fsm.health.health import NO_SYMPTOM, BackendHealth, Health, Symptom, symptom_of
from rungwise.fsm.health.table import HALF_OPEN
from rungwise.fsm.values.moments import write_moment

LONGEST_ATTEMPT = 600.0
"""Seconds that an attempt is taken to last at most where the policy does not say."""

MARGIN = 60.0
"""Seconds beside it, for what an attempt waits for before it is sent, and to report it."""


@frozen
class Watch:
    """Hold what the calls of one client share.

    Arguments:
        wall_clock: returns the seconds since 1970, for journals.
    """

    store: Store
    rules: Health
    wall_clock: Callable[[], float]

    def seen(self, chain: Sequence[Link]) -> dict[str, BackendHealth]:
        """Return what is remembered of the backends of a chain, by their names."""
        known = perform(self.store, self.store.read([self.store.key_of(link) for link in chain]))
        now = self.store.now()
        return {link.name: health.at(now, self.rules) for link, health in zip(chain, known, strict=True)}

    def remember(self, link: Link, symptom: Symptom) -> None:
        """Remember what an attempt has shown of a backend just now."""
        key, now = self.store.key_of(link), self.store.now()
        perform(self.store, self.store.note(key, symptom, self.rules, sent_at=now, was_probe=False))

    def reason(self, health: BackendHealth) -> str:
        """Say until when a backend is not asked, and why, as journals do."""
        if health.state == HALF_OPEN or health.until <= self.store.now():
            return f"{OPEN}the call that tries it has ended: {health.why}"
        moment = write_moment(self.wall_clock() + health.until - self.store.now())
        return f"{OPEN}{moment}: {health.why}"


@define(eq=False)
class CallHealth:
    """Follow one call. Without a watch it lets everything pass.

    Arguments:
        chain: the backends of the call.
    """

    watch: Watch | None
    chain: Sequence[Link]
    _key: Any = field(default=None, init=False)
    _probe: Any = field(default=None, init=False)  # the key of the backend that the call may try, until it has reported
    _sent_at: float = field(default=0.0, init=False)

    def admit(self, call: Call, send: Send) -> Send | None:
        """Return what the call sends, to the first backend that may be asked; None if that ended the call."""
        if self.watch is None or not (places := call.arrivals):
            return send
        return perform(self.watch.store, self._admit(self.watch, call, send, places))

    async def aadmit(self, call: Call, send: Send) -> Send | None:
        """Do the same in an event loop."""
        if self.watch is None or not (places := call.arrivals):
            return send
        return await aperform(self.watch.store, self._admit(self.watch, call, send, places))

    def sent(self, call: Call) -> None:
        """Note that an attempt goes out."""
        if self.watch is not None:
            self._key, self._sent_at = self.watch.store.key_of(self.chain[call.backend]), self.watch.store.now()

    def settle(self, observation: Observation | None) -> None:
        """Report what the attempt has shown of its backend: None for nothing. Without one, nothing happens."""
        if self.watch is not None and (self._key, self._probe) != (None, None):
            perform(self.watch.store, self._settle(self.watch, observation))

    async def asettle(self, observation: Observation | None) -> None:
        """Do the same in an event loop."""
        if self.watch is not None and (self._key, self._probe) != (None, None):
            await aperform(self.watch.store, self._settle(self.watch, observation))

    def _admit(self, watch: Watch, call: Call, send: Send, places: tuple[int, ...]) -> Work[Send | None]:
        following: Send | None = send
        lease = (call.policy.timeouts.total or LONGEST_ATTEMPT) + MARGIN
        while following is not None and places:
            keys = [watch.store.key_of(self.chain[place]) for place in places]
            choice, known = yield from watch.store.choose(keys, watch.rules, lease)
            for place, health in zip(places[: choice.place], known, strict=False):
                if following is not None and call.backend == place:
                    following = call.found_open(watch.reason(health))
            if choice.is_probe:
                self._probe = keys[choice.place]
            if following is not None and call.backend == places[choice.place]:
                call.arrive(is_probe=choice.is_probe)
                break
            if choice.is_probe:  # the budget does not pay for it
                yield from self._settle(watch, None)
            places = call.arrivals
        return following

    def _settle(self, watch: Watch, observation: Observation | None) -> Work[None]:
        symptom = NO_SYMPTOM if observation is None else symptom_of(observation)
        key, probe, self._key, self._probe = self._key, self._probe, None, None
        if key is not None:
            yield from watch.store.note(key, symptom, watch.rules, sent_at=self._sent_at, was_probe=key == probe)
        if probe not in (None, key):  # the attempt went elsewhere
            yield from watch.store.note(probe, NO_SYMPTOM, watch.rules, sent_at=self._sent_at, was_probe=True)
