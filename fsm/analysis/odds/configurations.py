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
configuration. Text stays once it is gathered. `docs/pages/odds.md` lists the other assumptions.

`settings.py` computes, once, what can still be read; this file numbers the configurations as the
walk meets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from operator import lt, mul
from typing import NamedTuple

from rungwise.fsm.analysis.odds.rates import EventRate, Rates, position_of
from rungwise.fsm.analysis.odds.settings import (
    ChainSettings,
    Failures,
    PreparedEvent,
    is_met,
    settings_of,
)
from rungwise.fsm.call.clocks.waiting import drawn_wait
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.table import keeps_asked_wait
from rungwise.fsm.engine.checker.branches import Branch
from rungwise.fsm.replies.failures.failure import Failure, Reason
from rungwise.fsm.turn.observe import HOPELESS

Wait = tuple[float, float]
"""The shortest and the longest seconds of a wait; any between them is as likely."""

NO_WAIT: Wait = (0.0, 0.0)

Spent = tuple[int, ...]
"""The units spent of each counter, in the table's order."""

Left = tuple[bool, ...]
"""For each counter, whether a unit is left."""


class Configuration(NamedTuple):
    """Hold what decides the rest of a call whose attempt is in flight."""

    backend: int
    position: str
    spent: Spent
    has_text: bool = False
    failures: Failures = ()


class End(NamedTuple):
    """Hold how a call ends, as far as a turn reads it."""

    outcome: str
    row: int = 0
    has_text: bool = False
    is_hopeless: bool = False


Target = int | End
"""A configuration, by its number, or an end."""


class Way(NamedTuple):
    """Hold where some events of a configuration lead together.

    Arguments:
        share: the probability of these events.
        events: by their places among those of the position.
        row: by its place in the table.
        target: where they lead.
        rung: in which the next attempt waits; empty before an end.
        wait: that of the rung.
        asked: the seconds that the service asked to wait, if the policy allows so many.
        reserved: how many attempts the next one must leave to the backends to come.
    """

    share: float
    events: tuple[int, ...]
    row: int
    target: Target
    rung: str = ""
    wait: Wait = NO_WAIT
    asked: float | None = None
    reserved: int = 0


class _Lead(NamedTuple):
    """Hold where one event leads; events with equal leads are joined into one `Way`."""

    row: int
    target: Target
    rung: str
    wait: Wait
    asked: float | None


class Configurations:
    """Number the configurations of a call, and follow what comes of each.

    Arguments:
        policy, rates: of the call.
        is_timed: whether the call is followed along a clock.
        resumes: whether the call of a turn resumes a text. The turn reads whether it ended with
            text. None for a call outside of a turn.
    """

    def __init__(
        self,
        policy: Policy,
        rates: Rates,
        *,
        is_timed: bool = False,
        resumes: bool | None = None,
    ) -> None:
        is_in_turn = resumes is not None
        settings = settings_of(policy, rates, is_timed=is_timed, is_in_turn=is_in_turn)
        self.settings: ChainSettings = settings
        self.policy = policy
        self.table = policy.table
        self.rates = rates
        self.events = settings.events
        self.last = settings.last
        self.most = tuple(settings.limits.values())
        self.steps = policy.budget.attempts
        self.known: list[Configuration] = []
        self._numbers: dict[Configuration, int] = {}
        self._ways: dict[tuple[int, bool], tuple[Way, ...]] = {}
        self._row_places = {row: place for place, row in enumerate(self.table.rows)}
        # Many configurations ask the same of these two.
        self._branch_after_event = cache(self._find_branch_after_event)
        self._wait_in_rung = cache(self._find_wait_in_rung)
        nothing_spent = (0,) * len(self.most)
        self.start = self._number(Configuration(0, "fresh", nothing_spent, bool(resumes)))

    def ways(self, number: int, *, fits: bool = True) -> tuple[Way, ...]:
        """Return what comes of a configuration, with the events that lead to the same joined.

        Arguments:
            number: that of the configuration.
            fits: whether there is time for a wait that the service asks for.
        """
        key = number, fits
        if key not in self._ways:
            self._ways[key] = tuple(self._follow(self.known[number], fits))
        return self._ways[key]

    def out(
        self,
        number: int,
        rung: str,
        *,
        can_pay: bool,
    ) -> tuple[int, Target]:
        """Return the row of `ran_out` in a rung, and where it leads: the next backend, or an end.

        Arguments:
            number: the configuration that the rung would have sent to.
            rung: the rung that cannot send.
            can_pay: whether the budget allows another attempt, if none that the rung would make.
        """
        here = self.known[number]
        facts = {
            "has_text": here.has_text,
            "reserve_left": can_pay,
            "has_next_backend": here.backend < self.last,
        }
        branches = self.settings.ran_out[rung]
        row, branch = self._choose(branches, facts, self._left(here.spent))
        target = self.table.rows[row].target
        if target in self.table.outcomes:
            return row, End(target, row, here.has_text)
        spent = self._spend(here.spent, branch)
        then = Configuration(here.backend + 1, "fresh", spent, here.has_text)
        return row, self._number(then)

    def _number(self, configuration: Configuration) -> int:
        """Return the number of a configuration, without what nothing reads any more."""
        backend = configuration.backend
        reads = self.settings.reads[backend]
        has_own_rates = getattr(self.rates.backend[backend], configuration.position)
        merged = Configuration(
            backend=backend,
            position=configuration.position if has_own_rates else "fresh",
            spent=tuple(map(mul, configuration.spent, reads.counters)),
            has_text=configuration.has_text and reads.has_text,
            failures=configuration.failures if reads.failures else (),
        )
        number = self._numbers.setdefault(merged, len(self.known))
        if number == len(self.known):
            self.known.append(merged)
        return number

    def _follow(self, here: Configuration, fits: bool) -> Iterator[Way]:
        """Yield the ways out of a configuration; along a clock, no two events share one."""
        is_timed = self.settings.is_timed
        events = self.settings.prepared[here.backend, here.position]
        left = self._left(here.spent)
        joined: dict[tuple[_Lead, int], list[int]] = {}
        for place, event in enumerate(events):
            is_timeout = is_timed and event is events[-1]
            if event.rate.share or is_timeout:
                apart = place if is_timed else -1
                lead = self._lead(here, event, left, fits)
                joined.setdefault((lead, apart), []).append(place)
        for (lead, _), places in joined.items():
            yield Way(
                share=sum([events[place].rate.share for place in places]),
                events=tuple(places),
                row=lead.row,
                target=lead.target,
                rung=lead.rung,
                wait=lead.wait,
                asked=lead.asked,
                reserved=self._reserved(lead),
            )

    def _reserved(self, lead: _Lead) -> int:
        """Count the backends to come for which an attempt is reserved; a fallback needs no more."""
        place = self.table.places.get("fallbacks")
        if isinstance(lead.target, End) or lead.rung == "fallback":
            return 0
        if place is None or not self.policy.reserve.is_on:
            return 0
        then = self.known[lead.target]
        backends_left = self.last - then.backend
        fallbacks_left = self.most[place] - then.spent[place]
        return min(backends_left, fallbacks_left)

    def _lead(
        self,
        here: Configuration,
        event: PreparedEvent,
        left: Left,
        fits: bool,
    ) -> _Lead:
        """Return where an event of a configuration leads.

        Arguments:
            here: the configuration.
            event: one of its events.
            left: for each counter, whether a unit is left.
            fits: whether there is time for a wait that the service asks for.
        """
        has_text = here.has_text or event.brings_text
        failures = here.failures
        leaves = False
        if event.failure_limits or failures:
            failures, leaves = event.counted(failures)
        row, branch = self._branch_after_event(event, left, has_text, leaves, fits)
        rung = self.table.rows[row].target
        if rung in self.table.outcomes:
            is_hopeless = not HOPELESS.isdisjoint(event.rate.facts)
            end = End(rung, row, has_text, is_hopeless)
            return _Lead(row, end, "", NO_WAIT, event.asked_wait)
        spent = self._spend(here.spent, branch)
        wait = self._wait(event.rate, rung, spent)
        backend = here.backend
        if rung == "fallback":
            backend += 1
            failures = ()
        then = Configuration(
            backend=backend,
            position=position_of(rung, wait[1]),
            spent=spent,
            has_text=has_text,
            failures=failures,
        )
        return _Lead(row, self._number(then), rung, wait, event.asked_wait)

    def _find_branch_after_event(
        self,
        event: PreparedEvent,
        left: Left,
        has_text: bool,
        leaves: bool,
        fits: bool,
    ) -> tuple[int, Branch]:
        """Return the row that an event takes, by its place, and the way through it.

        Arguments:
            event: what came back.
            left: for each counter, whether a unit is left.
            has_text: whether text was gathered, that of the event included.
            leaves: whether the policy leaves the backend after so many failures.
            fits: whether there is time for a wait that the service asks for.
        """
        facts = {
            "wait_fits": fits,
            **event.facts,
            "has_text": has_text,
            "switch_asked": leaves,
        }
        return self._choose(event.branches, facts, left)

    def _choose(
        self,
        branches: Iterable[Branch],
        facts: Mapping[str, bool],
        left: Left,
    ) -> tuple[int, Branch]:
        """Choose the one way that facts and counters open; its row comes by its place."""
        answers = {**facts, **dict(zip(self.settings.limits, left, strict=True))}
        branch = next(each for each in branches if is_met(each, answers))
        assert branch.row is not None  # a table is total
        return self._row_places[branch.row], branch

    def _left(self, spent: Spent) -> Left:
        """Tell of each counter whether a unit is left."""
        return tuple(map(lt, spent, self.most))

    def _spend(self, spent: Spent, branch: Branch) -> Spent:
        """Return the units spent after a row; what is refilled is refilled first."""
        counts = list(spent)
        places = self.table.places
        for name in branch.refills:
            counts[places[name]] = 0
        if branch.takes is not None:
            counts[places[branch.takes]] += 1
        return tuple(counts)

    def _wait(
        self,
        rate: EventRate,
        rung: str,
        spent: Spent,
    ) -> Wait:
        """Return the wait in a rung after an event: the one that was asked for, or a drawn one."""
        if rate.asked_wait is not None and keeps_asked_wait(rate.event, rung):
            return rate.asked_wait, rate.asked_wait
        declared = self.table.rung(rung)
        if declared is None or declared.wait is None:
            return NO_WAIT
        units = spent[self.table.places[declared.counter]]
        return self._wait_in_rung(rung, units, rate.event, rate.reason)

    def _find_wait_in_rung(
        self,
        rung: str,
        units: int,
        event: str,
        reason: Reason | None,
    ) -> Wait:
        """Return the shortest and the longest wait that a rung draws.

        Arguments:
            rung: one that waits.
            units: those spent of its counter.
            event, reason: what came back, and why it failed.
        """
        declared = self.table.rung(rung)
        assert declared is not None
        failure = None if reason is None else Failure(reason)
        waits = self.policy.waits
        shortest = drawn_wait(waits, declared, units, event, failure, 0.0)
        longest = drawn_wait(waits, declared, units, event, failure, 1.0)
        return shortest, longest
