"""What is remembered of each backend, what an attempt shows of it, and which backend a call asks.

Everything here is pure: whoever holds what is remembered (`adapters/stores/`) passes the time and
the random number in, and makes each change in one step, so that no two calls send a probe.

* A backend opens at once on a rejected key, a spent quota or a rate limit, and after `failures` in
  a row of any other kind. It stays open for what the provider asked, else for `first` seconds,
  twice as long each time it opens again, `longest` at most. A later failure never moves the end
  earlier.
* When its time has come, one call probes it. All others pass it over until that attempt has ended.
* If all backends that a call can reach are open, it asks the one whose time ends first. That is no
  probe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import evolve, field, frozen

from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.health.table import CLOSED, FAILURES, HALF_OPEN, HEALTH, OPEN
from rungwise.fsm.replies.failures.failure import Reason
from rungwise.fsm.values.checks import brief_repr, explains_arguments, number, whole

LONGEST_ASKED: Final = 86_400.0
"""Seconds for which a provider may ask at most not to be asked: it could mean for ever."""

MOST_DOUBLINGS: Final = 60
"""The exponent at which the doubling ends; the longest time is reached long before."""

_BY_REASON: Final[dict[Reason, str]] = {
    "auth": "rejected_key",
    "billing": "rejected_key",
    "rate_limit": "limited",
    **dict.fromkeys(
        ("overloaded", "server_error", "timeout", "connection", "unreachable", "certificate"),
        "failed",
    ),
    "silence": "fell_silent",
}
"""What a failure shows of its backend. Any other speaks of the request, which another backend may
reject, too.
"""

_BY_EVENT: Final = {
    **dict.fromkeys(
        ("cancelled", "refused", "malformed", "ended_unclearly", "overflowed", "rejected_fixably"),
        None,
    ),
    "interrupted": "failed",
    "fell_silent": "fell_silent",
}
"""What an event without a failure shows; any other is an answer, be it empty, cut or wrong."""


@explains_arguments
@frozen(kw_only=True, repr=False)
class Health:
    """Say when calls stop asking a backend that fails, and for how long.

    Arguments:
        failures: after how many failures in a row; a rejected key, a spent quota and a rate limit
            count at once.
        first: seconds that a backend is not asked if it did not say how long; twice as long each
            time in a row.
        longest: the most seconds of that kind.
        jitter: the largest share by which such a time is shortened, so that not all clients come
            back at once.

    Raises:
        ConfigurationError: a value is not of its form, or `first` is more than `longest`.
    """

    failures: int = field(default=2, validator=whole(1, 1_000))
    first: float = field(default=5.0, validator=number(above_zero=True))
    longest: float = field(default=30.0, validator=number(above_zero=True))
    jitter: float = field(default=0.2, validator=number(above_zero=False, highest=1))

    __repr__ = brief_repr

    def __attrs_post_init__(self) -> None:
        if self.first > self.longest:
            raise ConfigurationError(
                f"Health.first must be at most longest ({self.longest:g} s), not {self.first:g} s"
            )

    @property
    def limits(self) -> dict[str, int]:
        """Return the limit of each counter of the machine."""
        return {"failures": self.failures - 1, "probes": 1}

    def seconds(self, opened: int, draw: float) -> float:
        """Return how long a backend stays open that has opened so many times in a row.

        Arguments:
            draw: a random number from 0 to 1.
        """
        doubled: float = self.first * 2.0 ** min(opened - 1, MOST_DOUBLINGS)
        return min(doubled, self.longest) * (1.0 - self.jitter * draw)


DEFAULT_HEALTH: Final = Health()


@frozen
class Symptom:
    """Hold what an attempt has shown of its backend."""

    event: str | None  # of the health machine; None if it has shown nothing
    asked_wait: float | None = None  # the seconds that the provider asked not to be asked again
    why: str = ""  # the failure in a word or two


NO_SYMPTOM: Final = Symptom(None)
ANSWERED: Final = Symptom("answered")


def symptom_of(observation: Observation) -> Symptom:
    """Return what the end of an attempt shows of its backend."""
    failure = observation.failure
    if failure is None and observation.is_answer:
        return ANSWERED  # as nearly always
    if failure is None or observation.event == "cancelled":
        event = _BY_EVENT.get(observation.event, "answered")
        return Symptom(event, why=observation.event.replace("_", " "))
    if failure.is_stale:
        return NO_SYMPTOM
    why = str(failure.status)
    if failure.status is None:
        why = failure.reason.replace("_", " ")
    asked_wait = failure.asked_wait
    if asked_wait is not None:
        asked_wait = min(asked_wait, LONGEST_ASKED)
    return Symptom(_BY_REASON.get(failure.reason), asked_wait, why)


@frozen(kw_only=True)
class BackendHealth:
    """Hold what is remembered of one backend with one key.

    Arguments:
        state: `closed`, `open` (as in circuit breakers: not asked) or `half_open` (one call may try
            it).
        spent: what is spent of the counters of the machine: failures in a row, and probes that are
            out.
        opened: how many times in a row it has opened.
        since: when it came into its state, in seconds on the clock of the store; what was sent
            before is out of date.
        until: when it is asked again, likewise.
        tried_until: when a probe that nobody has reported is lost, likewise.
        why: what opened it.
    """

    state: str = CLOSED
    spent: tuple[int, ...] = (0, 0)
    opened: int = 0
    since: float = -float("inf")
    until: float = 0.0
    tried_until: float = 0.0
    why: str = ""

    def at(self, now: float, rules: Health) -> BackendHealth:
        """Return what is remembered at a moment: an open backend whose time has come may be tried,
        as may one again whose probe is lost.
        """
        if self.state == OPEN and now >= self.until:
            return self._fired("came_due", now, rules)
        is_lost = self.spent[1] > 0 and now >= self.tried_until
        if is_lost:
            return self._fired("came_back", now, rules)
        return self

    def probed(self, now: float, rules: Health, lease: float) -> BackendHealth:
        """Return what is remembered after a call has asked whether it may try the backend.

        Arguments:
            lease: the seconds after which its attempt is lost, if nobody reports it.
        """
        tried = self._fired("probed", now, rules)
        if tried.spent == self.spent:
            return tried  # another call has it
        return evolve(tried, tried_until=now + lease)

    def after(
        self,
        symptom: Symptom,
        now: float,
        rules: Health,
        *,
        sent_at: float,
        was_probe: bool,
        draw: float,
    ) -> BackendHealth:
        """Return what is remembered after an attempt.

        Arguments:
            symptom: what the attempt has shown.
            now: the time, in seconds on the clock of the store.
            rules: when a backend opens, and for how long.
            sent_at: when it was sent; what it shows of the backend before its present state is out
                of date, but for a wait that the provider asked for and a rejected key.
            was_probe: whether it was the probe.
            draw: a random number from 0 to 1.
        """
        known = self
        if was_probe:
            known = self._fired("came_back", now, rules)
        lasts = symptom.event in ("limited", "rejected_key")
        # A probe shows the state that it was sent in. Its moment is estimated: two estimates of
        # the clock of a store may differ by more than lay between the two.
        is_of_now = sent_at >= self.since or (was_probe and self.state == HALF_OPEN)
        if symptom.event is None or not (is_of_now or lasts):
            return known
        if symptom.event == "answered" and known.state == CLOSED and not any(known.spent):
            return known  # as nearly always
        fired = known._fired(symptom.event, now, rules)
        if fired.state == OPEN:
            return fired._timed(known, symptom, now, rules, draw)
        if fired.state != known.state:
            return evolve(fired, opened=0, until=0.0, tried_until=0.0, why="")
        return fired

    def without_probe(self) -> BackendHealth:
        """Return what is remembered where nobody will report the probe."""
        return evolve(self, spent=(self.spent[0], 0))

    def _fired(self, event: str, now: float, rules: Health) -> BackendHealth:
        run = Run.at_start(HEALTH, rules.limits)
        run.state = self.state
        # what was stored under other rules may be more than these allow
        run.spent = list(map(min, self.spent, run.limits))
        run.fire(event)
        since = self.since if run.state == self.state else now
        return evolve(self, state=run.state, spent=tuple(run.spent), since=since)

    def _timed(
        self, before: BackendHealth, symptom: Symptom, now: float, rules: Health, draw: float
    ) -> BackendHealth:
        """Set until when it is open. A later failure never moves that to an earlier moment.

        Arguments:
            before: what was known before the attempt ended.
            symptom: what the attempt has shown.
            now: the time, in seconds on the clock of the store.
            rules: how long a backend is open.
            draw: a random number from 0 to 1.
        """
        opened = self.opened
        seconds = symptom.asked_wait
        if before.state != OPEN:
            opened += 1
            if seconds is None:
                seconds = rules.seconds(opened, draw)
        elif seconds is None:
            seconds = 0.0
        why = symptom.why
        if before.state == CLOSED and symptom.event in FAILURES and rules.failures > 1:
            why = f"{why}, {rules.failures} in a row"
        return evolve(self, opened=opened, until=max(self.until, now + seconds), why=why)


@frozen
class HealthChoice:
    """Hold which of several backends a call asks."""

    place: int
    is_probe: bool = False  # whether it is tried for the first time since it opened
    # what is remembered from now on of those that have come due
    changed: tuple[tuple[int, BackendHealth], ...] = ()


def choose(known: Sequence[BackendHealth], now: float, rules: Health, lease: float) -> HealthChoice:
    """Choose the first backend that may be asked, in the order of the chain; if all are open, the
    first to come due.

    Arguments:
        known: what is remembered of each backend that the call can reach.
        now: the time, in seconds on the clock of the store.
        rules: when a backend is asked again.
        lease: the seconds after which a probe is lost, if nobody reports it.
    """
    due: list[tuple[int, BackendHealth]] = []
    for place, health in enumerate(known):
        if health.state == CLOSED:
            return HealthChoice(place, changed=tuple(due))
        later = health.at(now, rules)
        if later.state == HALF_OPEN:
            tried = later.probed(now, rules, lease)
            if tried.spent != later.spent:
                return HealthChoice(place, True, (*due, (place, tried)))
        if later is not health:
            due.append((place, later))
    soonest = min(range(len(known)), key=lambda place: known[place].until)
    return HealthChoice(soonest, changed=tuple(due))
