"""What a call under a policy will probably come to, against rates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple

from attrs import field, frozen

from rungwise.fsm.analysis.odds.configurations import NO_WAIT, Configurations
from rungwise.fsm.analysis.odds.grid import POINTS, Distribution, Layers, distribution_of
from rungwise.fsm.analysis.odds.rates import Histogram, Rates, mean
from rungwise.fsm.analysis.odds.walk import Clock, Followed, NoClock, walk
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.values.label import note

LEFT_OUT: Final = 1e-6
"""The most probability that is left out, that of configurations too light to follow, unless they
are too many.
"""

LEFT_OUT_OF_QUANTILES: Final = 1e-5
"""The same for the distributions of time and money."""

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
NEARLY_ALL: Final = 0.9999
UNTESTED: Final = "whether attempts depend on the one before is not known"
TOKENS_PRICED: Final = 1e6

TermsOf = Callable[[int, Any], tuple[Histogram, ...]]
"""Returns the terms that an event of a backend adds to a sum."""


@frozen
class Spread:
    """Hold the mean of a quantity, its quantiles by name, how far the grid may have moved those,
    and its curve.

    The curve is at most 200 points, each with the share of the calls up to it.
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
        prices. tokens: of all attempts, on average.
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
    """Hold the share of all calls that go from an attempt to the next, or to an outcome, which has
    no backend.
    """

    attempt: int
    rung: str
    backend: str
    target: str
    to_backend: str | None
    share: float


@frozen(kw_only=True)
class Odds(CommonOdds):
    """Hold what calls will probably come to: besides what turns have as well, what is known of each
    attempt.

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
    """Follow calls that leave out so much at most, and beyond a grid of so many points; return also
    how they ended.
    """
    chain = Configurations(policy, rates, resumes=resumes)
    walked = heavy = walk(NoClock(chain), most)
    if most < beyond:
        heavy = walk(NoClock(chain), beyond)
    how = {"beyond": beyond, "points": points}
    limit = policy.budget.seconds
    time = summed(chain, heavy.layers, _durations, **how)
    seconds = mean_of(chain, walked, _durations) + walked.waited
    over_seconds = time.over(limit, heavy.left_out)
    if limit is not None and time.most_from(limit) > most:
        chain = Configurations(policy, rates, is_timed=True, resumes=resumes)
        clock = Clock(chain, limit)
        walked = heavy = walk(clock, most)
        total: Any = sum(walked.ended_at.values())
        time = Distribution(clock.step, total.cumsum().tolist(), ended=walked.ended_at)
        seconds = clock.mean(total)
    shares = [sum(each) for each in zip(*walked.ended_after.values(), strict=True)]
    ended_after = Distribution(1, [*accumulate(shares)], ended=walked.ended_after)
    terms = ended_after.quantile(NEARLY_ALL) or len(walked.layers)
    spent = None
    money = None
    over_money = None
    prices = [each.prices for each in rates.backend]
    if None not in prices:

        def costs(backend: int, rate: Any) -> tuple[Histogram, Histogram]:
            of: Any = prices[backend]
            return _times(rate.input_tokens, of.input), _times(rate.output_tokens, of.output)

        spent = summed(
            chain,
            [[flow._replace(wait=NO_WAIT) for flow in flows] for flows in heavy.layers],
            costs,
            **how,
        )
        money = spread(spent, mean_of(chain, walked, costs), terms * spent.step)
        over_money = spent.over(policy.budget.money, heavy.left_out)
    ended: dict[str, float] = defaultdict(float)
    for end, masses in walked.ended_after.items():
        ended[end.outcome] += sum(masses)
    rows, reached, flows = _traced(chain, walked.layers)
    found = Odds(
        outcomes={name: ended[name] for name in policy.table.outcomes},
        attempts=spread(
            ended_after, sum(number * share for number, share in enumerate(shares)), 0.0
        ),
        seconds=spread(time, seconds, terms * time.step),
        tokens=mean_of(
            chain, walked, lambda backend, rate: (rate.input_tokens, rate.output_tokens)
        ),
        money=money,
        waited=walked.waited,
        rows={
            str(policy.table.rows[place]): times
            for place, times in sorted(rows.items(), key=lambda row: -row[1])
        },
        reached={each.name: reached[place] for place, each in enumerate(rates.backend)},
        over_seconds=over_seconds,
        over_money=over_money,
        configurations=len(walked.asked),
        left_out=walked.left_out,
        dependence=tuple(
            [f"{note(each.name)}: {each.dependence or UNTESTED}" for each in rates.backend]
        ),
        flows=flows,
    )
    return found, Ended(ended_after, time, spent)


def _traced(
    chain: Configurations, layers: Layers
) -> tuple[dict[int, float], dict[int, float], tuple[Passage, ...]]:
    """Return how often each row is taken, the share of the calls that ask each backend, and their
    passages.
    """
    rows = defaultdict[int, float](float)
    reached = defaultdict[int, float](float)
    passages = defaultdict[tuple[int, str, str, str, str | None], float](float)
    names: dict[int | None, str] = dict(enumerate(each.name for each in chain.rates.backend))
    # the calls by the rungs through which they came
    here, reached[0] = {chain.start: {chain.table.start: 1.0}}, 1.0
    for attempt, flows in enumerate(layers, 1):
        then = defaultdict[int, dict[str, float]](lambda: defaultdict(float))
        for flow in flows:
            moved = flow.share * sum(here[flow.source].values())
            backend = chain.known[flow.source].backend
            to = chain.table.rows[flow.rows[-1]].target
            to_backend = None
            for row in flow.rows:
                rows[row] += moved
            if isinstance(flow.target, int):
                to_backend = chain.known[flow.target].backend
                then[flow.target][to] += moved
                reached[to_backend] += moved if to_backend != backend else 0.0
            for rung, mass in here[flow.source].items():
                passages[attempt, rung, names[backend], to, names.get(to_backend)] += (
                    mass * flow.share
                )
        here = then
    return rows, reached, tuple([Passage(*passage, share) for passage, share in passages.items()])


def summed(chain: Any, layers: Layers, terms_of: TermsOf, **how: Any) -> Distribution:
    """Return the distribution of a sum over all attempts."""
    events = chain.events.items()
    longest = max(flow.wait[1] for flows in layers for flow in flows)
    found = {key: [(rate.share, terms_of(key[0], rate)) for rate in rates] for key, rates in events}
    terms = [
        histogram for each in found.values() for _, histograms in each for histogram in histograms
    ]
    largest = max([longest, *(value for histogram in terms for value, _ in histogram)])
    return distribution_of(
        layers, chain.start, lambda number: found[chain.known[number][:2]], largest, **how
    )


def mean_of(chain: Any, walked: Followed, terms_of: TermsOf) -> float:
    """Return the mean of a sum over all attempts, without a grid."""
    events = chain.events.items()
    total = 0.0
    means = {
        key: [rate.share * sum(map(mean, terms_of(key[0], rate))) for rate in rates]
        for key, rates in events
    }
    for (key, places), mass in walked.came.items():
        share = sum([chain.events[key][place].share for place in places])
        total += mass * sum([means[key][place] for place in places]) / (share or 1.0)
    return total


def _durations(backend: int, rate: Any) -> tuple[Histogram]:
    return (rate.seconds,)


def _times(tokens: Histogram, price: float) -> Histogram:
    return tuple([(value * price / TOKENS_PRICED, weight) for value, weight in tokens])


def spread(found: Distribution, average: float, error: float) -> Spread:
    """Return a mean, and the quantiles of a distribution."""
    return Spread(
        average,
        {name: found.quantile(share) for name, share in QUANTILES.items()},
        error,
        found.curve,
    )
