"""The odds of turns are those of turns through the real core, whose replies and tools are drawn
from the rates.
"""

import random

import pytest
from attrs import evolve

from rungwise import ConfigurationError, Policy, TurnPolicy
from rungwise.fsm.analysis.odds.calls import followed
from rungwise.fsm.analysis.odds.counted import RatesCount
from rungwise.fsm.analysis.odds.odds import TurnConfigurations, TurnOdds, odds
from rungwise.fsm.analysis.odds.rates import BackendRates, EventRate, Rates, TurnRate, mean
from rungwise.fsm.analysis.odds.walk import NoClock, walk
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Budget
from support.odds_agree import assert_mean, assert_quantiles, assert_share, ends
from support.sampled_turns import TurnSample, play_turn, random_turn_policy, random_turn_rates


def case_of(seed: int) -> tuple[TurnPolicy, Rates]:
    chance = random.Random(seed)
    return random_turn_policy(chance, is_timed=seed % 5 == 4), random_turn_rates(chance)


def assert_agree(exact: TurnOdds, sample: TurnSample, *, is_timed: bool) -> None:
    assert exact.left_out <= 1e-6
    assert sum(exact.outcomes.values()) == pytest.approx(1 - exact.left_out, abs=1e-9)
    for outcome in {*exact.outcomes, *sample.outcomes}:
        assert_share(
            exact.outcomes.get(outcome, 0.0), sample.outcomes[outcome], sample.turns, outcome, 1e-6
        )
    assert_mean(exact.tokens, sample.tokens, "tokens")
    assert exact.money is not None
    for name in ("calls", "rounds", "attempts", "seconds", "money"):
        found = getattr(exact, name)
        values = getattr(sample, name)
        assert_mean(found.mean, values, name)
        if name != "money" or not is_timed:  # else its distribution is no more than near
            assert_quantiles(found, values, name)


def compare(seed: int, turns: int) -> None:
    policy, rates = case_of(seed)
    sample = TurnSample()
    chance = random.Random(seed + 1_000)
    for _ in range(turns):
        play_turn(policy, rates, chance, sample)
    assert_agree(odds(policy, rates), sample, is_timed=seed % 5 == 4)


@pytest.mark.full
@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(2))
def test_the_odds_are_those_of_sampled_turns(seed: int) -> None:
    compare(seed, 500)


@pytest.mark.dear(5)
@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 110))
def test_the_odds_are_those_of_many_sampled_turns(seed: int) -> None:
    compare(seed, 2_000)


@pytest.mark.full
def test_budgets_are_exceeded_as_often_as_in_the_sample() -> None:
    policy, rates = case_of(100)
    sample = TurnSample()
    chance = random.Random(5)
    for _ in range(600):
        play_turn(policy, rates, chance, sample)
    exact = odds(policy, rates)
    assert (exact.over_seconds, exact.over_money) == (None, None)
    seconds = exact.seconds.mean * 1.5
    money = 0.01
    attempts = 3
    exact = odds(
        evolve(policy, budget=Budget(attempts=attempts, seconds=seconds, money=money)), rates
    )
    for name, limit in (("attempts", attempts), ("seconds", seconds), ("money", money)):
        over = getattr(exact, f"over_{name}")
        assert 0.0 < over < 1.0
        assert_share(
            over, sum(value > limit for value in getattr(sample, name)), sample.turns, name, 0.01
        )


ANSWER = EventRate(
    event="answered",
    share=1.0,
    seconds=2.0,
    input_tokens=10,
    output_tokens=90,
)


def backends(**shares: float) -> tuple[BackendRates, ...]:
    return (
        BackendRates(
            name="a",
            fresh=[evolve(ANSWER, event=name, share=share) for name, share in shares.items()],
        ),
    )


def test_a_turn_without_tools_is_a_call() -> None:
    policy = Policy(budget=Budget(attempts=5))
    rates = Rates(backends(answered=0.9, failed_transiently=0.1))
    turn = odds(TurnPolicy(call=policy), rates)
    call = odds(policy, rates)
    assert turn.outcomes["finished"] == pytest.approx(call.outcomes["done"])
    assert turn.calls.mean == pytest.approx(1)
    assert turn.rounds.mean == 0
    for name in ("attempts", "seconds"):
        assert getattr(turn, name).mean == pytest.approx(getattr(call, name).mean)
    assert turn.attempts.quantiles == call.attempts.quantiles
    assert turn.tokens == pytest.approx(call.tokens)
    assert (turn.money, turn.over_money, turn.over_attempts) == (None, None, 0.0)


def test_rounds_of_tools_are_geometric() -> None:
    rounds = TurnRate(
        event="tools_ran",
        facts=("tool_worked",),
        share=1.0,
        seconds=1.0,
    )
    rates = Rates(backends(answered=0.25, called_tools=0.75), (rounds,))
    found = odds(TurnPolicy(auto_continues=3, summary=False), rates)
    assert ends(found) == pytest.approx({"finished": 1 - 0.75**4, "limit_reached": 0.75**4})
    calls = sum(0.75**number for number in range(4))
    assert found.calls.mean == pytest.approx(calls)
    assert found.rounds.mean == pytest.approx(0.75 * calls)
    assert found.seconds.mean == pytest.approx(2 * calls + 0.75 * calls)
    assert found.tokens == pytest.approx(100 * calls)
    assert found.calls.quantiles == {"p50": 3, "p90": 4, "p99": 4, "p99.9": 4}
    assert found.seconds.quantiles["p99"] == pytest.approx(12, abs=found.seconds.error)
    assert found.left_out <= 1e-12


def test_what_tools_bring_must_stand_in_the_rates() -> None:
    rates = Rates(backends(answered=0.5, called_tools=0.5))
    with pytest.raises(
        ConfigurationError, match=r"no rates say what they bring: add a \[\[turn\]\] with event"
    ):
        odds(TurnPolicy(), rates)
    with pytest.raises(ConfigurationError, match="odds takes a policy and Rates"):
        odds(Policy(), 3)  # type: ignore[call-overload]


def test_a_call_that_overflows_is_compacted_only_with_a_compactor() -> None:
    rates = Rates(backends(answered=0.5, overflowed=0.5))
    assert ends(odds(TurnPolicy(), rates)) == pytest.approx({"finished": 0.5, "failed": 0.5})
    rates = evolve(rates, turn=[TurnRate(event="compacted", share=1.0)])
    found = odds(TurnPolicy(compactions=1), rates)
    assert ends(found) == pytest.approx({"finished": 0.75, "failed": 0.25})


@pytest.mark.full
@pytest.mark.parametrize("seed", [100, pytest.param(103, marks=pytest.mark.full)])
def test_journals_of_turns_give_back_the_rates_of_their_script(seed: int) -> None:
    policy, rates = case_of(seed)
    count = RatesCount()
    sample = TurnSample()
    chance = random.Random(seed)
    for _ in range(800):
        count.add(play_turn(policy, rates, chance, sample))
    found = count.rates()
    assert Rates.from_toml(found.to_toml()) == found
    script = {(rate.event, rate.facts): rate for rate in rates.turn}
    assert {
        (rate.event, rate.facts) for rate in found.turn if (rate.seen or 0) > 20
    } <= script.keys()
    for rate in found.turn:
        exact = script[rate.event, rate.facts]
        assert rate.between is not None
        low, high = rate.between
        assert abs(rate.share - exact.share) <= 2.5 * (high - low)
        if (rate.seen or 0) > 100:
            assert mean(rate.seconds) == pytest.approx(mean(exact.seconds), rel=0.3)
    assert sum(rate.seen or 0 for rate in found.of("rounds of tools")) == sum(sample.rounds)
    before = odds(policy, rates)
    after = odds(policy, found)
    assert after.rounds.mean == pytest.approx(before.rounds.mean, rel=0.2)
    assert after.seconds.mean == pytest.approx(before.seconds.mean, rel=0.2)


def test_a_cut_answer_is_gone_on_from_unless_that_is_hopeless() -> None:
    def outcomes(*facts: str) -> dict[str, float]:
        cut = evolve(
            ANSWER,
            event="truncated",
            share=0.5,
            facts=("added_text", *facts),
        )
        rates = Rates((BackendRates(name="a", fresh=[evolve(ANSWER, share=0.5), cut]),))
        call = Policy(limits=Limits(continuations=0))
        return ends(odds(TurnPolicy(call=call, auto_continues=2), rates))

    assert outcomes() == pytest.approx({"finished": 1 - 0.5**3, "limit_reached": 0.5**3})
    assert outcomes("repeats_itself") == pytest.approx({"finished": 0.5, "limit_reached": 0.5})


def test_a_summary_fails_only_if_no_text_was_shown() -> None:
    def outcomes(*facts: str) -> dict[str, float]:
        calls = evolve(ANSWER, event="called_tools", facts=facts)
        rates = Rates(
            (BackendRates(name="a", fresh=[calls]),), [TurnRate(event="tools_ran", share=1.0)]
        )
        return ends(odds(TurnPolicy(), rates))

    assert outcomes() == pytest.approx({"failed": 1.0})
    assert outcomes("has_text") == pytest.approx({"limit_reached": 1.0})


def test_a_call_that_resumes_a_text_keeps_it() -> None:
    rates = Rates(backends(failed_permanently=1.0))
    for resumes, outcome in ((False, "failed"), (True, "partial")):
        assert ends(followed(Policy(), rates, 1e-6, 1e-5, resumes=resumes)[0]) == pytest.approx(
            {outcome: 1.0}
        )
    cut = evolve(ANSWER, event="truncated", share=0.5, facts=("added_text",))
    rates = Rates((BackendRates(name="a", fresh=[evolve(ANSWER, share=0.5), cut]),))
    chain = TurnConfigurations(TurnPolicy(call=Policy(limits=Limits(continuations=0))), rates, 1e-6)
    walk(NoClock(chain), 1e-6)
    assert chain.events.keys() == {(False, "ask"), (True, "go_on")}
