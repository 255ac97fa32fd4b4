"""The odds of a call: what it will probably come to under a policy, against rates.

The walk (`walk.py`) follows the configurations (`configurations.py`) attempt by attempt. Means are
exact sums over it. Distributions of time and money are computed on a grid (`grid.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple

from attrs import field, frozen

from rungwise.fsm.analysis.odds.configurations import NO_WAIT, Configurations
from rungwise.fsm.analysis.odds.grid import (
    POINTS,
    Distribution,
    EventTerms,
    Layers,
    distribution_of,
)
from rungwise.fsm.analysis.odds.rates import Histogram, Rates, mean
from rungwise.fsm.analysis.odds.walk import Clock, Followed, NoClock, walk
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.values.label import note

LEFT_OUT: Final = 1e-6
"""The most probability that the walk leaves out, of configurations too light to follow.

It leaves out more where there would be too many of them; see `walk.MOST_FOLLOWED`.
"""

LEFT_OUT_OF_QUANTILES: Final = 1e-5
"""The same for the distributions of time and money."""

QUANTILES: Final = {
    "p50": 0.5,
    "p90": 0.9,
    "p99": 0.99,
    "p99.9": 0.999,
}
NEARLY_ALL: Final = 0.9999
UNTESTED: Final = "whether attempts depend on the one before is not known"
TOKENS_PRICED: Final = 1e6

TermsOf = Callable[[int, Any], tuple[Histogram, ...]]
"""Returns the terms that an event adds to a sum; the first argument is the place of the backend."""


@frozen
class Spread:
    """Hold the distribution of a quantity in a few figures.

    Arguments:
        mean: exact.
        quantiles: by name; None for one beyond the grid.
        error: how far the grid may have moved the quantiles.
        curve: at most 200 points, each with the share of the calls up to it.
    """

    mean: float
    quantiles: Mapping[str, float | None] = field(hash=False)
    error: float = 0.0
    curve: tuple[tuple[float, float], ...] = field(default=(), repr=False)


@frozen(kw_only=True)
class CommonOdds:
    """Hold what calls or turns will probably come to, as far as they have it in common.

    Arguments:
        outcomes: the probability of each; together 1 but for `left_out`.
        attempts, seconds, money: their distributions; money is None unless every backend has
            prices.
        tokens: of all attempts, on average.
        over_seconds, over_money: the share that would exceed that budget; None if there is none.
        configurations: how many were followed.
        left_out: the probability of the paths that were not.
    """

    outcomes: Mapping[str, float] = field(hash=False)
    attempts: Spread
    seconds: Spread
    tokens: float
    money: Spread | None
    over_seconds: float | None
    over_money: float | None
    configurations: int
    left_out: float


@frozen
class Passage:
    """Hold the share of all calls that go from an attempt to the next, or to an outcome.

    An outcome has no backend.
    """

    attempt: int
    rung: str
    backend: str
    target: str
    to_backend: str | None
    share: float


@frozen(kw_only=True)
class Odds(CommonOdds):
    """Hold what calls will probably come to, with what is known of their single attempts.

    Arguments:
        waited: the seconds of all waits, on average.
        rows: how often a call takes each row of the table on average, the most frequent first.
        reached: the share of the calls that ask each backend.
        dependence: for each backend, what is known of how its attempts depend on each other.
        flows: from each attempt to the next, or to an outcome.
    """

    waited: float
    rows: Mapping[str, float] = field(hash=False)
    reached: Mapping[str, float] = field(hash=False)
    dependence: tuple[str, ...] = ()
    flows: tuple[Passage, ...] = field(default=(), repr=False)


class Ended(NamedTuple):
    """Hold what calls came to, by how they ended."""

    attempts: Distribution
    seconds: Distribution
    money: Distribution | None


def followed(
    policy: Policy,
    rates: Rates,
    most: float,
    beyond: float,
    points: int = POINTS,
    *,
    resumes: bool | None = None,
) -> tuple[Odds, Ended]:
    """Follow calls, and return their odds, and what they took by how they ended.

    A first walk takes time to suffice. Where more than `most` of the calls could use up the budget
    of seconds, a second one follows them along a clock.

    Arguments:
        policy, rates: of the calls.
        most: the most probability that the walk leaves out.
        beyond: the most probability that lies beyond a grid; a walk for distributions, which take
            longer than means, leaves out as much.
        points: those of a grid.
        resumes: as in `Configurations`.
    """
    grid = {"beyond": beyond, "points": points}
    timed = _follow_time(policy, rates, most, grid, resumes)
    chain = timed.chain
    walked = timed.walked
    of_ends = walked.ended_after.values()
    shares = [sum(each) for each in zip(*of_ends, strict=True)]
    mean_attempts = sum(number * share for number, share in enumerate(shares))
    attempts = Distribution(1, [*accumulate(shares)], ended=walked.ended_after)
    nearly_most = attempts.quantile(NEARLY_ALL) or len(walked.layers)
    seconds = spread(timed.seconds, timed.mean_seconds, nearly_most * timed.seconds.step)
    cost = None
    money = None
    over_money = None
    if all(each.prices is not None for each in rates.backend):
        costs = _costs_of(rates)
        cost = summed(chain, _without_waits(timed.coarse.layers), costs, **grid)
        mean_cost = mean_of(chain, walked, costs)
        money = spread(cost, mean_cost, nearly_most * cost.step)
        over_money = cost.over(policy.budget.money, timed.coarse.left_out)
    trace = _trace(chain, walked.layers)
    dependence = [f"{note(each.name)}: {each.dependence or UNTESTED}" for each in rates.backend]
    odds = Odds(
        outcomes=_outcomes(policy, walked),
        attempts=spread(attempts, mean_attempts, 0.0),
        seconds=seconds,
        tokens=mean_of(chain, walked, _tokens),
        money=money,
        waited=walked.waited,
        rows=trace.rows,
        reached=trace.reached,
        over_seconds=timed.over_seconds,
        over_money=over_money,
        configurations=len(walked.asked),
        left_out=walked.left_out,
        dependence=tuple(dependence),
        flows=trace.passages,
    )
    return odds, Ended(attempts, timed.seconds, cost)


class _Timed(NamedTuple):
    """Hold a walk over all calls, and how long they take.

    `walked` leaves out little, for means; `coarse` leaves out more, for distributions.
    """

    chain: Configurations
    walked: Followed
    coarse: Followed
    seconds: Distribution
    mean_seconds: float
    over_seconds: float | None


def _follow_time(
    policy: Policy,
    rates: Rates,
    most: float,
    grid: Mapping[str, Any],
    resumes: bool | None,
) -> _Timed:
    """Follow calls as if time sufficed, and along a clock if it might not.

    Arguments:
        policy, rates, most, resumes: as in `followed`.
        grid: as in `distribution_of`.
    """
    limit = policy.budget.seconds
    chain = Configurations(policy, rates, resumes=resumes)
    walked = walk(NoClock(chain), most)
    coarse = walked
    if most < grid["beyond"]:
        coarse = walk(NoClock(chain), grid["beyond"])
    seconds = summed(chain, coarse.layers, _durations, **grid)
    mean_seconds = mean_of(chain, walked, _durations) + walked.waited
    over_seconds = seconds.over(limit, coarse.left_out)
    if limit is None or seconds.most_from(limit) <= most:
        return _Timed(chain, walked, coarse, seconds, mean_seconds, over_seconds)
    chain = Configurations(policy, rates, is_timed=True, resumes=resumes)
    clock = Clock(chain, limit)
    walked = walk(clock, most)
    ended: Any = sum(walked.ended_at.values())
    up_to = ended.cumsum().tolist()
    seconds = Distribution(clock.step, up_to, ended=walked.ended_at)
    return _Timed(chain, walked, walked, seconds, clock.mean(ended), over_seconds)


def _outcomes(policy: Policy, walked: Followed) -> dict[str, float]:
    """Return the probability of each outcome of the table."""
    outcomes = dict.fromkeys(policy.table.outcomes, 0.0)
    for end, masses in walked.ended_after.items():
        outcomes[end.outcome] += sum(masses)
    return outcomes


class _Trace(NamedTuple):
    """Hold what `Odds` say of single rows, backends and passages."""

    rows: dict[str, float]
    reached: dict[str, float]
    passages: tuple[Passage, ...]


def _trace(chain: Configurations, layers: Layers) -> _Trace:
    """Follow all calls once more, and count rows, backends and passages from rung to rung."""
    rows = defaultdict[int, float](float)
    reached = defaultdict[int, float](float)
    reached[0] = 1.0
    passages = defaultdict[tuple[int, str, str, str, str | None], float](float)
    names = [each.name for each in chain.rates.backend]
    # For each configuration, the share of the calls that came to it through each rung.
    here = {chain.start: {chain.table.start: 1.0}}
    for attempt, flows in enumerate(layers, 1):
        then = defaultdict[int, dict[str, float]](lambda: defaultdict(float))
        for flow in flows:
            moved = flow.share * sum(here[flow.source].values())
            backend = chain.known[flow.source].backend
            target = chain.table.rows[flow.rows[-1]].target
            name_after = None
            for row in flow.rows:
                rows[row] += moved
            if isinstance(flow.target, int):
                backend_after = chain.known[flow.target].backend
                name_after = names[backend_after]
                then[flow.target][target] += moved
                if backend_after != backend:
                    reached[backend_after] += moved
            for rung, mass in here[flow.source].items():
                passage = (attempt, rung, names[backend], target, name_after)
                passages[passage] += mass * flow.share
        here = then
    most_first = sorted(rows.items(), key=lambda item: -item[1])
    every_row = chain.table.rows
    return _Trace(
        rows={str(every_row[place]): times for place, times in most_first},
        reached={name: reached[place] for place, name in enumerate(names)},
        passages=tuple([Passage(*key, share) for key, share in passages.items()]),
    )


def summed(chain: Any, layers: Layers, terms_of: TermsOf, **grid: Any) -> Distribution:
    """Return the distribution of a sum over all attempts.

    Arguments:
        chain: the configurations of a call or of a turn.
        layers: the flows between them, attempt by attempt.
        terms_of: what an event adds.
        grid: as in `distribution_of`.
    """
    largest = max(flow.wait[1] for flows in layers for flow in flows)
    terms: dict[Any, EventTerms] = {}
    for key, rates in chain.events.items():
        backend = key[0]
        terms[key] = [(rate.share, terms_of(backend, rate)) for rate in rates]
        for _, histograms in terms[key]:
            for histogram in histograms:
                largest = max(largest, *(value for value, _ in histogram))

    def terms_at(number: int) -> EventTerms:
        return terms[chain.known[number][:2]]

    return distribution_of(layers, chain.start, terms_at, largest, **grid)


def mean_of(chain: Any, walked: Followed, terms_of: TermsOf) -> float:
    """Return the mean of a sum over all attempts, without a grid.

    Arguments:
        chain: the configurations of a call or of a turn.
        walked: how often each event came.
        terms_of: what an event adds.
    """
    means: dict[Any, list[float]] = {}
    for key, rates in chain.events.items():
        backend = key[0]
        means[key] = []
        for rate in rates:
            of_terms = map(mean, terms_of(backend, rate))
            means[key].append(rate.share * sum(of_terms))
    total = 0.0
    for (key, places), mass in walked.came.items():
        events = chain.events[key]
        share = sum([events[place].share for place in places])
        added = sum([means[key][place] for place in places])
        total += mass * added / (share or 1.0)
    return total


def _without_waits(layers: Layers) -> Layers:
    without = []
    for flows in layers:
        without.append([flow._replace(wait=NO_WAIT) for flow in flows])
    return without


def _costs_of(rates: Rates) -> TermsOf:
    """Return what tokens cost at the backends' prices, in the currency of the prices."""

    def costs(backend: int, rate: Any) -> tuple[Histogram, Histogram]:
        prices: Any = rates.backend[backend].prices
        read = _times(rate.input_tokens, prices.input)
        written = _times(rate.output_tokens, prices.output)
        return read, written

    return costs


def _tokens(backend: int, rate: Any) -> tuple[Histogram, Histogram]:
    return rate.input_tokens, rate.output_tokens


def _durations(backend: int, rate: Any) -> tuple[Histogram]:
    return (rate.seconds,)


def _times(tokens: Histogram, price: float) -> Histogram:
    costs = [(value * price / TOKENS_PRICED, weight) for value, weight in tokens]
    return tuple(costs)


def spread(found: Distribution, average: float, error: float) -> Spread:
    """Return a mean, and the quantiles of a distribution."""
    quantiles = {name: found.quantile(share) for name, share in QUANTILES.items()}
    return Spread(average, quantiles, error, found.curve)
