"""Prices have the dimensions that bills have, and no number from outside breaks a budget."""

import json
import math
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rungwise
from rungwise import Budget, ConfigurationError, Journal, Policy, Prices, SharedBudget, Usage
from rungwise.adapters.cli.chains import prices_in, text_of
from rungwise.core import Call, PlainLink, Reply, Request
from rungwise.fsm.call.budget.costs import (
    bought,
    cost_of,
    dearest_prompt,
    price_of,
    price_of_output,
    price_of_token,
    unpriced_in,
)
from rungwise.fsm.call.chain.prices import is_same_model, prices_of
from rungwise.fsm.values.money import as_money, units_of
from rungwise.fsm.values.usage import COUNTS

PRICES = Prices(
    input=2.0,
    output=8.0,
    cache_read=0.2,
    cache_creation=2.5,
    cache_creation_long=4.0,
    models={
        "sage-6.1": Prices(3.0, 12.0, tiers={"flex": Prices(1.5, 6.0)}),
        "sage-6.1-mini": Prices(0.5, 1.0, units={"web_search": 0.02}),
    },
    tiers={"priority": Prices(4.0, 16.0), "flex": Prices(1.0, 4.0)},
    units={"web_search": 0.01},
)
MILLION = 1_000_000


def cost(usage: Usage, prices: Prices = PRICES) -> float:
    return as_money(price_of(usage, prices))


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (Usage(MILLION, 0), 2.0),
        (Usage(MILLION, 0, cache_creation_tokens=MILLION), 2.5),
        (Usage(MILLION, 0, cache_creation_tokens=MILLION, cache_creation_long_tokens=MILLION), 4.0),
        (Usage(MILLION, 0, cache_creation_tokens=500_000, cache_creation_long_tokens=MILLION), 3.0),
        (Usage(0, MILLION, tier="priority"), 16.0),
        (Usage(0, MILLION, tier="PRIORITY"), 16.0),
        (Usage(0, MILLION, tier="flex"), 4.0),
        (Usage(0, MILLION, tier="default"), 8.0),
        (Usage(0, MILLION, tier="never heard of"), 8.0),
        (Usage(0, MILLION, model="sage-6.1"), 12.0),
        (Usage(0, MILLION, model="vendor/Sage-6.1-2026-11-30"), 12.0),
        (Usage(0, MILLION, model="sage-6.1", tier="flex"), 6.0),
        (Usage(0, MILLION, model="sage-6.1", tier="priority"), 12.0),  # it has none of its own
        (Usage(0, MILLION, model="sage-6.1-mini-20261130"), 1.0),
        (Usage(0, MILLION, model="another"), 8.0),
        (Usage(units={"web_search": 3}), 0.03),
        (Usage(units={"web_search": 3}, model="sage-6.1"), 0.03),
        (Usage(units={"web_search": 3}, model="sage-6.1-mini"), 0.06),
        (Usage(units={"telescope": 3}), 0.0),
    ],
)
def test_what_occurred_has_its_own_price(usage: Usage, expected: float) -> None:
    assert cost(usage) == expected


def test_each_share_is_priced_by_its_own_model_and_the_rest_by_that_of_the_reply() -> None:
    shares = (
        Usage(MILLION, 0, model="sage-6.1"),
        Usage(0, MILLION, model="sage-6.1-mini"),
    )
    usage = Usage(2 * MILLION, 3 * MILLION, shares=shares, tier="flex")
    assert cost(usage) == 3.0 + 1.0 + 1.0 + 2 * 4.0
    # a hostile share takes no more away than there is
    assert cost(Usage(5, 5, shares=shares)) == 3.0 + 1.0


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (Usage(5, 5), []),
        (Usage(5, 5, tier="batch"), ["tier batch"]),
        (Usage(5, 5, model="other"), ["model other"]),
        (Usage(5, 5, model="sage-6.1", tier="priority"), ["tier priority"]),
        (Usage(5, 5, units={"web_search": 1, "rockets": 2}), ["unit rockets"]),
        (Usage(5, 5, units={"web_search": 1}, model="sage-6.1"), []),
        (
            Usage(5, 5, cache_creation_tokens=5, cache_creation_long_tokens=5, model="sage-6.1"),
            ["cache_creation_long"],
        ),
        (Usage(5, 5, shares=(Usage(1, 1, model="x"),)), ["model x"]),
    ],
)
def test_what_has_no_price_is_named(usage: Usage, expected: list[str]) -> None:
    assert list(unpriced_in(usage, PRICES)) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("gpt-9", "gpt-9-2027-01-31", True),
        ("openai/gpt-9", "gpt-9", True),
        ("claude-x-20270131", "claude-x", True),
        ("claude-x@20270131", "claude-x", True),
        ("claude-x", "claude-x-latest", True),
        ("claude-x-20270131-v1:0", "claude-x", True),
        ("gemini-9-001", "models/gemini-9", True),
        ("gpt-9", "gpt-9.1", False),
        ("gpt-9", "gpt-9-mini", False),
        ("claude-opus-4", "claude-opus-4-5", False),
        ("llama3:8b", "llama3:70b", False),
        ("vendor/m:free", "vendor/m", False),
    ],
)
def test_a_date_leaves_a_model_the_same_and_another_number_does_not(
    one: str, other: str, expected: bool
) -> None:
    assert is_same_model(one, other) is is_same_model(other, one) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"cache_creation": 6.25}, 10.0),
        ({"cache_creation": 6.25, "cache_creation_long": 7.0}, 7.0),
        ({"cache_creation": 6.25, "cache_creation_long": 0.0}, 0.0),
        ({"cache_creation": 0.0}, 0.0),
        ({}, 5.0),
        ({"cache_creation": 1e12}, 1e12),  # a price has a limit
    ],
)
def test_an_hour_in_a_cache_costs_what_follows_from_a_few_minutes_of_it(
    given: dict[str, float], expected: float
) -> None:
    prices = Prices(5.0, 25.0, **given)
    usage = Usage(100, cache_creation_tokens=100, cache_creation_long_tokens=100)
    assert price_of(usage, prices) == 100 * price_of_token(expected)
    assert price_of(usage, prices) <= dearest_prompt(100, prices)
    assert ("cache_creation_long" in given) is (
        "cache_creation_long" not in unpriced_in(usage, prices)
    )


amounts = st.integers(0, 10**7)
prices_of_tokens = st.floats(0, 100)


@st.composite
def plain_prices(draw: st.DrawFn, depth: int = 2) -> Prices:
    values: dict[str, Any] = {
        name: draw(st.none() | prices_of_tokens)
        for name in ("cache_read", "cache_creation", "cache_creation_long")
    }
    inner = [] if depth == 0 else ["tiers"] if depth == 1 else ["models", "tiers"]
    for name in inner:
        of = plain_prices(1 if name == "models" else 0)
        values[name] = draw(st.dictionaries(st.sampled_from("abcd"), of, max_size=2))
    return Prices(draw(prices_of_tokens), draw(prices_of_tokens), **values)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    tokens = draw(amounts)
    created = draw(st.integers(0, tokens))
    return Usage(
        tokens,
        draw(amounts),
        cache_read_tokens=draw(st.integers(0, tokens - created)),
        cache_creation_tokens=created,
        cache_creation_long_tokens=draw(st.integers(0, created)),
        model=draw(st.none() | st.sampled_from("abcde")),
        tier=draw(st.none() | st.sampled_from("abcde")),
        estimated=draw(st.booleans()),
    )


@given(plain_prices(), usages())
def test_nothing_costs_more_than_what_is_reserved(prices: Prices, usage: Usage) -> None:
    reserved = dearest_prompt(usage.input_tokens, prices)
    reserved += price_of_output(usage.output_tokens, prices)
    assert price_of(usage, prices) <= reserved
    tokens = bought(reserved, prices)
    assert price_of_output(min(tokens, 10**12), prices) <= reserved or tokens == 10**12


@given(plain_prices())
def test_prices_are_read_back_as_they_were_written(prices: Prices) -> None:
    assert prices_of(json.loads(json.dumps(attrs.asdict(prices)))) == prices
    assert prices_in(text_of(prices)) == prices


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Prices(1, 2, cache_creation_long=-1), "cache_creation_long"),
        (lambda: Prices(1, 2, units={"x": math.nan}), r"units\['x'\]"),
        (lambda: Prices(1, 2, units=3), "table"),  # type: ignore[arg-type]
        (lambda: Prices(1, 2, models={"m": 3}), "input and output"),  # type: ignore[dict-item]
        (
            lambda: Prices(1, 2, models={"m": Prices(1, 2, models={"n": Prices(1, 2)})}),
            "may have tiers",
        ),
        (
            lambda: Prices(1, 2, tiers={"m": Prices(1, 2, tiers={"n": Prices(1, 2)})}),
            "may have tiers",
        ),
        (lambda: prices_of({"input": 1}), "must be input and output"),
        (lambda: prices_of({"input": 1, "output": 2, "ouput": 2}), "must be input and output"),
        (lambda: prices_of([1]), "must be input and output"),
        (lambda: prices_of(3), "must be input and output"),
        (lambda: prices_of({"input": 1, "output": 2, "tiers": [3]}), "table"),
    ],
)
def test_prices_that_are_none_say_so(wrong: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        wrong()


# what a provider reports

LINK = PlainLink("one", model="sage-6", prices=PRICES)


def one_call(reply: Reply, link: PlainLink = LINK, **options: Any) -> rungwise.Result:
    call = Call(Request("hi", max_tokens=50, input_tokens=10), chain=[link], **options)
    call.begin()
    call.receive(reply)
    return call.result


def replied(usage: Usage, **fields: Any) -> Reply:
    return Reply("Reeds.", stop_reason="stop", usage=usage, **fields)


def test_a_reported_cost_is_taken_and_said_to_be_reported() -> None:
    result = one_call(replied(Usage(10, 5, cost=0.25)))
    assert (result.cost, result.cost_reported, result.unpriced) == (0.25, True, ())
    assert result.usage.cost == 0.25
    result = one_call(replied(Usage(10, 5, cost=0.25)), PlainLink("free"))
    assert (result.cost, result.cost_reported) == (0.25, True), "without prices as well"
    result = one_call(replied(Usage(10, 5)))
    assert (result.cost, result.cost_reported) == (cost(Usage(10, 5)), False)


def test_the_result_names_what_had_no_price() -> None:
    usage = Usage(10, 5, units={"telescope": 2, "web_search": 1}, tier="batch")
    result = one_call(replied(usage, model="vendor/other-9"))
    assert set(result.unpriced) == {"model other-9", "tier batch", "unit telescope"}
    assert result.cost == cost(usage)
    result = one_call(replied(Usage(10, 5), model="vendor/sage-6-2026-12-01"))
    assert result.unpriced == (), "it is the model that was asked for"


def test_what_a_provider_calls_things_is_shown_only_where_it_is_harmless() -> None:
    secret = "hi there, this is private"
    usage = Usage(10, 5, units={secret: 2}, tier=secret, shares=(Usage(1, 1, model=secret),))
    result = one_call(replied(usage, model=secret))
    assert secret not in result.journal.to_json()
    assert secret not in "".join(result.unpriced)


def test_journals_carry_the_new_counts_and_replay_to_the_same_result() -> None:
    share = Usage(4, 2, model="sage-6.1-2026-11-30")
    usage = Usage(
        input_tokens=10,
        output_tokens=5,
        cache_creation_tokens=6,
        cache_creation_long_tokens=4,
        units={"web_search": 2},
        cost=0.0,
        tier="flex",
        shares=(share,),
    )
    result = one_call(replied(usage, model="sage-6.1-mini"))
    journal = Journal.from_json(result.journal.to_json())
    [step] = [each for each in journal.steps if each.usage.output_tokens]
    assert (step.usage.model, step.usage.tier) == ("sage-6.1-mini", "flex")
    assert step.usage.shares == (Usage(4, 2, model="sage-6.1"),)
    assert step.usage.cost == 0.0, "nothing is a cost, too"
    again = rungwise.replay(journal)
    assert (again.usage, again.cost, again.cost_reported) == (result.usage, 0.0, True)
    assert again.unpriced == result.unpriced
    assert journal.setting.chain[0].prices == PRICES


def test_a_sum_has_no_model_tier_or_shares() -> None:
    one = Usage(1, 2, 3, 4, 5, units={"a": 1}, cost=0.5, model="m", tier="t", shares=(Usage(1),))
    total = one + Usage(1, 1, cache_creation_long_tokens=2, units={"a": 1, "b": 2})
    assert [getattr(total, name) for name in COUNTS] == [2, 3, 3, 4, 2, 5]
    assert (total.units, total.cost) == ({"a": 2, "b": 2}, 0.5)
    assert (total.model, total.tier, total.shares) == (None, None, ())


@given(st.lists(st.floats(0, 1e12), max_size=5), st.lists(st.floats(0, 0.001), max_size=5))
def test_a_report_never_lets_a_budget_spend_more(high: list[float], low: list[float]) -> None:
    """A lower cost buys nothing, a higher one is charged in full, and then nothing is sent."""
    budget = Budget(attempts=1000, money=0.01)
    prices = Prices(1.0, 10.0)
    for costs in (high, low):
        shared = SharedBudget(budget)
        for each in costs:
            share = shared.share()
            if share.send(50, 10, prices) is not None:
                break
            usage = Usage(10, 50, cost=each)
            share.settle(usage, usage, prices, None)
        paid = min(len(costs), 20)
        least = paid * price_of(Usage(10, 50), prices)
        is_open = shared.shortfall(input_tokens=10, prices=prices) is None
        if is_open:
            assert sum(map(units_of, costs)) < units_of(0.01)
            assert least < units_of(0.01)


def test_a_cost_without_prices_is_known_only_if_it_is_reported() -> None:
    assert cost_of(Usage(1, 1), None) is None
    assert cost_of(Usage(1, 1, cost=0.5), None) == units_of(0.5)
    for wrong in (-0.5, math.nan, math.inf):
        assert cost_of(Usage(1, 1, cost=wrong), None) is None


def test_a_cap_is_lowered_to_what_the_dearest_model_and_tier_would_cost() -> None:
    policy = Policy(budget=Budget(money=0.01))
    plain = Call(Request("hi", max_tokens=9_999, input_tokens=10), policy, [LINK]).begin()
    cheap = PlainLink(prices=Prices(2.0, 8.0, cache_creation=2.5))
    other = Call(Request("hi", max_tokens=9_999, input_tokens=10), policy, [cheap]).begin()
    assert plain is not None
    assert other is not None
    assert plain.max_tokens is not None
    assert other.max_tokens is not None
    dearest = dearest_prompt(10, PRICES) + price_of_output(plain.max_tokens + 8, PRICES)
    assert dearest <= units_of(0.01) < dearest + 10 * price_of_output(1, PRICES)
    assert other.max_tokens > 1.9 * plain.max_tokens
