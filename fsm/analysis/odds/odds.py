"""The odds of calls and turns: what they will probably come to under a policy, against rates.

`calls.py` computes those of calls. This file computes those of turns, with calls as their parts.

Theory: a turn as a chain of calls

Each call of a turn begins anew, against the same backends. So how it ends and what it takes depend
on what came before by one thing only: whether it resumes a cut text. The turn is a chain whose
steps are whole calls, rounds of tools and compactions. Each way on takes a unit of a counter, so
the chain ends. Whether another call is made does not depend on what it will take, so the mean of a
sum is that of one call, times the calls on average (Wald 1944): exact, without a grid.

How a call ends and how long it took belong together, as one that fell back was slow. So each step
adds the distribution of a call given how it ended. There are no more rounds of tools and
compactions than calls, so the error is a step of the calls' grid for each attempt, and one and a
half of the turn's for each call. Text beside tool calls counts as shown if the rates of
`called_tools` name `has_text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from os import PathLike
from typing import Any, Final, NamedTuple, overload

from attrs import frozen

from rungwise.fsm.analysis.odds.calls import (
    LEFT_OUT,
    LEFT_OUT_OF_QUANTILES,
    NEARLY_ALL,
    CommonOdds,
    Ended,
    Odds,
    Spread,
    followed,
    mean_of,
    spread,
    summed,
)
from rungwise.fsm.analysis.odds.configurations import End, Target, Way
from rungwise.fsm.analysis.odds.grid import Distribution
from rungwise.fsm.analysis.odds.rates import NOTHING, ONCE, Histogram, Rates, TurnRate, mean
from rungwise.fsm.analysis.odds.walk import Followed, NoClock, walk
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.observe import event_after, facts_of
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import CALLS, OUTCOMES, TURN
from rungwise.fsm.values.checks import is_number
from rungwise.fsm.values.label import short

LEAST_LEFT_OUT = 1e-12
MOST_LEFT_OUT = 0.01
POINTS: Final = 16_384
AMOUNTS: Final = ("attempts", "seconds", "money")
WHOLE: Final = ("calls", "rounds", "attempts")


@frozen(kw_only=True)
class TurnOdds(CommonOdds):
    """Hold what turns will probably come to, with all calls, tools and compactions.

    Arguments:
        calls, rounds: how many calls, and rounds of tools.
        over_attempts: the share of the turns that would exceed that budget.
    """

    calls: Spread
    rounds: Spread
    over_attempts: float | None


class TurnConfiguration(NamedTuple):
    """Hold what decides the rest of a turn in which a call, tools or a compactor are at work."""

    resumes: bool  # whether a call resumes a text
    state: str  # of the machine
    spent: tuple[int, ...]
    was_shown: bool = False


class Came(NamedTuple):
    """Hold how a call ended, or what tools or a compactor brought.

    Arguments:
        share: its probability in its state.
        event: that of the turn.
        of: the end of the call, or the rate.
        adds: what it adds to each sum, by name.
        means: the means of what it adds. A call has one mean for all its ends.
    """

    share: float
    event: str
    of: End | TurnRate
    adds: Mapping[str, Histogram]
    means: Mapping[str, float]


class TurnConfigurations:
    """Number the configurations of a turn, and follow what comes of each.

    `Configurations` does so for a call.

    Arguments:
        policy, rates: of the turn.
        most: the most probability that each of its calls leaves out.
    """

    def __init__(
        self,
        policy: TurnPolicy,
        rates: Rates,
        most: float,
    ) -> None:
        self.policy = policy
        self.rates = rates
        self.has_compactor = bool(rates.of("compactions"))
        self.steps = 3 * (policy.auto_continues + 2)  # calls, each with tools and a compaction
        self.known: list[TurnConfiguration] = []
        self.events: dict[tuple[bool, str], list[Came]] = {}
        self.call = cache(partial(self._follow_call, most))
        self._number = cache(self._add)
        nothing_spent = (0,) * len(TURN.counters)
        self.start = self._number(TurnConfiguration(False, TURN.start, nothing_spent))

    def ways(self, number: int) -> Iterator[Way]:
        """Yield what comes of a configuration, with all that leads to the same joined."""
        here = self.known[number]
        events = self._events_of(here.resumes, here.state)
        joined = dict[Target, list[int]]()
        for place, came in enumerate(events):
            joined.setdefault(self._lead(here, came), []).append(place)
        for target, places in joined.items():
            share = sum([events[place].share for place in places])
            yield Way(share, tuple(places), row=0, target=target)

    def _events_of(self, resumes: bool, state: str) -> list[Came]:
        """Return what can come in a state, computed when it is first asked for."""
        key = resumes, state
        if key not in self.events:
            came = self._came_of_call(resumes) if state in CALLS else self._came_of_rates(state)
            self.events[key] = list(came)
        return self.events[key]

    def _follow_call(self, most: float, resumes: bool) -> tuple[Odds, Ended]:
        policy = self.policy.of_calls
        return followed(
            policy,
            self.rates,
            most,
            beyond=LEFT_OUT,
            points=POINTS // 2,
            resumes=resumes,
        )

    def _came_of_call(self, resumes: bool) -> Iterator[Came]:
        """Yield each end of a call, with what the call took if it ended so."""
        odds, ended = self.call(resumes)
        rows = self.policy.of_calls.table.rows
        amounts = [name for name in AMOUNTS if getattr(ended, name)]
        means = {name: getattr(odds, name).mean for name in amounts}
        means["calls"] = 1
        means["tokens"] = odds.tokens
        for end, masses in ended.attempts.ended.items():
            adds = {name: getattr(ended, name).histogram(end) for name in amounts}
            adds["calls"] = ONCE
            event = event_after(end.outcome, rows[end.row].event)
            yield Came(sum(masses), event, end, adds, means)

    def _came_of_rates(self, state: str) -> Iterator[Came]:
        """Yield what a round of tools or a compaction brings, as the rates have it."""
        is_round = state == "use_tools"
        rates = self.rates.of("compactions" if state == "compact" else "rounds of tools")
        if not rates:
            example = "[[turn]] with event = 'tools_ran', facts = ['tool_worked'] and share = 1.0"
            raise ConfigurationError(
                f"the model calls tools, and no rates say what they bring: add a {example}"
            )
        for rate in rates:
            adds = {"seconds": rate.seconds, "rounds": ONCE if is_round else NOTHING}
            means = {name: mean(histogram) for name, histogram in adds.items()}
            yield Came(rate.share, rate.event, rate, adds, means)

    def _lead(self, here: TurnConfiguration, came: Came) -> Target:
        """Return where an event leads: the machine of turns itself takes the row."""
        run = Run.at_start(TURN, self.policy.limits)
        run.state = TURN.hub
        run.spent = list(here.spent)
        of = came.of
        shows_text = False
        if isinstance(of, End):
            shows_text = of.has_text
            is_summary = run.spent_of("summaries") > 0
            facts = {
                "is_hopeless": of.is_hopeless,
                "has_compactor": self.has_compactor,
                "is_summary": is_summary,
                "has_no_text": is_summary and not (here.was_shown or shows_text),
            }
        else:
            facts = dict.fromkeys(of.facts, True)
        target = run.fire(came.event, facts_of(run, facts)).target
        if target in OUTCOMES:
            return End(target)
        if came.event in ("truncated", "overflowed"):
            resumes = shows_text
        else:
            resumes = here.resumes and came.event == "compacted"
        was_shown = here.was_shown or shows_text
        return self._number(TurnConfiguration(resumes, target, tuple(run.spent), was_shown))

    def _add(self, configuration: TurnConfiguration) -> int:
        self.known.append(configuration)
        return len(self.known) - 1


@overload
def odds(
    policy: Policy,
    rates: Rates | str | PathLike[str],
    *,
    left_out: float = LEFT_OUT,
) -> Odds: ...
@overload
def odds(
    policy: TurnPolicy,
    rates: Rates | str | PathLike[str],
    *,
    left_out: float = LEFT_OUT,
) -> TurnOdds: ...
def odds(
    policy: Policy | TurnPolicy,
    rates: Rates | str | PathLike[str],
    *,
    left_out: float = LEFT_OUT,
) -> Odds | TurnOdds:
    """Compute what calls or turns under a policy will probably come to: exactly, but for a rest
    that is stated.

    Arguments:
        policy: of a call or a turn.
        rates: of each backend, in the order of the chain, and of tools; or the file that holds
            them.
        left_out: the most probability that is left out of a call; more is faster. A turn has its
            own.

    Raises:
        ConfigurationError: the rates do not fit the table of the policy, or do not say what tools
            bring that are called; or numpy is missing.
    """
    if isinstance(rates, (str, PathLike)):
        rates = Rates.load(rates)
    if not isinstance(policy, (Policy, TurnPolicy)) or not isinstance(rates, Rates):
        raise ConfigurationError("odds takes a policy and Rates; see Policy.load and Rates.load")
    if not is_number(left_out, LEAST_LEFT_OUT, MOST_LEFT_OUT):
        raise ConfigurationError(
            f"left_out must be from {LEAST_LEFT_OUT} to {MOST_LEFT_OUT}, not {short(left_out)}"
        )
    if isinstance(policy, TurnPolicy):
        return _odds_of_turn(policy, rates)
    return followed(policy, rates, left_out, LEFT_OUT_OF_QUANTILES)[0]


def _odds_of_turn(policy: TurnPolicy, rates: Rates) -> TurnOdds:
    """Follow turns, and add up what their calls, tools and compactions take.

    Half of `LEFT_OUT` may be left out of the turns, and half of all their calls.
    """
    chain = TurnConfigurations(policy, rates, LEFT_OUT / 2 / (policy.auto_continues + 2))
    walked = walk(NoClock(chain), LEFT_OUT / 2)
    ended = {end.outcome: sum(masses) for end, masses in walked.ended_after.items()}
    left_out = max(0.0, 1.0 - sum(ended.values()))
    calls = [chain.call(resumes) for resumes, _ in chain.events]
    has_prices = calls[0][0].money is not None
    sums = {
        name: _sum_over_turn(chain, walked, name)
        for name in ("calls", "rounds", *AMOUNTS)
        if name != "money" or has_prices
    }
    nearly_most = {}  # of what is counted, in all turns but a few
    for name in WHOLE:
        total = sums[name]
        nearly_most[name] = total.quantile(NEARLY_ALL) or len(total.up_to)
    limits = {
        "attempts": policy.budget.attempts + 0.5,
        "seconds": policy.budget.seconds,
        "money": policy.budget.money,
    }
    spreads: dict[str, Any] = {"money": None, "over_money": None}
    for name, total in sums.items():
        error = 0.0
        if name not in WHOLE:  # the theory above says why the error is no larger
            step = max(getattr(each, name).step for _, each in calls)
            of_calls = step * nearly_most["attempts"]
            of_turn = 1.5 * total.step * nearly_most["calls"]
            error = of_calls + of_turn if step else 0.0
        spreads[name] = spread(total, _mean_over_turn(chain, walked, name), error)
        if name in limits:
            spreads[f"over_{name}"] = total.over(limits[name], left_out)
    return TurnOdds(
        outcomes={name: ended.get(name, 0.0) for name in OUTCOMES},
        tokens=_mean_over_turn(chain, walked, "tokens"),
        **spreads,
        configurations=len(walked.asked) + sum(odds.configurations for odds, _ in calls),
        left_out=left_out,
    )


def _sum_over_turn(chain: TurnConfigurations, walked: Followed, name: str) -> Distribution:
    """Return the distribution of an amount of whole turns."""

    def added(_: Any, came: Came) -> tuple[Histogram]:
        return (came.adds.get(name, NOTHING),)

    is_whole = name in WHOLE
    return summed(
        chain,
        walked.layers,
        added,
        beyond=LEFT_OUT,
        points=POINTS,
        is_whole=is_whole,
    )


def _mean_over_turn(chain: TurnConfigurations, walked: Followed, name: str) -> float:
    """Return the mean of an amount of whole turns."""

    def added(_: Any, came: Came) -> tuple[Histogram]:
        return (((came.means.get(name, 0.0), 1),),)

    return mean_of(chain, walked, added)
