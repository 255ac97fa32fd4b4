"""What a call's configurations read of a policy and its rates, computed before any is numbered.

Nothing here depends on a configuration: which events can come, which ways through the table's rows
each of them leaves open, and what the rest of a call can still read at each backend. The last of
these decides which configurations can be merged; `configurations.py` says why that is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import combinations
from typing import Final

from attrs import evolve, frozen

from rungwise.fsm.analysis.odds.rates import NOTHING, POSITIONS, SETTLED, EventRate, Rates
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.limits import LARGEST_LIMIT
from rungwise.fsm.call.policy import BROKEN_STREAM, Policy
from rungwise.fsm.call.run.facts import kinds_of
from rungwise.fsm.call.table import MAY_ASK
from rungwise.fsm.engine.checker.branches import Branch, branches
from rungwise.fsm.engine.journal.record import Evidence
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import did_you_mean

Place = tuple[int, str]
"""A backend, by its place in the chain, and the position of an attempt there."""

Failures = tuple[tuple[str, int], ...]
"""The failures at a backend, by their names in `switch_after`."""

TEXT: Final = frozenset({"added_text", "has_text"})
"""The facts of a reply that brings text."""

OPEN: Final = frozenset({"has_text", "switch_asked", "wait_fits"})
"""The facts that follow from the configuration or the clock."""

TIMED_OUT: Final = EventRate(event="failed_transiently", reason="timeout", share=0)
"""What comes of an attempt that takes too long; the last event of each position."""


@frozen(eq=False)
class PreparedEvent:
    """Hold an event of the rates at a backend, with all that does not depend on a configuration.

    Arguments:
        rate: the event, and what it brings.
        facts: the facts that are settled at this backend, each with whether it holds.
        branches: the ways through the rows of the event that these facts and the limits leave
            open.
        failure_limits: the kinds of failures that the event counts as, each with the number at
            which the policy leaves the backend.
        asked_wait: the seconds that the service asks to wait, if the policy allows so many.
        brings_text: whether text is gathered once it has come.
    """

    rate: EventRate
    facts: Mapping[str, bool]
    branches: tuple[Branch, ...]
    failure_limits: tuple[tuple[str, int], ...]
    asked_wait: float | None
    brings_text: bool

    def counted(self, failures: Failures) -> tuple[Failures, bool]:
        """Count the event among the failures, and tell whether the policy leaves the backend now.

        A call counts alike: text mends a broken stream, and a stale connection is no failure.
        """
        counts = dict(failures)
        leaves = False
        if "added_text" in self.rate.facts:
            counts.pop(BROKEN_STREAM, None)
        is_new = "connection_was_stale" not in self.rate.facts
        for kind, most in self.failure_limits:
            count = min(counts.get(kind, 0) + is_new, most)
            counts[kind] = count
            if count >= most:
                leaves = True
        return tuple(sorted(counts.items())), leaves


@frozen
class Reads:
    """Say what the rest of a call can still read once it is at a backend.

    Arguments:
        has_text: whether it matters that text was gathered.
        failures: whether it matters how often the backend failed.
        counters: for each counter of the table, whether its count matters.
    """

    has_text: bool
    failures: bool
    counters: tuple[bool, ...]


@frozen(kw_only=True, eq=False)
class ChainSettings:
    """Hold what the configurations of a call have in common.

    Arguments:
        policy, rates: what the call runs under, and against.
        is_timed: whether the calls are followed along a clock.
        limits: the limit of each counter, in the table's order.
        last: the place of the last backend.
        events: the events of each place; under a clock the last one is `TIMED_OUT`.
        prepared: the same events, prepared.
        ran_out: the ways through the rows of `ran_out` in each rung.
        reads: what can be read at each backend.
    """

    policy: Policy
    rates: Rates
    is_timed: bool
    limits: Mapping[str, int]
    last: int
    events: Mapping[Place, tuple[EventRate, ...]]
    prepared: Mapping[Place, tuple[PreparedEvent, ...]]
    ran_out: Mapping[str, tuple[Branch, ...]]
    reads: tuple[Reads, ...]


def settings_of(
    policy: Policy,
    rates: Rates,
    *,
    is_timed: bool,
    is_in_turn: bool,
) -> ChainSettings:
    """Compute the settings of a chain.

    Arguments:
        policy: the policy of the calls.
        rates: of each backend, in the order of the chain.
        is_timed: whether the calls are followed along a clock.
        is_in_turn: whether a turn around them reads if they ended with text.

    Raises:
        ConfigurationError: the rates name a fact or an event that the table does not have.
    """
    table = policy.table
    backends = range(len(rates.backend))
    places = [(backend, position) for backend in backends for position in POSITIONS]
    limits = policy.limits.bounded(table.limits, len(rates.backend))
    events = {}
    for backend, position in places:
        every = rates.backend[backend].at(position)
        in_time = _in_time(every, policy.timeouts.total, is_timed=is_timed)
        events[backend, position] = tuple(in_time)
    prepare = _Preparing(policy, limits, last=len(rates.backend) - 1)
    prepared = {}
    for backend, position in places:
        rates_there = events[backend, position]
        prepared[backend, position] = tuple([prepare.event(rate, backend) for rate in rates_there])
    ran_out = {rung: branches(table, "ran_out", rung) for rung in table.rungs}
    reads = []
    for backend in backends:
        names = _names_read(prepared, ran_out.values(), backend)
        counters = tuple([name in names for name in limits])
        reads.append(Reads(is_in_turn or "has_text" in names, "switch_asked" in names, counters))
    return ChainSettings(
        policy=policy,
        rates=rates,
        is_timed=is_timed,
        limits=limits,
        last=len(rates.backend) - 1,
        events=events,
        prepared=prepared,
        ran_out=ran_out,
        reads=tuple(reads),
    )


def _in_time(
    rates: Iterable[EventRate],
    total: float | None,
    *,
    is_timed: bool,
) -> Iterator[EventRate]:
    """Yield events within the `total` seconds of an attempt; what takes longer has timed out."""
    late = 0.0
    for rate in rates:
        kept = [pair for pair in rate.seconds if total is None or pair[0] <= total]
        if len(kept) == len(rate.seconds):
            yield rate
            continue
        weight_kept = sum(weight for _, weight in kept)
        weight_of_all = sum(weight for _, weight in rate.seconds)
        share = rate.share * weight_kept / weight_of_all
        late += rate.share - share
        yield evolve(rate, share=share, seconds=kept or NOTHING)
    if late or is_timed:
        yield evolve(TIMED_OUT, share=late, seconds=total or 0)


class _Preparing:
    """Prepare the events of a policy's rates."""

    def __init__(
        self,
        policy: Policy,
        limits: Mapping[str, int],
        last: int,
    ) -> None:
        self.policy = policy
        self.limits = limits
        self.last = last
        self.branches_of = cache(partial(branches, policy.table))  # for each event, not each place

    def event(self, rate: EventRate, backend: int) -> PreparedEvent:
        """Prepare an event at a backend.

        Raises:
            ConfigurationError: the table does not have a fact of it, or does not take it.
        """
        policy = self.policy
        table = policy.table
        _check_facts(rate, table)
        every = self.branches_of(rate.event, table.hub)
        if not every:
            raise ConfigurationError(
                f"the rates name the event {rate.event!r}, which the table does not take"
            )
        facts = {name: name in rate.facts for name in table.found_facts if name not in OPEN}
        facts["has_next_backend"] = backend < self.last
        facts["refusal_ends"] = policy.after_refusal == "end"
        brings_text = not TEXT.isdisjoint(rate.facts)
        known = {**facts, "has_text": True} if brings_text else facts
        asked_wait = rate.asked_wait if rate.event in MAY_ASK else None
        if asked_wait is None:
            facts["wait_fits"] = True
        elif asked_wait > policy.waits.longest_asked:
            facts["wait_fits"] = False
            asked_wait = None
        branches = [each for each in every if self._is_open(each, known)]
        return PreparedEvent(
            rate=rate,
            facts=facts,
            branches=tuple(branches),
            failure_limits=tuple(self._failure_limits(rate)),
            asked_wait=asked_wait,
            brings_text=brings_text,
        )

    def _is_open(self, branch: Branch, facts: Mapping[str, bool]) -> bool:
        """Tell whether known facts and limits leave a way open."""
        if not all(facts.get(name, held) is held for name, held in branch.facts.items()):
            return False
        return all(self.limits[name] for name in branch.left)

    def _failure_limits(self, rate: EventRate) -> Iterator[tuple[str, int]]:
        evidence = Evidence(rate.event, reason=rate.reason, asked_wait=rate.asked_wait)
        kinds = kinds_of(Observation(evidence=evidence), "added_text" in rate.facts)
        for kind in kinds:
            most = self.policy.switch_after.get(kind, LARGEST_LIMIT)
            if most < LARGEST_LIMIT:
                yield kind, most


def _check_facts(rate: EventRate, table: Table) -> None:
    """Refuse a fact that the table does not find in replies."""
    for name in rate.facts:
        if name not in table.found_facts:
            names = [each for each in table.found_facts if each not in SETTLED]
            hint = did_you_mean(name, names, f"there are: {', '.join(names)}")
            raise ConfigurationError(f"the rates name an unknown fact {name!r}; {hint}")


def conditions_of(branch: Branch) -> dict[str, bool]:
    """Return what a way needs: of each fact it reads, and whether a unit is left of a counter."""
    left = dict.fromkeys(branch.left, True)
    spent = dict.fromkeys(branch.spent, False)
    return {**branch.facts, **left, **spent}


def is_met(branch: Branch, answers: Mapping[str, bool]) -> bool:
    """Tell whether the answers are those that a way needs; a fact that has none does not hold."""
    needs = conditions_of(branch)
    return all(answers.get(name, False) is held for name, held in needs.items())


def _names_read(
    prepared: Mapping[Place, Sequence[PreparedEvent]],
    ran_out: Iterable[tuple[Branch, ...]],
    backend: int,
) -> set[str]:
    """Name the facts that matter at a backend, and the counters that are taken there or later.

    Only a row that takes a unit of a counter has checked it.
    """
    names = set[str]()
    for (later, _), events in prepared.items():
        if later < backend:
            continue
        for event in events:
            names.update(branch.takes for branch in event.branches if branch.takes)
            if later == backend:
                names |= _mattering(event.branches)
    for each in ran_out:
        names |= _mattering(each)
    return names


def _mattering(ways: tuple[Branch, ...]) -> set[str]:
    """Name the facts and counters on which the row depends.

    Such a name is the only one in which two ways differ, and they do not lead to the same.
    """
    names = set[str]()
    for one, other in combinations(ways, 2):
        needs = conditions_of(one)
        others_needs = conditions_of(other)
        apart = []
        for name, held in needs.items():
            if others_needs.get(name, held) is not held:
                apart.append(name)
        leads_elsewhere = _led_by(one) != _led_by(other)
        if leads_elsewhere and len(apart) == 1:
            names.add(apart[0])
    return names


def _led_by(way: Branch) -> tuple[object, ...]:
    """Return what a way leads to: its row, and what happens to the counters."""
    return way.row, way.takes, way.refills
