"""Rates: they survive TOML, refuse nonsense, and journals give back the rates that they were drawn
from.
"""

import math
import random
from statistics import stdev

import pytest

from rungwise import ConfigurationError, Policy, TurnPolicy
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.analysis.odds.counted import NORMAL, RatesCount, chi_square_tail, wilson
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.rates import (
    POSITIONS,
    BackendRates,
    EventRate,
    Histogram,
    Rates,
    mean,
)
from rungwise.fsm.call.policy import Budget
from support.sampled_odds import Sample, play, random_policy, random_rates

FAR = 4.5
"""Standard deviations: an interval of 99.999 %, as some hundred figures are compared."""

ROUNDING = 0.05
"""The most by which two digits miss a value."""

TURN = "[[turn]]\nevent = 'tools_ran'\nshare = 1.0\n"
FRESH = '[[backend]]\nname = "a"\n[[backend.fresh]]\nevent = "answered"\nshare = 1.0\n'


@pytest.mark.parametrize("seed", range(20))
def test_toml_gives_back_the_rates(seed: int) -> None:
    rates = random_rates(random.Random(seed), seed % 4 + 1)
    assert Rates.from_toml(rates.to_toml()) == rates


def test_a_person_can_write_them() -> None:
    rates = Rates.from_toml(FRESH + "seconds = 2\noutput_tokens = [[100, 3], [300, 1]]\n")
    [answered] = rates.backend[0].fresh
    assert answered.seconds == ((2, 1),)
    assert mean(answered.output_tokens) == 150
    found = odds(Policy(), rates)
    assert {name for name, share in found.outcomes.items() if share} == {"done"}
    assert found.attempts.quantiles == {
        "p50": 1,
        "p90": 1,
        "p99": 1,
        "p99.9": 1,
    }
    assert found.seconds.mean == 2
    assert found.seconds.quantiles["p50"] == pytest.approx(2, abs=found.seconds.error)
    assert (found.tokens, found.money, found.waited, found.left_out) == (150, None, 0.0, 0.0)


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("", "rates must name backends"),
        ("backend = 3", "rates must name backends"),
        ("[backend]\nname = 'a'", "rates must name backends"),
        ("not toml", "not valid TOML"),
        ("[[backend]]\nname = 'a'", "shares of 'fresh' of 'a' add up to 0, not to 1"),
        (FRESH.replace('"a"', '" "'), "BackendRates.name must be a text"),
        (FRESH.replace("1.0", "0.9"), "add up to 0.9, not to 1"),
        (FRESH.replace("1.0", "1.5"), "EventRate.share must be a share from 0 to 1"),
        (FRESH.replace("1.0", "nan"), "EventRate.share must be a share from 0 to 1"),
        (FRESH.replace("share = 1.0\n", ""), "EventRate.share must be"),
        (FRESH.replace("answered", "answred"), "EventRate.event must be one of"),
        (FRESH.replace("answered", "sent"), "EventRate.event must be one of"),
        (
            "".join(FRESH.replace('"a"', f'"{each}"') for each in range(101)),
            "rates may name 100 backends at most, not 101",
        ),
        (FRESH + FRESH, "2 backends are named 'a': give each a name of its own"),
        (FRESH + "sekunden = 1", "unknown key 'sekunden'"),
        (FRESH + "seconds = -1", "EventRate.seconds must be a number of 0 or more, or a list"),
        (FRESH + "seconds = [1, 2]", "EventRate.seconds must be"),
        (FRESH + "seconds = [[1, 0]]", "EventRate.seconds must be"),
        (FRESH + "seconds = []", "EventRate.seconds must be"),
        (FRESH + "seconds = 'long'", "EventRate.seconds must be"),
        (FRESH + "seconds = inf", "EventRate.seconds must be"),
        (FRESH + "asked_wait = -3", "EventRate.asked_wait must be seconds"),
        (FRESH + "reason = 'bad luck'", "EventRate.reason must be one of"),
        (FRESH + "facts = ['wait_fits']", "EventRate.facts must be facts that a reply brings"),
        (FRESH + "facts = 'added_text'", "EventRate.facts must be facts that a reply brings"),
        (FRESH + "seen = -1", "EventRate.seen must be a whole number"),
        (FRESH + "between = [1]", "EventRate.between must be two shares"),
        (
            FRESH.replace("[[backend.fresh]]", "prices = [1]\n[[backend.fresh]]"),
            "BackendRates.prices must be",
        ),
        ("fresh = []\n" + FRESH, "unknown key 'fresh'"),
        ("turn = 3\n" + FRESH, "rates must be tables, as in [[turn]]"),
        (FRESH + "[turn]\nshare = 1.0", "rates must be tables, as in [[turn]]"),
        (
            FRESH + TURN.replace("1.0", "0.5"),
            "shares of the rounds of tools in [[turn]] add up to 0.5, not to 1",
        ),
        (FRESH + TURN + TURN, "shares of the rounds of tools in [[turn]] add up to 2, not to 1"),
        (
            FRESH + TURN + TURN.replace("tools_ran", "compacted").replace("1.0", "0.1"),
            "shares of the compactions",
        ),
        (FRESH + TURN.replace("1.0", "-1"), "TurnRate.share must be a share from 0 to 1"),
        (
            FRESH + TURN.replace("tools_ran", "answered"),
            "TurnRate.event must be one of 'tools_ran', 'compacted'",
        ),
        (FRESH + TURN.replace("event = 'tools_ran'", ""), "TurnRate.event must be one of"),
        (
            FRESH + TURN + "facts = ['may_fail_again']",
            "TurnRate.facts must be some of tool_worked, repeats_calls",
        ),
        (FRESH + TURN + "facts = 'tool_worked'", "TurnRate.facts must be some of"),
        (FRESH + TURN + "facts = [[]]", "TurnRate.facts must be some of"),
        (
            FRESH + TURN.replace("tools_ran", "compacted") + "facts = ['tool_worked']",
            "TurnRate.facts must be empty",
        ),
        (
            FRESH + TURN + "seconds = []",
            "TurnRate.seconds must be a number of 0 or more, or a list",
        ),
        (FRESH + TURN + "output_tokens = 3", "unknown key 'output_tokens'"),
    ],
)
def test_nonsense_is_refused(toml: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Rates.from_toml(toml, source="rates.toml")
    assert str(caught.value).startswith("rates.toml: ")
    assert says in str(caught.value)


def test_rates_of_turns_survive_toml() -> None:
    text = (
        FRESH
        + TURN
        + "facts = ['tool_worked', 'repeats_calls']\nseconds = [[1, 2], [3, 4]]\nseen = 6\n"
    )
    rates = Rates.from_toml(text + TURN.replace("tools_ran", "compacted"))
    assert Rates.from_toml(rates.to_toml()) == rates
    assert [rate.facts for rate in rates.of("rounds of tools")] == [
        ("tool_worked", "repeats_calls")
    ]
    assert [rate.event for rate in rates.of("compactions")] == ["compacted"]
    assert rates.warnings == ("turns: only 6 rounds of tools seen",)
    assert Rates.from_toml(FRESH).turn == ()


def test_rates_that_do_not_fit_the_table_are_refused() -> None:
    rates = Rates.from_toml(FRESH + "facts = ['is_tuesday']")
    with pytest.raises(ConfigurationError, match="unknown fact 'is_tuesday'"):
        odds(Policy(), rates)
    with pytest.raises(ConfigurationError, match="odds takes a policy and Rates"):
        odds(Policy(), 3)  # type: ignore[call-overload]


def test_intervals_are_those_of_wilson() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, NORMAL**2 / (10 + NORMAL**2)))
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998, table I
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=1e-4)
    assert wilson(10, 10)[1] == 1.0


def rates_of_one_call(reply: Reply | Failure, *chain: PlainLink) -> Rates:
    count = RatesCount()
    call = Call(Request("say"), chain=chain)
    call.begin()
    call.receive(reply, 2.0)
    count.add(call.journal)
    return count.rates()


ANSWER = Reply("Yes.", stop_reason="stop")


def test_few_attempts_draw_a_warning() -> None:
    rates = rates_of_one_call(ANSWER, PlainLink("small"), PlainLink("unasked"))
    assert rates.warnings == ("small, fresh: only 1 attempts seen",)
    [answered] = rates.backend[0].fresh
    assert (answered.event, answered.share, answered.seen, answered.seconds) == (
        "answered",
        1.0,
        1,
        ((2.0, 1),),
    )


def test_an_attempt_counts_although_no_other_backend_could_be_asked_after_it() -> None:
    unusable = PlainLink("unusable", problem="it has no key")
    denied = Failure("auth", status=401)
    alone = rates_of_one_call(denied, PlainLink("small")).backend[0].fresh
    assert [event.event for event in alone] == ["failed_permanently"]
    assert rates_of_one_call(denied, PlainLink("small"), unusable).backend[0].fresh == alone


def test_a_backend_that_is_asked_in_place_of_a_wait_is_fresh() -> None:
    """The first backend would be asked again after a wait, but the last attempt is reserved for the
    second.
    """
    policy = Policy(budget=Budget(attempts=2))
    count = RatesCount()
    sample = Sample()
    fails = EventRate(event="failed_transiently", reason="server_error", share=1)
    chain = [
        BackendRates(name="a", fresh=[fails]),
        BackendRates(name="b", fresh=[EventRate(event="answered", share=1)]),
    ]
    journal = play(policy, Rates(chain), random.Random(0), sample)
    assert [step.target for step in journal.steps] == [
        "await",
        "retry",
        "fallback",
        "await",
        "done",
    ]
    assert journal.steps[1].wait > 0
    count.add(journal)
    reached = count.rates().backend[1]
    assert ([rate.event for rate in reached.fresh], reached.after_wait) == (["answered"], ())


def came(rate: EventRate) -> object:
    return rate.event, rate.reason, rate.facts, rate.asked_wait


def assert_mean(
    counted: Histogram,
    exact: Histogram,
    seen: int,
    rounding: float = 0.0,
) -> None:
    """Assert that a mean is that of the script, within the spread of so many values and what
    rounding may do.
    """
    average = mean(exact)
    variance = mean(tuple(((value - average) ** 2, weight) for value, weight in exact))
    assert (
        abs(mean(counted) - average) <= FAR * math.sqrt(variance / seen) + rounding * average + 1e-9
    )


def assert_shares(counted: dict[object, int], exact: dict[object, float]) -> tuple[float, int]:
    """Assert that each event came about as often as the script has it; return chi-square, and how
    free it was.
    """
    attempts = sum(counted.values())
    rest = [0.0, 0.0]
    cells = list[tuple[float, float]]()
    assert counted.keys() <= exact.keys(), "nothing came that is not in the script"
    for key, share in exact.items():
        seen = counted.get(key, 0)
        expected = attempts * share
        assert abs(seen - expected) <= FAR * math.sqrt(expected * (1 - share)) + FAR**2
        if expected >= 5:
            cells.append((seen, expected))
        else:
            rest = [rest[0] + seen, rest[1] + expected]
    cells += [(rest[0], rest[1])] if rest[1] >= 5 else []
    return sum((seen - expected) ** 2 / expected for seen, expected in cells), max(
        0, len(cells) - 1
    )


@pytest.mark.dear(4)
@pytest.mark.full
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(4, 15))]
)
def test_journals_give_back_the_rates_of_their_script(seed: int) -> None:
    chance = random.Random(seed)
    policy = random_policy(chance)
    rates = random_rates(chance, 3)
    count = RatesCount()
    sample = Sample()
    for _ in range(5_000):
        count.add(play(policy, rates, chance, sample))
    found = count.rates()
    within = list[bool]()
    chi_square = 0.0
    freedom = 0
    for of, counted in zip(rates.backend, found.backend, strict=True):
        assert (counted.name, counted.prices) == (of.name, of.prices)
        for position in POSITIONS:
            script = {came(rate): rate for rate in of.at(position)}
            fitted = getattr(counted, position)
            shares = {key: rate.share for key, rate in script.items()}
            square, degrees = assert_shares({came(rate): rate.seen for rate in fitted}, shares)
            chi_square = chi_square + square
            freedom = freedom + degrees
            for rate in fitted:
                exact = script[came(rate)]
                within.append(rate.between[0] <= exact.share <= rate.between[1])
                if rate.seen < 30:
                    continue
                assert_mean(rate.seconds, exact.seconds, rate.seen, ROUNDING)
                if rate.reason is None:  # no failure has tokens here
                    assert_mean(rate.input_tokens, exact.input_tokens, rate.seen, ROUNDING)
                    assert_mean(rate.output_tokens, exact.output_tokens, rate.seen, ROUNDING)
    assert len(within) > 10
    assert sum(within) / len(within) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(within)), (
        "of intervals of 95 %"
    )
    assert chi_square_tail(chi_square, freedom) > 1e-4
    assert not [warning for warning in found.warnings if "depends" in warning]
    before = odds(policy, rates)
    after = odds(policy, found)
    for outcome, share in before.outcomes.items():
        spread = FAR * math.sqrt(share * (1 - share) / 5_000)
        assert after.outcomes.get(outcome, 0.0) == pytest.approx(share, abs=spread + FAR**2 / 5_000)
    spread = FAR * stdev(sample.seconds) / math.sqrt(5_000)
    assert abs(after.seconds.mean - before.seconds.mean) <= spread + ROUNDING * before.seconds.mean


def test_a_position_without_rates_has_those_of_a_fresh_attempt() -> None:
    fresh = (EventRate(event="answered", share=0.5), EventRate(event="came_empty", share=0.5))
    one = odds(Policy(), Rates((BackendRates(name="a", fresh=fresh),)))
    other = odds(Policy(), Rates((BackendRates(name="a", fresh=fresh, after_wait=fresh),)))
    assert one.outcomes == pytest.approx(other.outcomes)
    assert one.configurations <= other.configurations


@pytest.mark.parametrize("left_out", [-1, 0, 0.5, float("nan"), "x", True, None])
def test_what_may_be_left_out_is_checked(left_out: object) -> None:
    with pytest.raises(ConfigurationError, match=r"left_out must be from 1e-12 to 0\.01"):
        odds(Policy(), Rates.from_toml(FRESH), left_out=left_out)  # type: ignore[call-overload]


OFTEN_BUSY = FRESH.replace("1.0", "0.9\nseconds = 2") + (
    "[[backend.fresh]]\nevent = 'failed_transiently'\nreason = 'server_error'\n"
    "share = 0.1\nseconds = 1\n"
)


def test_nothing_exceeds_a_budget_that_nothing_can_exceed() -> None:
    for toml in (FRESH, OFTEN_BUSY):
        for seconds in (60.0, 900.0):
            found = odds(Policy(budget=Budget(seconds=seconds)), Rates.from_toml(toml))
            assert found.over_seconds == pytest.approx(0, abs=1e-15)


def test_a_quantile_is_where_the_calls_reach_it_not_beyond() -> None:
    rates = Rates.from_toml(OFTEN_BUSY)
    for policy in (Policy(), Policy(budget=Budget(seconds=50.0)), TurnPolicy()):
        found = odds(policy, rates)
        assert found.seconds.quantiles["p90"] == pytest.approx(2, abs=found.seconds.error)


def test_a_backend_whose_name_cannot_be_seen_keeps_its_rates() -> None:
    rates = rates_of_one_call(ANSWER, PlainLink("sm\u202eall"))
    assert [each.name for each in rates.backend] == ["small"]


def test_what_is_wrong_is_said_with_its_place() -> None:
    other = FRESH.replace('"a"', '"b"') + FRESH[FRESH.index("[[backend.fresh]]") :].replace(
        "1.0", "-1"
    )
    with pytest.raises(
        ConfigurationError,
        match=r"^rates: second backend: second event of it: EventRate\.share must",
    ):
        Rates.from_toml(FRESH + other)
