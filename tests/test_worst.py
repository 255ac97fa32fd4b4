"""Worst cases: pinned for the default policy, and equal to a brute force over the whole walk on small limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm import CALL, Budget, Ladder, Limits, Policy, Prices, Row, Table, Waits
from fsm.checker.walk import Walk, walk
from fsm.checker.worst import WorstCase, compressed, worst_cases
from fsm.ladder import COUNTER, names_of
from fsm.machine import fire, machine_of
from fsm.plan import cap_of, longest_wait

COUNTERS = names_of(Ladder, COUNTER)
PRICES = [Prices(3.0, 15.0, cache_creation=3.75), Prices(1.0, 5.0), Prices(2.0, 20.0)]
Weight = Callable[[Any], float]


def limits(**given: int) -> dict[str, int]:
    return {**dict.fromkeys(COUNTERS, 0), **given}


def limits_of(policy: Policy, fallbacks: int) -> dict[str, int]:
    return {**{name: getattr(policy.limits, name) for name in COUNTERS}, "fallbacks": fallbacks}


def heaviest(table: Table, walked: Walk, weight: Weight, attempts: int) -> float:
    """Try every path through every configuration of the walk."""

    @cache
    def best(index: int, left: int) -> float:
        state, counts = walked.configurations[index]
        if state in table.outcomes or (state != table.hub and left == 0):
            return 0.0
        if state == table.hub:
            return max(best(target, left) for target in walked.edges[index])
        sent = [target for target in walked.edges[index] if walked.configurations[target][0] == table.hub]
        ladder = SimpleNamespace(rung=state, **dict(zip(COUNTERS, counts, strict=True)))
        return weight(ladder) + max(best(target, left - 1) for target in sent)

    return best(0, attempts)


def cost(policy: Policy, given: Mapping[str, int], prices: list[Prices], max_tokens: int, prompt: int) -> Weight:
    """Say once more what an attempt costs at most, in the words of the certificate."""

    def cap(continuations: int, enlargements: int) -> int:
        ladder: Any = SimpleNamespace(continuations=continuations, enlargements=enlargements)
        return cap_of(policy, ladder, max_tokens) or 0

    def weight(ladder: Any) -> float:
        widest = [cap(count, given["enlargements"]) for count in range(ladder.continuations + 1)]
        own = cap(ladder.continuations, ladder.enlargements)
        tokens = prompt + sum(widest[:-1]) + ladder.fallbacks * widest[-1]
        if ladder.rung in ("retry", "prefill", "enlarge", "repair", "compact"):
            tokens += given["prefills"] * own
        price = prices[ladder.fallbacks]
        return (tokens * max(price.input, price.cache_creation or 0) + own * price.output) / 1_000_000

    return weight


def check_against_brute_force(policy: Policy, given: dict[str, int], max_tokens: int) -> None:
    prices, prompt = PRICES[: given["fallbacks"] + 1], 1000
    weights: dict[str, Weight] = {
        "attempts": lambda ladder: 1,
        "waiting seconds": lambda ladder: longest_wait(policy.waits, ladder),
        "output tokens": lambda ladder: cap_of(policy, ladder, max_tokens) or 0,
        "money": cost(policy, given, prices, max_tokens, prompt),
    }
    table, walked = policy.table, walk(policy.table, given)
    assert walked.ok
    found = worst_cases(policy, given, prices, max_tokens, prompt)
    assert [each.name for each in found] == list(weights)
    for each in found:
        weight = weights[each.name]
        assert each.is_exact
        assert each.value == pytest.approx(heaviest(table, walked, weight, policy.budget.attempts))
        assert each.ladder == pytest.approx(heaviest(table, walked, weight, 1 + sum(given.values()) * 100))
        assert each.value == pytest.approx(weigh_path(table, given, each, weight))
        assert len(each.rungs) <= policy.budget.attempts


def weigh_path(table: Table, given: Mapping[str, int], worst: WorstCase, weight: Weight) -> float:
    """Take the path on the real machine, and weigh what it sends."""
    limit: Any = SimpleNamespace(**given)
    ladder, machine = table.model(limit), machine_of(table)
    total = weight(ladder)
    fire(machine, ladder, "sent")
    for move in worst.moves:
        for name, held in move.facts.items():
            setattr(ladder, name, held)
        assert fire(machine, ladder, move.row.event) == move.row
        total += weight(ladder)
        fire(machine, ladder, "sent")
    assert ladder.attempts == len(worst.rungs)
    return total


VECTORS = [dict(zip(COUNTERS, vector, strict=True)) for vector in product((0, 1), repeat=len(COUNTERS))]


@pytest.mark.parametrize("given", VECTORS[5::37], ids=lambda given: "".join(map(str, given.values())))
@pytest.mark.parametrize("attempts", [3, 7, 40])
def test_limits_of_0_and_1_against_every_path(given: dict[str, int], attempts: int) -> None:
    check_against_brute_force(Policy(budget=Budget(attempts=attempts)), given, 4096)


TANGLED = [
    limits(enlargements=2, compactions=2, fallbacks=2, continuations=1),
    limits(enlargements=2, compactions=1, fallbacks=1, repairs=2),
    limits(retries=2, prefills=2, fallbacks=1, continuations=2),
    limits(reasks=3, nudges=2, fallbacks=2, enlargements=1),
]


@pytest.mark.parametrize("given", TANGLED, ids=range(len(TANGLED)))
@pytest.mark.parametrize("attempts", [4, 6, 9, 13, 60])
def test_tangled_limits_against_every_path(given: dict[str, int], attempts: int) -> None:
    check_against_brute_force(Policy(budget=Budget(attempts=attempts)), given, 4096)


small = st.dictionaries(st.sampled_from(COUNTERS), st.integers(1, 3), max_size=4).filter(
    lambda given: given.get("fallbacks", 0) <= 2
)


@given(
    given_limits=small, attempts=st.integers(1, 14), max_tokens=st.sampled_from([1, 700, 4096, 20_000]), data=st.data()
)
@settings(max_examples=60, deadline=None)
def test_any_small_limits_against_every_path(
    given_limits: dict[str, int], attempts: int, max_tokens: int, data: st.DataObject
) -> None:
    waits = Waits(
        retry_base=data.draw(st.sampled_from([0.0, 2.0, 50.0])),
        reask_base=data.draw(st.sampled_from([0.0, 5.0, 100.0])),
        jitter=data.draw(st.sampled_from([0.0, 0.5])),
        longest_asked=data.draw(st.sampled_from([0.0, 10.0])),
    )
    largest = data.draw(st.sampled_from([1, 8192, 32_768]))
    policy = Policy(budget=Budget(attempts=attempts), waits=waits, largest_cap=largest)
    check_against_brute_force(policy, limits(**given_limits), max_tokens)


def test_a_cheaper_fallback_is_no_reason_to_spend_late() -> None:
    policy = Policy(budget=Budget(attempts=6))
    prices = [Prices(0, 100.0), Prices(0, 1.0)]
    found = worst_cases(policy, limits(compactions=2, fallbacks=1, repairs=2), prices, 1000, 1)[3]
    assert found.path in ("ask, compact x2, repair x2, fallback", "ask, repair x2, compact x2, fallback")
    assert found.value == pytest.approx((5 * 1000 * 100.0 + 1000 * 1.0) / 1_000_000)


DEFAULT = [
    (0, {"attempts": (24, 46), "waiting seconds": (1567.5, 1650), "output tokens": (593_920, 1_036_288)}),
    (1, {"attempts": (24, 62), "waiting seconds": (1860, 2062.5), "output tokens": (593_920, 1_470_464)}),
    (2, {"attempts": (24, 78), "waiting seconds": (2160, 2475), "output tokens": (593_920, 1_904_640)}),
]


@pytest.mark.parametrize(("fallbacks", "expected"), DEFAULT)
def test_the_default_policy(fallbacks: int, expected: dict[str, tuple[float, float]]) -> None:
    policy = Policy()
    given = limits_of(policy, fallbacks)
    found = worst_cases(policy, given, [None] * (fallbacks + 1), 4096, 1000)
    assert {each.name: (each.value, each.ladder) for each in found[:3]} == expected
    assert all(each.is_exact and each.ended_by == "budget.attempts" for each in found[:3])
    waits, caps = found[1], found[2]
    assert weigh_path(CALL, given, waits, lambda ladder: longest_wait(policy.waits, ladder)) == waits.value
    assert weigh_path(CALL, given, caps, lambda ladder: cap_of(policy, ladder, 4096) or 0) == caps.value


def test_the_default_policy_by_hand() -> None:
    found = worst_cases(Policy(), limits_of(Policy(), 0), [None], None, None)
    # Three continuations give back retries, reasks and prefills; nothing gives back the rest.
    assert found[0].ladder == 1 + 3 + 4 * (3 + 3 + 2) + 1 + 3 + 3 + 3
    # Each of four rounds: three waits as long as a service may ask for, and 5, 10, 20 s with half of it for jitter.
    assert found[1].ladder == 4 * (3 * 120 + 7.5 + 15 + 30)


def test_a_ladder_that_ends_before_the_budget_says_so() -> None:
    policy = Policy(budget=Budget(attempts=100))
    found = worst_cases(policy, limits_of(policy, 0), [PRICES[0]], 4096, 1000)
    assert [each.ended_by for each in found] == ["ladder"] * 4
    assert [each.value for each in found] == [each.ladder for each in found]


def test_every_budget_caps_what_it_is_about() -> None:
    budget = Budget(attempts=5, seconds=60.0, output_tokens=5000, money=0.01)
    found = worst_cases(Policy(budget=budget), limits_of(Policy(), 0), [PRICES[0]], 4096, 1000)
    assert [each.value for each in found] == [5, 60.0, 5000, 0.01]
    assert [each.ended_by for each in found] == [
        "budget.attempts",
        "budget.seconds",
        "budget.output_tokens",
        "budget.money",
    ]


def test_without_a_cap_the_output_is_unbounded() -> None:
    tokens = worst_cases(Policy(), limits_of(Policy(), 0), [PRICES[0]], None, 1000)[2]
    assert (tokens.value, tokens.ladder, tokens.ended_by) == (None, None, "nothing")
    assert "without max_tokens" in tokens.note
    policy = Policy(budget=Budget(output_tokens=9000))
    tokens = worst_cases(policy, limits_of(policy, 0), [PRICES[0]], None, 1000)[2]
    assert (tokens.value, tokens.ended_by) == (9000, "budget.output_tokens")


@pytest.mark.parametrize(
    ("prices", "max_tokens", "prompt", "why"),
    [
        ([None], 4096, 1000, "a backend of the chain has no prices"),
        ([PRICES[0]], None, 1000, "needs max_tokens"),
        ([PRICES[0]], 4096, None, "needs input_tokens"),
    ],
)
def test_money_needs_to_know(prices: list[Prices | None], max_tokens: int | None, prompt: int | None, why: str) -> None:
    money = worst_cases(Policy(), limits_of(Policy(), 0), prices, max_tokens, prompt)[3]
    assert (money.value, money.note) == (None, why)


def test_a_rung_that_is_not_always_open_makes_a_bound_and_says_so() -> None:
    # Only an empty reply after the last nudge is asked again here.
    rows = [row for row in CALL.rows if row.target != "reask" or row.event != "came_empty"]
    rows = [row for row in rows if row.event != "only_reasoned" or row.guard in ("may_prefill", "may_reask", None)]
    table = evolve(CALL, rows=tuple(rows))
    given = limits(prefills=1, reasks=2)
    policy = Policy()
    object.__setattr__(policy, "table", table)  # which the constructor refuses: text could become an error here
    attempts = worst_cases(policy, given, [None], 4096, 1000)[0]
    assert attempts.value == heaviest(table, walk(table, given), lambda ladder: 1, 24) == 4
    assert not attempts.is_exact


def test_an_own_table_with_another_rung_is_counted() -> None:
    table = CALL.with_rows(Row("refused", "await", "may_reask", "beg", "spend_reask"))
    given = limits(reasks=2, continuations=1)
    check_against_brute_force(Policy(table=table, budget=Budget(attempts=9)), given, 4096)


def test_huge_limits_give_a_bound_at_once() -> None:
    huge = Limits(**dict.fromkeys(COUNTERS, 1000))
    policy = Policy(limits=huge, budget=Budget(attempts=1000))
    found = worst_cases(policy, limits_of(policy, 5), [PRICES[0]] * 6, 4096, 1000)
    assert [each.is_exact for each in found[2:]] == [False, False]
    assert found[2].value == 1000 * 32_768
    assert "upper bound" in found[2].note


def test_a_huge_chain_is_no_trouble_either() -> None:
    huge = Limits(**dict.fromkeys(COUNTERS, 1000))
    found = worst_cases(Policy(limits=huge), limits_of(Policy(limits=huge), 1000), [PRICES[0]] * 1001, 4096, 1000)
    assert found[0].value == 24


def test_a_path_is_written_once_for_each_run() -> None:
    assert (
        compressed(["ask", "retry", "retry", "retry", "continuation", "retry"]) == "ask, retry x3, continuation, retry"
    )
    assert compressed([]) == ""
