"""The exact odds agree with calls through the real core whose replies are drawn from the rates."""

import random

import pytest

from rungwise import Policy
from rungwise.fsm.analysis.odds.calls import Odds
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.rates import Rates
from support.odds_agree import assert_mean, assert_quantiles, assert_share
from support.sampled_odds import Sample, play, random_policy, random_rates


def case_of(seed: int, *, is_timed: bool) -> tuple[Policy, Rates]:
    chance = random.Random(seed)
    return random_policy(chance, is_timed=is_timed), random_rates(
        chance, chance.randint(1, 3), is_played=True
    )


def assert_agree(exact: Odds, sample: Sample, *, is_timed: bool = False) -> None:
    assert exact.left_out <= 1e-6
    assert sum(exact.outcomes.values()) == pytest.approx(1 - exact.left_out, abs=1e-9)
    for outcome in {*exact.outcomes, *sample.outcomes}:
        assert_share(
            exact.outcomes.get(outcome, 0.0), sample.outcomes[outcome], sample.calls, outcome, 1e-6
        )
    for name, share in exact.reached.items():
        assert_share(share, sample.reached[name], sample.calls, name, 1e-6)
    assert_mean(exact.attempts.mean, sample.attempts, "attempts")
    assert_mean(exact.seconds.mean, sample.seconds, "seconds")
    assert_mean(exact.tokens, sample.tokens, "tokens")
    assert_mean(exact.waited, sample.waited, "waited")
    assert_quantiles(exact.attempts, sample.attempts, "attempts")
    assert_quantiles(exact.seconds, sample.seconds, "seconds")
    assert exact.money is not None
    assert_mean(exact.money.mean, sample.money, "money")
    if not is_timed:  # else its distribution is no more than near
        assert_quantiles(exact.money, sample.money, "money")


def compare(seed: int, calls: int, *, is_timed: bool) -> None:
    policy, rates = case_of(seed, is_timed=is_timed)
    sample = Sample()
    chance = random.Random(seed + 1_000)
    for _ in range(calls):
        play(policy, rates, chance, sample)
    assert_agree(odds(policy, rates), sample, is_timed=is_timed)


@pytest.mark.full
@pytest.mark.sampled(4)
@pytest.mark.parametrize("is_timed", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_the_odds_are_those_of_sampled_calls(seed: int, is_timed: bool) -> None:
    compare(seed, 2_000, is_timed=is_timed)


@pytest.mark.dear(7)
@pytest.mark.full
@pytest.mark.parametrize("is_timed", [False, True])
@pytest.mark.parametrize("seed", range(100, 115))
def test_the_odds_are_those_of_many_sampled_calls(seed: int, is_timed: bool) -> None:
    compare(seed, 7_000, is_timed=is_timed)
