"""Calls followed from attempt to attempt: with their probabilities, or along a clock.

Theory

Under a budget of seconds a call does other things at 20 s than at 550 s: an attempt ends where its
backend's part of the budget ends (`AttemptClocks.ends_by`), a wait that would end later is not
begun
(`ran_out`), and one that a service asks for may no longer fit. So the state is a configuration with
the time. A probability becomes a distribution over the points of a grid (`grid.py`) from 0 to the
budget; a duration or a wait moves it, what moves beyond is cut.

Money is no part of the state: its mean is exact, but its distribution takes what an attempt costs
to depend on the number of the attempt and its configuration alone, not on how late it is. The
reserve of the backends to come depends on the time of arrival only in chains longer than 1 /
`share`; then that of the latest arrival is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from attrs import define, field

from rungwise.fsm.analysis.odds.configurations import NO_WAIT, Configurations, End, Wait, Way
from rungwise.fsm.analysis.odds.grid import POINTS, Flow, masses_of, numpy, uniform
from rungwise.fsm.call.budget.reserve import reserved_seconds

LIGHT: Final = 1 / 100
"""How light a configuration is at first that is left out, as a part of all that may be; then a
third of that.
"""

MOST_FOLLOWED: Final = 15_000
"""The configurations after which no more are followed, though more is left out than should be: it
took seconds.
"""


class NoClock:
    """Follow calls whose time suffices: a mass is a probability."""

    def __init__(self, chain: Any) -> None:
        self.chain = chain  # the configurations of a call or of a turn
        self.start: Any = 1.0

    def weight(self, mass: Any) -> float:
        """Return the probability of a mass."""
        return float(mass)

    def ways(self, number: int, mass: Any) -> Iterator[tuple[Way, Any]]:
        """Yield each way out of a configuration, with the mass that goes it."""
        return ((way, mass * way.share) for way in self.chain.ways(number))

    def wait(self, mass: Any, way: Way) -> tuple[Any, Any, float]:
        """Return the mass that has waited for the next attempt, that for which there is no time,
        and the mean wait.
        """
        return mass, 0.0, mass * sum(way.wait) / 2

    def payable(self, mass: Any) -> Iterator[tuple[bool, Any]]:
        """Yield the parts of a mass that cannot go on here, and whether time is left for another
        backend.
        """
        yield True, mass


class Clock(NoClock):
    """Follow calls along a grid of time: a mass is a probability at each point, the last one that
    of the budget.
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
        """Yield each way with the mass that goes it, moved by how long the attempt takes, or cut at
        its end.
        """
        here = self.chain.known[number]
        end = self.ends[here.backend]
        in_time = 0.0
        arrived = self._transform(mass)
        late = self.np.zeros(POINTS)
        timed_out = None
        timeout = len(self.chain.events[here.backend, here.position]) - 1
        for fits in (True, False):
            for way in self.chain.ways(number, fits=fits):
                if not fits and way.asked is None:
                    continue
                moved = self._moved(
                    arrived, self._spectrum(here.backend, here.position, way.events)
                )
                moved[end + 1 :] = 0.0
                if way.asked is not None:
                    latest = max(end - round(way.asked / self.step), 0)
                    moved[slice(latest, None) if fits else slice(latest)] = 0.0
                in_time += self.weight(moved)
                if way.events[0] == timeout:
                    timed_out = way
                    late = moved
                else:
                    yield way, moved
        assert timed_out is not None  # the chain of a clock has it in each position
        late[end] += max(self.weight(mass) - in_time, 0.0)
        yield timed_out, late

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
        yield from ((True, mass - at_end), (False, at_end))

    def _ends(self, limit: float) -> Iterator[float]:
        policy = self.chain.policy
        end = 0.0
        place = self.chain.table.places.get("fallbacks")
        most = 0 if place is None or not policy.reserve.is_on else self.chain.most[place]
        for backend in range(self.chain.last + 1):
            to_come = min(self.chain.last - backend, max(most - backend, 0))
            each = min(reserved_seconds(policy, limit, to_come + 1), (limit - end) / (to_come + 1))
            end = limit - to_come * each
            yield end

    def _transform(self, mass: Any) -> Any:
        return self.np.fft.rfft(mass, 2 * POINTS)

    def _moved(self, mass: Any, by: Any) -> Any:
        return self.np.clip(self.np.fft.irfft(mass * by, 2 * POINTS)[:POINTS], 0.0, None)

    def _transformed(self, backend: int, position: str, events: tuple[int, ...]) -> Any:
        """Return the transform of what some events add to the time, each with its share."""
        rates = [self.chain.events[backend, position][place] for place in events]
        return self._transform(
            sum(rate.share * masses_of(rate.seconds, self.step) for rate in rates)
        )

    def _spread(self, wait: Wait) -> tuple[Any, Any]:
        """Return the transform of a wait, and for each point the share that is at least so long."""
        masses = uniform(*wait, self.step)
        return self._transform(masses), 1.0 - self.np.concatenate([[0.0], masses.cumsum()[:-1]])


def _counts() -> Any:
    return defaultdict(float)


@define
class Followed:
    """Gather what the walk along the attempts finds, by number or name."""

    layers: list[list[Flow]] = field(factory=list)
    # how many after each number of attempts
    ended_after: dict[End, list[float]] = field(factory=dict)
    asked: set[int] = field(factory=set)
    # events of a backend and position
    came: dict[tuple[Any, tuple[int, ...]], float] = field(factory=_counts)
    ended_at: dict[End, Any] = field(factory=_counts)  # under a clock, at each point
    waited: float = 0.0
    left_out: float = 0.0


def walk(clock: NoClock, most: float) -> Followed:
    """Follow all calls, and leave out so much at most."""
    light = most * LIGHT
    while (walked := walk_all_but(clock, light)).left_out > most and len(
        walked.asked
    ) < MOST_FOLLOWED:
        light /= 3
    return walked


def walk_all_but(clock: NoClock, light: float) -> Followed:
    """Follow calls attempt by attempt, but for configurations lighter than this."""
    chain = clock.chain
    walked = Followed()
    weight = clock.weight
    masses = {chain.start: clock.start}
    for attempt in range(1, chain.steps + 1):
        flows = list[Flow]()
        then = _counts()
        left = chain.steps - attempt
        for number, mass in masses.items():
            share = weight(mass)
            if share < light:
                walked.left_out += share
                continue
            walked.asked.add(number)
            for way, moved in clock.ways(number, mass):
                walked.came[chain.known[number][:2], way.events] += weight(moved)
                for target, rows, wait, part in _parts(clock, way, moved, left, walked):
                    if not (moves := weight(part)):
                        continue
                    flows.append(Flow(number, target, way.events, moves / share, wait, rows))
                    if isinstance(target, End):
                        walked.ended_after.setdefault(target, [0.0] * (chain.steps + 1))[
                            attempt
                        ] += moves
                        walked.ended_at[target] = walked.ended_at[target] + part
                    else:
                        then[target] = then[target] + part
        walked.layers.append(flows)
        masses = then
    return walked


def _parts(
    clock: NoClock, way: Way, moved: Any, left: int, walked: Followed
) -> Iterator[tuple[int | End, tuple[int, ...], Wait, Any]]:
    """Yield where the parts of a mass go that takes a way, by which rows, and after which wait."""
    if isinstance(way.target, End):
        yield way.target, (way.row,), NO_WAIT, moved
        return
    late = moved
    if left > way.reserved:
        gone, late, waited = clock.wait(moved, way)
        walked.waited += waited
        yield way.target, (way.row,), way.wait, gone
    for can_pay, part in clock.payable(late) if clock.weight(late) else ():
        row, target = clock.chain.out(way.target, way.rung, can_pay=can_pay and left > 0)
        yield target, (way.row, row), NO_WAIT, part
