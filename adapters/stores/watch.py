"""How calls use what is remembered of backends: each asks before it arrives at one, and reports
each attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from attrs import define, field, frozen

from rungwise.adapters.stores.store import Store, Work, perform
from rungwise.adapters.wires.backend import Backend, pool_of
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.call.run.sending import OPEN
from rungwise.fsm.health.health import NO_SYMPTOM, BackendHealth, Health, Symptom, symptom_of
from rungwise.fsm.health.table import CLOSED, HALF_OPEN
from rungwise.fsm.values.moments import write_moment

DENIED = 403
"""The status of a failure that is about the key or about the request: a model, a region or a
feature.
"""

Place = tuple[int, int]
"""Where a call may turn: a backend of the chain and one of its keys, by index."""

Report = tuple[Any, Symptom, float, bool]
"""What an attempt has shown: the backend's key in the store, the symptom, when the attempt was
sent, and whether as a probe.
"""

LONGEST_ATTEMPT = 600.0
"""Seconds that an attempt may last where the policy sets no limit."""

NEARLY: Final = 0.99
"""The share of a time at which it counts as over: clocks are read one after the other."""

MARGIN = 60.0
"""Seconds on top of it, to wait before the attempt is sent and to report it afterwards."""


def lease_of(call: Call) -> float:
    """Return the seconds after which a store takes an attempt of a call for lost."""
    return (call.policy.timeouts.total or LONGEST_ATTEMPT) + MARGIN


@frozen
class Watch:
    """Hold what the calls of one client share."""

    store: Store
    rules: Health
    wall_clock: Callable[[], float]  # returns the seconds since 1970, for journals
    policy: Policy = DEFAULT_POLICY  # that of the client, which says how long calls usually wait

    def seen(self, chain: Sequence[Backend]) -> dict[str, BackendHealth]:
        """Return what is remembered of the backends of a chain, by name; of several keys, each."""
        named: dict[str, Backend] = {}
        for backend in chain:
            pool = pool_of(backend)
            for number, each in enumerate(pool, 1):
                is_alone = len(pool) == 1
                name = backend.name if is_alone else f"{backend.name}, key number {number}"
                named[name] = each
        keys = [self.store.key_of(each) for each in named.values()]
        known = perform(self.store, self.store.read(keys))
        now = self.store.now()
        return {name: health.at(now, self.rules) for name, health in zip(named, known, strict=True)}

    def remember(self, link: Backend, symptom: Symptom) -> None:
        """Remember what an attempt has shown of a backend just now."""
        key = self.store.key_of(link)
        now = self.store.now()
        perform(self.store, self.store.note(key, symptom, self.rules, sent_at=now, was_probe=False))

    def patience(self, limit: float | None, links: int) -> float:
        """Return how long an attempt of the client's own policy may last, in seconds.

        Arguments:
            limit: the clock that ends it.
            links: how many backends share the seconds of the budget.
        """
        seconds = self.policy.budget.seconds
        limits = [LONGEST_ATTEMPT if limit is None else limit]
        if seconds is not None:
            limits.append(seconds / links)
        return min(limits)

    def reason(self, health: BackendHealth) -> str:
        """Say until when a backend is not asked, and why, as journals do."""
        if health.state == HALF_OPEN or health.until <= self.store.now():
            return f"{OPEN}the call that tries it has ended: {health.why}"
        moment = write_moment(self.wall_clock() + health.until - self.store.now())
        return f"{OPEN}{moment}: {health.why}"


@define(eq=False)
class CallHealth:
    """Follow one call: where it may turn to, and what each attempt shows."""

    watch: Watch
    chain: Sequence[Backend]
    # where the call is, and the key of that backend in the store
    _place: Place | None = field(default=None, init=False)
    _key_there: Any = field(default=None, init=False)
    _key: Any = field(default=None, init=False)  # the same, from an attempt to its report
    # the key of the backend that the call may try, until it has reported
    _probe: Any = field(default=None, init=False)
    _sent_at: float = field(default=0.0, init=False)
    _stall: float | None = field(default=None, init=False)  # the call allows between pieces
    # a backend, and the reports of its keys that were denied one after the other
    _denied: tuple[int, list[Report]] | None = field(default=None, init=False)

    def admit(
        self,
        call: Call,
        send: Send,
        places: tuple[Place, ...],
    ) -> Work[Send | None]:
        """Choose where a call arrives.

        Arguments:
            call: the call, which is about to arrive at a backend.
            send: what it proposes to send.
            places: where it may go, in the order of the chain, its own place first.

        Returns:
            What the call sends to the first place that may be asked; None if that ended the call.
        """
        store = self.watch.store
        self._stall = call.policy.timeouts.stall
        following: Send | None = send
        while following is not None and places:
            store_keys = [self._key_of(*place) for place in places]
            choice, known = yield from store.choose(store_keys, self.watch.rules, lease_of(call))
            at = choice.place  # in `places`
            backend, key = places[at]
            if at:
                passed = zip(places[:at], known, strict=False)
                following = self._leave(call, following, passed, backend)
            if choice.is_probe:
                self._probe = store_keys[at]
            if following is not None and call.backend == backend:
                self._place = places[at]
                self._key_there = store_keys[at]
                free_keys = _free(backend, places[at + 1 :], known)
                call.arrive((key, *free_keys), is_probe=choice.is_probe)
                break
            if choice.is_probe:  # the budget does not pay for it
                yield from self.settle(None)
            places = call.arrivals  # to leave the others has led elsewhere: choose again from there
        return following

    def _leave(
        self,
        call: Call,
        send: Send,
        passed: Iterable[tuple[Place, BackendHealth]],
        chosen: int,
    ) -> Send | None:
        """Make a call leave the backends that were passed over, one after the other.

        Arguments:
            call: the call.
            send: what it proposes to send.
            passed: the places before the chosen one, with their health.
            chosen: the backend that was chosen, by index. If only its first keys were passed over,
                the call stays.

        Returns:
            What the call sends then; None if that ended it.
        """
        following: Send | None = send
        for backend, group in groupby(passed, key=lambda each: each[0][0]):
            if following is None or backend == chosen or call.backend != backend:
                continue
            first_due = min((health for _, health in group), key=attrgetter("until"))
            following = call.found_open(self.watch.reason(first_due))
        return following

    def sent(self, send: Send) -> None:
        """Note that an attempt goes out."""
        place = (send.backend, send.key)
        if self._place != place:  # the budget has led elsewhere
            self._place = place
            self._key_there = self._key_of(*place)
        self._key = self._key_there
        self._sent_at = self.watch.store.now()

    def settle(self, observation: Observation | None) -> Work[None]:
        """Report the attempt, if one went out.

        Arguments:
            observation: what came back; None if the attempt has shown nothing of its backend.
        """
        symptom = NO_SYMPTOM
        if observation is not None and not self._is_hasty(observation):
            symptom = symptom_of(observation)
        key = self._key
        probe = self._probe
        self._key = None
        self._probe = None
        reports: list[Report] = []
        if key is not None:
            reports.append((key, symptom, self._sent_at, key == probe))
        if probe not in (None, key):  # the attempt went elsewhere
            reports.append((probe, NO_SYMPTOM, self._sent_at, True))
        has_failed = observation is not None and observation.failure is not None
        if has_failed or self._denied is not None:
            reports = self._after_denials(observation, reports)
        note = self.watch.store.note
        for where, shown, sent_at, was_probe in reports:
            yield from note(where, shown, self.watch.rules, sent_at=sent_at, was_probe=was_probe)

    def _is_hasty(self, observation: Observation) -> bool:
        """Tell whether an attempt was ended by a clock that is shorter than the client's own: that
        a caller is in a hurry says nothing of a backend.
        """
        failure = observation.failure
        if self._place is None or failure is None or failure.reason not in ("silence", "timeout"):
            return False
        own = self.watch.policy.timeouts
        link = self.chain[self._place[0]]
        if failure.reason == "timeout":
            limit: float | None = min(own.connect, own.total or LONGEST_ATTEMPT)
        elif observation.reply is None:
            limit = link.first_token or own.first_token
        else:  # how long the last pause was is not known
            is_shorter = (self._stall or LONGEST_ATTEMPT) < (own.stall or LONGEST_ATTEMPT)
            return link.stall is None and is_shorter
        lasted = self.watch.store.now() - self._sent_at
        return lasted < NEARLY * self.watch.patience(limit, len(self.chain))

    def _key_of(self, backend: int, key: int) -> Any:
        link = self.chain[backend]
        return self.watch.store.key_of(link.pool[key] if link.pool else link)

    def _after_denials(
        self,
        observation: Observation | None,
        reports: list[Report],
    ) -> list[Report]:
        """Return what to report now.

        A denial of one key among several is held back until another key has been tried. If that is
        denied as well, the request is at fault, and no key.
        """
        backend = -1
        held: list[Report] = []
        if self._denied is not None:
            backend, held = self._denied
        self._denied = None
        if observation is None or not self._is_denied_key(observation):
            return [*_judged(held), *reports]
        if observation.backend == backend:
            self._denied = (backend, [*held, *reports])
            return []
        self._denied = (observation.backend, reports)
        return _judged(held)

    def _is_denied_key(self, observation: Observation) -> bool:
        """Tell whether a backend with several keys has denied one of them."""
        failure = observation.failure
        has_pool = len(pool_of(self.chain[observation.backend])) > 1
        return failure is not None and failure.status == DENIED and has_pool


def _judged(held: list[Report]) -> list[Report]:
    """Return the reports of denials. Those of several keys show nothing of the backend."""
    if len(held) <= 1:
        return held
    return [(key, NO_SYMPTOM, sent_at, was_probe) for key, _, sent_at, was_probe in held]


def _free(chosen: int, places: Sequence[Place], known: Sequence[BackendHealth]) -> list[int]:
    """Return the keys of a backend that may be asked.

    Arguments:
        chosen: the backend, by index.
        places: the last places of those that `known` is about.
        known: what is remembered of all places; empty if nothing is.
    """
    if not known:
        return [key for backend, key in places if backend == chosen]
    health = known[len(known) - len(places) :]
    return [
        key
        for (backend, key), each in zip(places, health, strict=True)
        if backend == chosen and each.state == CLOSED
    ]
