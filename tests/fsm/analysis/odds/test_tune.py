"""`tune`: the front holds what nothing beats, the cheapest meets the targets, and what cannot be
met says why.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest
from attrs import evolve

from rungwise import Budget, ConfigurationError, Policy, Prices, Timeouts
from rungwise.fsm.analysis.odds.candidates import Candidate, Targets, Tuned
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.rates import BackendRates, Rates
from rungwise.fsm.analysis.odds.tune import dominates, space_of, tune
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import FIRST_TOKEN
from support.tables import KNOWN, OTHERS_OFF


def backend(
    name: str, price: float, *troubles: tuple[float, dict[str, Any]], seconds: Any = 2.0
) -> BackendRates:
    amounts = {"seconds": seconds, "input_tokens": 1000, "output_tokens": 100}
    left = 1 - sum(share for share, _ in troubles)
    events = (
        {"event": "answered", "share": left},
        *({**each, "share": share} for share, each in troubles),
    )
    return BackendRates(
        name=name, prices=Prices(price, price), fresh=[{**amounts, **each} for each in events]
    )


BUSY = {
    "event": "failed_transiently",
    "reason": "server_error",
    "seconds": 0.5,
    "output_tokens": 0,
}
EMPTY = {"event": "came_empty"}
REFUSED = {"event": "refused"}
CHEAP = backend("cheap", 1, (0.1, BUSY), (0.05, EMPTY), (0.02, REFUSED))
DEAR = backend("dear", 10, (0.01, BUSY), (0.01, REFUSED), seconds=[[1, 9], [3, 1]])
RATES = Rates((CHEAP, DEAR))
TINY = {
    "chain": ((0, 1), (1, 0)),
    "limits.retries": (3, 0),
    "limits.reasks": (3, 0),
    "limits.fallbacks": (None, 0),
}
GOAL = Targets(done=0.995, p99=20, cost=0.02)


@pytest.fixture(scope="module")
def tuned() -> Tuned:
    return tune(Policy(), RATES, GOAL, candidates=30)


def key(found: Tuned, each: Candidate) -> tuple[float, ...]:
    done, p99, cost = each.figures
    return (
        bool(found.targets.missed(each.figures)),
        -round(done, 5),
        float(f"{p99:.3g}"),
        float(f"{cost:.3g}"),
    )


def assert_is_front(found: Tuned) -> None:
    keys = [key(found, each) for each in found.front]
    assert not any(dominates(one, other) for one, other in product(keys, keys))
    assert len(set(keys)) == len(keys)
    for each in found.tried:
        at = key(found, each)
        assert at in keys or any(dominates(other, at) for other in keys), each.summary
    assert {each.point for each in found.front} <= {each.point for each in found.tried}
    assert [each.figures.cost for each in found.front] == sorted(
        each.figures.cost for each in found.front
    )


@pytest.mark.full
def test_the_front_holds_what_nothing_dominates(tuned: Tuned) -> None:
    assert_is_front(tuned)
    assert len(tuned.tried) == 30 < tuned.combinations
    for each in tuned.front:
        assert each.certificate is not None
        assert each.certificate.ok
        assert each.certificate.chain == ("backend 1", "backend 2")
        assert each.odds == odds(each.policy, each.rates), "in full precision"


@pytest.mark.full
def test_a_small_space_is_searched_in_full() -> None:
    found = tune(Policy(), RATES, GOAL, space=TINY)
    assert_is_front(found)
    assert len(found.tried) == found.combinations == 16
    meets = []
    for order, retries, reasks, fallbacks in product(*TINY.values()):
        policy = Policy(limits=Limits(retries=retries, reasks=reasks, fallbacks=fallbacks))  # type: ignore[arg-type]
        exact = odds(policy, Rates(tuple(RATES.backend[place] for place in order)))  # type: ignore[union-attr]
        assert exact.money is not None
        p99 = exact.seconds.quantiles["p99"]
        if (
            exact.outcomes["done"] >= 0.995
            and p99 is not None
            and p99 <= 20
            and exact.money.mean <= 0.02
        ):
            meets.append(exact.money.mean)
    assert found.best is not None
    assert len(meets) == sum(not found.targets.missed(each.figures) for each in found.tried) > 1
    assert found.best.figures.cost == pytest.approx(min(meets), rel=0.01), "equal to three digits"


@pytest.mark.full
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "goal", [{"done": 0.999}, {"p99": 4}, {"cost": 0.0015}, {"done": 0.99, "cost": 0.002}]
)
def test_targets_that_can_be_met_are_met_by_the_cheapest(goal: dict[str, float]) -> None:
    found = tune(Policy(limits=Limits(retries=0)), RATES, Targets(**goal), candidates=24)
    assert found.best is not None
    assert found.reasons == ()
    assert found.targets.missed(found.best.figures) == {}
    meeting = [each.figures.cost for each in found.tried if not found.targets.missed(each.figures)]
    assert found.best.figures.cost == pytest.approx(min(meeting), rel=0.01)


@pytest.mark.full
def test_what_cannot_be_met_says_why() -> None:
    policy = Policy(limits=Limits(**OTHERS_OFF))
    found = tune(policy, RATES, Targets(done=0.99999, p99=0.5, cost=1e-9), space=TINY)
    assert found.best is None
    done, p99, cost = found.reasons
    assert done.startswith(
        "no candidate has a share of calls that are done of 99.999 %; the most is 99.9"
    )
    assert done.endswith(": 0.024 % of calls are refused by every backend that is asked")
    assert p99.startswith("no candidate has a P99 of 0.5 s; the least is ")
    assert cost.startswith("no candidate has a mean cost of 1e-09; the least is 0.00")
    assert "attempts on average" in cost
    least = min(each.figures.cost for each in found.front)
    assert f"the least is {least:.4g} (" in cost


@pytest.mark.full
def test_targets_that_exclude_each_other_say_how_near_they_come() -> None:
    front = tune(Policy(), RATES, Targets(p99=0.1), space=TINY).front
    p99 = min(each.figures.p99 for each in front)
    done = max(each.figures.done for each in front)
    found = tune(Policy(), RATES, Targets(done=done - 1e-6, p99=p99 + 0.1), space=TINY)
    first, *rest = found.reasons
    assert first == "each target can be met, but no candidate meets all of them"
    assert len(rest) == 2
    assert rest[0].startswith("where the others are met, the best share of calls that are done is ")
    assert rest[0].endswith(f", not {(done - 1e-6) * 100:.6g} %")
    assert rest[1].startswith("where the others are met, the best P99 is ")


@pytest.mark.full
def test_the_policy_as_toml_has_its_odds(tuned: Tuned) -> None:
    for each in tuned.front:
        policy = Policy.from_toml(each.to_toml())
        assert policy == each.policy
        assert odds(policy, each.rates) == each.odds
        assert each.to_toml().startswith(f'# chain: "{each.chain}"\n')


def test_what_differs_from_the_defaults_is_in_the_toml() -> None:
    chosen = Policy.interactive(
        budget=Budget(attempts=5, seconds=None),
        switch_after={"auth": 2},
        timeouts=Timeouts(first_token=60.0, total=None),
    )
    found = tune(
        evolve(chosen, base_cap=2000),
        RATES,
        Targets(done=0.5),
        space={"limits.retries": (2,)},
        candidates=1,
    )
    assert found.best is not None
    policy = Policy.from_toml(found.best.to_toml())
    assert policy.budget.seconds == policy.timeouts.total == 1e6, "TOML has no None"
    assert type(policy.timeouts.first_token) is not type(FIRST_TOKEN)
    budget = evolve(policy.budget, seconds=None)
    timeouts = evolve(policy.timeouts, total=None)
    assert evolve(policy, budget=budget, timeouts=timeouts) == evolve(chosen, base_cap=2000)


@pytest.mark.full
def test_the_same_input_gives_the_same_result_however_it_is_computed(tuned: Tuned) -> None:
    counts: list[int] = []
    with ThreadPoolExecutor(3) as pool:
        again = tune(
            Policy(),
            RATES,
            GOAL,
            candidates=30,
            each=pool.map,
            progress=counts.append,
        )
    assert again == tuned
    assert counts == [*range(1, 31)]


@pytest.mark.full
def test_the_order_of_the_chain_matters() -> None:
    found = tune(Policy(), Rates((DEAR, CHEAP)), Targets(done=0.9), candidates=30)
    assert found.best is not None
    assert found.best.chain == "cheap > dear", "as most calls cost a tenth then"
    worse = backend(
        "cheap",
        1,
        (
            0.97,
            {
                **BUSY,
                "output_tokens": 1000,
                "seconds": 9,
            },
        ),
        (0.02, REFUSED),
    )
    found = tune(Policy(), Rates((worse, DEAR)), Targets(p99=5, done=0.99), candidates=30)
    assert found.best is not None
    assert found.best.chain == "dear > cheap"


def test_only_what_changes_something_is_varied() -> None:
    assert space_of(Policy(), RATES).keys() & {f"limits.{name}" for name in KNOWN} == {
        "limits.retries",
        "limits.reasks",
        "limits.fallbacks",
    }
    space = space_of(
        Policy(), Rates([backend("one", 1, (0.1, {"event": "truncated", "facts": ["added_text"]}))])
    )
    assert [name for name in space if name.startswith("limits")] == ["limits.continuations"]
    assert space["chain"] == ((0,),)
    assert space["limits.continuations"] == (3, 0, 1, 2, 5)
    assert space["timeouts.total"] == (600.0, 2.0)
    assert space["waits.retry_base"] == (2.0, 0.5, 1.0, 4.0)
    many = Rates([evolve(DEAR, name=str(number)) for number in range(6)])
    assert [order[0] for order in space_of(Policy(), many)["chain"]] == [*range(6)]


def test_nonsense_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one target"):
        Targets()
    for wrong in ({"done": 1.2}, {"done": 0}, {"p99": -1}, {"cost": float("nan")}, {"p99": "20s"}):
        with pytest.raises(ConfigurationError, match=rf"Targets\.{next(iter(wrong))} must be"):
            Targets(**wrong)  # type: ignore[arg-type]
    unpriced = Rates((CHEAP, evolve(DEAR, prices=None)))
    with pytest.raises(ConfigurationError, match="needs prices in the rates; missing: dear"):
        tune(Policy(), unpriced, Targets(cost=1))
    found = tune(Policy(), unpriced, Targets(done=0.9), candidates=2)
    assert found.front[0].figures.cost == found.front[0].odds.tokens
