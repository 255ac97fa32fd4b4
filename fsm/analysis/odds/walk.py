"""Calls followed from attempt to attempt: with their probabilities, or along a clock.

Theory: the state under a clock

Under a budget of seconds a call does other things at 20 s than at 550 s: an attempt ends where its
backend's part of the budget ends (`AttemptClocks.ends_by`), a wait that would end later is not
begun (`ran_out`), and one that a service asks for may no longer fit. So the state is a
configuration with the time. A probability becomes a distribution over the points of a grid
(`grid.py`) from 0 to the budget. A duration or a wait moves it, and what moves beyond the end is
cut.

Money is no part of the state. Its mean is exact, but its distribution assumes that what an attempt
costs depends on its number and its configuration alone, not on how late it is. The reserve of the
backends to come depends on the time of arrival only in chains longer than 1 / `share`; then the
latest arrival decides.

What it costs: each attempt visits each configuration once. Configurations that are too light are
left out, and the probability of all paths through them is reported. Under a clock each visit takes
a few Fourier transforms of the grid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from attrs import define, field

from rungwise.fsm.analysis.odds.configurations import (
    NO_WAIT,
    Configurations,
    End,
    Target,
    Wait,
    Way,
)
from rungwise.fsm.analysis.odds.grid import POINTS, Flow, masses_of, numpy, uniform
from rungwise.fsm.call.budget.reserve import reserved_seconds

LIGHT: Final = 1 / 100
"""The walk first leaves out configurations lighter than this part of all that may be left out.

If that is too much in all, it tries a third of the weight, and so on.
"""

MOST_FOLLOWED: Final = 15_000
"""With so many configurations, which take seconds, the walk leaves out more than it should."""


class NoClock:
    """Follow calls whose time suffices: a mass is a probability.

    Arguments:
        chain: the configurations of a call or of a turn.
    """

    def __init__(self, chain: Any) -> None:
        self.chain = chain
        self.start: Any = 1.0

    def weight(self, mass: Any) -> float:
        """Return the probability of a mass."""
        return float(mass)

    def ways(self, number: int, mass: Any) -> Iterator[tuple[Way, Any]]:
        """Yield each way out of a configuration, with the mass that goes it."""
        for way in self.chain.ways(number):
            yield way, mass * way.share

    def wait(self, mass: Any, way: Way) -> tuple[Any, Any, float]:
        """Let a mass wait for the next attempt.

        Return the mass that has waited, that for which there is no time, and the mean wait.
        """
        return mass, 0.0, mass * sum(way.wait) / 2

    def payable(self, mass: Any) -> Iterator[tuple[bool, Any]]:
        """Part a mass that cannot go on here by whether time is left for another backend."""
        yield True, mass


class Clock(NoClock):
    """Follow calls along a grid of time: a mass is a probability at each point.

    The last point is the end of the budget.

    Arguments:
        chain: the configurations, with the events that time out.
        limit: the budget, in seconds.
    """

    def __init__(self, chain: Configurations, limit: float) -> None:
        self.np = numpy()
        self.chain = chain
        self.step = limit / (POINTS - 1)
        self.start = self.np.zeros(POINTS)
        self.start[0] = 1.0
        self.ends = [round(end / self.step) for end in self._ends(limit)]
        self._spectrum = cache(self._transformed)
        self._waits = cache(self._spread)

    def weight(self, mass: Any) -> float:
        """Return the probability of a mass at all points."""
        return float(mass.sum())

    def ways(self, number: int, mass: Any) -> Iterator[tuple[Way, Any]]:
        """Yield each way out of a configuration, with the mass that goes it.

        The mass is moved by how long the attempt takes. What would end after the backend's part of
        the budget times out there.
        """
        here = self.chain.known[number]
        timeout = len(self.chain.events[here.backend, here.position]) - 1
        in_time = 0.0
        timed_out = None
        late = self.np.zeros(POINTS)
        for way, moved in self._ways_in_time(number, self._transform(mass)):
            in_time += self.weight(moved)
            if way.events[0] == timeout:
                timed_out = way
                late = moved
            else:
                yield way, moved
        assert timed_out is not None  # the chain of a clock has it in each position
        # What has not come in time times out at the end of the backend's part.
        late[self.ends[here.backend]] += max(self.weight(mass) - in_time, 0.0)
        yield timed_out, late

    def _ways_in_time(self, number: int, arrived: Any) -> Iterator[tuple[Way, Any]]:
        """Yield each way with what goes it before the backend's part of the budget ends.

        An event that asks for a wait leads two ways: one while that wait fits into the budget, and
        another one later. Any other event leads the same way at all times.
        """
        here = self.chain.known[number]
        end = self.ends[here.backend]
        for fits in (True, False):
            for way in self.chain.ways(number, fits=fits):
                if not fits and way.asked is None:  # the same way as if one fits
                    continue
                added = self._spectrum(here.backend, here.position, way.events)
                moved = self._moved(arrived, added)
                moved[end + 1 :] = 0.0
                if way.asked is not None:
                    # From this point on, the wait would end after the backend's part.
                    latest = max(end - round(way.asked / self.step), 0)
                    if fits:
                        moved[latest:] = 0.0
                    else:
                        moved[:latest] = 0.0
                yield way, moved

    def wait(self, mass: Any, way: Way) -> tuple[Any, Any, float]:
        """Move a mass by a wait, but for what would then be too late."""
        assert isinstance(way.target, int)
        end = self.ends[self.chain.known[way.target].backend]
        late = mass.copy()
        late[:end] = 0.0
        if way.wait == NO_WAIT:
            return mass - late, late, 0.0
        spectrum, longer = self._waits(way.wait)
        waited = self._moved(self._transform(mass), spectrum)
        waited[end:] = 0.0
        late[:end] = mass[:end] * longer[end:0:-1]
        return waited, late, self.mean(waited) - self.mean(mass - late)

    def mean(self, mass: Any) -> float:
        """Return the mean of the time, times the probability of the mass."""
        return float(mass @ self.np.arange(POINTS)) * self.step

    def payable(self, mass: Any) -> Iterator[tuple[bool, Any]]:
        """Part the mass before the end of the budget from that at its end."""
        at_end = self.np.zeros(POINTS)
        at_end[-1] = mass[-1]
        yield True, mass - at_end
        yield False, at_end

    def _ends(self, limit: float) -> Iterator[float]:
        """Yield when the part of each backend ends, in seconds: the rest is reserved for others."""
        policy = self.chain.policy
        place = self.chain.table.places.get("fallbacks")
        fallbacks = 0
        if place is not None and policy.reserve.is_on:
            fallbacks = self.chain.most[place]
        end = 0.0
        for backend in range(self.chain.last + 1):
            to_come = min(self.chain.last - backend, max(fallbacks - backend, 0))
            reserved = reserved_seconds(policy, limit, to_come + 1)
            share = (limit - end) / (to_come + 1)
            end = limit - to_come * min(reserved, share)
            yield end

    def _transform(self, mass: Any) -> Any:
        return self.np.fft.rfft(mass, 2 * POINTS)

    def _moved(self, mass: Any, by: Any) -> Any:
        moved = self.np.fft.irfft(mass * by, 2 * POINTS)
        return self.np.clip(moved[:POINTS], 0.0, None)

    def _transformed(
        self,
        backend: int,
        position: str,
        events: tuple[int, ...],
    ) -> Any:
        """Return the transform of what some events add to the time, each with its share."""
        rates = [self.chain.events[backend, position][place] for place in events]
        return self._transform(
            sum(rate.share * masses_of(rate.seconds, self.step) for rate in rates)
        )

    def _spread(self, wait: Wait) -> tuple[Any, Any]:
        """Return the transform of a wait, and for each point the share that is at least so long."""
        masses = uniform(*wait, self.step)
        shorter = self.np.concatenate([[0.0], masses.cumsum()[:-1]])
        return self._transform(masses), 1.0 - shorter


def _counts() -> Any:
    return defaultdict(float)


@define
class Followed:
    """Gather what the walk along the attempts finds.

    Arguments:
        layers: the flows out of each attempt.
        ended_after: for each end, the share of the calls after each number of attempts.
        asked: the numbers of the configurations that were followed.
        came: how often events came, by the backend and position, and their places there.
        ended_at: for each end, its mass; under a clock, at each point.
        waited: the seconds of all waits, on average.
        left_out: the probability of what was not followed.
    """

    layers: list[list[Flow]] = field(factory=list)
    ended_after: dict[End, list[float]] = field(factory=dict)
    asked: set[int] = field(factory=set)
    came: dict[tuple[Any, tuple[int, ...]], float] = field(factory=_counts)
    ended_at: dict[End, Any] = field(factory=_counts)
    waited: float = 0.0
    left_out: float = 0.0


def walk(clock: NoClock, most: float) -> Followed:
    """Follow all calls, and leave out so much at most."""
    light = most * LIGHT
    walked = walk_all_but(clock, light)
    while walked.left_out > most and len(walked.asked) < MOST_FOLLOWED:
        light /= 3
        walked = walk_all_but(clock, light)
    return walked


def walk_all_but(clock: NoClock, light: float) -> Followed:
    """Follow calls attempt by attempt, but for configurations lighter than this."""
    chain = clock.chain
    walked = Followed()
    masses = {chain.start: clock.start}
    for attempt in range(1, chain.steps + 1):
        flows = list[Flow]()
        then = _counts()
        attempts_left = chain.steps - attempt
        for number, mass in masses.items():
            share = clock.weight(mass)
            if share < light:
                walked.left_out += share
                continue
            walked.asked.add(number)
            place = chain.known[number][:2]
            for way, moved in clock.ways(number, mass):
                walked.came[place, way.events] += clock.weight(moved)
                for part in _parts(clock, way, moved, attempts_left, walked):
                    moves = clock.weight(part.mass)
                    if not moves:
                        continue
                    target = part.target
                    flow = Flow(
                        source=number,
                        target=target,
                        events=way.events,
                        share=moves / share,
                        wait=part.wait,
                        rows=part.rows,
                    )
                    flows.append(flow)
                    if not isinstance(target, End):
                        then[target] = then[target] + part.mass
                        continue
                    never = [0.0] * (chain.steps + 1)
                    walked.ended_after.setdefault(target, never)[attempt] += moves
                    walked.ended_at[target] = walked.ended_at[target] + part.mass
        walked.layers.append(flows)
        masses = then
    return walked


class _Part(NamedTuple):
    """Hold where a part of a mass goes, by which rows of the table, and after which wait."""

    target: Target
    rows: tuple[int, ...]
    wait: Wait
    mass: Any


def _parts(
    clock: NoClock,
    way: Way,
    moved: Any,
    attempts_left: int,
    walked: Followed,
) -> Iterator[_Part]:
    """Part the mass that takes a way: what goes on, and what has no time or attempt left.

    Arguments:
        clock: what the calls are followed along.
        way: the way.
        moved: the mass.
        attempts_left: those that the budget allows after this one.
        walked: where the mean wait is added.
    """
    if isinstance(way.target, End):
        yield _Part(way.target, (way.row,), NO_WAIT, moved)
        return
    late = moved
    if attempts_left > way.reserved:
        gone, late, waited = clock.wait(moved, way)
        walked.waited += waited
        yield _Part(way.target, (way.row,), way.wait, gone)
    if not clock.weight(late):
        return
    for has_time, mass in clock.payable(late):
        can_pay = has_time and attempts_left > 0
        row, target = clock.chain.out(way.target, way.rung, can_pay=can_pay)
        yield _Part(target, (way.row, row), NO_WAIT, mass)
