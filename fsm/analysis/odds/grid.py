"""The distribution of a sum along the chain, such as time or money, on a grid.

Theory: what the grid's error is

Time is a sum of durations and waits, and money one of what prompts and replies cost. Each term is
rounded to the nearest point of a grid with a step h, so it moves by h/2 at most, and a sum of n
attempts with two terms each by n h. `error` is that of the attempts that all but one call in ten
thousand need. Means need no grid.

The distribution of a sum is the convolution of those of its terms; their Fourier transforms are
multiplied. So each configuration holds the transform of what its calls have spent, each way
multiplies by that of what it adds, and one inverse at the end gives the distribution. A transform
of N points wraps: a sum beyond the range N h counts as that sum less N h. So the mass at the point
k is damped by r^k with r^N = 1e-8, which the inverse takes back; what wraps is then 1e-8 of itself
(Abate and Whitt 1992). The range R is Chernoff's: the same walk with exp(s x) for some real s gives
E exp(s X), and at most exp(-s R) times that of the calls lies beyond R. The least R is taken that
leaves no more than `beyond` there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import ceil, exp, prod
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from rungwise.fsm.analysis.odds.configurations import NO_WAIT, Wait
from rungwise.fsm.analysis.odds.rates import NOTHING, Histogram
from rungwise.fsm.errors import ConfigurationError

POINTS: Final = 2048
WRAPS: Final = 1e-8
# shares closer than this count as equal: so much was left out, or lies beyond the grid
SLACK: Final = 1e-5
LEVELS: Final = tuple([1 - 10 ** (-place / 50) for place in range(200)])
"""The shares at which a curve has points: fifty for each nine, up to all calls but 1 in 10 000."""

SLOPES: Final = tuple([2.0 ** (power / 2 - 6) for power in range(24)])
"""The values of s that are tried, scaled so that the largest term is 1."""


class Flow(NamedTuple):
    """Hold what passes from one attempt to the next.

    Arguments:
        source: the number of the configuration that it leaves.
        target: a configuration, by its number, or an end.
        events: those that lead there, by their places.
        share: of what was in the configuration.
        wait: before the next attempt.
        rows: those that are taken, by their places in the table.
    """

    source: int
    target: Any
    events: tuple[int, ...]
    share: float
    wait: Wait = NO_WAIT
    rows: tuple[int, ...] = ()


Layers = Sequence[Sequence[Flow]]
"""The flows out of each attempt."""

EventTerms = Sequence[tuple[float, Sequence[Histogram]]]
"""The share of each event of a configuration, and the histograms of the terms that it adds."""

Terms = Callable[[int], EventTerms]
"""Returns the terms of a configuration, by its number."""


class Distribution(NamedTuple):
    """Hold the share of the calls up to each point of a grid.

    Arguments:
        step: the distance between two points.
        up_to: the share of the calls up to each point.
        tails: slopes s, each with E exp(s X), which bounds what lies beyond a value.
        ended: the mass at each point, by the end of the call.
    """

    step: float
    up_to: Sequence[float]
    tails: Sequence[tuple[float, float]] = ((0.0, 0.0),)
    ended: Mapping[Any, Sequence[float]] = MappingProxyType({})

    def quantile(self, share: float) -> float | None:
        """Return the least point that this share of the calls does not exceed.

        It is None if the point lies beyond the grid.
        """
        place = bisect_left(self.up_to, share - SLACK)
        return place * self.step if place < len(self.up_to) else None

    @property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """Return at most 200 points, each with the share of the calls up to it."""
        places = {bisect_left(self.up_to, level - SLACK) for level in LEVELS}
        points = []
        for place in sorted(places):
            if place < len(self.up_to):
                points.append((place * self.step, self.up_to[place]))
        return tuple(points)

    def histogram(self, end: Any) -> Histogram:
        """Return the values of the calls that ended so."""
        masses = enumerate(self.ended.get(end, ()))
        values = [(place * self.step, mass) for place, mass in masses if mass > 0]
        return tuple(values) or NOTHING

    def most_from(self, value: float) -> float:
        """Return a share that those from this value on do not exceed."""
        return min(bound * exp(-slope * value) for slope, bound in self.tails)

    def over(self, limit: float | None, left_out: float) -> float | None:
        """Return the share beyond a limit by more than rounding; None without a limit.

        Arguments:
            limit: the value.
            left_out: the probability that the walk left out, which is not counted.
        """
        if limit is None:
            return None
        if not self.step:
            return 0.0
        place = ceil(limit / self.step + 0.5)
        place = min(place, len(self.up_to))
        rest = 1.0 - left_out - self.up_to[place - 1]
        return max(0.0, min(rest, self.most_from(limit)))


def numpy() -> Any:
    """Import numpy, or raise a ConfigurationError."""
    try:
        import numpy as np
    except ImportError:
        raise ConfigurationError("the odds need numpy: pip install 'rungwise[odds]'") from None
    return np


def _edges(step: float, points: int) -> Any:
    return (numpy().arange(points + 1) - 0.5) * step


def masses_of(histogram: Histogram, step: float, points: int = POINTS) -> Any:
    """Return the mass of a histogram at each point; what lies beyond the last one is left out."""
    np = numpy()
    values, weights = np.array(histogram).T
    edges = _edges(step, points)
    masses, _ = np.histogram(values, edges, weights=weights)
    return masses / weights.sum()


def uniform(
    least: float,
    most: float,
    step: float,
    points: int = POINTS,
) -> Any:
    """Return the mass at each point of what is as likely anywhere between two values.

    Arguments:
        least, most: the values, which may be the same.
        step: the distance between two points.
        points: how many there are.
    """
    if least == most:
        return masses_of(((least, 1),), step, points)
    np = numpy()
    up_to = (_edges(step, points) - least) / (most - least)
    return np.diff(np.clip(up_to, 0.0, 1.0))


def distribution_of(
    layers: Layers,
    start: int,
    terms: Terms,
    most: float,
    *,
    beyond: float,
    points: int,
    is_whole: bool = False,
) -> Distribution:
    """Return the distribution of a sum, on a grid as fine as its range allows.

    Arguments:
        layers: the flows along which it grows.
        start: the number of the first configuration.
        terms: what each configuration adds.
        most: the largest term, a wait included.
        beyond: the most probability that lies beyond the grid.
        points: those of the grid.
        is_whole: whether the terms are whole numbers; then the step is, too.

    Raises:
        ConfigurationError: numpy is missing.
    """
    np = numpy()
    if not most:
        return Distribution(0.0, [1.0])
    slopes = np.array(SLOPES) / most
    with np.errstate(over="ignore"):  # the steepest slopes bound nothing then
        bounds = _bounds_of(layers, start, terms, slopes)
        chernoff = np.log(bounds / beyond) / slopes
        step = float(np.min(chernoff)) / (points - 1)
    if is_whole:
        step = ceil(step)
    tails = list(zip(slopes.tolist(), bounds.tolist(), strict=True))
    damping = WRAPS ** (np.arange(points) / points)

    @cache
    def damped(histogram: Histogram) -> Any:
        return np.fft.rfft(masses_of(histogram, step, points) * damping)

    def damped_wait(least: float, most: float) -> Any:
        return np.fft.rfft(uniform(least, most, step, points) * damping)

    ended = {}
    transforms = _sum_of(layers, start, terms, damped, damped_wait)
    for end, transform in transforms.items():
        masses = np.fft.irfft(transform, points) / damping
        ended[end] = np.clip(masses, 0.0, 1.0)
    up_to = np.cumsum(sum(ended.values()))
    return Distribution(step, up_to.tolist(), tails, ended)


def _bounds_of(
    layers: Layers,
    start: int,
    terms: Terms,
    slopes: Any,
) -> Any:
    """Return E exp(s X) of the sum X for each slope s, which bounds its tail.

    Arguments:
        layers, start, terms: as in `distribution_of`.
        slopes: an array of the slopes.
    """
    np = numpy()

    @cache
    def exponential(histogram: Histogram) -> Any:
        values, weights = np.array(histogram).T
        raised = np.exp(np.outer(slopes, values))
        return raised @ weights / weights.sum()

    def exponential_wait(least: float, most: float) -> Any:
        return np.exp(slopes * most)

    return sum(_sum_of(layers, start, terms, exponential, exponential_wait).values())


def _sum_of(
    layers: Layers,
    start: int,
    terms: Terms,
    transform: Any,
    transform_of_wait: Any,
) -> dict[Any, Any]:
    """Follow the transforms of a sum along all flows, and return that of each end.

    Arguments:
        layers, start, terms: as in `distribution_of`.
        transform: returns that of a histogram.
        transform_of_wait: returns that of a wait between two values.
    """
    added: dict[object, Any] = {}
    ended = dict[Any, Any]()
    now = {start: 1.0}
    for flows in layers:
        then: dict[int, Any] = {}
        for flow in flows:
            every = terms(flow.source)
            key = id(every), flow.events, flow.wait
            if key not in added:
                some = [every[place] for place in flow.events]
                added[key] = _mixed(some, transform)
                if any(flow.wait):
                    added[key] = added[key] * transform_of_wait(*flow.wait)
            passed = now[flow.source] * flow.share * added[key]
            into = then if isinstance(flow.target, int) else ended
            if flow.target in into:
                passed = into[flow.target] + passed
            into[flow.target] = passed
        now = then
    return ended


def _mixed(events: EventTerms, transform: Any) -> Any:
    """Return the transform of what some events add, each by its share among them.

    The terms of one event are independent, so their transforms are multiplied.
    """
    total = sum(share for share, _ in events)
    mixed = 0
    for share, histograms in events:
        part = share / total if total else 1.0
        mixed += part * prod(map(transform, histograms))
    return mixed
