"""The Markov chain of a policy against rates: its configurations, and what each attempt leads to.

Theory: why merging is exact

A call in flight is in a configuration: the backend, the position of the attempt, the units spent of
each counter, whether text was gathered, and the failures that `switch_after` counts. Given that,
what comes next does not depend on how the call came here: the rates know the backend and the
position alone, and the rows read counters and facts.

Two configurations behave alike if every row, wait and rate reads the same of both. Then one can
stand for both, and the merged process is again a Markov chain with the same probabilities (Kemeny
and Snell 1960: the chain is lumpable). So a configuration holds only what something can still read:

* a counter counts as 0 if no row that can be taken at this backend or later takes a unit of it,
  since only such a row has checked it;
* text and failures count only where they matter: where two ways through the rows of an event that
  differ in nothing else lead to different rows. Failures count up to the number at which the policy
  leaves the backend;
* a position without rates of its own is `fresh`.

The facts of a reply stand in the rates, but for those that follow from the policy and the
configuration. Text stays once it is gathered. `docs/pages/odds.md` says what else is taken to be
so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from itertools import combinations, compress
from operator import lt, mul
from typing import Final, NamedTuple

from attrs import define, evolve

from rungwise.fsm.analysis.odds.rates import (
    NOTHING,
    POSITIONS,
    SETTLED,
    EventRate,
    Rates,
    position_of,
)
from rungwise.fsm.call.clocks.waiting import drawn_wait
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.limits import LARGEST_LIMIT
from rungwise.fsm.call.policy import BROKEN_STREAM, Policy
from rungwise.fsm.call.run.facts import kinds_of
from rungwise.fsm.call.table import MAY_ASK, keeps_asked_wait
from rungwise.fsm.engine.checker.branches import Branch, branches
from rungwise.fsm.engine.journal.record import Evidence
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure, Reason
from rungwise.fsm.turn.observe import HOPELESS
from rungwise.fsm.values.label import did_you_mean

Wait = tuple[float, float]
"""The shortest and the longest seconds of a wait; any between them is as likely."""

NO_WAIT: Wait = (0.0, 0.0)

Failures = tuple[tuple[str, int], ...]
"""The failures at a backend, by their names in `switch_after`."""

TEXT = frozenset({"added_text", "has_text"})
"""The facts of a reply that brings text."""

OPEN = frozenset({"has_text", "switch_asked", "wait_fits"})
"""The facts that follow from the configuration or the clock."""


class Configuration(NamedTuple):
    """Hold what decides the rest of a call whose attempt is in flight."""

    backend: int
    position: str
    spent: tuple[int, ...]
    has_text: bool = False
    failures: Failures = ()


class End(NamedTuple):
    """Hold how a call ends, as far as a turn reads it."""

    outcome: str
    row: int = 0
    has_text: bool = False
    is_hopeless: bool = False


class Way(NamedTuple):
    """Hold where some events of a configuration lead together: to a configuration, by its number,
    or to an end.
    """

    share: float
    events: tuple[int, ...]  # by their places among those of the position
    row: int  # by its place in the table
    target: int | End
    rung: str  # in which the next attempt waits
    wait: Wait
    asked: float | None  # the wait that the service asked for, if one that the policy allows
    reserved: int  # attempts that the next one may not use: those of the backends to come


TIMED_OUT: Final = EventRate(event="failed_transiently", reason="timeout", share=0)
"""What comes of an attempt that takes too long; the last event of each position."""

_Led = tuple[int, int | End, str, Wait, float | None, int]
"""By which row an event leads where, in which rung, after which wait, asked or not; its place, if
time matters.
"""


@define(eq=False)
class _Prepared:
    """Hold what is known of an event at a backend before a configuration is looked at."""

    rate: EventRate
    facts: Mapping[str, bool]
    open: tuple[Branch, ...]
    # the kinds of failures that it counts as, each with the most of it
    counts: tuple[tuple[str, int], ...]
    asked: float | None  # the wait that it asks for, if one that the policy allows
    brings_text: bool

    def counted(self, failures: Failures) -> tuple[Failures, bool]:
        """Count a failure as a call does, and tell whether the policy leaves the backend because of
        it.
        """
        counts = dict(failures)
        is_one_too_many = False
        if "added_text" in self.rate.facts:
            counts.pop(BROKEN_STREAM, None)
        for kind, most in self.counts:
            counts[kind] = min(
                counts.get(kind, 0) + ("connection_was_stale" not in self.rate.facts), most
            )
            is_one_too_many |= counts[kind] >= most
        return tuple(sorted(counts.items())), is_one_too_many


class Configurations:
    """Number the configurations of a call, and follow what comes of each.

    One of a turn may resume a text, and the turn reads whether it ended with text; None for a call
    outside of a turn.
    """

    def __init__(
        self, policy: Policy, rates: Rates, *, is_timed: bool = False, resumes: bool | None = None
    ) -> None:
        self.policy, self.table, self.rates, self.is_timed = policy, policy.table, rates, is_timed
        self.steps = policy.budget.attempts
        self.limits = policy.limits.bounded(self.table.limits, len(rates.backend))
        self.most = tuple(self.limits.values())
        self.last = len(rates.backend) - 1
        self.known: list[Configuration] = []
        self._numbers: dict[Configuration, int] = {}
        self._ways = cache(lambda number, fits: tuple(self._follow(self.known[number], fits)))
        self._branches = cache(partial(branches, self.table))
        self._drawn, self._moved = cache(self._drawn_wait), cache(self._move_of)
        self._rows = {row: place for place, row in enumerate(self.table.rows)}
        pairs = [(place, position) for place in range(self.last + 1) for position in POSITIONS]
        self.events = {(at, of): tuple(self._in_time(rates.backend[at].at(of))) for at, of in pairs}
        self._prepared = {
            pair: [self._prepare(rate, pair[0]) for rate in self.events[pair]] for pair in pairs
        }
        read = [self._read_at(backend) for backend in range(self.last + 1)]
        self._facts_read = [
            (resumes is not None or "has_text" in names, "switch_asked" in names) for names in read
        ]
        self._counters_read = [tuple([name in names for name in self.limits]) for names in read]
        self.start = self._number(Configuration(0, "fresh", (0,) * len(self.limits), bool(resumes)))

    def ways(self, number: int, *, fits: bool = True) -> tuple[Way, ...]:
        """Return what comes of a configuration, the events that lead to the same joined.

        Arguments:
            fits: whether there is time for a wait that the service asks for.
        """
        return self._ways(number, fits)

    def out(self, number: int, rung: str, *, can_pay: bool) -> tuple[int, int | End]:
        """Return the row of `ran_out` in a rung, and where it leads: to the next backend, or to an
        end.

        Arguments:
            number: the configuration that the rung would have sent to.
            can_pay: whether the budget allows another attempt, if none that the rung would make.
        """
        here = self.known[number]
        has_next = here.backend < self.last
        facts = {"has_text": here.has_text, "reserve_left": can_pay, "has_next_backend": has_next}
        row, taken = self._move(
            self._branches("ran_out", rung), facts, tuple(map(lt, here.spent, self.most))
        )
        target = self.table.rows[row].target
        if target in self.table.outcomes:
            return row, End(target, row, here.has_text)
        spent = self._spend(here.spent, taken)
        return row, self._number(Configuration(here.backend + 1, "fresh", spent, here.has_text))

    def _in_time(self, rates: Iterable[EventRate]) -> Iterator[EventRate]:
        total = self.policy.timeouts.total
        late = 0.0
        for rate in rates:
            kept = [
                (seconds, weight)
                for seconds, weight in rate.seconds
                if total is None or seconds <= total
            ]
            if len(kept) == len(rate.seconds):
                yield rate
                continue
            share = (
                rate.share
                * sum(weight for _, weight in kept)
                / sum(weight for _, weight in rate.seconds)
            )
            late += rate.share - share
            yield evolve(rate, share=share, seconds=kept or NOTHING)
        if late or self.is_timed:
            yield evolve(TIMED_OUT, share=late, seconds=total or 0)

    def _prepare(self, rate: EventRate, backend: int) -> _Prepared:
        table = self.table
        policy = self.policy
        brings_text = not TEXT.isdisjoint(rate.facts)
        for name in rate.facts:
            if name not in table.found_facts:
                known_names = [each for each in table.found_facts if each not in SETTLED]
                hint = did_you_mean(name, known_names, f"there are: {', '.join(known_names)}")
                raise ConfigurationError(f"the rates name an unknown fact {name!r}; {hint}")
        found = self._branches(rate.event, table.hub)
        if not found:
            raise ConfigurationError(
                f"the rates name the event {rate.event!r}, which the table does not take"
            )
        facts = {name: name in rate.facts for name in table.found_facts if name not in OPEN}
        facts |= {
            "has_next_backend": backend < self.last,
            "refusal_ends": policy.after_refusal == "end",
        }
        known = {**facts, "has_text": True} if brings_text else facts
        asked = rate.asked_wait if rate.event in MAY_ASK else None
        if asked is None or asked > policy.waits.longest_asked:
            facts["wait_fits"], asked = asked is None, None
        is_open = [
            all(known.get(name, held) is held for name, held in each.facts.items())
            and all(self.limits[name] for name in each.left)
            for each in found
        ]
        evidence = Evidence(rate.event, reason=rate.reason, asked_wait=rate.asked_wait)
        kinds = kinds_of(Observation(evidence=evidence), "added_text" in rate.facts)
        most = [(kind, policy.switch_after.get(kind, LARGEST_LIMIT)) for kind in kinds]
        counts = tuple([(kind, number) for kind, number in most if number < LARGEST_LIMIT])
        return _Prepared(rate, facts, tuple(compress(found, is_open)), counts, asked, brings_text)

    def _read_at(self, backend: int) -> frozenset[str]:
        """Name the facts that matter at a backend, and the counters of which a row there or later
        takes a unit.
        """
        found: set[str] = set()
        for (later, _), prepared in self._prepared.items():
            for each in prepared if later >= backend else ():
                found |= {branch.takes for branch in each.open if branch.takes}
                found |= _mattering(each.open) if later == backend else set()
        return frozenset(
            found.union(*(_mattering(self._branches("ran_out", rung)) for rung in self.table.rungs))
        )

    def _number(self, found: Configuration) -> int:
        """Return the number of a configuration, without what nothing reads any more."""
        backend, position, spent, text, failures = found
        reads_text, counts_failures = self._facts_read[backend]
        position = position if getattr(self.rates.backend[backend], position) else "fresh"
        spent = tuple(map(mul, spent, self._counters_read[backend]))
        found = Configuration(
            backend, position, spent, text and reads_text, failures if counts_failures else ()
        )
        number = self._numbers.setdefault(found, len(self.known))
        if number == len(self.known):
            self.known.append(found)
        return number

    def _follow(self, here: Configuration, fits: bool) -> Iterator[Way]:
        left = tuple(map(lt, here.spent, self.most))
        joined: dict[_Led, list[int]] = {}
        events = self._prepared[here.backend, here.position]
        for place, event in enumerate(events):
            if event.rate.share or (self.is_timed and event is events[-1]):
                apart = place if self.is_timed else -1
                led = (*self._lead(here, event, left, fits), event.asked, apart)
                joined.setdefault(led, []).append(place)
        for (row, target, rung, wait, asked, _), places in joined.items():
            share = sum([events[place].rate.share for place in places])
            reserved = (
                self._reserved(target) if isinstance(target, int) and rung != "fallback" else 0
            )
            yield Way(share, tuple(places), row, target, rung, wait, asked, reserved)

    def _reserved(self, number: int) -> int:
        here = self.known[number]
        place = self.table.places.get("fallbacks")
        is_on = self.policy.reserve.is_on
        return (
            0
            if place is None or not is_on
            else min(self.last - here.backend, self.most[place] - here.spent[place])
        )

    def _lead(
        self, here: Configuration, event: _Prepared, left: tuple[bool, ...], fits: bool
    ) -> tuple[int, int | End, str, Wait]:
        """Return the row that an event takes, where it leads, in which rung, and after which
        wait.
        """
        text = here.has_text or event.brings_text
        failures = here.failures
        is_one_too_many = False
        if event.counts or failures:
            failures, is_one_too_many = event.counted(failures)
        row, taken = self._moved(event, left, text, is_one_too_many, fits)
        rung = self.table.rows[row].target
        if rung in self.table.outcomes:
            return row, End(rung, row, text, not HOPELESS.isdisjoint(event.rate.facts)), "", NO_WAIT
        spent = self._spend(here.spent, taken)
        moves_on = rung == "fallback"
        wait = self._wait(event.rate, rung, spent)
        position = position_of(rung, wait[1])
        failures = () if moves_on else failures
        return (
            row,
            self._number(Configuration(here.backend + moves_on, position, spent, text, failures)),
            rung,
            wait,
        )

    def _move_of(
        self,
        event: _Prepared,
        left: tuple[bool, ...],
        has_text: bool,
        switch_asked: bool,
        fits: bool,
    ) -> tuple[int, Branch]:
        facts = {
            "wait_fits": fits,
            **event.facts,
            "has_text": has_text,
            "switch_asked": switch_asked,
        }
        return self._move(event.open, facts, left)

    def _move(
        self, found: Iterable[Branch], facts: Mapping[str, bool], left: tuple[bool, ...]
    ) -> tuple[int, Branch]:
        """Take the one way through the rows that these facts and counters open; its row comes by
        its place.
        """
        answers = {**facts, **dict(zip(self.limits, left, strict=True))}
        taken = next(
            each
            for each in found
            if all(answers.get(name, False) is it for name, it in _read(each).items())
        )
        assert taken.row is not None  # a table is total
        return self._rows[taken.row], taken

    def _spend(self, spent: tuple[int, ...], taken: Branch) -> tuple[int, ...]:
        counts = list(spent)
        places = self.table.places
        for name in taken.refills:
            counts[places[name]] = 0
        if taken.takes is not None:
            counts[places[taken.takes]] += 1
        return tuple(counts)

    def _wait(self, rate: EventRate, rung: str, spent: tuple[int, ...]) -> Wait:
        declared = self.table.rung(rung)
        if rate.asked_wait is not None and keeps_asked_wait(rate.event, rung):
            return rate.asked_wait, rate.asked_wait
        if declared is None or declared.wait is None:
            return NO_WAIT
        return self._drawn(
            rung, spent[self.table.places[declared.counter]], rate.event, rate.reason
        )

    def _drawn_wait(self, rung: str, units: int, event: str, reason: Reason | None) -> Wait:
        failure = None if reason is None else Failure(reason)
        declared = self.table.rung(rung)
        assert declared is not None
        least, most = (
            drawn_wait(self.policy.waits, declared, units, event, failure, draw)
            for draw in (0.0, 1.0)
        )
        return least, most


def _read(branch: Branch) -> dict[str, bool]:
    """Return what a way reads: the facts, and whether a unit is left of each counter."""
    return {
        **branch.facts,
        **dict.fromkeys(branch.left, True),
        **dict.fromkeys(branch.spent, False),
    }


def _mattering(found: tuple[Branch, ...]) -> set[str]:
    """Name the facts and counters on which the row depends: two ways that differ in nothing else
    lead elsewhere.
    """
    names: set[str] = set()
    for one, other in combinations(found, 2):
        answers = _read(one)
        others = _read(other)
        apart = [name for name, held in answers.items() if others.get(name, held) is not held]
        if len(apart) == 1 and (one.row, one.takes, one.refills) != (
            other.row,
            other.takes,
            other.refills,
        ):
            names.add(apart[0])
    return names
