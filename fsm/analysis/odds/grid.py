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
"""The values of s that are tried, for terms of which the largest counts as 1."""


class Flow(NamedTuple):
    """Hold what passes from one attempt to the next: a way out of a configuration, with the wait
    that follows.
    """

    source: int
    target: Any  # a configuration, by its number, or an end
    events: tuple[int, ...]
    share: float  # of what was in the configuration
    wait: Wait = NO_WAIT
    rows: tuple[int, ...] = ()  # that are taken, by their places in the table


Layers = Sequence[Sequence[Flow]]
Terms = Callable[[int], Sequence[tuple[float, Sequence[Histogram]]]]
"""Returns for a configuration the share of each event, and the histograms of the terms that it
adds.
"""


class Distribution(NamedTuple):
    """Hold the share of the calls up to each point of a grid."""

    step: float
    up_to: Sequence[float]
    tails: Sequence[tuple[float, float]] = ((0.0, 0.0),)  # slopes s, each with E exp(s X)
    # the mass at each point, by the end of the call
    ended: Mapping[Any, Sequence[float]] = MappingProxyType({})

    def quantile(self, share: float) -> float | None:
        """Return the least point that so many calls do not exceed; None if it lies beyond the
        grid.
        """
        place = bisect_left(self.up_to, share - SLACK)
        return place * self.step if place < len(self.up_to) else None

    @property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """Return at most 200 points, each with the share of the calls up to it."""
        places = {bisect_left(self.up_to, level - SLACK) for level in LEVELS} - {len(self.up_to)}
        return tuple([(place * self.step, self.up_to[place]) for place in sorted(places)])

    def histogram(self, end: Any) -> Histogram:
        """Return the values of the calls that ended so."""
        return (
            tuple(
                [
                    (at * self.step, mass)
                    for at, mass in enumerate(self.ended.get(end, ()))
                    if mass > 0
                ]
            )
            or NOTHING
        )

    def most_from(self, value: float) -> float:
        """Return a share that those from this value on do not exceed."""
        return min(bound * exp(-slope * value) for slope, bound in self.tails)

    def over(self, limit: float | None, left_out: float) -> float | None:
        """Return the share beyond a limit by more than rounding, without what was left out; None
        without a limit.
        """
        if limit is None or not self.step:
            return None if limit is None else 0.0
        place = min(ceil(limit / self.step + 0.5), len(self.up_to))
        return max(0.0, min(1.0 - left_out - self.up_to[place - 1], self.most_from(limit)))


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
    return np.histogram(values, _edges(step, points), weights=weights)[0] / weights.sum()


def uniform(least: float, most: float, step: float, points: int = POINTS) -> Any:
    """Return the mass at each point of what is as likely anywhere between two values; their mean
    may be one.
    """
    if least == most:
        return masses_of(((least, 1),), step, points)
    np = numpy()
    return np.diff(np.clip((_edges(step, points) - least) / (most - least), 0.0, 1.0))


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
    """Return the distribution of a sum whose largest term is given, on a grid as fine as its range
    allows.

    So much may lie `beyond` it. The step for a sum of whole numbers is whole.

    Raises:
        ConfigurationError: numpy is missing.
    """
    np = numpy()
    if not most:
        return Distribution(0.0, [1.0])
    slopes = np.array(SLOPES) / most

    @cache
    def exponential(histogram: Histogram) -> Any:
        values, weights = np.array(histogram).T
        return np.exp(np.outer(slopes, values)) @ weights / weights.sum()

    with np.errstate(over="ignore"):  # the steepest slopes bound nothing then
        ends = _sum_of(layers, start, terms, exponential, lambda least, most: np.exp(slopes * most))
        bounds: Any = sum(ends.values())
        step = float(np.min(np.log(bounds / beyond) / slopes)) / (points - 1)
    step = ceil(step) if is_whole else step
    tails = list(zip(slopes.tolist(), bounds.tolist(), strict=True))
    damping = WRAPS ** (np.arange(points) / points)

    @cache
    def damped(histogram: Histogram) -> Any:
        return np.fft.rfft(masses_of(histogram, step, points) * damping)

    def damped_wait(least: float, most: float) -> Any:
        return np.fft.rfft(uniform(least, most, step, points) * damping)

    transforms = _sum_of(layers, start, terms, damped, damped_wait)
    ended = {
        end: np.clip(np.fft.irfft(of, points) / damping, 0.0, 1.0) for end, of in transforms.items()
    }
    return Distribution(step, np.cumsum(sum(ended.values())).tolist(), tails, ended)


def _sum_of(
    layers: Layers, start: int, terms: Terms, transform: Any, transform_of_wait: Any
) -> dict[Any, Any]:
    """Follow the transforms of a sum along all flows, and return that of each end."""
    added: dict[object, Any] = {}
    ended = dict[Any, Any]()
    now = {start: 1.0}
    for flows in layers:
        then: dict[int, Any] = {}
        for source, target, events, share, wait, _ in flows:
            of = terms(source)
            key = id(of), events, wait
            if key not in added:
                parts = [of[place] for place in events]
                total = sum(part for part, _ in parts)
                parts = [(part / total if total else 1.0, histograms) for part, histograms in parts]
                each = sum(part * prod(map(transform, histograms)) for part, histograms in parts)
                added[key] = each * (transform_of_wait(*wait) if any(wait) else 1.0)
            passed = now[source] * share * added[key]
            into = then if isinstance(target, int) else ended
            into[target] = into[target] + passed if target in into else passed
        now = then
    return ended
