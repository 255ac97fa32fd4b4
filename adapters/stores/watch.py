"""How calls use what is remembered of backends: each asks before it arrives at one, and reports
each attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from attrs import define, field, frozen

from rungwise.adapters.stores.store import Store, Work, perform
from rungwise.adapters.wires.backend import Backend, pool_of
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.run.sending import OPEN
from rungwise.fsm.health.health import NO_SYMPTOM, BackendHealth, Health, Symptom, symptom_of
from rungwise.fsm.health.table import CLOSED, HALF_OPEN
from rungwise.fsm.values.moments import write_moment

DENIED = 403
"""The status of a failure that speaks of the key, or of the request: a model, a region or a
feature.
"""

Report = tuple[Any, Symptom, float, bool]
"""What an attempt has shown of a backend with one of its keys: which, what, when it was sent,
whether as a probe.
"""

LONGEST_ATTEMPT = 600.0
"""Seconds that an attempt is taken to last at most where the policy does not say."""

MARGIN = 60.0
"""Seconds beside it, for what an attempt waits for before it is sent, and to report it."""


@frozen
class Watch:
    """Hold what the calls of one client share."""

    store: Store
    rules: Health
    wall_clock: Callable[[], float]  # returns the seconds since 1970, for journals

    def seen(self, chain: Sequence[Backend]) -> dict[str, BackendHealth]:
        """Return what is remembered of the backends of a chain, by their names, and of each key of
        several.
        """
        named = {
            f"{backend.name}, key number {key + 1}" if len(pool) > 1 else backend.name: each
            for backend in chain
            for pool in [pool_of(backend)]
            for key, each in enumerate(pool)
        }
        known = perform(
            self.store, self.store.read([self.store.key_of(each) for each in named.values()])
        )
        now = self.store.now()
        return {name: health.at(now, self.rules) for name, health in zip(named, known, strict=True)}

    def remember(self, link: Backend, symptom: Symptom) -> None:
        """Remember what an attempt has shown of a backend just now."""
        key = self.store.key_of(link)
        now = self.store.now()
        perform(self.store, self.store.note(key, symptom, self.rules, sent_at=now, was_probe=False))

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
    # where the call is: a backend and its key
    _place: tuple[int, int] | None = field(default=None, init=False)
    _key_there: Any = field(default=None, init=False)
    _key: Any = field(default=None, init=False)  # the same, from an attempt to its report
    # the key of the backend that the call may try, until it has reported
    _probe: Any = field(default=None, init=False)
    _sent_at: float = field(default=0.0, init=False)
    # by a backend, one key after the other
    _denied: tuple[int, list[Report]] | None = field(default=None, init=False)

    def admit(
        self, call: Call, send: Send, places: tuple[tuple[int, int], ...]
    ) -> Work[Send | None]:
        """Return what the call sends, to the first of some places that may be asked; None if that
        ended the call.
        """
        watch = self.watch
        following: Send | None = send
        lease = (call.policy.timeouts.total or LONGEST_ATTEMPT) + MARGIN
        while following is not None and places:
            keys = [self._key_of(*place) for place in places]
            choice, known = yield from watch.store.choose(keys, watch.rules, lease)
            chosen, key = places[choice.place]
            passed = zip(places[: choice.place], known, strict=False) if choice.place else ()
            for backend, group in groupby(passed, key=lambda each: each[0][0]):
                if following is not None and call.backend == backend != chosen:
                    first = min((health for _, health in group), key=attrgetter("until"))
                    following = call.found_open(watch.reason(first))
            if choice.is_probe:
                self._probe = keys[choice.place]
            if following is not None and call.backend == chosen:
                self._place = places[choice.place]
                self._key_there = keys[choice.place]
                later = places[choice.place + 1 :]
                call.arrive(
                    (key, *(_free(chosen, later, known) if later else ())), is_probe=choice.is_probe
                )
                break
            if choice.is_probe:  # the budget does not pay for it
                yield from self.settle(None)
            places = call.arrivals
        return following

    def sent(self, send: Send) -> None:
        """Note that an attempt goes out."""
        if self._place != (send.backend, send.key):  # the budget has led elsewhere
            self._place = send.backend, send.key
            self._key_there = self._key_of(*self._place)
        self._key, self._sent_at = self._key_there, self.watch.store.now()

    def settle(self, observation: Observation | None) -> Work[None]:
        """Report what the attempt has shown of its backend: None for nothing. Without one, nothing
        happens.
        """
        symptom = NO_SYMPTOM if observation is None else symptom_of(observation)
        key = self._key
        probe = self._probe
        self._key = None
        self._probe = None
        reports = [(key, symptom, self._sent_at, key == probe)] if key is not None else []
        if probe not in (None, key):  # the attempt went elsewhere
            reports.append((probe, NO_SYMPTOM, self._sent_at, True))
        if self._denied is not None or (
            observation is not None and observation.failure is not None
        ):
            reports = self._after_denials(observation, reports)
        for where, shown, sent_at, was_probe in reports:
            yield from self.watch.store.note(
                where, shown, self.watch.rules, sent_at=sent_at, was_probe=was_probe
            )

    def _key_of(self, backend: int, key: int) -> Any:
        link = self.chain[backend]
        return self.watch.store.key_of(link.pool[key] if link.pool else link)

    def _after_denials(
        self, observation: Observation | None, reports: list[Report]
    ) -> list[Report]:
        """Hold a denial back until it is known whether another key gets it, too: then it speaks of
        the request.
        """
        before = self._denied
        self._denied = None
        backend, held = (None, []) if before is None else before
        failure = None if observation is None else observation.failure
        has_pool = observation is not None and len(pool_of(self.chain[observation.backend])) > 1
        if observation is None or failure is None or failure.status != DENIED or not has_pool:
            return [*_judged(held), *reports]
        is_again = observation.backend == backend
        self._denied = observation.backend, [*held, *reports] if is_again else reports
        return [] if is_again else _judged(held)


def _judged(held: list[Report]) -> list[Report]:
    """Return what denials show: of several keys, nothing."""
    return (
        [(key, NO_SYMPTOM, sent_at, was_probe) for key, _, sent_at, was_probe in held]
        if len(held) > 1
        else held
    )


def _free(
    chosen: int, places: tuple[tuple[int, int], ...], known: Sequence[BackendHealth]
) -> list[int]:
    """Return the keys of a backend, among the last places, against which nothing is remembered."""
    health = known[-len(places) :] if known else [BackendHealth()] * len(places)
    return [
        key
        for (place, key), each in zip(places, health, strict=True)
        if place == chosen and each.state == CLOSED
    ]
