"""What calls or turns under a policy will probably come to, against rates: those of turns, with
calls as their parts.

Theory

Each call of a turn begins anew, against the same backends. So how it ends and what it takes depend
on what came before by one thing only: whether it resumes a cut text. The turn is a chain whose
steps are whole calls, rounds of tools and compactions; as each way on takes a unit of a counter, it
ends. Whether another call is made does not depend on what it will take, so the mean of a sum is
that of one call, times the calls on average (Wald 1944): exact, without a grid.

How a call ends and how long it took belong together, as one that fell back was slow. So each step
adds the distribution of a call given how it ended. Tools and compactions are no more than the
calls, so the error is a step of the calls' grid for each attempt, and one and a half of the turn's
for each call. Text beside tool calls counts as shown if the rates of `called_tools` name
`has_text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from os import PathLike
from typing import Any, Final, NamedTuple, overload

from attrs import frozen

from rungwise.fsm.analysis.odds.calls import (
    LEFT_OUT,
    LEFT_OUT_OF_QUANTILES,
    NEARLY_ALL,
    CommonOdds,
    Odds,
    Spread,
    followed,
    mean_of,
    spread,
    summed,
)
from rungwise.fsm.analysis.odds.configurations import NO_WAIT, End, Way
from rungwise.fsm.analysis.odds.grid import Distribution
from rungwise.fsm.analysis.odds.rates import NOTHING, ONCE, Histogram, Rates, TurnRate, mean
from rungwise.fsm.analysis.odds.walk import NoClock, walk
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
    """Hold how a call ended, or what tools or a compactor brought, and what that adds to each sum:
    its mean as well.
    """

    share: float
    event: str
    of: End | TurnRate
    adds: Mapping[str, Histogram]
    means: Mapping[str, float]


class TurnConfigurations:
    """Number the configurations of a turn, and follow what comes of each, as `Configurations` do
    for a call.

    The calls leave out so much at most.
    """

    def __init__(self, policy: TurnPolicy, rates: Rates, most: float) -> None:
        self.policy, self.rates, self.has_compactor = policy, rates, bool(rates.of("compactions"))
        self.steps = 3 * (policy.auto_continues + 2)  # calls, each with tools and a compaction
        self.known: list[TurnConfiguration] = []
        self.events: dict[tuple[bool, str], list[Came]] = {}
        self.call = cache(
            lambda resumes: followed(
                policy.of_calls, rates, most, LEFT_OUT, POINTS // 2, resumes=resumes
            )
        )
        self._number = cache(self._add)
        self.start = self._number(TurnConfiguration(False, TURN.start, (0,) * len(TURN.counters)))

    def ways(self, number: int) -> Iterator[Way]:
        """Yield what comes of a configuration, all that leads to the same joined."""
        here = self.known[number]
        joined = dict[int | End, list[int]]()
        events = self.events[here[:2]] = self.events.get(here[:2]) or list(self._came(*here[:2]))
        for place, came in enumerate(events):
            joined.setdefault(self._lead(here, came.event, came.of), []).append(place)
        for target, places in joined.items():
            yield Way(
                sum([events[at].share for at in places]),
                tuple(places),
                0,
                target,
                "",
                NO_WAIT,
                None,
                0,
            )

    def _came(self, resumes: bool, state: str) -> Iterator[Came]:
        if state in CALLS:
            odds, ended = self.call(resumes)
            rows = self.policy.of_calls.table.rows
            named = [name for name in AMOUNTS if getattr(ended, name)]
            means = {
                "calls": 1,
                "tokens": odds.tokens,
                **{name: getattr(odds, name).mean for name in named},
            }
            for end, masses in ended.attempts.ended.items():
                adds = {
                    "calls": ONCE,
                    **{name: getattr(ended, name).histogram(end) for name in named},
                }
                yield Came(
                    sum(masses), event_after(end.outcome, rows[end.row].event), end, adds, means
                )
            return
        rates = self.rates.of("compactions" if state == "compact" else "rounds of tools")
        if not rates:
            example = "[[turn]] with event = 'tools_ran', facts = ['tool_worked'] and share = 1.0"
            raise ConfigurationError(
                f"the model calls tools, and no rates say what they bring: add a {example}"
            )
        for rate in rates:
            adds = {"seconds": rate.seconds, "rounds": ONCE if state == "use_tools" else NOTHING}
            yield Came(
                rate.share,
                rate.event,
                rate,
                adds,
                {name: mean(each) for name, each in adds.items()},
            )

    def _lead(self, here: TurnConfiguration, event: str, of: End | TurnRate) -> int | End:
        run = Run.at_start(TURN, self.policy.limits)
        run.state = TURN.hub
        run.spent = list(here.spent)
        has_text = False
        facts = dict.fromkeys(of.facts if isinstance(of, TurnRate) else (), True)
        if isinstance(of, End):
            has_text = of.has_text
            is_summary = run.spent_of("summaries") > 0
            facts = {
                "is_hopeless": of.is_hopeless,
                "has_compactor": self.has_compactor,
                "is_summary": is_summary,
            }
            facts["has_no_text"] = is_summary and not (here.was_shown or has_text)
        to = run.fire(event, facts_of(run, facts)).target
        if to in OUTCOMES:
            return End(to)
        resumes = (
            has_text
            if event in ("truncated", "overflowed")
            else here.resumes and event == "compacted"
        )
        return self._number(
            TurnConfiguration(resumes, to, tuple(run.spent), here.was_shown or has_text)
        )

    def _add(self, found: TurnConfiguration) -> int:
        self.known.append(found)
        return len(self.known) - 1


@overload
def odds(
    policy: Policy, rates: Rates | str | PathLike[str], *, left_out: float = LEFT_OUT
) -> Odds: ...
@overload
def odds(
    policy: TurnPolicy, rates: Rates | str | PathLike[str], *, left_out: float = LEFT_OUT
) -> TurnOdds: ...
def odds(
    policy: Policy | TurnPolicy, rates: Rates | str | PathLike[str], *, left_out: float = LEFT_OUT
) -> Odds | TurnOdds:
    """Compute what calls or turns under a policy will probably come to: exactly, but for a rest
    that is stated.

    Arguments:
        policy: of a call or a turn.
        rates: of each backend, in the order of the chain, and of tools; or the file that holds
        them. left_out: the most probability that is left out of a call; more is faster. A turn has
        its own.

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
    chain = TurnConfigurations(policy, rates, LEFT_OUT / 2 / (policy.auto_continues + 2))
    walked = walk(NoClock(chain), LEFT_OUT / 2)
    ended = {end.outcome: sum(masses) for end, masses in walked.ended_after.items()}
    left_out = max(0.0, 1.0 - sum(ended.values()))
    calls = [chain.call(key[0]) for key in chain.events]

    def average(name: str) -> float:
        return mean_of(chain, walked, lambda _, came: (((came.means.get(name, 0.0), 1),),))

    def total(name: str) -> Distribution:
        def of(_: Any, came: Any) -> tuple[Histogram]:
            return (came.adds.get(name, NOTHING),)

        is_whole = name in WHOLE
        return summed(chain, walked.layers, of, beyond=LEFT_OUT, points=POINTS, is_whole=is_whole)

    sums = {
        name: total(name)
        for name in ("calls", "rounds", *AMOUNTS)
        if name != "money" or calls[0][0].money
    }
    most = {name: sums[name].quantile(NEARLY_ALL) or len(sums[name].up_to) for name in WHOLE}
    limits = {
        "attempts": policy.budget.attempts + 0.5,
        "seconds": policy.budget.seconds,
        "money": policy.budget.money,
    }
    spreads: dict[str, Any] = dict.fromkeys(["money", *(f"over_{name}" for name in limits)])
    for name, found in sums.items():
        step = 0.0 if name in WHOLE else max(getattr(each, name).step for _, each in calls)
        error = step and step * most["attempts"] + 1.5 * found.step * most["calls"]
        spreads[name] = spread(found, average(name), error)
        if name in limits:
            spreads[f"over_{name}"] = found.over(limits[name], left_out)
    return TurnOdds(
        outcomes={name: ended.get(name, 0.0) for name in OUTCOMES},
        tokens=average("tokens"),
        **spreads,
        configurations=len(walked.asked) + sum(odds.configurations for odds, _ in calls),
        left_out=left_out,
    )
