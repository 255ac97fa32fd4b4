"""How calls use what is remembered of backends: each asks before it arrives at one, and reports each attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field, frozen

from rungwise.adapters.stores.memory import Key, MemoryStore
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.link import Link
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.run.sending import OPEN
from rungwise.fsm.health.health import NO_SYMPTOM, BackendHealth, Health, symptom_of
from rungwise.fsm.health.table import HALF_OPEN
from rungwise.fsm.values.moments import write_moment


@frozen
class Watch:
    """Hold what the calls of one client share.

    Arguments:
        wall_clock: returns the seconds since 1970, for journals.
    """

    store: MemoryStore
    rules: Health
    wall_clock: Callable[[], float]

    def seen(self, chain: Sequence[Link]) -> dict[str, BackendHealth]:
        """Return what is remembered of the backends of a chain, by their names."""
        known, now = self.store.read([link.identities for link in chain]), self.store.now()
        return {link.name: known[link.identities].at(now, self.rules) for link in chain}

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
    _key: Key | None = field(default=None, init=False)
    _is_probe: bool = field(default=False, init=False)
    _sent_at: float = field(default=0.0, init=False)

    def admit(self, call: Call, send: Send) -> Send | None:
        """Return what the call sends, to the first backend that may be asked; None if that ended the call."""
        if self.watch is None or not (places := call.arrivals):
            return send
        choice, known = self.watch.store.choose([self.chain[place].identities for place in places], self.watch.rules)
        following: Send | None = send
        for place, health in zip(places[: choice.place], known, strict=False):
            if following is not None and call.backend == place:
                following = call.found_open(self.watch.reason(health))
        chosen = places[choice.place]
        if choice.is_probe:
            self._key, self._is_probe = self.chain[chosen].identities, True
        if following is None or call.backend != chosen:  # the budget does not pay for it
            self.settle(None)
            return None if following is None else self.admit(call, following)
        call.arrive(is_probe=choice.is_probe)
        return following

    def sent(self, call: Call) -> None:
        """Note that an attempt goes out."""
        if self.watch is not None:
            self._key, self._sent_at = self.chain[call.backend].identities, self.watch.store.now()

    def settle(self, observation: Observation | None) -> None:
        """Report what the attempt has shown of its backend: None for nothing. Without one, nothing happens."""
        if self.watch is None or self._key is None:
            return
        symptom = NO_SYMPTOM if observation is None else symptom_of(observation)
        key, was_probe, self._key, self._is_probe = self._key, self._is_probe, None, False
        self.watch.store.note(key, symptom, self.watch.rules, sent_at=self._sent_at, was_probe=was_probe)
